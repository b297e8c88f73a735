using System.Net;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Connections;
using Whimbrel.Tls;

namespace Whimbrel.Conformance;

/// <summary>TLS on a connection: the handshake between connecting and connected, trust, names, limits, ends, reload,
/// upgrade.</summary>
public abstract class TlsSuite(Transport transport) : Suite(transport)
{
    private static TlsOptions Client => TestCertificates.ClientOptions;

    private static ServerOptions Options(Rig rig, TlsOptions tls) =>
        new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), Tls = tls };

    private static RecordingServer Serve(Rig rig, TlsOptions? tls = null, Action<RecordingSession>? setUp = null) =>
        rig.Serve(setUp, Options(rig, tls ?? TestCertificates.ServerOptions));

    private static TlsPeer ConnectPeer(Rig rig, Server server, TlsOptions? tls = null, string host = "chat.test") =>
        rig.Secure(rig.ConnectPeer(server.EndPoint!), isAccepted: false, tls ?? Client, host);

    private static TlsOptions With(X509Certificate2 certificate, X509Certificate2Collection? chain = null) =>
        new() { Certificate = TlsCertificate.From(certificate, chain) };

    private static ClientOptions To(Rig rig, EndPoint endPoint, TlsOptions? tls = null) =>
        new() { Engine = rig.Engine, EndPoint = endPoint, Tls = tls ?? Client };

    private static void Echo(RecordingSession session) => session.AtReceived = static (x, data) => x.Send(data);

    private static TlsException Failed(RecordingSession session, TlsFailure failure)
    {
        Assert.Equal(CloseCause.TlsHandshake, session.End());
        Assert.Equal("connecting, connect failed TlsHandshake", session.Life);
        Assert.Equal(failure, session.Reason.TlsFailure);
        Assert.Equal(failure == TlsFailure.TimedOut ? ErrorCategory.Timeout : ErrorCategory.Tls,
            session.Reason.Error.Category);
        return Assert.IsType<TlsException>(session.Reason.Exception);
    }

    /// <summary>The server's next failed handshake. Its peer closes as soon as it was counted: otherwise the session
    /// lingers for it.</summary>
    private static TlsException Refused(Rig rig, RecordingServer server, int index, TlsPeer peer, TlsFailure failure)
    {
        rig.Until(() => server.ReadCounters().TlsFailed == index + 1, "the refusal to be counted");
        peer.Close();
        return Failed(server.Session(index), failure);
    }

    // ------------------------------------------------------------------ the handshake

    [Fact, Contract(1)]
    public void OnTlsHandshakeCompleted_comes_right_before_OnConnected_and_knows_what_was_agreed_on() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: static s =>
        {
            Echo(s);
            s.AtTlsHandshakeCompleted = static (_, _) => { };
        });
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
        RecordingSession session = server.Connected();
        Assert.Equal("connecting, handshaked, connected, received 5", session.Life);
        Assert.Equal("chat.test", session.Tls!.ServerName);
        Assert.Equal(SslProtocols.Tls13, session.Tls.Protocol);
        Assert.Equal(5, session.BytesReceived);
        rig.Until(() => session.BytesSent == 5, "the answer to be counted");
        Assert.Equal(0, session.BytesPending);
        ServerCounters counters = server.ReadCounters();
        Assert.Equal((1L, 0L, 0), (counters.TlsHandshakes, counters.TlsFailed, counters.TlsShaking));
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Empty(peer.ReadToEnd());
    });

    [Fact]
    public void A_client_and_a_server_of_ours_talk() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: Echo);
        byte[] data = Pattern(300_000);
        RecordingSession session = rig.Connect(rig.MakeClient(To(rig, server.EndPoint!),
            s => s.AtConnected = x => x.Send(data)));
        session.UntilReceived(data.Length);
        Assert.Equal(data, session.Received);
        Assert.Equal("CN=chat.test", session.Tls!.PeerCertificate!.Subject);
        Assert.Null(server.Connected().Tls!.PeerCertificate);
        session.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
    });

    [Fact]
    public void A_session_that_closes_in_OnTlsHandshakeCompleted_was_never_connected() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: static s => s.AtTlsHandshakeCompleted = static (x, _) => x.Close());
        TlsPeer peer = ConnectPeer(rig, server);
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
        Assert.Equal("connecting, handshaked, connect failed LocalClose", server.Session().Life);
        peer.Close();
    });

    [Theory, Contract(5, 7)]
    [InlineData(false)]
    [InlineData(true)]
    public void Data_sent_in_OnTlsHandshakeCompleted_is_sent_encrypted_before_the_data_of_OnConnected(
        bool isOutgoing) => Run(rig =>
        {
            byte[] large = Pattern(100_000);
            List<SendResult> results = [];
            Peer peer = Meet(rig, isOutgoing, s =>
            {
                s.AtTlsHandshakeCompleted = (x, _) =>
                {
                    results.Add(x.Send("span "u8));
                    results.Add(x.Send(Outgoing.Pieces("two "u8, "pieces "u8)));
                    results.Add(x.Send("text "));
                    results.Add(x.Send(Outgoing.Owned(Owned("owned "u8), 6)));
                    ValueTask<SendResult> waiting = x.SendAsync("awaited "u8.ToArray());
                    results.Add(waiting.IsCompletedSuccessfully ? waiting.Result : SendResult.Full);
                    "reserved "u8.CopyTo(x.CallReserve(9));
                    x.CallCommit(9);
                    results.Add(x.Send(large));
                    Assert.False(x.IsConnected);
                    // With thread-pool scheduling the loop sends messages meanwhile that are too large to be batched.
                    if (!rig.IsPool) Assert.True(x.BytesPending > large.Length);
                };
                s.AtConnected = static x => x.Send("connected"u8);
            });
            Assert.Equal("span two pieces text owned awaited reserved ", peer.ReadText(44));
            Assert.Equal(large, peer.Read(large.Length));
            Assert.Equal("connected", peer.ReadText(9));
            Assert.Equal([SendResult.Queued, SendResult.Queued, SendResult.Queued, SendResult.Queued, SendResult.Queued,
                SendResult.Queued], results);
            RecordingSession session = Nth(rig, 0);
            Assert.Equal("connecting, handshaked, connected", session.Life);
            peer.Write("back");
            session.UntilReceived(4);
            peer.Close();
            session.End();
        });

    [Theory, Contract(1, 12)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_close_in_OnTlsHandshakeCompleted_sends_what_was_sent_before_it(bool isOutgoing) => Run(rig =>
    {
        byte[] data = Pattern(100_000);
        Peer peer = Meet(rig, isOutgoing, s => s.AtTlsHandshakeCompleted = (x, _) =>
        {
            x.Send(data);
            x.Close();
            Assert.Equal(SendResult.Closed, x.Send("late"u8));
        });
        Assert.Equal(data, peer.Read(data.Length));
        // The orderly end: close_notify and FIN.
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, Nth(rig, 0).End());
        Assert.Equal("connecting, handshaked, connect failed LocalClose", Nth(rig, 0).Life);
    });

    [Fact, Contract(10, 12)]
    public void Abort_pause_half_close_and_timers_work_in_OnTlsHandshakeCompleted() => Run(rig =>
    {
        Peer aborted = Meet(rig, isOutgoing: false, static s => s.AtTlsHandshakeCompleted = static (x, _) =>
        {
            x.Send("lost"u8);
            x.Abort();
        });
        Assert.Equal(CloseCause.LocalAbort, Nth(rig, 0).End());
        Assert.Equal("connecting, handshaked, connect failed LocalAbort", Nth(rig, 0).Life);
        aborted.Close();

        Peer paused = Meet(rig, isOutgoing: false,
            static s => s.AtTlsHandshakeCompleted = static (x, _) => x.PauseReceiving());
        paused.Write("held");
        RecordingSession session = Nth(rig, 1);
        session.Until("connected");
        rig.Settle();
        Assert.Equal(0, session.ReceivedCount);
        session.ResumeReceiving();
        session.UntilReceived(4);
        paused.Close();
        session.End();

        Peer half = Meet(rig, isOutgoing: false, static s => s.AtTlsHandshakeCompleted = static (x, _) =>
        {
            x.Send("all"u8);
            x.ShutdownSend();
        });
        Assert.Equal("all", half.ReadTextToEnd());
        session = Nth(rig, 2);
        half.Write("still heard");
        session.UntilReceived(11);
        half.Close();
        session.End();

        // A timer due before the handshake completed is called after OnConnected, and not lost.
        Peer timed = Meet(rig, isOutgoing: false, static s =>
        {
            s.AtConnecting = static x => x.CallStartTimer(TimeSpan.Zero);
            s.AtTlsHandshakeCompleted = static (x, _) => x.CallStartTimer(TimeSpan.Zero);
        });
        session = Nth(rig, 3);
        rig.Until(() => session.Count("timer") == 2, "both timers");
        Assert.Equal("connecting, handshaked, connected, timer, timer", session.Life);
        timed.Close();
        session.End();
    });

    private static RecordingSession Nth(Rig rig, int index)
    {
        rig.Until(() => rig.Sessions.Count > index, $"session {index} to be made");
        return rig.Sessions[index];
    }

    /// <summary>One session with TLS from the start, accepted or of a client, and its peer.</summary>
    private static TlsPeer Meet(Rig rig, bool isOutgoing, Action<RecordingSession> setUp)
    {
        if (!isOutgoing) return ConnectPeer(rig, Serve(rig, setUp: setUp));
        PeerListener listener = rig.Listen();
        Task connecting = rig.MakeClient(To(rig, listener.EndPoint), setUp).ConnectAsync().AsTask();
        _ = connecting.ContinueWith(static t => t.Exception, TaskScheduler.Default);
        return rig.Secure(listener.Accept(), isAccepted: true, TestCertificates.ServerOptions);
    }

    private static System.Buffers.IMemoryOwner<byte> Owned(ReadOnlySpan<byte> bytes)
    {
        System.Buffers.IMemoryOwner<byte> owner = System.Buffers.MemoryPool<byte>.Shared.Rent(bytes.Length);
        bytes.CopyTo(owner.Memory.Span);
        return owner;
    }

    [Fact, Contract(10)]
    public void A_pause_before_the_handshake_holds_the_bytes_and_not_the_handshake() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: static s => s.AtConnecting = static x => x.PauseReceiving());
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("held");
        RecordingSession session = server.Connected();
        rig.Settle();
        Assert.Equal(0, session.ReceivedCount);
        session.ResumeReceiving();
        session.UntilReceived(4);
        peer.Close();
        session.End();
    });

    [Fact]
    public void A_handshake_byte_by_byte_succeeds() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: Echo);
        TlsPeer peer = rig.Secure(new DripPeer(rig, rig.ConnectPeer(server.EndPoint!)), isAccepted: false, Client);
        peer.Write("slow");
        Assert.Equal("slow", peer.ReadText(4));
        peer.Close();
        server.Session().End();
    });

    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    [InlineData(100)]
    public void A_handshake_that_stalls_ends_at_its_deadline(int bytes) => Run(rig =>
    {
        TlsOptions tls = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            HandshakeTimeout = TimeSpan.FromMilliseconds(200)
        };
        RecordingServer server = Serve(rig, tls);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] hello = [0x16, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3, .. new byte[200]];
        if (bytes > 0) peer.Write(hello[..bytes]);
        rig.Until(() => server.Made.Count == 1, "the session");
        rig.Pass(TimeSpan.FromMilliseconds(250));
        TlsException e = Failed(server.Session(), TlsFailure.TimedOut);
        Assert.Contains("not done within 0.2 s", e.Message, StringComparison.Ordinal);
        Assert.Equal(1, server.ReadCounters().TlsFailed);
    });

    [Fact]
    public void Handshakes_are_limited_and_connections_over_the_limit_are_closed_at_once() => Run(
        rig =>
        {
            TlsOptions tls = new() { Certificate = TlsCertificate.From(TestCertificates.Server), MaxHandshakes = 2 };
            RecordingServer server = Serve(rig, tls);
            byte[] hello = HelloOf(Client);
            Peer[] stalled = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!)];
            foreach (Peer peer in stalled) peer.Write(hello);
            rig.Until(() => server.ReadCounters() is { TlsShaking: 2, TlsSilent: 0 }, "two handshakes to run");
            // With thread-pool scheduling a session is created shortly after its handshake is counted.
            server.Session(1);
            rig.ConnectPeer(server.EndPoint!).Write(hello);
            Failed(server.Session(2), TlsFailure.TooMany);
            foreach (Peer peer in stalled) peer.Close();
            rig.Until(() => server.ReadCounters().TlsShaking == 0, "the handshakes to end");
            TlsPeer good = ConnectPeer(rig, server);
            server.Connected(3);
            good.Close();
        },
        loops: 1);

    [Fact]
    public void A_peer_without_a_whole_ClientHello_takes_no_place_and_the_oldest_is_evicted() => Run(
        rig =>
        {
            TlsOptions tls = new()
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                MaxHandshakes = 1,
                MaxSilent = 4,
                HandshakeTimeout = TimeSpan.FromMinutes(10)
            };
            RecordingServer server = Serve(rig, tls, Echo);
            byte[] hello = HelloOf(Client);
            Peer[] silent = new Peer[4];
            for (int i = 0; i < silent.Length; i++)
            {
                silent[i] = rig.ConnectPeer(server.EndPoint!);
                // With thread-pool scheduling two concurrent connections may begin in either order.
                rig.Until(() => server.ReadCounters().TlsSilent == i + 1, "the next silent connection");
            }

            // Single bytes count as silence, too.
            for (int i = 0; i < 40; i++)
            {
                silent[1].Write([hello[i]]);
                rig.Settle();
            }

            Assert.Equal((4, 4), (server.ReadCounters().TlsSilent, server.ReadCounters().TlsShaking));
            for (int i = 0; i < 3; i++)
            {
                // Each is silent for a moment itself, and evicts another one.
                TlsPeer honest = ConnectPeer(rig, server);
                honest.Write("hello");
                Assert.Equal("hello", honest.ReadText(5));
                Assert.Contains("4 connections without a ClientHello wait already",
                    Failed(server.Session(i), TlsFailure.TooMany).Message, StringComparison.Ordinal);
                honest.Close();
                server.Session(4 + (2 * i)).End();
                rig.Until(() => server.ReadCounters().TlsSilent == 3, "the honest one to be silent no more");
                rig.ConnectPeer(server.EndPoint!);
                rig.Until(() => server.ReadCounters().TlsSilent == 4, "another silent one");
            }

            Assert.False(server.Session(3).IsOver);
            Assert.Equal((3L, 3L, 3L), (server.ReadCounters().TlsSilentClosed, server.ReadCounters().TlsFailed,
                server.ReadCounters().TlsHandshakes));
            rig.Await(server.StopAsync(TimeSpan.Zero));
            Assert.Equal((0, 0), (server.ReadCounters().TlsSilent, server.ReadCounters().TlsShaking));
        },
        loops: 1);

    [Fact]
    public void A_hundred_silent_connections_a_second_cause_no_refusal() => Run(
        rig =>
        {
            Assert.SkipUnless(rig.IsVirtual, "Needs virtual time: only the memory engine has it.");
            RecordingServer server = Serve(rig, setUp: Echo);
            int made = 0, served = 0;
            List<Peer> silent = [];
            for (int tick = 0; tick < 60; tick++)
            {
                // Twelve seconds: the first ones reach their deadline meanwhile.
                for (int i = 0; i < 20; i++) silent.Add(rig.ConnectPeer(server.EndPoint!));
                made += 20;
                TlsPeer honest = ConnectPeer(rig, server);
                honest.Write("hello");
                Assert.Equal("hello", honest.ReadText(5));
                server.Session(made++).Close();
                served++;
                honest.Close();
                rig.Pass(TimeSpan.FromMilliseconds(200));
            }

            ServerCounters counters = server.ReadCounters();
            Assert.Equal((served, 0L), (counters.TlsHandshakes, counters.TlsSilentClosed));
            Assert.True(counters.TlsSilent > 900, $"{counters.TlsSilent} silent");
            foreach (Peer peer in silent) peer.Close();
        },
        loops: 1);

    /// <summary>A complete ClientHello.</summary>
    private static byte[] HelloOf(TlsOptions options)
    {
        using TlsEnd client = new(new SslStreamProfile(options, isServer: false), "chat.test");
        client.Start();
        return [.. client.Output];
    }

    [Fact]
    public void A_peer_that_asks_for_answers_and_reads_none_is_ended_before_they_are_many() => Run(rig =>
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        const int answerBytes = 27;
        TlsOptions openSsl =
            new() { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = TlsProvider.OpenSsl };
        // The data queued first fills everything that the kernel and the peer accept.
        ServerOptions options = new()
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Tls = openSsl,
            Limits = new() { SendBytes = 64 << 20, BackPressure = false }
        };
        RecordingServer server = rig.Serve(s => s.AtConnected = static x => x.Send(new byte[32 << 20]), options);
        TlsPeer peer = ConnectPeer(rig, server, new TlsOptions
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Maker = static (o, isServer) => new OpenSslProfile(o, isServer)
        });
        RecordingSession session = server.Connected();
        rig.Until(() => peer.IsReady, "the peer to be ready");
        for (long taken = -1; taken != session.BytesSent; rig.Settle()) taken = session.BytesSent;
        int sent = 0;
        while (sent < 5000 && !session.IsOver)
        {
            // One per block, which is not a flood by itself.
            peer.ChangeKeys(1);
            sent++;
            rig.Until(() => session.BytesReceived >= sent || session.IsOver, "the bytes between to arrive");
        }

        Assert.Equal(CloseCause.TlsBroken, session.End());
        Assert.Equal(TlsFailure.Flood, session.Reason.TlsFailure);
        // The first ones may have been sent anyway, because the kernel frees space at any time.
        int most = TlsWire.MostAnswersWaiting / answerBytes;
        Assert.InRange(sent, most, 4 * most);
    });

    [Fact]
    public void A_long_life_with_keys_changed_now_and_then_loses_no_byte() => Run(rig =>
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        RecordingServer server = Serve(rig, setUp: Echo);
        TlsPeer peer = ConnectPeer(rig, server, new TlsOptions
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Protocols = SslProtocols.Tls13,
            Maker = static (o, isServer) => new OpenSslProfile(o, isServer)
        });
        rig.Until(() => peer.IsReady, "the handshake");
        for (int i = 0; i < 300; i++)
        {
            byte[] message = Pattern(1 + (i * 37 % 500), i);
            peer.Write(message);
            Assert.Equal(message, peer.Read(message.Length));
            // Periodically: in total more than permitted at once, far apart, and each requests a response.
            if (i % 3 != 0) continue;
            peer.ChangeKeys(1);
            Assert.Equal("x", peer.ReadText(1));
        }

        Assert.True(server.Session().IsConnected);
        peer.Close();
        server.Session().End();
    });

    [Fact]
    public void A_key_update_request_after_our_end_is_read_and_not_answered() => Run(rig =>
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        foreach (TlsProvider provider in (TlsProvider[])[TlsProvider.OpenSsl, TlsProvider.Portable])
        {
            RecordingServer server = Serve(rig,
                new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = provider },
                static s => s.AtConnected = static x => x.ShutdownSend());
            TlsPeer peer = ConnectPeer(rig, server, new TlsOptions
            {
                HostName = "chat.test",
                Roots = TestCertificates.Roots,
                Protocols = SslProtocols.Tls13,
                Maker = static (o, isServer) => new OpenSslProfile(o, isServer)
            });
            Assert.Empty(peer.ReadToEnd());
            RecordingSession session = server.Session();
            // A response would follow the FIN, and the connection would break.
            for (int i = 1; i <= 3; i++)
            {
                peer.ChangeKeys(1);
                session.UntilReceived(i);
                rig.Settle();
            }

            Assert.True(session.IsConnected);
            peer.ShutdownSend();
            Assert.Equal(CloseCause.LocalClose, session.End());
            Assert.Equal("xxx", session.ReceivedText);
        }
    });

    [Fact]
    public void Output_of_a_TLS_layer_after_our_end_is_dropped() => Run(rig =>
    {
        RecordingServer server = Serve(rig, FakeTlsProfile.Server,
            static s => s.AtConnected = static x => x.ShutdownSend());
        TlsPeer peer = ConnectPeer(rig, server, FakeTlsProfile.Client);
        Assert.Empty(peer.ReadToEnd());
        RecordingSession session = server.Session();
        for (int i = 1; i <= 3; i++)
        {
            peer.Raw.Write(FakeTlsLayer.AsksForKeys);
            peer.Write("x");
            session.UntilReceived(i);
            rig.Settle();
        }

        Assert.True(session.IsConnected);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Fact]
    public void A_peer_that_disconnects_during_the_handshake_is_reported_as_such() => Run(rig =>
    {
        RecordingServer server = Serve(rig);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write([0x16, 3, 1, 2, 0, 1, 0]);
        peer.ShutdownSend();
        Failed(server.Session(), TlsFailure.PeerLeft);
        Assert.Equal(CloseInitiator.Peer, server.Session().Reason.Initiator);
    });

    [Fact]
    public void Stopping_the_server_ends_handshakes_as_well() => Run(rig =>
    {
        RecordingServer server = Serve(rig);
        rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => server.ReadCounters().TlsShaking == 1, "the handshake to run");
        rig.Await(server.StopAsync(TimeSpan.FromMilliseconds(50)));
        Assert.Equal(CloseCause.ServerStopped, server.Session().End());
        Assert.Equal("connecting, connect failed ServerStopped", server.Session().Life);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_long_handshake_is_made_off_the_loop_and_ends_on_it(bool asksClients) => Run(rig =>
    {
        TlsOptions tls = new()
        {
            Certificate = TlsCertificate.From(asksClients ? TestCertificates.Server : TestCertificates.Slow),
            ClientCertificates = asksClients ? TlsClientCertificates.Required : TlsClientCertificates.Off,
            Roots = TestCertificates.Roots,
        };
        RecordingServer server = Serve(rig, tls, Echo);
        TlsOptions own = new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Certificate = TlsCertificate.From(TestCertificates.Client)
        };
        for (int i = 0; i < 3; i++)
        {
            TlsPeer peer = ConnectPeer(rig, server, own);
            peer.Write("long");
            Assert.Equal("long", peer.ReadText(4));
            Assert.Equal(asksClients ? "CN=a client" : null, server.Connected(i).Tls!.PeerCertificate?.Subject);
            peer.Close();
            server.Session(i).End();
        }

        // Connections that end while the pool uses their layer: by the peer's end, and at once by its reset.
        Peer gone = rig.ConnectPeer(server.EndPoint!);
        TlsPeer leaves = rig.Secure(gone, isAccepted: false, own);
        leaves.Close();
        server.Session(3).End();
        long before = Received();
        Peer reset = rig.ConnectPeer(server.EndPoint!);
        rig.Secure(reset, isAccepted: false, own);
        rig.Until(() => Received() > before, "the hello to arrive");
        reset.Reset();
        server.Session(4).End();

        long Received() => rig.Engine.Loops.Sum(static l => l.ReadCounters().BytesReceived);
    });

    // ------------------------------------------------------------------ what is refused

    [Fact]
    public void Plain_HTTP_on_the_TLS_port_gets_an_answer_in_plain_HTTP() => Run(rig =>
    {
        RecordingServer server = Serve(rig);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("GET / HTTP/1.1\r\nHost: chat.test\r\n\r\n");
        string answer = peer.ReadTextToEnd();
        Assert.StartsWith("HTTP/1.1 400", answer, StringComparison.Ordinal);
        Assert.EndsWith("here", answer, StringComparison.Ordinal);
        string length = answer.Split("Content-Length: ")[1].Split("\r\n")[0];
        Assert.Equal(int.Parse(length, System.Globalization.CultureInfo.InvariantCulture),
            answer.Split("\r\n\r\n")[1].Length);
        peer.Close();
        Assert.Contains("client speaks plain HTTP on a TLS port", Failed(server.Session(), TlsFailure.NotTls).Message,
            StringComparison.Ordinal);
        Assert.Contains(rig.Notices,
            static n => n.Kind == DiagnosticEventKind.TlsHandshake && n.Page == "tls-handshake.md");
    });

    [Fact]
    public void Garbage_is_refused_with_an_alert_and_counted() => Run(rig =>
    {
        RecordingServer server = Serve(rig);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write([0x80, 0x2e, 1, 0, 2, 0, 0x15]);
        Assert.Equal([0x15, 3, 3, 0, 2, 2, 70], peer.ReadToEnd());
        peer.Close();
        Assert.Contains("it begins with 0x802E0100", Failed(server.Session(), TlsFailure.NotTls).Message,
            StringComparison.Ordinal);
        Peer inside = rig.ConnectPeer(server.EndPoint!);
        inside.Write([0x16, 3, 1, 0, 6, 1, 0, 0, 2, 9, 9]);
        inside.ShutdownSend();
        Assert.Equal(CloseCause.TlsHandshake, server.Session(1).End());
        inside.Close();
        Assert.Equal(2, server.ReadCounters().TlsFailed);
    });

    [Fact]
    public void A_peer_has_a_second_to_read_the_alert() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsVirtual, "Real time passes by itself, and not exactly.");
        RecordingServer server = Serve(rig);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write([0x80, 0x2e, 1, 0, 2, 0, 0x15]);
        rig.Pass(TimeSpan.FromMilliseconds(990));
        Assert.False(server.Session().IsOver);
        rig.Pass(TimeSpan.FromMilliseconds(20));
        Assert.True(server.Session().IsOver);
        peer.Close();
    });

    [Fact]
    public void A_client_of_another_version_protocol_or_name_gets_a_clear_message() => Run(rig =>
    {
        TlsOptions tls = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            Protocols = SslProtocols.Tls13,
            ApplicationProtocols = ["chat/1"],
            Names = new Dictionary<string, TlsOptions>
            {
                ["chat.test"] = new()
                {
                    Certificate = TlsCertificate.From(TestCertificates.Server),
                    Protocols = SslProtocols.Tls13,
                    ApplicationProtocols = ["chat/1"]
                }
            },
            UnknownName = TlsUnknownServerName.Refuse,
        };
        RecordingServer server = Serve(rig, tls);
        TlsPeer peer = ConnectPeer(rig, server,
            new TlsOptions { Roots = TestCertificates.Roots, Protocols = SslProtocols.Tls12 });
        Assert.Contains("client offers only TLS 1.0, 1.1, 1.2; server allows TLS 1.3",
            Refused(rig, server, 0, peer, TlsFailure.NoCommonVersion).Message, StringComparison.Ordinal);
        peer = ConnectPeer(rig, server,
            new TlsOptions { Roots = TestCertificates.Roots, ApplicationProtocols = ["mail/1"] });
        Assert.Contains("client offers the application protocols mail/1; server has chat/1",
            Refused(rig, server, 1, peer, TlsFailure.NoCommonApplicationProtocol).Message, StringComparison.Ordinal);
        peer = ConnectPeer(rig, server, new TlsOptions { Roots = TestCertificates.Roots }, "else.test");
        Assert.Contains("client asks for 'else.test', which this server does not serve",
            Refused(rig, server, 2, peer, TlsFailure.UnknownName).Message, StringComparison.Ordinal);
        TlsPeer good = ConnectPeer(rig, server,
            new TlsOptions { Roots = TestCertificates.Roots, ApplicationProtocols = ["chat/2", "chat/1"] });
        Assert.Equal("chat/1", server.Connected(3).Tls!.ApplicationProtocol);
        good.Close();
    });

    [Fact]
    public void A_client_refuses_bad_certificates_and_the_connect_fails_with_the_reason() => Run(rig =>
    {
        (X509Certificate2 Certificate, string Words)[] cases =
        [
            (TestCertificates.Make("other", "other.test"), "does not cover 'chat.test', only other.test"),
            (TestCertificates.Make("old", "chat.test", fromDays: -20, toDays: -10), "expired"),
            (TestCertificates.Make("young", "chat.test", fromDays: 10, toDays: 20), "is not valid before"),
            (TestCertificates.Make("self", "chat.test", selfSigned: true), "self-signed"),
            (TestCertificates.Make("foreign", "chat.test", issuer: TestCertificates.OtherRoot),
                "not among the trusted roots"),
            (TestCertificates.Make("usage", "chat.test", forServers: false), "not meant for this use"),
            (TestCertificates.Make("below", "chat.test", issuer: TestCertificates.Intermediate),
                "did not send it as an intermediate"),
        ];
        foreach ((X509Certificate2 certificate, string words) in cases)
        {
            RecordingServer server = Serve(rig, With(certificate));
            RecordingClient client = rig.MakeClient(To(rig, server.EndPoint!));
            NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
            Assert.Equal(ErrorCategory.Tls, e.Error.Category);
            Assert.Contains(words, e.Message, StringComparison.Ordinal);
            Failed(client.Attempt(), TlsFailure.CertificateRejected);
            Assert.NotEqual(CloseCause.None, server.Session().End());
            rig.Await(server.StopAsync(TimeSpan.Zero));
        }
    });

    [Fact]
    public void A_server_refuses_bad_client_certificates() => Run(rig =>
    {
        TlsOptions tls = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            ClientCertificates = TlsClientCertificates.Required,
            Roots = TestCertificates.Roots
        };
        RecordingServer server = Serve(rig, tls);
        TlsOptions Own(X509Certificate2? own) => new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Certificate = own is null ? null : TlsCertificate.From(own)
        };
        TlsPeer peer = ConnectPeer(rig, server, Own(null));
        Assert.Contains("the client gave no certificate",
            Refused(rig, server, 0, peer, TlsFailure.CertificateRejected).Message, StringComparison.Ordinal);
        peer = ConnectPeer(rig, server,
            Own(TestCertificates.Make("x", forServers: false, issuer: TestCertificates.OtherRoot)));
        Assert.Contains("not among the trusted roots",
            Refused(rig, server, 1, peer, TlsFailure.CertificateRejected).Message, StringComparison.Ordinal);
        Assert.Equal(2, server.ReadCounters().TlsFailed);
    });

    [Fact]
    public void The_host_name_of_the_connect_is_the_name_that_is_checked() => Run(rig =>
    {
        if (rig.IsUnix)
        {
            RecordingServer unix = Serve(rig);
            ArgumentException e = Assert.Throws<ArgumentException>(() => rig.Await(rig.MakeClient(To(rig,
                unix.EndPoint!, new TlsOptions { Roots = TestCertificates.Roots })).ConnectAsync()));
            Assert.Contains("HostName is missing", e.Message, StringComparison.Ordinal);
            return;
        }

        // The address is in the certificate.
        RecordingServer server = Serve(rig, setUp: Echo);
        RecordingSession session = rig.Connect(rig.MakeClient(To(rig, server.EndPoint!,
            new TlsOptions { Roots = TestCertificates.Roots }), static s => s.AtConnected = static x => x.Send("x"u8)));
        session.UntilReceived(1);
        RecordingServer other = Serve(rig, With(TestCertificates.Make("other", "other.test")));
        NetworkException refused = Assert.Throws<NetworkException>(() => rig.Await(rig
            .MakeClient(To(rig, other.EndPoint!, new TlsOptions { Roots = TestCertificates.Roots })).ConnectAsync()));
        Assert.Contains("does not cover '127.0.0.1'", refused.Message, StringComparison.Ordinal);
        session.Close();
    });

    // ------------------------------------------------------------------ ends

    [Fact]
    public void An_end_without_close_notify_is_no_proper_end() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: static s => s.AtEndOfStream = static _ => { });
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("all of it?");
        peer.Cut();
        RecordingSession session = server.Connected();
        Assert.Equal(CloseCause.TlsTruncated, session.End());
        Assert.Equal(TlsFailure.Truncated, session.Reason.TlsFailure);
        Assert.False(session.Reason.IsGraceful);
        Assert.Equal("connecting, connected, received 10, disconnected TlsTruncated", session.Life);
    });

    [Fact]
    public void Data_after_close_notify_is_ignored() => Run(rig =>
    {
        RecordingServer server = Serve(rig, setUp: static s => s.AtEndOfStream = static _ => { });
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("last");
        RecordingSession session = server.Connected();
        session.UntilReceived(4);
        peer.CloseNotifyOnly();
        session.Until("peer finished");
        try
        {
            peer.Raw.Write([0x17, 3, 3, 0, 20, .. new byte[20]]);
        }
        catch (IOException)
        {
            // Equally valid.
        }

        rig.Settle();
        Assert.Equal(SendResult.Queued, session.Send("still"u8));
        Assert.Equal("still", peer.ReadText(5));
        session.Close();
        Assert.Equal(4, session.ReceivedCount);
    });

    [Fact]
    public void A_record_that_was_changed_ends_the_connection_and_nothing_of_it_is_delivered() => Run(rig =>
    {
        RecordingServer server = Serve(rig);
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("good");
        RecordingSession session = server.Connected();
        session.UntilReceived(4);
        peer.Raw.Write([0x17, 3, 3, 0, 40, .. Pattern(40)]);
        Assert.Equal(CloseCause.TlsBroken, session.End());
        Assert.Equal(TlsFailure.BadRecord, session.Reason.TlsFailure);
        Assert.Equal(4, session.ReceivedCount);
    });

    // ------------------------------------------------------------------ certificates from files

    [Fact]
    public void A_renewed_certificate_is_used_without_dropping_connections() => Run(rig =>
    {
        string folder = Directory.CreateTempSubdirectory("whimbrel").FullName;
        string chain = Path.Combine(folder, "fullchain.pem"), key = Path.Combine(folder, "privkey.pem");
        X509Certificate2 first = TestCertificates.Make("first", "chat.test"),
            second = TestCertificates.Make("second", "chat.test");
        Write(first);
        TlsCertificate fromFiles = TlsCertificate.FromPemFile(chain, key);
        fromFiles.LookEveryMs = 20;
        RecordingServer server = Serve(rig, new TlsOptions { Certificate = fromFiles }, Echo);
        TlsPeer old = ConnectPeer(rig, server);
        rig.Until(() => old.IsReady, "the first handshake");
        Assert.Equal("CN=first", old.Info!.PeerCertificate!.Subject);

        // A temporarily broken file changes nothing.
        File.WriteAllText(chain, "-----BEGIN CERTIFICATE-----\n");
        rig.Pass(TimeSpan.FromMilliseconds(30));
        rig.Until(
            () =>
            {
                Assert.Equal("CN=first", SubjectSeen());
                return rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.Certificate
                    && n.Message.Contains("stays in use", StringComparison.Ordinal));
            },
            "the notice about the file");

        Write(second);
        rig.Pass(TimeSpan.FromMilliseconds(30));
        // The very next handshake: the last check is older than the interval, however long ago the file changed.
        Assert.Equal("CN=second", SubjectSeen());
        old.Write("still here");
        Assert.Equal("still here", old.ReadText(10));
        Assert.Equal(0, server.ReadCounters().TlsFailed);
        Directory.Delete(folder, recursive: true);

        void Write(X509Certificate2 certificate)
        {
            File.WriteAllText(key, certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem());
            File.WriteAllText(chain, certificate.ExportCertificatePem());
        }

        string SubjectSeen()
        {
            TlsPeer peer = ConnectPeer(rig, server);
            rig.Until(() => peer.IsSettled, "a handshake");
            string subject = peer.Info!.PeerCertificate!.Subject;
            peer.Close();
            return subject;
        }
    });

    // ------------------------------------------------------------------ upgrade

    [Fact, Contract(16)]
    public void An_upgrade_sends_what_was_queued_plain_and_what_follows_encrypted() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s =>
        {
            s.AtTlsHandshakeCompleted = (x, _) => x.Send("secret hello"u8);
            s.AtData = (x, unread) =>
            {
                if (x.Tls is not null) return unread.Length;
                if (unread.Length < 8) return 0;
                x.Send("go ahead"u8);
                x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
                x.Send("queued for later "u8);
                return 8;
            };
        });
        Peer raw = AskForTls(rig, server);
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        Assert.Equal("queued for later secret hello", peer.ReadText(29));
        RecordingSession session = server.Connected();
        peer.Write("and back");
        session.UntilReceived(16);
        Assert.Equal("connecting, connected, received 8, handshaked, received 8", session.Life);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal(8 + 29, session.BytesSent);
    });

    [Fact, Contract(16)]
    public void Both_roles_upgrade_and_the_task_ends_with_what_was_agreed_on() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
        {
            if (x.Tls is not null)
            {
                x.Send(unread);
                return unread.Length;
            }

            if (unread.Length < 8) return 0;
            x.Send("ok"u8);
            x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
            return 8;
        });
        ValueTask<TlsInfo> upgraded = default;
        RecordingSession client = rig.Connect(server.EndPoint!, s =>
        {
            s.AtConnected = static x => x.Send("STARTTLS"u8);
            s.AtData = (x, unread) =>
            {
                if (x.Tls is not null) return unread.Length;
                if (unread.Length < 2) return 0;
                upgraded = x.CallUpgradeAsync(rig.WithProvider(Client));
                return 2;
            };
        });
        client.UntilReceived(2);
        TlsInfo info = rig.Await(upgraded);
        Assert.Same(info, client.Tls);
        byte[] data = Pattern(100_000);
        Assert.Equal(SendResult.Queued, client.Send(data));
        client.UntilReceived(2 + data.Length);
        Assert.Equal(data, client.Received[2..]);
        client.Close();
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
    });

    [Fact, Contract(16)]
    public void Bytes_before_the_upgrade_are_refused_unless_they_are_passed_on() => Run(rig =>
    {
        foreach (bool passes in (bool[])[false, true])
        {
            RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
            {
                if (x.Tls is not null) return unread.Length;
                if (unread.Length < 9) return 0;
                x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions),
                    passes ? UnreadBytes.PassToTls : UnreadBytes.Refuse);
                return 8;
            });
            Peer raw = rig.ConnectPeer(server.EndPoint!);
            if (!passes)
            {
                raw.Write("STARTTLSinjected");
                Assert.Equal(CloseCause.TlsHandshake, server.Session().End());
                Assert.Equal(TlsFailure.UnreadBeforeUpgrade, server.Session().Reason.TlsFailure);
                raw.Close();
                continue;
            }

            raw.Write("STARTTLS");
            TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
            peer.Write("inside");
            server.Connected().UntilReceived(8 + 6);
            Assert.EndsWith("inside", server.Session().ReceivedText, StringComparison.Ordinal);
            peer.Close();
            server.Session().End();
        }
    });

    [Fact, Contract(16)]
    public void An_upgrade_that_fails_ends_the_connection() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
            Assert.Throws<InvalidOperationException>(
                () => x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions)));
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("x");
        server.Connected().UntilReceived(1);
        raw.Write("this is not TLS");
        Assert.Equal(CloseCause.TlsHandshake, server.Session().End());
        Assert.Equal("connecting, connected, received 1, disconnected TlsHandshake", server.Session().Life);
        raw.Close();
    });

    [Fact, Contract(16)]
    public void Plain_HTTP_after_the_go_ahead_gets_no_answer_in_the_clear() => Run(rig =>
    {
        RecordingServer server = StartTls(rig, x => GoAhead(rig, x));
        Peer raw = AskForTls(rig, server);
        raw.Write("GET / HTTP/1.1\r\n\r\n");
        Assert.Equal([0x15, 3, 3, 0, 2, 2, 70], raw.ReadToEnd());
        Assert.Equal(CloseCause.TlsHandshake, server.Session().End());
        Assert.Equal(TlsFailure.NotTls, server.Session().Reason.TlsFailure);
        raw.Close();
    });

    [Fact, Contract(16)]
    public void A_client_that_upgrades_without_HostName_checks_the_name_it_connected_to() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix || rig.IsVirtual, "A Unix socket client has no address.");
        foreach (bool covered in (bool[])[true, false])
        {
            X509Certificate2 certificate =
                covered ? TestCertificates.Server : TestCertificates.Make("other", "other.test");
            RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
            {
                if (x.Tls is not null) return unread.Length;
                x.Send("ok"u8);
                x.CallUpgrade(rig.WithProvider(With(certificate)));
                return unread.Length;
            });
            RecordingSession client = rig.Connect(server.EndPoint!, s =>
            {
                s.AtConnected = static x => x.Send("STARTTLS"u8);
                s.AtTlsHandshakeCompleted = static (x, _) => x.Send("inside"u8);
                s.AtReceived =
                    (x, _) => x.CallUpgrade(rig.WithProvider(new TlsOptions { Roots = TestCertificates.Roots }));
            });
            if (covered)
            {
                server.Connected().UntilReceived(8);
                rig.Until(() => client.Tls is not null, "the handshake");
                client.Close();
                continue;
            }

            Assert.Equal(CloseCause.TlsHandshake, client.End());
            Assert.Equal(TlsFailure.CertificateRejected, client.Reason.TlsFailure);
            Assert.Contains("does not cover '127.0.0.1'", client.Reason.Exception!.Message, StringComparison.Ordinal);
            Assert.False(client.Saw("handshaked"));
        }
    });

    [Fact, Contract(16)]
    public void An_upgrade_can_follow_an_await() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            if (x.Tls is null) _ = Work(x);
        });
        async Task Work(RecordingSession x)
        {
            await x.Loop.PostAsync(static () => { }).ConfigureAwait(false);
            GoAhead(rig, x);
        }

        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("x");
        Assert.Equal("go ahead", raw.ReadText(8));
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        peer.Write("inside");
        server.Connected().UntilReceived(7);
        peer.Close();
        server.Session().End();
    });

    [Fact, Contract(15, 16)]
    public void An_upgrade_and_a_hand_over_in_one_callback_both_happen() => Run(rig =>
    {
        RecordingSession next =
            new(rig) { IsSuccessor = true, AtTlsHandshakeCompleted = static (x, _) => x.Send("secret"u8) };
        RecordingServer server = StartTls(rig, x =>
        {
            GoAhead(rig, x);
            x.CallHandOver(next);
        });
        Peer raw = AskForTls(rig, server);
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        Assert.Equal("secret", peer.ReadText(6));
        peer.Write("back");
        next.UntilReceived(4);
        Assert.Equal("connected, handshaked, received 4", next.Life);
        Assert.Equal(CloseCause.HandedOver, server.Session().End());
        peer.Close();
        next.End();
    });

    [Fact, Contract(16)]
    public void Plaintext_received_while_the_callback_ran_counts_as_unread() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsPool && !rig.IsVirtual, "Only callbacks on the pool run while more data arrives.");
        foreach (bool passes in (bool[])[false, true])
        {
            int inside = 0;
            RecordingServer server = StartTls(rig, x =>
            {
                Volatile.Write(ref inside, 1);
                SpinWait.SpinUntil(() => x.BytesReceived > 8, TimeSpan.FromSeconds(15));
                x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions),
                    passes ? UnreadBytes.PassToTls : UnreadBytes.Refuse);
            });
            Peer raw = rig.ConnectPeer(server.EndPoint!);
            raw.Write("STARTTLS");
            rig.Until(() => Volatile.Read(ref inside) == 1, "the callback");
            if (!passes)
            {
                raw.Write("injected");
                Assert.Equal(CloseCause.TlsHandshake, server.Session().End());
                Assert.Equal(TlsFailure.UnreadBeforeUpgrade, server.Session().Reason.TlsFailure);
                Assert.Equal(8, server.Session().ReceivedCount);
                raw.Close();
                continue;
            }

            TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
            peer.Write("inside");
            server.Connected().UntilReceived(8 + 6);
            Assert.Equal("STARTTLSinside", server.Session().ReceivedText);
            peer.Close();
            server.Session().End();
        }
    });

    [Fact, Contract(16)]
    public void An_awaited_upgrade_fails_when_the_connection_ends() => Run(rig =>
    {
        ValueTask<TlsInfo> upgraded = default;
        RecordingServer server = StartTls(rig, x =>
        {
            x.Send("go ahead"u8);
            upgraded = x.CallUpgradeAsync(rig.WithProvider(TestCertificates.ServerOptions));
        });
        Peer raw = AskForTls(rig, server);
        raw.ShutdownSend();
        Assert.Equal(CloseCause.TlsHandshake, server.Session().End());
        Assert.Equal(TlsFailure.PeerLeft, server.Session().Reason.TlsFailure);
        Assert.Throws<NetworkException>(() => rig.Await(upgraded));
        raw.Close();
    });

    [Fact, Contract(16)]
    public void An_upgrade_before_the_connection_or_after_a_close_throws() => Run(rig =>
    {
        int thrown = 0;
        void Try(RecordingSession x)
        {
            Assert.Throws<InvalidOperationException>(
                () => x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions)));
            Interlocked.Increment(ref thrown);
        }

        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnecting = Try;
            s.AtReceived = (x, _) =>
            {
                x.Close();
                Try(x);
            };
            s.AtDisconnecting = static (_, _) => { };
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("x");
        server.Session().Until("disconnecting");
        raw.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
        Assert.Equal(2, thrown);
    });

    // ------------------------------------------------------------------ ends in the handshake of an upgrade

    /// <summary>For a server's session: responds in the clear, followed by TLS.</summary>
    private static void GoAhead(Rig rig, RecordingSession x)
    {
        x.Send("go ahead"u8);
        x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
    }

    /// <summary>The other end of <see cref="GoAhead"/>, still in the clear.</summary>
    private static Peer AskForTls(Rig rig, RecordingServer server)
    {
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal("go ahead", raw.ReadText(8));
        return raw;
    }

    /// <summary>A server; its sessions consume eight bytes in the clear and then run this.</summary>
    private static RecordingServer StartTls(Rig rig, Action<RecordingSession> then) =>
        rig.Serve(s => s.AtData = (x, unread) =>
        {
            if (x.Tls is not null) return unread.Length;
            if (unread.Length < 8) return 0;
            then(x);
            return 8;
        });

    [Theory, Contract(7, 12, 16)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_close_in_the_callback_that_upgrades_sends_all_that_was_sent_before_it(bool passes) => Run(rig =>
    {
        byte[] plain = Pattern(200_000);
        RecordingServer server = StartTls(rig, x =>
        {
            x.Send(plain);
            // With thread-pool scheduling a large Send leaves immediately, and the peer may begin before the upgrade,
            // or before the Close; a small one leaves with the upgrade.
            if (!passes) x.Send("begin"u8);
            x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions),
                passes ? UnreadBytes.PassToTls : UnreadBytes.Refuse);
            Assert.Equal(SendResult.Queued, x.Send("secret bye"u8));
            x.Close();
            Assert.Equal(SendResult.Closed, x.Send("too late"u8));
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal(plain, raw.Read(plain.Length));
        if (!passes) Assert.Equal("begin", raw.ReadText(5));
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        Assert.Equal("secret bye", peer.ReadText(10));
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal("connecting, connected, received 8, disconnected LocalClose", session.Life);
        Assert.Equal(0, session.Handshakes);
        Assert.Equal(plain.Length + 10 + (passes ? 0 : 5), session.BytesSent);
    });

    [Fact, Contract(7, 12, 16)]
    public void A_client_that_closes_in_the_handshake_of_its_upgrade_sends_what_it_had_sent() => Run(rig =>
    {
        byte[] data = Pattern(100_000);
        RecordingServer server = StartTls(rig, x =>
        {
            x.Send("ok"u8);
            x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
        });
        ValueTask<TlsInfo> upgraded = default;
        RecordingSession client = rig.Connect(server.EndPoint!, s =>
        {
            s.AtConnected = static x => x.Send("STARTTLS"u8);
            s.AtData = (x, unread) =>
            {
                if (unread.Length < 2) return 0;
                upgraded = x.CallUpgradeAsync(rig.WithProvider(Client));
                x.Send(data);
                x.Close();
                return 2;
            };
        });
        server.Connected().UntilReceived(8 + data.Length);
        Assert.Equal(data, server.Session().Received[8..]);
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
        Assert.Equal(CloseCause.LocalClose, client.End());
        Assert.Same(client.Tls, rig.Await(upgraded));
    });

    [Fact, Contract(12, 16)]
    public void A_close_while_the_handshake_runs_waits_for_it() => Run(rig =>
    {
        RecordingServer server = StartTls(rig, x =>
        {
            GoAhead(rig, x);
            x.Send("later"u8);
        });
        Peer raw = AskForTls(rig, server);
        rig.Until(() => server.ReadCounters().TlsShaking == 1, "the handshake to run");
        RecordingSession session = server.Session();
        session.Close();
        Assert.Equal(SendResult.Closed, session.Send("too late"u8));
        rig.Until(() => !session.IsConnected, "the close to take effect");
        Assert.False(session.IsOver);
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        Assert.Equal("later", peer.ReadText(5));
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal(0, session.Handshakes);
    });

    [Fact, Contract(12, 16)]
    public void A_close_for_which_nothing_waits_does_not_wait_for_the_handshake() => Run(rig =>
    {
        byte[] plain = Pattern(200_000);
        RecordingServer server = StartTls(rig, x =>
        {
            x.Send(plain);
            x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
            x.Close();
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal(plain, raw.Read(plain.Length));
        Assert.Empty(raw.ReadToEnd());
        raw.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Theory, Contract(12, 16)]
    [InlineData(TlsFailure.NotTls)]
    [InlineData(TlsFailure.PeerLeft)]
    [InlineData(TlsFailure.TimedOut)]
    public void A_handshake_that_fails_after_a_close_is_the_reason_of_the_end(TlsFailure failure) => Run(rig =>
    {
        TlsOptions tls = rig.WithProvider(new TlsOptions
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            HandshakeTimeout = TimeSpan.FromMilliseconds(failure == TlsFailure.TimedOut ? 200 : 10_000)
        });
        RecordingServer server = StartTls(rig, x =>
        {
            x.CallUpgrade(tls);
            x.Send("never"u8);
            x.Close();
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        RecordingSession session = server.Connected();
        session.UntilReceived(8);
        rig.Until(() => server.ReadCounters().TlsShaking == 1 || session.IsOver, "the handshake to run");
        if (failure == TlsFailure.NotTls) raw.Write("this is not TLS");
        else if (failure == TlsFailure.PeerLeft) raw.ShutdownSend();
        else rig.Pass(TimeSpan.FromMilliseconds(250));
        Assert.Equal(CloseCause.TlsHandshake, session.End());
        Assert.Equal(failure, session.Reason.TlsFailure);
        Assert.Equal("connecting, connected, received 8, disconnected TlsHandshake", session.Life);
        raw.Close();
    });

    [Fact, Contract(11, 16)]
    public void A_half_that_is_finished_during_the_handshake_ends_after_the_sent_data() => Run(rig =>
    {
        RecordingServer server = StartTls(rig, x =>
        {
            GoAhead(rig, x);
            x.Send("half"u8);
            x.ShutdownSend();
        });
        Peer raw = AskForTls(rig, server);
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        Assert.Equal("half", peer.ReadText(4));
        Assert.Empty(peer.ReadToEnd());
        peer.Write("answer");
        RecordingSession session = server.Connected();
        session.UntilReceived(8 + 6);
        Assert.Equal(1, session.Handshakes);
        peer.ShutdownSend();
        session.End();
    });

    [Fact, Contract(12, 16)]
    public void A_server_that_stops_lets_the_handshake_of_an_upgrade_end_when_something_waits_for_it() => Run(rig =>
    {
        RecordingServer server = StartTls(rig, x =>
        {
            GoAhead(rig, x);
            x.Send("good bye"u8);
        });
        Peer raw = AskForTls(rig, server);
        rig.Until(() => server.ReadCounters().TlsShaking == 1, "the handshake to run");
        RecordingSession session = server.Session();
        ValueTask<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(10));
        rig.Until(() => !session.IsConnected, "the close");
        TlsPeer peer = rig.Secure(raw, isAccepted: false, Client);
        Assert.Equal("good bye", peer.ReadText(8));
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        rig.Await(stopping);
        Assert.Equal(CloseCause.ServerStopped, session.End());
    });

    [Fact]
    public void A_client_with_a_blocking_Verify_does_not_block_its_loop() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            using ManualResetEventSlim release = new();
            int inside = 0;
            int onLoop = 0;
            RecordingServer secure = Serve(rig);
            RecordingServer plain = rig.Serve(s => s.AtReceived = (_, _) => release.Set());
            TlsOptions tls = new()
            {
                HostName = "chat.test",
                Roots = TestCertificates.Roots,
                Verify = seen =>
                {
                    if (Loop.Current is not null) Interlocked.Increment(ref onLoop);
                    Volatile.Write(ref inside, 1);
                    return release.Wait(TimeSpan.FromSeconds(15)) && seen.IsTrusted;
                },
            };
            ValueTask<Session> connecting = rig.MakeClient(To(rig, secure.EndPoint!, tls)).ConnectAsync();
            rig.Until(() => Volatile.Read(ref inside) == 1, "the question about the certificate");
            Peer other = rig.ConnectPeer(plain.EndPoint!);
            other.Write("x");
            rig.Await(connecting).Close();
            Assert.Equal(0, onLoop);
            other.Close();
        },
        loops: 1);

    // ------------------------------------------------------------------ options

    [Fact]
    public void Mistakes_in_the_options_fail_the_start_by_name() => Run(rig =>
    {
        (TlsOptions Options, string Words)[] cases =
        [
            (new TlsOptions(), "Tls.Certificate is missing"),
            (new TlsOptions
            {
                Certificate =
                    TlsCertificate.From(X509CertificateLoader.LoadCertificate(TestCertificates.Server.RawData))
            }, "has no private key"),
            (new TlsOptions { Certificate = TlsCertificate.FromPemFile("/nowhere/at/all.pem") },
                "/nowhere/at/all.pem cannot be loaded"),
#pragma warning disable SYSLIB0039, CA5397 // obsolete versions are enabled to test that they are refused
            (new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                Protocols = SslProtocols.Tls11
            }, "older versions are broken"),
#pragma warning restore SYSLIB0039, CA5397
            (new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                Names = new Dictionary<string, TlsOptions> { ["x.test"] = With(TestCertificates.Server) }
            }, "does not cover 'x.test'"),
            (new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server), HostName = "x" },
                "HostName is for clients"),
            (new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                Provider = TlsProvider.Portable,
                TicketCount = 2
            }, "TicketCount"),
        ];
        foreach ((TlsOptions options, string words) in cases)
        {
            ArgumentException e = Assert.Throws<ArgumentException>(
                () => rig.Await(new Server(Options(rig, options), () => new RecordingSession(rig)).StartAsync()));
            Assert.Contains(words, e.Message, StringComparison.Ordinal);
        }

        ArgumentException missing = Assert.Throws<ArgumentException>(
            () => rig.Await(new Server(new ServerOptions { Engine = rig.Engine, Address = "tls://127.0.0.1:0" },
                () => new RecordingSession(rig)).StartAsync()));
        Assert.Contains("Tls is missing", missing.Message, StringComparison.Ordinal);
    });
}
