using System.Net;
using System.Net.Http.Headers;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Text;
using Whimbrel.Conformance;

namespace Whimbrel.Kestrel.Tests;

// One application, with the same requests on Kestrel's own transport and on ours: the results must be the same.
public sealed class SiteTests
{
    private const int Length = 3_000_000;
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    public static TheoryData<string> Transports => ["stock", "pool", "inline"];

    private static CancellationToken Token => TestContext.Current.CancellationToken;

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Requests_are_answered_on_kept_and_on_new_connections(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using HttpClient client = NewClient();
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("Hello, World!", await client.GetStringAsync(new Uri(site.Plain, "/plaintext"), Token));
            Assert.Equal("""{"message":"Hello, World!"}""",
                await client.GetStringAsync(new Uri(site.Plain, "/json"), Token));
        }

        for (int i = 0; i < 50; i++)
        {
            using HttpRequestMessage request =
                new(HttpMethod.Get, new Uri(site.Plain, "/plaintext")) { Headers = { ConnectionClose = true } };
            using HttpResponseMessage answer = await client.SendAsync(request, Token);
            Assert.Equal("Hello, World!", await answer.Content.ReadAsStringAsync(Token));
        }
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Pipelined_requests_are_answered_in_order_however_they_are_cut(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using Socket socket = await ConnectAsync(site.Plain);
        byte[] requests = Encoding.ASCII.GetBytes(
            string.Concat(Enumerable.Range(0, 60).Select(static i => $"GET /down/{i} HTTP/1.1\r\nHost: x\r\n\r\n"))
            + "GET /plaintext HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        for (int done = 0, step = 1; done < requests.Length; done += step, step = (step * 3 % 199) + 1)
        {
            step = Math.Min(step, requests.Length - done);
            await socket.SendAsync(requests.AsMemory(done, step), Token);
        }

        using NetworkStream stream = new(socket);
        using StreamReader reader = new(stream, Encoding.Latin1);
        string text = await reader.ReadToEndAsync(Token);
        Assert.Equal(61, text.Split("HTTP/1.1 200 OK").Length - 1);
        Assert.EndsWith("Hello, World!", text.TrimEnd('0', '\r', '\n'), StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Bodies_stream_up_and_down_on_every_protocol(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using HttpClient client = NewClient();
        foreach ((Uri address, Version version) in ((Uri, Version)[])[(site.Plain, HttpVersion.Version11),
            (site.Http2, HttpVersion.Version20), (site.Tls, HttpVersion.Version11), (site.Tls, HttpVersion.Version20)])
        {
            using HttpResponseMessage down = await client.SendAsync(Request(HttpMethod.Get, address, $"/down/{Length}",
                version), HttpCompletionOption.ResponseHeadersRead, Token);
            Assert.Equal(version, down.Version);
            Assert.Equal((Length, true), await SampleSite.CheckAsync(await down.Content.ReadAsStreamAsync(Token)));
            byte[] body = new byte[Length];
            SampleSite.Fill(body, 0);
            using HttpRequestMessage up = Request(HttpMethod.Post, address, "/up", version);
            up.Content = new ByteArrayContent(body);
            using HttpResponseMessage answer = await client.SendAsync(up, Token);
            Assert.Equal($"{Length} True", await answer.Content.ReadAsStringAsync(Token));
        }
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_stream_of_HTTP2_goes_both_ways_at_once(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using HttpClient client = NewClient();
        foreach (Uri address in (Uri[])[site.Http2, site.Tls])
        {
            TalkingContent talk = new();
            using HttpRequestMessage request = Request(HttpMethod.Post, address, "/echo", HttpVersion.Version20);
            request.Content = talk;
            using HttpResponseMessage answer = await client.SendAsync(request,
                HttpCompletionOption.ResponseHeadersRead, Token);
            Stream up = await talk.Stream.WaitAsync(s_patience, Token);
            Stream down = await answer.Content.ReadAsStreamAsync(Token);
            for (int i = 0; i < 20; i++)
            {
                byte[] said = Encoding.ASCII.GetBytes($"message {i}\n");
                await up.WriteAsync(said, Token);
                await up.FlushAsync(Token);
                byte[] heard = new byte[said.Length];
                await down.ReadExactlyAsync(heard, Token);
                Assert.Equal(said, heard);
            }

            talk.End();
            Assert.Equal(0, await down.ReadAsync(new byte[1], Token));
        }
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task WebSockets_and_a_SignalR_hub_talk(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using ClientWebSocket socket = new();
        await socket.ConnectAsync(new Uri($"ws://{site.Plain.Authority}/socket"), Token);
        byte[] memory = new byte[100_000];
        foreach (int length in (int[])[1, 125, 126, 65_535, 90_000])
        {
            byte[] said = new byte[length];
            SampleSite.Fill(said, length);
            await socket.SendAsync(said, WebSocketMessageType.Binary, true, Token);
            Assert.Equal(said, await ReceiveAsync(socket, memory));
        }

        await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, null, Token);
        Assert.Equal(WebSocketCloseStatus.NormalClosure, socket.CloseStatus);

        // A hub with the JSON protocol, without negotiation.
        using ClientWebSocket hub = new();
        await hub.ConnectAsync(new Uri($"ws://{site.Plain.Authority}/chat"), Token);
        await hub.SendAsync(Encoding.UTF8.GetBytes("{\"protocol\":\"json\",\"version\":1}\u001e"),
            WebSocketMessageType.Text, true, Token);
        Assert.Equal("{}\u001e", Encoding.UTF8.GetString(await ReceiveAsync(hub, memory)));
        await hub.SendAsync(Encoding.UTF8.GetBytes("{\"type\":1,\"target\":\"Say\",\"arguments\":[\"hello\"]}\u001e"),
            WebSocketMessageType.Text, true, Token);
        Assert.Contains("\"target\":\"Said\",\"arguments\":[5,\"hello\"]",
            Encoding.UTF8.GetString(await ReceiveAsync(hub, memory)), StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_client_that_goes_away_aborts_its_request_whether_by_FIN_or_reset(string transport)
    {
        foreach (bool isReset in (bool[])[false, true])
        {
            await using SampleSite site = await SampleSite.StartAsync(transport);
            using (Socket socket = await ConnectAsync(site.Plain))
            {
                await socket.SendAsync("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"u8.ToArray(), Token);
                await site.Begun.WaitAsync(s_patience, Token);
                if (isReset) socket.LingerState = new LingerOption(true, 0);
                socket.Close();
            }

            await site.Aborted.Task.WaitAsync(s_patience, Token);
        }
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task An_abort_of_the_server_is_seen_as_one(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using Socket socket = await ConnectAsync(site.Plain);
        await socket.SendAsync("GET /abort HTTP/1.1\r\nHost: x\r\n\r\n"u8.ToArray(), Token);
        using NetworkStream stream = new(socket);
        using StreamReader reader = new(stream, Encoding.ASCII);
        string text = "";
        try
        {
            text = await reader.ReadToEndAsync(Token);
        }
        catch (IOException)
        {
            // Reset, as expected.
        }

        Assert.False(text.EndsWith("0\r\n\r\n", StringComparison.Ordinal), "the answer looks whole");
        using HttpClient client = NewClient();
        Assert.Equal("Hello, World!", await client.GetStringAsync(new Uri(site.Plain, "/plaintext"), Token));
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_stop_lets_the_pending_request_end_and_does_not_wait_for_idle_connections(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using HttpClient client = NewClient();
        using Socket idle = await ConnectAsync(site.Plain);
        await idle.SendAsync("GET /plaintext HTTP/1.1\r\nHost: x\r\n\r\n"u8.ToArray(), Token);
        Assert.True(await idle.ReceiveAsync(new byte[1000], Token) > 0);
        Task<string> slow = client.GetStringAsync(new Uri(site.Plain, "/slow"), Token);
        await site.Begun.WaitAsync(s_patience, Token);
        Task stop = site.StopAsync(CancellationToken.None);
        // The idle connection is closed, and the server does not wait for its FIN.
        Assert.Equal(0, await idle.ReceiveAsync(new byte[1], Token));
        Assert.False(stop.IsCompleted);
        site.Release.Release();
        Assert.Equal("slow, and whole", await slow);
        await stop.WaitAsync(s_patience, Token);
        await Assert.ThrowsAsync<SocketException>(() => ConnectAsync(site.Plain));
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task The_application_sees_ids_end_points_and_the_socket(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        using Socket socket = await ConnectAsync(site.Plain);
        await socket.SendAsync("GET /about HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"u8.ToArray(), Token);
        using NetworkStream stream = new(socket);
        using StreamReader reader = new(stream);
        IPEndPoint local = (IPEndPoint)socket.LocalEndPoint!;
        string text = await reader.ReadToEndAsync(Token);
        Assert.Contains($"True {local.Port} {site.Plain.Port} {local}", text, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_Unix_socket_serves_and_a_second_server_on_its_path_is_refused(string transport)
    {
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-kestrel-{Guid.NewGuid():n}.sock");
        try
        {
            await using SampleSite site = await SampleSite.StartAsync(transport,
                kestrel => kestrel.ListenUnixSocket(path));
            using SocketsHttpHandler handler = new()
            {
                ConnectCallback = async (_, cancellation) =>
                {
                    Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
                    await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), cancellation);
                    return new NetworkStream(socket, ownsSocket: true);
                },
            };
            using HttpClient client = new(handler);
            Assert.Equal("Hello, World!", await client.GetStringAsync(new Uri("http://unix/plaintext"), Token));
            await Assert.ThrowsAsync<IOException>(
                () => SampleSite.StartAsync(transport, kestrel => kestrel.ListenUnixSocket(path)));
        }
        finally
        {
            File.Delete(path);
        }
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_taken_port_is_reported_as_Kestrel_reports_it(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        IOException e = await Assert.ThrowsAsync<IOException>(
            () => SampleSite.StartAsync(transport, kestrel => kestrel.Listen(IPAddress.Loopback, site.Plain.Port)));
        Assert.IsType<Microsoft.AspNetCore.Connections.AddressInUseException>(e.InnerException);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_thousand_connections_are_served_and_closed(string transport)
    {
        await using SampleSite site = await SampleSite.StartAsync(transport);
        Socket[] sockets = new Socket[1000];
        try
        {
            for (int i = 0; i < sockets.Length; i++) sockets[i] = await ConnectAsync(site.Plain);
            byte[] request = "GET /plaintext HTTP/1.1\r\nHost: x\r\n\r\n"u8.ToArray();
            foreach (Socket socket in sockets) await socket.SendAsync(request, Token);
            byte[] memory = new byte[1000];
            foreach (Socket socket in sockets) Assert.True(await socket.ReceiveAsync(memory, Token) > 0);
            Task stop = site.StopAsync(CancellationToken.None);
            foreach (Socket socket in sockets)
            {
                while (await socket.ReceiveAsync(memory, Token) > 0)
                {
                }
            }

            await stop.WaitAsync(s_patience, Token);
        }
        finally
        {
            foreach (Socket? socket in sockets) socket?.Dispose();
        }
    }

    // ------------------------------------------------------------------ helpers

    private static HttpClient NewClient()
    {
        SocketsHttpHandler handler = new() { ConnectTimeout = s_patience };
        handler.SslOptions.RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
            certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString();
        return new HttpClient(handler) { Timeout = s_patience };
    }

    private static HttpRequestMessage Request(HttpMethod method, Uri site, string path, Version version) =>
        new(method, new Uri(site, path)) { Version = version, VersionPolicy = HttpVersionPolicy.RequestVersionExact };

    private static async Task<Socket> ConnectAsync(Uri site)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            await socket.ConnectAsync(IPAddress.Loopback, site.Port, Token);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private static async Task<byte[]> ReceiveAsync(ClientWebSocket socket, byte[] memory)
    {
        int length = 0;
        while (true)
        {
            ValueWebSocketReceiveResult got = await socket.ReceiveAsync(memory.AsMemory(length), Token);
            length += got.Count;
            if (got.EndOfMessage) return memory[..length];
        }
    }

    /// <summary>A request body that is written while the response is read.</summary>
    private sealed class TalkingContent : HttpContent
    {
        private readonly TaskCompletionSource<Stream> _stream = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private readonly TaskCompletionSource _end = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal TalkingContent() => Headers.ContentType = new MediaTypeHeaderValue("text/plain");

        internal Task<Stream> Stream => _stream.Task;

        internal void End() => _end.TrySetResult();

        protected override async Task SerializeToStreamAsync(Stream stream, TransportContext? context)
        {
            await stream.FlushAsync(Token);
            _stream.TrySetResult(stream);
            await _end.Task;
        }

        protected override bool TryComputeLength(out long length)
        {
            length = 0;
            return false;
        }
    }
}
