namespace Whimbrel.Conformance;

/// <summary>Contract 15 in every callback: accepted and client connections, in the clear, with TLS from the start and
/// after an upgrade.</summary>
public abstract class HandOverPointSuite(Transport transport) : Suite(transport)
{
    public static TheoryData<string, string, bool> Points
    {
        get
        {
            TheoryData<string, string, bool> all = [];
            foreach (string kind in (string[])["plain", "tls", "upgrade"])
            {
                foreach (bool isOutgoing in (bool[])[false, true])
                {
                    if (kind != "upgrade") all.Add("connecting", kind, isOutgoing);
                    if (kind != "plain") all.Add("handshaked", kind, isOutgoing);
                    if (kind != "upgrade") all.Add("connected", kind, isOutgoing);
                    foreach (string point in (string[])["received", "sent", "drained", "timer", "peer finished"])
                        all.Add(point, kind, isOutgoing);
                    if (!isOutgoing) all.Add("stopping", kind, isOutgoing);
                }
            }

            return all;
        }
    }

    [Theory, Contract(1, 15)]
    [MemberData(nameof(Points))]
    public void The_next_session_gets_the_remaining_callbacks(string point, string kind, bool isOutgoing) => Run(rig =>
    {
        RecordingSession taker = new(rig)
        {
            IsSuccessor = true,
            AtConnected = static x => x.Send("next"u8),
            AtTlsHandshakeCompleted = static (_, _) => { }
        };
        TlsOptions own = isOutgoing ? TestCertificates.ClientOptions : TestCertificates.ServerOptions;
        Giver giver = new(point, taker, kind == "upgrade" ? rig.WithProvider(own) : null, isOutgoing);
        TlsOptions? fromStart = kind == "tls" ? own : null;
        Peer peer = isOutgoing ? Accept(rig, giver, fromStart) : ConnectPeer(rig, giver, fromStart);
        if (kind == "tls")
            peer = rig.Secure(peer, isAccepted: isOutgoing,
                isOutgoing ? TestCertificates.ServerOptions : TestCertificates.ClientOptions);
        if (kind == "upgrade")
        {
            if (!isOutgoing) peer.Write("STARTTLS");
            Assert.Equal(isOutgoing ? "STARTTLS" : "go ahead", peer.ReadText(8));
            if (isOutgoing) peer.Write("go ahead");
            peer = rig.Secure(peer, isAccepted: isOutgoing,
                isOutgoing ? TestCertificates.ServerOptions : TestCertificates.ClientOptions);
        }

        if (point is "received" or "sent" or "drained" or "timer") peer.Write("x");
        ValueTask<StopReport> stopped = default;
        if (point == "peer finished") peer.ShutdownSend();
        if (point == "stopping")
        {
            giver.Until(rig, kind == "upgrade" ? "handshaked" : "connected");
            stopped = giver.Server!.StopAsync(TimeSpan.FromSeconds(20));
        }

        string said = peer.ReadText(4);
        if (said.StartsWith('s')) said = said[1..] + peer.ReadText(1);
        Assert.Equal("next", said);
        bool isEarly = point == "connecting" || (point == "handshaked" && kind == "tls");
        giver.Until(rig, isEarly ? "connect failed HandedOver" : "disconnected HandedOver");
        // In each of its last callbacks the hand-over was rejected as too late.
        Assert.Equal(isEarly ? 1 : 2, giver.Refusals);
        Assert.Equal(point == "connecting" && kind == "tls" ? "handshaked, connected" : "connected",
            string.Join(", ", taker.Events.TakeWhile(static e => e is "handshaked" or "connected")));
        Assert.Equal(kind == "plain", taker.Tls is null);
        if (isOutgoing) Assert.Same(taker, taker.Client!.Session);
        if (point is not ("peer finished" or "stopping"))
        {
            int before = taker.ReceivedCount;
            peer.Write("y");
            taker.UntilReceived(before + 1);
            Assert.EndsWith("y", taker.ReceivedText, StringComparison.Ordinal);
        }

        if (point == "stopping") peer.Close();
        else taker.Abort();
        taker.End();
        if (point == "stopping") rig.Await(stopped);
        Assert.Equal(1, giver.Ends);
    });

