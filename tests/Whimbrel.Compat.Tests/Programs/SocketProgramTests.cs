namespace Whimbrel.Compat.Tests.Programs;

// NetCoreServer's programs below HTTP with each other, as processes: TCP, TLS, Unix sockets, UDP.
public sealed class SocketProgramTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("socket-programs").FullName;

    public SocketProgramTests() => OldCertificates.Write(_folder);

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Theory]
    [InlineData("Tcp")]
    [InlineData("Ssl")]
    [InlineData("Uds")]
    public void The_chat_greets_sends_to_all_and_reconnects_to_its_server(string family)
    {
        string path = Path.Combine(_folder, "chat.sock"), port = OldProgram.FreePort();
        ProgramStory.Chat(_folder, "Examples.", family, family == "Uds" ? [path] : [port],
            family == "Uds" ? [path] : ["127.0.0.1", port]);
        Assert.False(File.Exists(path), "the server takes its file with it");
    }

    // The original accepted any certificate. A validation callback of the user decides here as it did there.
    [Fact]
    public void A_server_that_another_authority_vouches_for_is_refused()
    {
        string port = OldProgram.FreePort();
        using OldProgram chat = new(_folder, "Examples.SslChatServer", port);
        chat.Expect("Press Enter");
        OldCertificates.WriteForeignAuthority(_folder);
        using OldProgram client = new(_folder, "Examples.SslChatClient", "127.0.0.1", port);
        client.Expect("caught an error with code NotConnected");
        client.Expect("disconnected a session");
        client.End();
        Assert.DoesNotContain("handshaked", client.Output, StringComparison.Ordinal);
        chat.End();
    }

    [Fact]
    public void A_typed_line_comes_back_as_a_datagram() => ProgramStory.UdpEcho(_folder, "Examples.");

    [Fact]
    public void Members_of_a_group_at_one_port_both_receive() =>
        ProgramStory.UdpGroup(_folder, "Examples.", "239.255.77.21");

    [Theory]
    [InlineData("Tcp", 1000)]
    [InlineData("Ssl", 100)]
    [InlineData("Uds", 1000)]
    public void The_echo_programs_measure_without_errors_and_without_a_stall(string family, int messages) =>
        Measure(family + "Echo", Place(family), [], [], messages);

    // So few are in flight that the socket buffer holds all of them: lost datagrams do not come back.
    [Fact]
    public void The_echo_over_UDP_measures_without_errors_and_without_a_stall() =>
        Measure("UdpEcho", ["-p", OldProgram.FreeUdpPort()], [], [], 10);

    [Theory]
    [InlineData("Tcp")]
    [InlineData("Ssl")]
    [InlineData("Uds")]
    public void The_multicast_reaches_all_clients(string family) =>
        Measure(family + "Multicast", Place(family), ["-m", "1000", "-s", "32"], [], 0);

    [Fact]
    public void The_multicast_over_UDP_reaches_the_members_of_the_group() =>
        Measure("UdpMulticast", ["-p", OldProgram.FreeUdpPort()], ["-a", "239.255.77.22", "-m", "1000", "-s", "32"],
            ["-a", "239.255.77.22"], 0);

    private string[] Place(string family) =>
        family == "Uds" ? ["--path", Path.Combine(_folder, "measure.sock")] : ["-p", OldProgram.FreePort()];

    private void Measure(string family, string[] place, string[] serving, string[] asking, int messages)
    {
        using OldProgram server = new(_folder, $"Performance.{family}Server", [.. place, .. serving]);
        server.Expect("Press Enter");
        using OldProgram client = new(_folder, $"Performance.{family}Client",
            [.. place, .. asking, "-c", "5", "-m", $"{messages}", "-s", "32", "-z", "1"]);
        Assert.Contains("All clients disconnected!\n",
            OldProgram.Measured(client, server, least: Math.Max(5, 5 * messages)), StringComparison.Ordinal);
    }
}
