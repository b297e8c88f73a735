using System.Text;

namespace Whimbrel.Compat.Tests.Programs;

// The old programs with each other, as processes: the output is that of the original programs. Plain and over TLS.
public sealed class ProgramTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("programs").FullName;

    public ProgramTests() => OldCertificates.Write(_folder);

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Theory]
    [InlineData("HttpServer", "HttpClient")]
    [InlineData("HttpsServer", "HttpsClient")]
    public void The_store_puts_gets_and_deletes_and_serves_a_page(string server, string client)
    {
        string port = OldProgram.FreePort();
        File.WriteAllText(Path.Combine(_folder, "page.html"), "<p>page</p>");
        using OldProgram store = new(_folder, server, port, _folder);
        store.Expect("Press Enter");
        using OldProgram asking = new(_folder, client, "127.0.0.1", port);
        asking.Type("PUT /api/cache?key=a one");
        asking.Expect("Status: 200");
        asking.Type("PUT /api/cache?key=b two");
        asking.Expect("Status: 200", 2);
        asking.Type("GET /api/cache?key=a");
        asking.Expect("one");
        asking.Type("GET /api/cache?key=missing");
        asking.Expect("Status: 404");
        asking.Type("DELETE /api/cache?key=a");
        asking.Expect("one", 2);
        asking.Type("GET /api/cache");
        asking.Expect("b=two");
        asking.Type("GET /api/page.html");
        asking.Expect("<p>page</p>");
        store.Type("!");
        store.Expect("Server restarting...");
        asking.Type("HEAD /api/cache");
        asking.Expect("Content-Length : 0");
        asking.End();
        Assert.Contains("Client disconnecting...Done!", asking.Output, StringComparison.Ordinal);
        store.End();
        Assert.Contains("Server stopping...Done!", store.Output, StringComparison.Ordinal);
        Assert.Contains("Request method: PUT", store.Output, StringComparison.Ordinal);
        Assert.DoesNotContain("caught an error", store.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("Performance.TcpEchoClient")]
    [InlineData("CSharp.Performance.TcpEchoClient")]
    public void A_performance_client_without_a_server_reports_it_and_ends(string client)
    {
        using OldProgram asking = new(_folder, client, "--port", OldProgram.FreePort(), "--clients", "3", "--messages",
            "1", "--seconds", "1", "--wait", "1");
        asking.WaitForExit(1);
        Assert.Contains("Not connected within 1 seconds: 3 of 3 clients", asking.Output, StringComparison.Ordinal);
        Assert.DoesNotContain("All clients connected!", asking.Output, StringComparison.Ordinal);
    }

    [Fact]
    public void A_stalled_client_is_not_hidden_by_the_others()
    {
        using System.Net.Sockets.TcpListener listener = new(System.Net.IPAddress.Loopback, 0);
        listener.Start();
        using OldProgram asking = new(_folder, "Performance.TcpEchoClient", "--port",
            $"{((System.Net.IPEndPoint)listener.LocalEndpoint).Port}", "--clients", "5", "--messages", "1",
            "--seconds", "2");
        List<System.Net.Sockets.TcpClient> peers = [];
        for (int i = 0; i < 5; i++) peers.Add(listener.AcceptTcpClient());
        // Echo for all peers but the last.
        foreach (System.Net.Sockets.TcpClient peer in peers.Take(4)) _ = peer.GetStream().CopyToAsync(peer.GetStream());
        asking.WaitForExit();
        Assert.Contains("Errors: 0\n", asking.Output, StringComparison.Ordinal);
        Assert.Contains("Fewest bytes of a client: 0\n", asking.Output, StringComparison.Ordinal);
        Assert.Contains("Silent: 1 of 5 clients got nothing in the last second", asking.Output,
            StringComparison.Ordinal);
        Assert.DoesNotContain("Stalled", asking.Output, StringComparison.Ordinal);
        foreach (System.Net.Sockets.TcpClient peer in peers) peer.Dispose();
    }

    [Theory]
    [InlineData("WsChatServer", "WsChatClient")]
    [InlineData("WssChatServer", "WssChatClient")]
    public void The_chat_greets_sends_to_all_and_reconnects_to_its_server(string server, string client)
    {
        string port = OldProgram.FreePort();
        using OldProgram chat = new(_folder, server, port, _folder);
        chat.Expect("Press Enter");
        using OldProgram first = new(_folder, client, "127.0.0.1", port),
            second = new(_folder, client, "127.0.0.1", port);
        first.Expect("Incoming: Hello from WebSocket chat!");
        second.Expect("Incoming: Hello from WebSocket chat!");
        first.Type("good day");
        second.Expect("Incoming: good day");
        chat.Expect("Incoming: good day");
        chat.Type("to all");
        first.Expect("Incoming: (admin) to all");
        // Both clients reconnect by themselves.
        chat.Type("!");
        first.Expect("Incoming: Hello from WebSocket chat!", 2);
        second.Expect("Incoming: Hello from WebSocket chat!", 2);
        first.End();
        second.End();
        chat.End();
    }

    [Theory]
    [InlineData("HttpTraceServer", "HttpTraceClient", "1")]
    [InlineData("HttpTraceServer", "HttpTraceClient", "100")]
    [InlineData("HttpsTraceServer", "HttpsTraceClient", "1")]
    [InlineData("WsEchoServer", "WsEchoClient", "100")]
    [InlineData("WssEchoServer", "WssEchoClient", "100")]
    [InlineData("ProtoServer", "ProtoBenchmark", "100")]
    public void The_performance_programs_measure_without_errors_and_without_a_stall(string server, string client,
        string messages) => Measure(server, [], client, messages);

    [Theory]
    [InlineData("WsMulticastServer", "WsMulticastClient")]
    [InlineData("WssMulticastServer", "WssMulticastClient")]
    public void The_multicast_reaches_all_clients(string server, string client) =>
        Measure(server, ["-m", "1000", "-s", "32"], client, "0");

    [Fact]
    public void The_protocol_answers_rejects_and_notifies()
    {
        string port = OldProgram.FreePort();
        using OldProgram server = new(_folder, "ProtoServer", port);
        server.Expect("Press Enter");
        using OldProgram client = new(_folder, "ProtoClient", "127.0.0.1", port);
        client.Expect("Notification: Hello from protocol server!");
        server.Expect("connected from 127.0.0.1:");
        client.Type("test");
        client.Expect($"Hash of 'test' = 0x{HashOf("test"):X8}");
        server.Type("news");
        client.Expect("Notification: (admin) news");
        client.Type("!");
        client.Expect("Notification: Hello", 2);
        client.End();
        server.End();
    }

    // An empty request cannot be typed, so the bytes are written here: the layout that foreign clients rely on.
    [Fact]
    public void The_protocol_server_rejects_an_empty_request_by_its_id_and_answers_the_next()
    {
        string port = OldProgram.FreePort();
        using OldProgram server = new(_folder, "ProtoServer", port);
        server.Expect("Press Enter");
        using System.Net.Sockets.TcpClient peer = new("127.0.0.1",
            int.Parse(port, System.Globalization.CultureInfo.InvariantCulture));
        peer.ReceiveTimeout = 30_000;
        System.Net.Sockets.NetworkStream stream = peer.GetStream();
        Assert.Equal(4, BitConverter.ToInt32(ReadMessage(stream), 12)); // the greeting is a notify
        byte[] id = Guid.NewGuid().ToByteArray();
        byte[] empty = [40, 0, 0, 0, 8, 0, 0, 0, 28, 0, 0, 0, 1, 0, 0, 0, .. id, 36, 0, 0, 0, 0, 0, 0, 0];
        byte[] full = [41, 0, 0, 0, .. empty.AsSpan(4, 32), 1, 0, 0, 0, (byte)'x'];
        stream.Write([.. empty, .. full]);
        byte[] reject = ReadMessage(stream);
        Assert.Equal(3, BitConverter.ToInt32(reject, 12));
        Assert.Equal(id, reject[16..32]);
        Assert.Equal("Request message is empty!", Encoding.UTF8.GetString(reject.AsSpan(40)));
        byte[] response = ReadMessage(stream);
        Assert.Equal(2, BitConverter.ToInt32(response, 12));
        Assert.Equal(id, response[16..32]);
        Assert.Equal((1, HashOf("x")), (BitConverter.ToInt32(response, 32), BitConverter.ToUInt32(response, 36)));
        peer.Close();
        server.End();
    }

    private static byte[] ReadMessage(System.Net.Sockets.NetworkStream stream)
    {
        byte[] size = new byte[4];
        stream.ReadExactly(size);
        byte[] message = new byte[BitConverter.ToInt32(size)];
        size.CopyTo(message, 0);
        stream.ReadExactly(message.AsSpan(4));
        return message;
    }

    private void Measure(string server, string[] more, string client, string messages)
    {
        string port = OldProgram.FreePort();
        using OldProgram serving = new(_folder, server, ["--port", port, .. more]);
        serving.Expect("Press Enter");
        using OldProgram asking = new(_folder, client, "-a", "127.0.0.1", "-p", port, "-c", "5", "-m", messages, "-s",
            "32", "-z", "2");
        OldProgram.Measured(asking, serving,
            least: Math.Max(5, 5 * int.Parse(messages, System.Globalization.CultureInfo.InvariantCulture)));
    }

    private static uint HashOf(string text) =>
        text.Aggregate(0x811C9DC5u, static (hash, c) => unchecked((hash ^ c) * 0x01000193));
}