    [Theory, Contract(1, 15)]
    [InlineData(false)]
    [InlineData(true)]
    public void An_end_before_OnConnected_ends_the_next_session(bool isOutgoing) => Run(rig =>
    {
        RecordingSession taker = new(rig) { IsSuccessor = true };
        TlsOptions own = isOutgoing ? TestCertificates.ClientOptions : TestCertificates.ServerOptions;
        Giver giver = new("connecting", taker, null, isOutgoing);
        Peer peer = isOutgoing ? Accept(rig, giver, own) : ConnectPeer(rig, giver, own);
        peer.Write("this is not TLS at all");
        Assert.Equal(CloseCause.TlsHandshake, taker.End());
        Assert.Equal("connect failed TlsHandshake", taker.Life);
        Assert.Equal("connecting, connect failed HandedOver", giver.Life);
        peer.Close();
    });

    [Fact, Contract(4, 15)]
    public void An_exception_in_its_last_callback_ends_the_next_session_before_it_is_connected() => Run(rig =>
    {
        RecordingSession taker = new(rig) { IsSuccessor = true };
        rig.Expect("OnConnectFailed of Giver");
        Giver giver = new("connecting", taker, null, isOutgoing: false) { ThrowsAtEnd = true };
        Peer peer = ConnectPeer(rig, giver, null);
        Assert.Equal(CloseCause.UserException, taker.End());
        // With thread-pool scheduling the loop does not wait, and may have opened it meanwhile.
        if (!rig.IsPool) Assert.Equal("connect failed UserException", taker.Life);
        peer.Close();
    });

    private static Peer ConnectPeer(Rig rig, Giver giver, TlsOptions? tls)
    {
        RecordingServer server = rig.Keep(new RecordingServer(rig,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Tls = tls }, () => giver));
        rig.Await(server.StartAsync());
        return rig.ConnectPeer(server.EndPoint!);
    }

    private static Peer Accept(Rig rig, Giver giver, TlsOptions? tls)
    {
        PeerListener listener = rig.Listen();
        Client client = new(rig.Scheduled(
            new ClientOptions { Engine = rig.Engine, EndPoint = listener.EndPoint, Tls = tls }), () => giver);
        Task connecting = client.ConnectAsync().AsTask();
        _ = connecting.ContinueWith(static t => t.Exception, TaskScheduler.Default);
        return listener.Accept();
    }

    /// <summary>Hands its connection over in one callback, and tries once more in its last ones.</summary>
    private sealed class Giver(string point, Session next, TlsOptions? upgrade, bool isOutgoing) : Session
    {
        private readonly List<string> _events = [];

        internal bool ThrowsAtEnd { get; init; }

        internal int Refusals { get; private set; }

        internal int Ends { get; private set; }

        internal string Life
        {
            get
            {
                lock (_events) return string.Join(", ", _events);
            }
        }

        internal void Until(Rig rig, string what) => rig.Until(() => Saw(what), $"'{what}' in {Life}");

        private bool Saw(string what)
        {
            lock (_events) return _events.Contains(what);
        }

        private void At(string name)
        {
            lock (_events) _events.Add(name);
            if (name == point && (upgrade is null || Tls is not null)) HandOver(next);
        }

        private void Refuse()
        {
            try
            {
                HandOver(new Giver("", this, null, isOutgoing: false));
            }
            catch (InvalidOperationException)
            {
                Refusals++;
            }
        }

        protected override void OnConnecting() => At("connecting");

        protected override void OnTlsHandshakeCompleted(TlsInfo info) => At("handshaked");

        protected override void OnConnected()
        {
            if (upgrade is not null && isOutgoing) Send("STARTTLS"u8);
            At("connected");
        }

        protected override int OnData(ReadOnlySpan<byte> unread)
        {
            if (upgrade is not null && Tls is null)
            {
                if (unread.Length < 8) return 0;
                if (!isOutgoing) Send("go ahead"u8);
                UpgradeToTls(upgrade);
                return 8;
            }

            At("received");
            if (point is "sent" or "drained") Send("s"u8);
            if (point == "timer") StartTimer(TimeSpan.FromMilliseconds(1));
            return unread.Length;
        }

        protected override void OnSent(long sent, long pending) => At("sent");

        protected override void OnDrained() => At("drained");

        protected override void OnTimer(LoopTimer timer) => At("timer");

        protected override void OnEndOfStream() => At("peer finished");

        protected override void OnServerStopping() => At("stopping");

        protected override void OnDisconnecting(CloseReason reason) => Refuse();

        protected override void OnConnectFailed(CloseReason reason) => End($"connect failed {reason.Cause}");

        protected override void OnDisconnected(CloseReason reason) => End($"disconnected {reason.Cause}");

        private void End(string what)
        {
            Refuse();
            Ends++;
            At(what);
            if (ThrowsAtEnd) throw new InvalidOperationException("on purpose");
        }
    }
}
