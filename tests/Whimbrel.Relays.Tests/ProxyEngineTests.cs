using System.Buffers;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Relays.Tests;

// The real engines, TLS after the header, and HAProxy on both sides.
public sealed class ProxyEngineTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    private static CancellationToken Stop => TestContext.Current.CancellationToken;

    // A proxy: connects, sends the header, and starts TLS, if configured, in the same callback.
    private sealed class Saying(ProxyHeader header, TlsOptions? tls, TaskCompletionSource<string> said) : Session
    {
        private string _all = "";

        protected override void OnConnected()
        {
            MessageWriter writer = new();
            header.Write(writer, hasChecksum: true);
            Send(Outgoing.Written(writer));
            if (tls is not null) UpgradeToTls(tls);
        }

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            _all += Encoding.UTF8.GetString(data);
            if (_all.EndsWith('\n')) said.TrySetResult(_all);
        }

        protected override void OnDisconnected(CloseReason reason) =>
            said.TrySetException(new InvalidOperationException(reason.ToString()));
    }

    public static TheoryData<EngineKind, Scheduling, bool> Engines
    {
        get
        {
            TheoryData<EngineKind, Scheduling, bool> all = [];
            foreach (EngineKind kind in (EngineKind[])[EngineKind.Uring, EngineKind.Epoll, EngineKind.Portable])
            {
                foreach (Scheduling scheduling in Enum.GetValues<Scheduling>())
                {
                    all.Add(kind, scheduling, false);
                    all.Add(kind, scheduling, true);
                }
            }

            return all;
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public async Task A_header_and_TLS_that_came_with_it_in_one_piece_reach_the_session(EngineKind kind,
        Scheduling scheduling, bool isTls)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 2 });
        ProxyOptions proxies = new()
        {
            Trusted = TrustedNetworks.Parse("127.0.0.0/8"),
            Tls = isTls ? new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) } : null,
        };
        ServerOptions options =
            new() { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Scheduling = scheduling };
        await using Server server = new(options, () => new ProxySession(proxies, static _ => new Who()));
        await server.StartAsync();
        using Socket socket = new(SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(server.EndPoint!, Stop);
        ArrayBufferWriter<byte> header = new();
        new ProxyHeader(IPEndPoint.Parse("[2001:db8::7]:4711"), IPEndPoint.Parse("[2001:db8::1]:443")).Write(header);
        Stream stream = new Prefixed(new NetworkStream(socket), header.WrittenSpan.ToArray());
        if (isTls)
        {
            SslStream tls = new(stream, false,
                static (_, certificate, _, _) => certificate!.Equals(TestCertificates.Server));
            await tls.AuthenticateAsClientAsync("chat.test").WaitAsync(s_patience, Stop);
            stream = tls;
        }

        await stream.WriteAsync("hello"u8.ToArray(), Stop);
        await stream.FlushAsync(Stop);
        byte[] room = new byte[30];
        await stream.ReadExactlyAsync(room.AsMemory(0, "[2001:db8::7]:4711\nhello".Length), Stop).AsTask()
            .WaitAsync(s_patience, Stop);
        Assert.Equal("[2001:db8::7]:4711\nhello", Encoding.UTF8.GetString(room).TrimEnd('\0'));
        await stream.DisposeAsync();
        Assert.Equal(1, proxies.ReadCounters().Clients);
    }

    // Its first write sends the header along.
    private sealed class Prefixed(Stream inner, byte[] prefix) : Stream
    {
        private byte[] _prefix = prefix;

        public override bool CanRead => true;

        public override bool CanSeek => false;

        public override bool CanWrite => true;

        public override long Length => throw new NotSupportedException();

        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }

        public override void Flush() => inner.Flush();

        public override int Read(byte[] buffer, int offset, int count) => inner.Read(buffer, offset, count);

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
            inner.ReadAsync(buffer, cancellationToken);

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) =>
            WriteAsync(buffer.AsMemory(offset, count)).AsTask().GetAwaiter().GetResult();

        public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
        {
            byte[] all = [.. _prefix, .. buffer.Span];
            _prefix = [];
            return inner.WriteAsync(all, cancellationToken);
        }

        protected override void Dispose(bool disposing)
        {
            inner.Dispose();
            base.Dispose(disposing);
        }
    }

    [Theory]
    [InlineData("send-proxy")]
    [InlineData("send-proxy-v2")]
    [InlineData("send-proxy-v2 proxy-v2-options crc32c,unique-id")]
    public async Task HAProxy_accepts_our_header_and_we_accept_its(string sends)
    {
        ProxyOptions proxies = new() { Trusted = TrustedNetworks.Parse("127.0.0.1") };
        await using Server server = new(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new ProxySession(proxies, static _ => new Who()));
        await server.StartAsync();
        int port = RealProgram.FreePort();
        using RealProgram haproxy = await RealProgram.ServeAsync("haproxy", port, directory =>
        {
            string file = Path.Combine(directory, "conf");
            File.WriteAllText(file, $"""
                defaults
                  mode tcp
                  timeout connect 20s
                  timeout client 20s
                  timeout server 20s
                frontend in
                  bind 127.0.0.1:{port} accept-proxy
                  unique-id-format %ci-%cp
                  default_backend out
                backend out
                  server one 127.0.0.1:{((IPEndPoint)server.EndPoint!).Port} {sends}

                """);
            return ["-db", "-f", file];
        });
        TaskCompletionSource<string> said = new(TaskCreationOptions.RunContinuationsAsynchronously);
        ProxyHeader header = new(IPEndPoint.Parse("192.0.2.7:4711"), IPEndPoint.Parse("203.0.113.1:443"));
        await using Client client = new(new ClientOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, port) },
            () => new Saying(header, null, said));
        await client.ConnectAsync(Stop);
        Assert.Equal("192.0.2.7:4711\n", await said.Task.WaitAsync(s_patience, Stop));
    }

    [Fact]
    public async Task A_client_says_its_header_and_begins_TLS_at_once()
    {
        ProxyOptions proxies = new()
        {
            Trusted = TrustedNetworks.Parse("127.0.0.1"),
            Tls = new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) }
        };
        await using Server server = new(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new ProxySession(proxies, static _ => new Who()));
        await server.StartAsync();
        TaskCompletionSource<string> said = new(TaskCreationOptions.RunContinuationsAsynchronously);
        TlsOptions tls = new() { Roots = TestCertificates.Roots, HostName = "chat.test" };
        ProxyHeader header = new(IPEndPoint.Parse("192.0.2.7:4711"), IPEndPoint.Parse("203.0.113.1:443"));
        await using Client client = new(new ClientOptions { EndPoint = server.EndPoint! },
            () => new Saying(header, tls, said));
        await client.ConnectAsync(Stop);
        Assert.Equal("192.0.2.7:4711\n", await said.Task.WaitAsync(s_patience, Stop));
    }
}
