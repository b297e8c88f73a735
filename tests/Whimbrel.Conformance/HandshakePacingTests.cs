using System.Net;
using System.Net.Sockets;
using Whimbrel.Tls;
using static Whimbrel.Conformance.LoopTurns;

namespace Whimbrel.Conformance;

/// <summary> Many concurrent handshakes do not starve other connections of a loop (docs/design/0016). The test runs the
/// loop's iterations itself, so that it sees what each one did. </summary>
public sealed class HandshakePacingTests
{
    private const int Burst = 60;

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    private sealed class Counting(Action<int, CloseReason?> tell) : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => tell(data.Length, null);

        protected override void OnConnectFailed(CloseReason reason) => tell(0, reason);

        protected override void OnDisconnected(CloseReason reason) => tell(0, reason);
    }

    /// <summary>A passive client: a non-blocking socket with a TLS layer.</summary>
    private sealed class Client : IDisposable
    {
        private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        private readonly TlsEnd _end = new(TlsSelector.Prepare(
            new TlsOptions { HostName = "chat.test", Roots = TestCertificates.Roots }, isServer: false), "chat.test");

        internal Client(Server server)
        {
            _socket.Connect(server.EndPoint!);
            _socket.Blocking = false;
            _socket.NoDelay = true;
        }

        internal bool IsReady => _end.IsReady;

        internal int Answered => _end.Plain.Count;

        /// <summary>True if there is unprocessed input.</summary>
        internal bool HasInput => _socket.Available > 0;

        internal void Hello()
        {
            _end.Start();
            Flush();
        }

        internal void Send(ReadOnlySpan<byte> plain)
        {
            _end.Send(plain);
            Flush();
        }

        internal void Take()
        {
            byte[] bytes = new byte[16 * 1024];
            while (_socket.Available > 0) _end.Feed(bytes.AsSpan(0, _socket.Receive(bytes)));
            Assert.False(_end.HasEnded, _end.Fault.Message);
            Flush();
        }

        public void Dispose()
        {
            _end.Dispose();
            _socket.Dispose();
        }

        private void Flush()
        {
            if (_end.Output.Count == 0) return;
            int sent = _socket.Send([.. _end.Output], SocketFlags.None, out SocketError error);
            Assert.True(error is SocketError.Success or SocketError.WouldBlock, error.ToString());
            _end.Output.RemoveRange(0, error == SocketError.Success ? sent : 0);
        }
    }

    public static TheoryData<EngineKind, TlsProvider> Combinations => new()
    {
        { EngineKind.Epoll, TlsProvider.Portable },
        { EngineKind.Uring, TlsProvider.Portable },
        { EngineKind.Portable, TlsProvider.Portable },
        { EngineKind.Epoll, TlsProvider.OpenSsl },
        { EngineKind.Uring, TlsProvider.OpenSsl },
    };

    [Theory]
    [MemberData(nameof(Combinations))]
    public void Answers_are_sent_before_the_handshakes_of_their_iteration_and_handshakes_get_a_share_of_each(
        EngineKind kind, TlsProvider provider)
    {
        Transport.Needs(kind);
        Assert.SkipUnless(provider != TlsProvider.OpenSsl || OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        Engine engine = new(new EngineOptions { Kind = kind, Loops = 1, AdoptedLoops = 1, BlockedLoopMs = 60_000 });
        Loop loop = engine.GetLoop(0);
        Client? regular = null;
        int hellos = 0, early = 0;
        TlsCertificate certificate = TlsCertificate.From(TestCertificates.Server);
        TlsOptions tls = new()
        {
            Provider = provider,
            SelectCertificate = _ =>
            {
                hellos++;
                if (regular is { IsReady: true, HasInput: false }) early++;
                return certificate;
            },
        };
        Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls },
                static () => new Echo());
        TurnUntilEnd(loop, server.StartAsync().AsTask());
        regular = new Client(server);
        regular.Hello();
        TurnUntil(loop, () => Taken(regular).IsReady);
        for (int answered = 0; answered < 3; answered++)
        {
            regular.Send("x"u8);
            TurnUntil(loop, () => Taken(regular).Answered > answered);
        }

        // All are connected before the first sends its hello. io_uring reports about twenty at a time: the regular
        // client's message comes first.
        Client[] burst = [.. Enumerable.Range(0, Burst).Select(_ => new Client(server))];
        TurnUntil(loop, () => server.ReadCounters().TlsShaking == Burst);
        regular.Send("y"u8);
        foreach (Client client in burst) client.Hello();
        hellos = early = 0;
        // On the portable engine other threads deliver the data, so not everything sent arrives in one iteration.
        TurnUntil(loop, () => hellos > 0);
        Assert.True(hellos < Burst / 2, $"{hellos} of {Burst} handshakes were made in one turn");
        if (kind != EngineKind.Portable) Assert.Equal(0, early);
        int turns = 1;
        TurnUntil(loop, () =>
        {
            turns++;
            foreach (Client client in burst) client.Take();
            return server.ReadCounters().TlsHandshakes == Burst + 1;
        });
        Assert.Equal(Burst, hellos);
        Assert.True(turns > 5, $"{turns} turns were enough");
        Assert.Equal(4, Taken(regular).Answered);
        Assert.All(burst, static c => Assert.True(c.IsReady));

        foreach (Client client in burst) client.Dispose();
        regular.Dispose();
        TurnUntilEnd(loop, server.StopAsync(TimeSpan.Zero).AsTask());
        Assert.True(engine.DisposeAsync().IsCompleted);
    }

    [Theory]
    [MemberData(nameof(Combinations))]
    public void Any_amount_of_data_after_a_clients_handshake_waits_for_it(EngineKind kind, TlsProvider provider)
    {
        const int pushedBytes = 384 * 1024;
        Transport.Needs(kind);
        Assert.SkipUnless(provider != TlsProvider.OpenSsl || OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        Engine engine = new(new EngineOptions { Kind = kind, Loops = 1, AdoptedLoops = 1, BlockedLoopMs = 60_000 });
        Loop loop = engine.GetLoop(0);
        long received = 0;
        List<CloseReason> ends = [];
        TlsOptions tls = new() { Provider = provider, Certificate = TlsCertificate.From(TestCertificates.Server) };
        Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls },
                () => new Counting((bytes, end) =>
                {
                    received += bytes;
                    if (end is { } reason) ends.Add(reason);
                }));
        TurnUntilEnd(loop, server.StartAsync().AsTask());
        Client[] burst = [.. Enumerable.Range(0, Burst).Select(_ => new Client(server))];
        foreach (Client client in burst) client.Hello();
        bool[] hasPushed = new bool[Burst];
        byte[] pushed = new byte[pushedBytes];
        TurnUntil(loop, () =>
        {
            // The last flights of many, and the data after each, have arrived before the next iteration of the loop.
            if (!burst.All(static c => c.HasInput) && !hasPushed.Contains(true) && ends.Count == 0) return false;
            for (int i = 0; i < Burst; i++)
            {
                burst[i].Take();
                if (burst[i].IsReady && !hasPushed[i]) burst[i].Send(pushed);
                hasPushed[i] |= burst[i].IsReady;
            }

            return received == (long)Burst * pushedBytes || ends.Count > 0;
        });
        Assert.Empty(ends);

        foreach (Client client in burst) client.Dispose();
        TurnUntilEnd(loop, server.StopAsync(TimeSpan.Zero).AsTask());
        Assert.True(engine.DisposeAsync().IsCompleted);
    }

    private static Client Taken(Client client)
    {
        client.Take();
        return client;
    }
}
