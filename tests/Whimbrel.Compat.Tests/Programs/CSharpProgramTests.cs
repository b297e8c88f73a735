namespace Whimbrel.Compat.Tests.Programs;

// CSharpServer's programs against each other, as processes: what they print is what people saw who ran them. Plain and over TLS.
public sealed class CSharpProgramTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("csharp-programs").FullName;

    public CSharpProgramTests() => OldCertificates.Write(_folder);

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    private OldProgram Example(string name, params string[] arguments) => new(_folder, "CSharp.Examples." + name, arguments);

    [Fact]
    public void The_timer_expires_and_is_cancelled()
    {
        using OldProgram timer = Example("AsioTimer");
        timer.WaitForExit();
        Assert.Equal(["Asio service starting...Done!", "Asio timer expired", "Asio timer canceled", "Asio service stopping...Done!"], timer.Output.Split('\n'));
    }

    [Theory]
    [InlineData("Tcp", "connected a new session")]
    [InlineData("Ssl", "handshaked a new session")]
    public void The_chat_greets_tells_all_and_finds_the_server_again(string family, string ready)
    {
        string port = OldProgram.FreePort(), greeting = $"Incoming: Hello from {family.ToUpperInvariant()} chat!";
        using OldProgram chat = Example(family + "ChatServer", port);
        chat.Expect("Press Enter");
        using OldProgram first = Example(family + "ChatClient", "127.0.0.1", port), second = Example(family + "ChatClient", "127.0.0.1", port);
        first.Expect(ready);
        first.Expect(greeting);
        second.Expect(greeting);
        first.Type("good day");
        second.Expect("Incoming: good day");
        chat.Expect("Incoming: good day");
        chat.Type("to all");
        first.Expect("Incoming: (admin) to all");
        second.Expect("Incoming: (admin) to all");
        // Both come back by themselves, and who is sent away does, too.
        chat.Type("!");
        chat.Expect("Server restarting..."); // callbacks print as well meanwhile
        first.Expect(greeting, 2);
        second.Expect(greeting, 2);
        first.Type("!");
        first.Expect(greeting, 3);
        first.End();
        Assert.Contains("Client disconnecting...", first.Output, StringComparison.Ordinal);
        Assert.Contains("Asio service stopping...", first.Output, StringComparison.Ordinal);
        second.End();
        chat.End();
        Assert.Contains("Server stopping...", chat.Output, StringComparison.Ordinal);
        Assert.Contains("Asio service stopping...", chat.Output, StringComparison.Ordinal);
        foreach (OldProgram program in (OldProgram[])[chat, first, second]) Assert.DoesNotContain("caught an error", program.Output, StringComparison.Ordinal);
    }

    // S2: there nobody was verified, because the two flags together are a third one.
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
    public void What_is_typed_comes_back_as_a_datagram()
    {
        string port = OldProgram.FreeUdpPort();
        using OldProgram server = Example("UdpEchoServer", port);
        server.Expect("Press Enter");
        using OldProgram client = Example("UdpEchoClient", "127.0.0.1", port);
        client.Expect("connected a new session");
        client.Type("hello");
        client.Expect("Incoming: hello");
        server.Type("!");
        server.Expect("Server restarting...Done!");
        client.Type("again");
        client.Expect("Incoming: again");
        client.Type("!");
        client.Expect("connected a new session", 2);
        client.End();
        server.End();
        Assert.DoesNotContain("caught an error", server.Output, StringComparison.Ordinal);
    }

    [Fact]
    public void Members_of_a_group_at_one_port_both_receive()
    {
        string port = OldProgram.FreeUdpPort();
        using OldProgram first = Example("UdpMulticastClient", "0.0.0.0", "239.255.77.19", port), second = Example("UdpMulticastClient", "0.0.0.0", "239.255.77.19", port);
        foreach (OldProgram client in (OldProgram[])[first, second])
        {
            client.Expect("Multicast UDP client", 2); // connected, and joined or told why not
            Assert.SkipWhen(client.Output.Contains("caught an error", StringComparison.Ordinal), "This machine has no way for groups.");
            client.Expect("joined the group 239.255.77.19");
        }

        using OldProgram server = Example("UdpMulticastServer", "239.255.77.19", port);
        server.Expect("Press Enter");
        server.Type("news");
        first.Expect("Incoming: (admin) news");
        second.Expect("Incoming: (admin) news");
        first.End();
        second.End();
        server.End();
    }

    [Theory]
    [InlineData("TcpEcho", "1000")]
    [InlineData("SslEcho", "100")]
    public void The_echo_programs_measure_without_errors_and_without_a_stall(string family, string messages) => Measure(family, OldProgram.FreePort(), [], "127.0.0.1", messages);

    [Fact]
    public void Callbacks_may_run_on_the_threads_of_the_service() => Measure("TcpEcho", OldProgram.FreePort(), [], "127.0.0.1", "1000", "loop");

    // So few under way at once that the system's buffer takes all of them: what is lost does not come back.
    [Fact]
    public void The_echo_over_UDP_measures_without_errors_and_without_a_stall() => Measure("UdpEcho", OldProgram.FreeUdpPort(), [], "127.0.0.1", "10");

    [Theory]
    [InlineData("TcpMulticast")]
    [InlineData("SslMulticast")]
    public void The_multicast_reaches_all_clients(string family) => Measure(family, OldProgram.FreePort(), ["-m", "1000", "-s", "32"], "127.0.0.1", "0");

    [Fact]
    public void The_multicast_over_UDP_reaches_the_members_of_the_group() => Measure("UdpMulticast", OldProgram.FreeUdpPort(), ["-a", "239.255.77.20", "-m", "1000", "-s", "32"], "239.255.77.20", "0");

    private void Measure(string family, string port, string[] more, string address, string messages, string? callbacks = null)
    {
        using OldProgram serving = new(_folder, $"CSharp.Performance.{family}Server", callbacks, ["--port", port, "-t", "2", .. more]);
        serving.Expect("Press Enter");
        Assert.Contains("Working threads: 2\n", serving.Output, StringComparison.Ordinal);
        using OldProgram asking = new(_folder, $"CSharp.Performance.{family}Client", callbacks, ["-a", address, "-p", port, "-t", "2", "-c", "5", "-m", messages, "-s", "32", "-z", "1"]);
        Assert.Contains("All clients disconnected!\n", OldProgram.Measured(asking, serving), StringComparison.Ordinal);
    }
}
