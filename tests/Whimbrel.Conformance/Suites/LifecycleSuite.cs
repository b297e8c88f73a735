namespace Whimbrel.Conformance;

/// <summary>Contract 1: one session, one connection; one first callback, one last, and the first cause wins.</summary>
public abstract class LifecycleSuite(Transport transport) : Suite(transport)
{
    [Fact, Contract(1)]
    public void An_accepted_session_sees_connecting_connected_received_disconnected() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.Dial(server.EndPoint!);
        peer.Write("hello");
        RecordingSession session = server.Session();
        session.UntilReceived(5);
        peer.FinishSending();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal("connecting, connected, received 5, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(1)]
    public void A_dialled_session_sees_the_same_callbacks() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        RecordingClient client = rig.MakeClient(listener.EndPoint);
        RecordingSession session = rig.Connect(client);
        Peer peer = listener.Accept();
        peer.Write("hello");
        session.UntilReceived(5);
        peer.FinishSending();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal("connecting, connected, received 5, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(1)]
    public void A_refused_dial_sees_connecting_and_connect_failed() => Run(rig =>
    {
        RecordingClient client = rig.MakeClient(rig.DeadAddress());
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.Connect, e.Error.Category);
        Assert.Equal("connecting, connect failed Refused", client.Attempt().Life);
        Assert.Null(client.Session);
    });
}
