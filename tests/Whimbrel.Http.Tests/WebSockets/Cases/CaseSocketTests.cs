using System.Collections.Concurrent;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

// The whole catalogue over real sockets, without cuts: a peer that writes bytes connects to our server, or accepts our
// client.
public sealed class CaseSocketTests
{
    private const int AtOnce = 8;

    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(60);

    public static TheoryData<EngineKind, bool> Kinds() => new()
    {
        { EngineKind.Epoll, false },
        { EngineKind.Epoll, true },
        { EngineKind.Uring, false },
        { EngineKind.Uring, true }
    };

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_server_does_what_the_RFC_says(EngineKind kind, bool isTls)
    {
        await using Engine engine = NewEngine(kind);
        TlsOptions? tls = isTls ? new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) } : null;
        await using HttpServer server = new(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Tls = tls,
            Limits = new() { AllowLargeMessages = true }
        });
        server.WebSocket("/ws", static () => new EchoingSession(),
            new WebSocketOptions { MessageLimitBytes = 16 * 1024 * 1024, Deflate = PackedDialogue.Options.Deflate });
        await server.StartAsync();
        await EachAsync(WebSocketRole.Server, async (extensions, cancellation) =>
        {
            Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            await socket.ConnectAsync(server.EndPoint!, cancellation);
            Stream stream = new NetworkStream(socket, ownsSocket: true);
            if (isTls)
            {
                SslStream secure = new(stream, false, static (_, certificate, _, _) =>
                    certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString());
                await secure.AuthenticateAsClientAsync("chat.test");
                stream = secure;
            }

            await stream.WriteAsync(Opening.Request(extensions), cancellation);
            return (stream, await ReadHeadAsync(stream, cancellation));
        });
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_client_does_what_the_RFC_says(EngineKind kind, bool isTls)
    {
        await using Engine engine = NewEngine(kind);
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start(64);
        TlsOptions? tls = isTls
            ? new TlsOptions
            {
                ChecksHostName = false,
                Verify = static v => v.Certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString()
            }
            : null;
        ClientOptions options =
            new()
            {
                Engine = engine,
                EndPoint = listener.LocalEndpoint,
                Tls = tls,
                Limits = new() { AllowLargeMessages = true }
            };
        WebSocketOptions plain = new() { MessageLimitBytes = 16 * 1024 * 1024 };
        ConcurrentBag<WebSocketClient> clients = []; // each has one connection
        await EachAsync(WebSocketRole.Client, async (extensions, cancellation) =>
        {
            // Which of several concurrent connections is accepted here does not matter, but they must be of the same
            // kind.
            await s_connecting.WaitAsync(cancellation);
            try
            {
                WebSocketClient client =
                    new($"{(isTls ? "wss" : "ws")}://a:{((IPEndPoint)listener.LocalEndpoint).Port}/ws", options,
                        static () => new EchoingSession(), extensions.Length == 0 ? plain : PackedDialogue.Options);
                clients.Add(client);
                ValueTask<WebSocketSession> connecting = client.ConnectAsync(cancellation);
                Socket socket = await listener.AcceptSocketAsync(cancellation);
                socket.NoDelay = true;
                Stream stream = new NetworkStream(socket, ownsSocket: true);
                if (isTls)
                {
                    SslStream secure = new(stream);
                    await secure.AuthenticateAsServerAsync(TestCertificates.Server);
                    stream = secure;
                }

                string head = await ReadHeadAsync(stream, cancellation);
                await stream.WriteAsync(Opening.Answer(head, extensions), cancellation);
                _ = await connecting;
                return (stream, head);
            }
            finally
            {
                s_connecting.Release();
            }
        });
        foreach (WebSocketClient client in clients) await client.DisposeAsync();
    }

    private static readonly SemaphoreSlim s_connecting = new(1);

    private static Engine NewEngine(EngineKind kind)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        return new Engine(new EngineOptions { Kind = kind, Loops = 2, OnDiagnosticEvent = static _ => { } });
    }

    private static async Task EachAsync(WebSocketRole role,
        Func<string, CancellationToken, Task<(Stream Stream, string Head)>> openAsync)
    {
        using CancellationTokenSource limit =
            CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        limit.CancelAfter(Depth.IsDeep ? TimeSpan.FromMinutes(20) : _patience);
        ParallelOptions parallel = new() { MaxDegreeOfParallelism = AtOnce, CancellationToken = limit.Token };
        await Parallel.ForEachAsync(Catalogue.All.Values, parallel, async (of, cancellation) =>
        {
            (Stream stream, _) = await openAsync("", cancellation);
            await using Stream owned = stream;
            Task sending = SendAsync(stream, [.. of.Writes(role).SelectMany(static w => w)], cancellation);
            List<string> events = Case.Events(await ReadToEndAsync(stream, cancellation), role);
            await sending;
            Assert.True(of.Expected.SequenceEqual(events),
                $"{of.Id}: {string.Join(" | ", events.Select(static e => e.Length > 60 ? e[..60] : e))}");
        });

        // The reference code of the peer is slower than ours: a usual run takes a small, a large and a fragmented case
        // per section, --deep all.
        IEnumerable<PackedCase> packed = PackedCase.All.Values.Where(static c => Depth.IsDeep
            || c.Id.EndsWith(".3", StringComparison.Ordinal) || c.Id.EndsWith(".7", StringComparison.Ordinal)
            || c.Id.EndsWith(".12", StringComparison.Ordinal));
        await Parallel.ForEachAsync(packed, parallel, async (of, cancellation) =>
        {
            (Stream stream, string head) = await openAsync(PackedDialogue.Extensions(of, role), cancellation);
            await using Stream owned = stream;
            PackedDialogue dialogue = new(of, role, head);
            List<byte[]> messages = [.. of.Messages()];
            byte[] all = [.. messages.SelectMany(m => dialogue.Ask(m)).Append(dialogue.Close)
                .SelectMany(static f => f)];
            Task sending = SendAsync(stream, all, cancellation);
            dialogue.CheckAll(messages, await ReadToEndAsync(stream, cancellation));
            await sending;
        });
    }

    // The server stops reading from a peer that violated a rule.
    private static async Task SendAsync(Stream stream, byte[] bytes, CancellationToken cancellation)
    {
        try
        {
            await stream.WriteAsync(bytes, cancellation);
        }
        catch (IOException)
        {
        }
    }

    private static async Task<byte[]> ReadToEndAsync(Stream stream, CancellationToken cancellation)
    {
        MemoryStream all = new();
        byte[] buffer = new byte[64 * 1024];
        while (await stream.ReadAsync(buffer, cancellation) is > 0 and int count) all.Write(buffer, 0, count);
        return all.ToArray();
    }

    private static async Task<string> ReadHeadAsync(Stream stream, CancellationToken cancellation)
    {
        List<byte> head = [];
        byte[] one = new byte[1];
        while (head is not [.., (byte)'\r', (byte)'\n', (byte)'\r', (byte)'\n'])
        {
            await stream.ReadExactlyAsync(one, cancellation);
            head.Add(one[0]);
        }

        return Encoding.ASCII.GetString([.. head]);
    }
}
