namespace Whimbrel.Conformance;

/// <summary>OnTlsHandshakeStarting: the socket is connected, and TLS begins.</summary>
public abstract class HandshakingSuite(Transport transport) : Suite(transport)
{
    private static RecordingServer Serve(Rig rig, Action<RecordingSession> setUp) =>
        rig.Serve(setUp, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Tls = TestCertificates.ServerOptions
        });

    private static TlsPeer ConnectPeer(Rig rig, Server server) =>
        rig.Secure(rig.ConnectPeer(server.EndPoint!), isAccepted: false, TestCertificates.ClientOptions);

    [Fact, Contract(1)]
    public void OnTlsHandshakeStarting_comes_before_the_first_byte_of_an_accepted_connection() => Run(rig =>
    {
        RecordingServer server = Serve(rig, static s =>
        {
            s.AtTlsHandshakeStarting = static x => Assert.Equal(SendResult.Closed, x.Send("too early"));
            s.AtTlsHandshakeCompleted = static (_, _) => { };
            s.AtReceived = static (x, data) => x.Send(data);
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Session();
        session.Until("handshaking");
        rig.Settle();
        Assert.Equal("connecting, handshaking", session.Life);
        TlsPeer peer = rig.Secure(raw, isAccepted: false, TestCertificates.ClientOptions);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
        Assert.Equal("connecting, handshaking, handshaked, connected, received 5", session.Life);
        peer.Close();
        session.End();
    });

    [Fact, Contract(1)]
    public void OnTlsHandshakeStarting_of_a_client_is_called_when_it_is_connected_and_the_peer_is_known() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        System.Net.EndPoint? remote = null, local = null;
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = listener.EndPoint,
            Tls = TestCertificates.ClientOptions
        }, s =>
        {
            s.AtTlsHandshakeStarting = x => (remote, local) = (x.RemoteEndPoint, x.LocalEndPoint);
            s.AtTlsHandshakeCompleted = static (_, _) => { };
        });
        ValueTask<Session> connecting = client.ConnectAsync();
        TlsPeer peer = rig.Secure(listener.Accept(), isAccepted: true, TestCertificates.ServerOptions);
        RecordingSession session = (RecordingSession)rig.Await(connecting);
        Assert.Equal("connecting, handshaking, handshaked, connected", session.Life);
        Assert.Equal(listener.EndPoint, remote);
        Assert.Equal(session.LocalEndPoint, local);
        peer.Close();
        session.End();
    });

    [Fact, Contract(1)]
    public void A_connect_that_fails_before_the_handshake_has_no_OnTlsHandshakeStarting() => Run(rig =>
    {
        RecordingClient client = rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.DeadAddress(),
                Tls = new TlsOptions { HostName = "chat.test", Roots = TestCertificates.Roots }
            },
            static s => s.AtTlsHandshakeStarting = static _ => { });
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.False(client.Made[0].Saw("handshaking"));
    });

    [Fact, Contract(1)]
    public void A_failed_handshake_is_reported_after_OnTlsHandshakeStarting() => Run(rig =>
    {
        RecordingServer server = Serve(rig, static s => s.AtTlsHandshakeStarting = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("this is no TLS at all");
        rig.Until(() => server.ReadCounters().TlsFailed == 1, "the failure to be counted");
        peer.Close();
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.TlsHandshake, session.End());
        Assert.Equal("connecting, handshaking, connect failed TlsHandshake", session.Life);
    });

    [Theory, Contract(1, 12)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_close_or_an_exception_in_OnTlsHandshakeStarting_ends_it_before_it_was_connected(bool throws) =>
        Run(rig =>
        {
            RecordingServer server = Serve(rig, s => s.AtTlsHandshakeStarting = x =>
            {
                if (throws) throw new InvalidDataException("no");
                x.Close();
            });
            TlsPeer peer = ConnectPeer(rig, server);
            RecordingSession session = server.Session();
            Assert.Equal(throws ? CloseCause.UserException : CloseCause.LocalClose, session.End());
            Assert.Equal(throws
                ? "connecting, handshaking, error InvalidDataException, connect failed UserException"
                : "connecting, handshaking, connect failed LocalClose", session.Life);
            Assert.Equal(0, server.ReadCounters().TlsHandshakes);
            peer.Close();
        });

    [Fact, Contract(15)]
    public void A_session_may_hand_over_in_OnTlsHandshakeStarting() => Run(rig =>
    {
        RecordingSession next = new(rig)
        {
            IsSuccessor = true,
            AtTlsHandshakeCompleted = static (_, _) => { },
            AtReceived = static (x, data) => x.Send(data)
        };
        RecordingServer server = Serve(rig, s => s.AtTlsHandshakeStarting = x => x.CallHandOver(next));
        TlsPeer peer = ConnectPeer(rig, server);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.HandedOver, session.End());
        Assert.Equal("connecting, handshaking, connect failed HandedOver", session.Life);
        Assert.Equal("handshaked, connected, received 5", next.Life);
        peer.Close();
        next.End();
    });

    [Fact, Contract(16)]
    public void An_upgrade_begins_with_OnTlsHandshakeStarting_and_what_is_sent_there_is_encrypted() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s =>
        {
            s.AtReceived = (x, _) =>
            {
                if (x.ReceivedCount < 8) return;
                x.Send("go ahead"u8);
                x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
            };
            s.AtTlsHandshakeStarting = static x => Assert.Equal(SendResult.Queued, x.Send("first "));
            s.AtTlsHandshakeCompleted = static (x, _) => x.Send("second");
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal("go ahead", raw.ReadText(8));
        server.Session().Until("handshaking");
        TlsPeer peer = rig.Secure(raw, isAccepted: false, TestCertificates.ClientOptions);
        Assert.Equal("first second", peer.ReadText(12));
        Assert.Equal("connecting, connected, received 8, handshaking, handshaked", server.Session().Life);
        peer.Close();
        server.Session().End();
    });

    [Fact, Contract(12, 16)]
    public void A_close_in_OnTlsHandshakeStarting_of_an_upgrade_sends_what_was_sent_before_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s =>
        {
            s.AtReceived = (x, _) =>
            {
                if (x.ReceivedCount < 8) return;
                x.Send("go ahead"u8);
                x.CallUpgrade(rig.WithProvider(TestCertificates.ServerOptions));
            };
            s.AtTlsHandshakeStarting = static x =>
            {
                x.Send("last");
                x.Close();
            };
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal("go ahead", raw.ReadText(8));
        TlsPeer peer = rig.Secure(raw, isAccepted: false, TestCertificates.ClientOptions);
        Assert.Equal("last", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });
}
