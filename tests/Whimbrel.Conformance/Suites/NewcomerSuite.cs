using System.Collections.Concurrent;

namespace Whimbrel.Conformance;

/// <summary>A server with a factory that sees the connection: with TLS it is called after the handshake, and decides by
/// the negotiated values.</summary>
public abstract class NewcomerSuite(Transport transport) : Suite(transport)
{
    private static readonly TlsOptions s_server = new()
    {
        Certificate = TlsCertificate.From(TestCertificates.Server),
        ApplicationProtocols = ["chat/2", "chat/1"]
    };

    private static TlsOptions Speaking(string protocol) =>
        new() { HostName = "chat.test", Roots = TestCertificates.Roots, ApplicationProtocols = [protocol] };

    /// <summary>A server with a factory that records its argument; the sessions are the rig's.</summary>
    private static RecordingServer Serve(Rig rig, TlsOptions? tls,
        Action<RecordingSession, SessionContext>? setUp = null, ConcurrentQueue<SessionContext>? seen = null)
    {
        ServerOptions options = new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), Tls = tls };
        RecordingServer server = rig.Keep(new RecordingServer(rig, options, context =>
        {
            seen?.Enqueue(context);
            RecordingSession session = new(rig);
            setUp?.Invoke(session, context);
            return session;
        }));
        rig.Await(server.StartAsync());
        return server;
    }

    private static RecordingSession Nth(Rig rig, int index)
    {
        rig.Until(() => rig.Sessions.Count > index, $"session {index} to be made");
        return rig.Sessions[index];
    }

    private static TlsPeer ConnectPeer(Rig rig, Server server, TlsOptions? tls = null) =>
        rig.Secure(rig.ConnectPeer(server.EndPoint!), isAccepted: false, tls ?? Speaking("chat/1"));

    [Fact, Contract(1)]
    public void The_factory_chooses_the_session_by_what_the_handshake_agreed_on() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server, static (session, context) =>
        {
            string speaks = context.Tls!.ApplicationProtocol!;
            session.AtTlsHandshakeCompleted = (x, info) =>
            {
                Assert.Same(context.Tls, info);
                x.Send($"{speaks} for {info.ServerName} ");
            };
            session.AtConnected = static x => x.Send("connected ");
            session.AtReceived = static (x, data) => x.Send(data);
        });
        TlsPeer old = ConnectPeer(rig, server, Speaking("chat/1"));
        Assert.Equal("chat/1 for chat.test connected ", old.ReadText(31));
        TlsPeer young = ConnectPeer(rig, server, Speaking("chat/2"));
        // Sent with the last flight of its handshake, so that it arrives before the session exists.
        young.Write("early");
        Assert.Equal("chat/2 for chat.test connected early", young.ReadText(36));
        RecordingSession session = Nth(rig, 1);
        Assert.Equal("connecting, handshaked, connected, received 5", session.Life);
        Assert.Same(server, session.Server);
        Assert.Same(session, server.FindSession(session.Id));
        Assert.True(session.Id > Nth(rig, 0).Id);
        Assert.NotNull(session.ConnectedAt);
        young.Close();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        rig.Until(() => server.AllEvents.Contains("disconnected PeerClosed"), "the server's events");
        Assert.Equal(["connecting", "connected", "connecting", "connected"],
            server.AllEvents.Where(static e => e is "connecting" or "connected"));
        old.Close();
        Nth(rig, 0).End();
    });

    [Fact]
    public void The_factory_sees_addresses_and_the_certificate_of_the_client() => Run(rig =>
    {
        ConcurrentQueue<SessionContext> seen = new();
        TlsOptions asking = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            ClientCertificates = TlsClientCertificates.Required,
            Roots = TestCertificates.Roots
        };
        RecordingServer server = Serve(rig, asking, seen: seen);
        TlsPeer peer = ConnectPeer(rig, server, new()
        {
            HostName = "chat.test",
            Roots = TestCertificates.Roots,
            Certificate = TlsCertificate.From(TestCertificates.Client)
        });
        rig.Until(() => seen.Count == 1, "the factory to be asked");
        SessionContext context = seen.Single();
        Assert.Equal("CN=a client", context.Tls!.PeerCertificate!.Subject);
        Assert.Same(server, context.Server);
        Assert.Equal(server.EndPoint, context.LocalEndPoint);
        if (!rig.IsUnix) Assert.Equal(peer.LocalEndPoint, context.RemoteEndPoint);
        RecordingSession session = Nth(rig, 0);
        session.Until("connected");
        Assert.Equal(context.RemoteEndPoint, session.RemoteEndPoint);
        Assert.Same(session.Loop, context.Loop);
        peer.Close();
        session.End();
    });

    [Fact]
    public void A_plain_connection_gets_its_session_at_once() => Run(rig =>
    {
        ConcurrentQueue<SessionContext> seen = new();
        RecordingServer server = Serve(rig, null, seen: seen);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = Nth(rig, 0);
        session.Until("connected");
        Assert.Null(seen.Single().Tls);
        Assert.Equal("connecting, connected", session.Life);
        peer.Close();
        session.End();
    });

    [Fact, Contract(1)]
    public void A_failed_handshake_creates_no_session_and_is_reported_to_the_server() => Run(rig =>
    {
        ConcurrentQueue<SessionContext> seen = new();
        RecordingServer server = Serve(rig, s_server, seen: seen);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => server.ReadCounters().TlsShaking == 1, "the connection to wait for its handshake");
        rig.Settle();
        Assert.Equal(1, server.SessionCount);
        Assert.Empty(rig.Sessions);
        peer.Write("this is no TLS at all");
        rig.Until(() => server.ReadCounters().TlsFailed == 1, "the failure to be counted");
        peer.Close();
        rig.Until(() => server.SessionCount == 0, "the place to be free again");
        rig.Until(() => server.Events.Count > 1, "the server's event");
        Assert.Equal(["started", "connect failed TlsHandshake"], server.Events);
        Assert.Empty(seen);
        Assert.Empty(rig.Sessions);
    });

    [Fact, Contract(1, 4)]
    public void A_factory_that_throws_after_the_handshake_ends_that_connection_only() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server, static (_, context) =>
        {
            if (context.Tls!.ApplicationProtocol == "chat/1") throw new InvalidDataException("too old");
        });
        TlsPeer refused = ConnectPeer(rig, server, Speaking("chat/1"));
        rig.Until(() => server.Events.Count == 3, "the server's event");
        Assert.Equal(["started", "error InvalidDataException", "connect failed UserException"], server.Events);
        refused.Close();
        TlsPeer taken = ConnectPeer(rig, server, Speaking("chat/2"));
        RecordingSession session = Nth(rig, 1);
        session.Until("connected");
        Assert.Equal(1, server.SessionCount);
        Assert.Equal(1, server.ReadCounters().UserExceptions);
        taken.Close();
        session.End();
    });

    [Fact, Contract(1)]
    public void OnConnecting_comes_after_the_handshake_and_may_still_refuse() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server, static (session, _) => session.AtConnecting = static x =>
        {
            Assert.NotNull(x.Tls);
            Assert.Equal(SendResult.Closed, x.Send("too early"));
            x.Close();
        });
        TlsPeer peer = ConnectPeer(rig, server);
        RecordingSession session = Nth(rig, 0);
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal("connecting, connect failed LocalClose", session.Life);
        rig.Until(() => server.SessionCount == 0, "the place to be free again");
        Assert.DoesNotContain("connect failed LocalClose", server.Events);
        peer.Close();
    });

    [Fact, Contract(1, 4)]
    public void An_exception_of_OnConnecting_after_the_handshake_ends_the_session() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server,
            static (session, _) => session.AtConnecting = static _ => throw new InvalidDataException("no"));
        TlsPeer peer = ConnectPeer(rig, server);
        RecordingSession session = Nth(rig, 0);
        Assert.Equal(CloseCause.UserException, session.End());
        Assert.Equal("connecting, error InvalidDataException, connect failed UserException", session.Life);
        peer.Close();
    });

    [Fact, Contract(1, 15)]
    public void OnConnecting_after_the_handshake_may_hand_over() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server,
            (session, _) => session.AtConnecting = x => x.CallHandOver(new RecordingSession(rig)
            {
                IsSuccessor = true,
                AtTlsHandshakeCompleted = static (_, _) => { },
                AtReceived = static (y, data) => y.Send(data),
            }));
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
        Assert.Equal("connecting, connect failed HandedOver", Nth(rig, 0).Life);
        Assert.Equal("handshaked, connected, received 5", Nth(rig, 1).Life);
        peer.Close();
        Nth(rig, 1).End();
    });

    [Fact, Contract(10)]
    public void A_pause_in_OnConnecting_after_the_handshake_stays() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server,
            static (session, _) => session.AtConnecting = static x => x.PauseReceiving());
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("held");
        RecordingSession session = Nth(rig, 0);
        session.Until("connected");
        rig.Settle();
        Assert.Equal(0, session.ReceivedCount);
        session.ResumeReceiving();
        session.UntilReceived(4);
        peer.Close();
        session.End();
    });

    [Fact, Contract(11)]
    public void A_peer_that_ends_right_after_its_handshake_is_read_to_the_end() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server, static (session, _) => session.AtEndOfStream = static x =>
        {
            x.Send("goodbye");
            x.Close();
        });
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("last words");
        peer.ShutdownSend();
        Assert.Equal("goodbye", peer.ReadTextToEnd());
        peer.Close();
        RecordingSession session = Nth(rig, 0);
        session.End();
        Assert.Equal("last words", session.ReceivedText);
    });

    [Fact, Contract(12)]
    public void A_stop_ends_connections_that_have_no_session_yet() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s_server);
        Peer silent = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => server.ReadCounters().TlsShaking == 1, "the connection to wait for its handshake");
        StopReport report = rig.Await(server.StopAsync(TimeSpan.Zero));
        Assert.True(report.IsComplete);
        Assert.Contains("connect failed ServerStopped", server.Events);
        Assert.Empty(rig.Sessions);
        silent.Close();
    });

    [Fact, Contract(12)]
    public void A_stop_while_the_new_session_is_in_OnConnecting_ends_it() => Run(rig =>
    {
        RecordingServer server = null!;
        ValueTask<StopReport> stop = default;
        server = Serve(rig, s_server,
            (session, _) => session.AtConnecting = _ => stop = server.StopAsync(TimeSpan.Zero));
        TlsPeer peer = ConnectPeer(rig, server);
        RecordingSession session = Nth(rig, 0);
        session.End();
        Assert.Equal(CloseCause.ServerStopped, session.Reason.Cause);
        Assert.True(rig.Await(stop).IsComplete);
        peer.Close();
    });

    [Fact]
    public void A_stream_is_served_over_TLS_when_the_handshake_is_done() => Run(rig =>
    {
        ServerOptions options =
            rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Tls = s_server });
        Server server = rig.Keep(new Server(options, ConnectionStream.Serve(static async (stream, stop) =>
        {
            byte[] buffer = new byte[5];
            await stream.ReadExactlyAsync(buffer, stop).ConfigureAwait(false);
            await stream.WriteAsync(buffer, stop).ConfigureAwait(false);
        })));
        rig.Await(server.StartAsync());
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadTextToEnd());
        peer.Close();
    });
}
