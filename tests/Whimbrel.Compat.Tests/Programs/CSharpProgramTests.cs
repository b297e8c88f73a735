namespace Whimbrel.Compat.Tests.Programs;

// CSharpServer's programs with each other, as processes: the output is that of the original programs. Plain and over
// TLS.
public sealed class CSharpProgramTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("csharp-programs").FullName;

    public CSharpProgramTests() => OldCertificates.Write(_folder);

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    private OldProgram Example(string name, params string[] arguments) =>
        new(_folder, "CSharp.Examples." + name, arguments);

    [Fact]
    public void The_timer_expires_and_is_cancelled()
    {
        using OldProgram timer = Example("AsioTimer");
        timer.WaitForExit();
        Assert.Equal(["Asio service starting...Done!", "Asio timer expired", "Asio timer canceled",
            "Asio service stopping...Done!"], timer.Output.Split('\n'));
    }

    [Theory]
    [InlineData("Tcp")]
    [InlineData("Ssl")]
    public void The_chat_greets_sends_to_all_and_reconnects_to_its_server(string family)
    {
        string port = OldProgram.FreePort();
        (string server, string first, _) = ProgramStory.Chat(_folder, "CSharp.Examples.", family, [port],
            ["127.0.0.1", port]);
        Assert.Contains("Asio service stopping...", first, StringComparison.Ordinal);
        Assert.Contains("Asio service stopping...", server, StringComparison.Ordinal);
    }

    // S2: the original verified no certificate, because the two flags together have another meaning.
    [Fact]
    public void A_server_that_another_authority_vouches_for_is_refused()
    {
        string port = OldProgram.FreePort();
        using OldProgram chat = Example("SslChatServer", port);
        chat.Expect("Press Enter");
        OldCertificates.WriteForeignAuthority(_folder);
        using OldProgram client = Example("SslChatClient", "127.0.0.1", port);
        client.Expect("category 'asio.ssl': certificate verify failed");
        client.Expect("disconnected a session");
        client.End();
        Assert.DoesNotContain("handshaked", client.Output, StringComparison.Ordinal);
        chat.End();
    }

    [Fact]
    public void A_typed_line_comes_back_as_a_datagram() => ProgramStory.UdpEcho(_folder, "CSharp.Examples.");

    [Fact]
    public void Members_of_a_group_at_one_port_both_receive() =>
        ProgramStory.UdpGroup(_folder, "CSharp.Examples.", "239.255.77.19");

    [Theory]
    [InlineData("TcpEcho", "1000")]
    [InlineData("SslEcho", "100")]
    public void The_echo_programs_measure_without_errors_and_without_a_stall(string family, string messages) =>
        Measure(family, OldProgram.FreePort(), [], "127.0.0.1", messages);

    [Fact]
    public void Callbacks_may_run_on_the_threads_of_the_service() =>
        Measure("TcpEcho", OldProgram.FreePort(), [], "127.0.0.1", "1000", "loop");

    // So few are in flight that the socket buffer holds all of them: lost datagrams do not come back.
    [Fact]
    public void The_echo_over_UDP_measures_without_errors_and_without_a_stall() =>
        Measure("UdpEcho", OldProgram.FreeUdpPort(), [], "127.0.0.1", "10");

    [Theory]
    [InlineData("TcpMulticast")]
    [InlineData("SslMulticast")]
    public void The_multicast_reaches_all_clients(string family) =>
        Measure(family, OldProgram.FreePort(), ["-m", "1000", "-s", "32"], "127.0.0.1", "0");

    [Fact]
    public void The_multicast_over_UDP_reaches_the_members_of_the_group() => Measure("UdpMulticast",
        OldProgram.FreeUdpPort(), ["-a", "239.255.77.20", "-m", "1000", "-s", "32"], "239.255.77.20", "0");

    private void Measure(string family, string port, string[] more, string address, string messages,
        string? callbacks = null)
    {
        using OldProgram serving = new(_folder, $"CSharp.Performance.{family}Server", callbacks,
            ["--port", port, "-t", "2", .. more]);
        serving.Expect("Press Enter");
        Assert.Contains("Working threads: 2\n", serving.Output, StringComparison.Ordinal);
        using OldProgram asking = new(_folder, $"CSharp.Performance.{family}Client", callbacks,
            ["-a", address, "-p", port, "-t", "2", "-c", "5", "-m", messages, "-s", "32", "-z", "1"]);
        Assert.Contains("All clients disconnected!\n", OldProgram.Measured(asking, serving, least: Math.Max(5,
            5 * int.Parse(messages, System.Globalization.CultureInfo.InvariantCulture))), StringComparison.Ordinal);
    }
}
