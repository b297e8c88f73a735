using System.Net;
using System.Net.WebSockets;
using System.Text;
using System.Threading.Channels;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.WebSockets;

// The same sessions on each engine, plain and over TLS, with inline and thread-pool scheduling, with .NET's client and
// with ours.
public sealed class WsEngineTests
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(30);

    public static TheoryData<EngineKind, bool, Scheduling> Kinds() => Serving.EngineTests.Kinds();

    private sealed class EchoSession : WebSocketSession
    {
        protected override void OnText(ReadOnlySpan<byte> utf8) => Assert.Equal(SendResult.Queued, SendText(utf8));

        protected override void OnBinary(ReadOnlySpan<byte> data) => Assert.Equal(SendResult.Queued, SendBinary(data));
    }

    private sealed class ClientSession : WebSocketSession
    {
        internal Channel<byte[]> Messages { get; } = Channel.CreateUnbounded<byte[]>();

        protected override void OnText(ReadOnlySpan<byte> utf8) => Messages.Writer.TryWrite(utf8.ToArray());

        protected override void OnBinary(ReadOnlySpan<byte> data) => Messages.Writer.TryWrite(data.ToArray());

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            Messages.Writer.TryComplete();
        }
    }

    private sealed class Site : IAsyncDisposable
    {
        private readonly Engine _engine;
        private readonly bool _isTls;

        internal Site(EngineKind kind, bool isTls, Scheduling scheduling, WebSocketOptions? options = null)
        {
            EngineSupport support = Engine.SupportFor(kind);
            Assert.SkipUnless(support.IsAvailable, support.Reason);
            _isTls = isTls;
            _engine = new Engine(new EngineOptions { Kind = kind, Loops = 2, OnDiagnosticEvent = static _ => { } });
            TlsOptions? tls =
                isTls ? new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) } : null;
            Server = new HttpServer(new ServerOptions
            {
                Engine = _engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Scheduling = scheduling,
                Tls = tls,
                Limits = new() { AllowLargeMessages = true }
            });
            Server.WebSocket("/echo", static () => new EchoSession(),
                options ?? new WebSocketOptions { MessageLimitBytes = 4_000_000 });
        }

        internal HttpServer Server { get; }

        internal Uri Address =>
            new($"{(_isTls ? "wss" : "ws")}://localhost:{((IPEndPoint)Server.EndPoint!).Port}/echo");

        internal async Task<ClientWebSocket> ConnectAsync(bool deflates = false, string path = "/echo")
        {
            ClientWebSocket socket = new();
            socket.Options.RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
                certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString();
            if (deflates) socket.Options.DangerousDeflateOptions = new WebSocketDeflateOptions();
            using CancellationTokenSource limit = new(_patience);
            await socket.ConnectAsync(new Uri(Address, path), limit.Token);
            return socket;
        }

        internal WebSocketClient Client(WebSocketOptions options, Func<WebSocketSession> session,
            Scheduling scheduling) => new(
                Address.ToString(),
                new ClientOptions
                {
                    Engine = _engine,
                    EndPoint = Server.EndPoint,
                    Scheduling = scheduling,
                    Limits = new() { AllowLargeMessages = true },
                    Tls = _isTls
                        ? new TlsOptions
                        {
                            ChecksHostName = false,
                            Verify = static v =>
                                v.Certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString()
                        }
                        : null,
                },
                session,
                options);

        public async ValueTask DisposeAsync()
        {
            await Server.DisposeAsync();
            await _engine.DisposeAsync();
        }
    }

    private static byte[] Bytes(int length, int seed)
    {
        byte[] bytes = new byte[length];
        Noise.Fill(bytes, seed);
        bytes.AsSpan(0, length / 2).Fill((byte)'x'); // some of it can be compressed
        return bytes;
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task NETs_client_gets_its_messages_back_plain_and_compressed(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        await using Site site = new(kind, isTls, scheduling,
            new WebSocketOptions { MessageLimitBytes = 4_000_000, Deflate = new WebSocketDeflate() });
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(_patience);
        foreach (bool deflates in (bool[])[false, true])
        {
            using ClientWebSocket socket = await site.ConnectAsync(deflates);
            foreach (int length in (int[])[0, 1, 125, 126, 65535, 65536, 1_000_000])
            {
                byte[] message = Bytes(length, length);
                Task sending = socket.SendAsync(message, WebSocketMessageType.Binary, true, limit.Token);
                Assert.Equal(message, await ReceiveAsync(socket, limit.Token));
                await sending;
            }

            await socket.SendAsync("Hällo"u8.ToArray(), WebSocketMessageType.Text, true, limit.Token);
            Assert.Equal("Hällo", Encoding.UTF8.GetString(await ReceiveAsync(socket, limit.Token)));
            await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, "bye", limit.Token);
            Assert.Equal(WebSocketCloseStatus.NormalClosure, socket.CloseStatus);
        }
    }

    private static async Task<byte[]> ReceiveAsync(ClientWebSocket socket, CancellationToken stop)
    {
        MemoryStream message = new();
        byte[] buffer = new byte[70_000];
        while (true)
        {
            WebSocketReceiveResult result = await socket.ReceiveAsync(buffer, stop);
            message.Write(buffer, 0, result.Count);
            if (result.EndOfMessage) return message.ToArray();
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Our_client_gets_its_messages_back_in_order_plain_and_compressed(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        await using Site site = new(kind, isTls, scheduling, new WebSocketOptions
        {
            MessageLimitBytes = 4_000_000,
            Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false }
        });
        await site.Server.StartAsync();
        foreach (WebSocketDeflate? deflate in (WebSocketDeflate?[])[null, new WebSocketDeflate(),
            new WebSocketDeflate { Forgets = false, PeerForgets = false, WindowBits = 15 }])
        {
            await using WebSocketClient client = site.Client(new WebSocketOptions
            {
                MessageLimitBytes = 4_000_000,
                Deflate = deflate,
                Heartbeat = TimeSpan.FromSeconds(20)
            }, static () => new ClientSession(), scheduling);
            using CancellationTokenSource limit = new(_patience);
            ClientSession session = (ClientSession)await client.ConnectAsync(limit.Token);
            Assert.Equal(deflate is not null, session.IsCompressed);
            byte[][] messages = [.. ((int[])[0, 1, 125, 126, 5000, 65535, 65536, 1_000_000, 3]).Select(
                length => Bytes(length, length))];
            foreach (byte[] message in messages)
            {
                Assert.Equal(SendResult.Queued, await session.SendBinaryAsync(message, limit.Token));
                Assert.Equal(SendResult.Queued, session.SendText("t\u00E9xt"));
            }

            foreach (byte[] message in messages)
            {
                Assert.Equal(message, await session.Messages.Reader.ReadAsync(limit.Token));
                Assert.Equal("t\u00E9xt",
                    Encoding.UTF8.GetString(await session.Messages.Reader.ReadAsync(limit.Token)));
            }

            session.Close(WebSocketStatus.GoingAway, "done");
            await session.Messages.Reader.Completion.WaitAsync(limit.Token);
            Assert.Equal(WebSocketStatus.GoingAway, session.CloseStatus);
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Awaited_sends_wait_for_a_peer_that_reads_late_and_all_arrive_in_order(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        foreach (WebSocketDeflate? deflate in (WebSocketDeflate?[])[null, new WebSocketDeflate(),
            new WebSocketDeflate { Forgets = false }])
        {
            await using Site site = new(kind, isTls, scheduling,
                new WebSocketOptions { Deflate = deflate, MessageLimitBytes = 4_000_000 });
            TaskCompletionSource<WebSocketSession> opened = new(TaskCreationOptions.RunContinuationsAsynchronously);
            site.Server.WebSocket("/late", () => new Announcing(opened), new WebSocketOptions { Deflate = deflate });
            await site.Server.StartAsync();
            using CancellationTokenSource limit = new(_patience);
            using ClientWebSocket socket = await site.ConnectAsync(deflate is not null, "/late");
            WebSocketSession session = await opened.Task.WaitAsync(limit.Token);
            Task sending = Task.Run(async () =>
            {
                // more than the send queue and the socket buffers hold
                for (int i = 0; i < 200; i++)
                    Assert.Equal(SendResult.Queued, await session.SendBinaryAsync(Bytes(40_000, i), limit.Token));
            });
            // tidy: waits because a peer that reads late is what is tested; whether the sender is blocked by then does
            // not matter
            await Task.WhenAny(sending, Task.Delay(50, limit.Token));
            for (int i = 0; i < 200; i++)
                Assert.True((await ReceiveAsync(socket, limit.Token)).AsSpan().SequenceEqual(Bytes(40_000, i)),
                    $"message {i}");
            await sending;
        }
    }

    private sealed class Announcing(TaskCompletionSource<WebSocketSession> opened) : WebSocketSession
    {
        protected override void OnConnected() => opened.TrySetResult(this);
    }
}
