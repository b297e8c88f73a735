using System.Net;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>Contract 15: a connection continues with another session, without losing data.</summary>
public abstract class HandOverSuite(Transport transport) : TrafficSuite(transport)
{
    [Fact, Contract(15)]
    public void The_next_session_is_connected_and_then_gets_the_unread_bytes() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtData = (self, unread) =>
        {
            if (unread.Length < 6) return 0;
            self.CallHandOver(next);
            return 4;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession old = server.Connected();
        peer.Write("HELOab");
        next.UntilReceived(2);
        Assert.Equal("HELO", old.ReceivedText);
        peer.Write("cd");
        next.UntilReceived(4);
        Assert.Equal("abcd", next.ReceivedText);
        Assert.Equal("connecting, connected, received 4, disconnected HandedOver", old.Life);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, next.End());
        Assert.Equal("connected, received 4, peer finished, disconnected PeerClosed", next.Life);
    });

    [Fact, Contract(15)]
    public void Id_addresses_counters_queue_groups_and_the_place_in_the_server_stay() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) => self.CallHandOver(next), Narrow(rig));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession old = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(old, () => group.Join(old));
        byte[] first = Clog(rig, old);
        byte[] fill = FillTo(rig, old, room: 10);
        long id = old.Id;
        long sent = old.BytesSent;
        peer.Write("x");
        next.Until("connected");
        Assert.Equal(id, next.Id);
        Assert.Equal(old.RemoteEndPoint, next.RemoteEndPoint);
        Assert.Equal(old.LocalEndPoint, next.LocalEndPoint);
        Assert.Same(server, next.Server);
        Assert.Same(old.Loop, next.Loop);
        Assert.Equal(1, next.BytesReceived);
        Assert.Equal(sent, next.BytesSent);
        Assert.Equal(Limit - 10, next.BytesPending);
        Assert.Equal(1, group.Count);
        Assert.Equal(1, server.SessionCount);
        Assert.Same(next, server.FindSession(id));
        Assert.Equal(new BroadcastResult(1, 0), rig.Await(group.BroadcastAsync(Bytes("group"))));
        Assert.Equal([.. first, .. fill, .. Bytes("group")], peer.Read(first.Length + fill.Length + 5));
        next.Abort();
        next.End();
        rig.Until(() => server.SessionCount == 0, "the session to leave the server");
        Assert.Equal(0, group.Count);
        Assert.Null(server.FindSession(id));
        Assert.Equal("started, connected, disconnected LocalAbort", string.Join(", ", server.Events));
    });

    [Fact, Contract(15)]
    public void Data_held_by_a_hand_over_is_sent_in_order_when_the_next_OnConnected_has_returned() => Run(rig =>
    {
        SessionGroup group = new();
        long sent = -1;
        RecordingSession next = new(rig)
        {
            IsSuccessor = true,
            AtConnected = self =>
            {
                sent = self.BytesSent;
                self.Send("second "u8);
                group.Join(self);
            },
        };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) =>
        {
            self.CallHandOver(next, holdsSends: true);
            self.Send("first "u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("first second ", Encoding.ASCII.GetString(peer.Read(13)));
        Assert.Equal(0, sent);
        // The peer knows that it is connected, so it is a member.
        Assert.Equal(new BroadcastResult(1, 0), rig.Await(group.BroadcastAsync(Bytes("third"))));
        Assert.Equal("third", Encoding.ASCII.GetString(peer.Read(5)));
        next.Abort();
        next.End();
    });

    [Theory, Contract(15)]
    [InlineData("connected")]
    [InlineData("received")]
    [InlineData("timer")]
    [InlineData("posted")]
    [InlineData("peer finished")]
    public void HandOver_may_be_called_in_every_callback_and_from_a_posted_action(string where) => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true, AtConnected = static self => self.Send("next"u8) };
        RecordingServer server = rig.Serve(s =>
        {
            if (where == "connected") s.AtConnected = self => self.CallHandOver(next);
            if (where == "received") s.AtReceived = (self, _) => self.CallHandOver(next);
            if (where == "timer") s.AtConnected = static self => self.CallStartTimer(TimeSpan.FromMilliseconds(1));
            if (where == "peer finished") s.AtEndOfStream = self => self.CallHandOver(next);
            s.AtTimer = (self, _) => self.CallHandOver(next);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession old = server.Session();
        if (where == "received") peer.Write("x");
        if (where == "peer finished") peer.ShutdownSend();
        if (where == "posted")
        {
            old.Until("connected");
            rig.OnLoop(old, () => old.CallHandOver(next));
        }

        Assert.Equal("next", peer.ReadText(4));
        Assert.Equal(CloseCause.HandedOver, old.End());
        Assert.Same(next, server.FindSession(next.Id));
        next.Abort();
        next.End();
    });

    [Fact, Contract(15)]
    public void End_points_that_a_session_has_replaced_are_those_of_the_next_one() => Run(rig =>
    {
        IPEndPoint client = IPEndPoint.Parse("192.0.2.7:4711"), local = IPEndPoint.Parse("203.0.113.1:443");
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) =>
        {
            EndPoint? before = self.LocalEndPoint;
            self.CallReplaceEndPoints(client, null);
            Assert.Equal((client, before), (self.RemoteEndPoint, self.LocalEndPoint));
            self.CallReplaceEndPoints(null, local);
            self.CallHandOver(next);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        next.Until("connected");
        Assert.Equal((client, local), (next.RemoteEndPoint, next.LocalEndPoint));
        next.Abort();
        next.End();
        Assert.Equal((client, local), (next.RemoteEndPoint, next.LocalEndPoint));
    });

    [Fact, Contract(15)]
    public void Twice_in_a_row_the_third_session_gets_the_unread_bytes() => Run(rig =>
    {
        RecordingSession third = new(rig) { IsSuccessor = true };
        RecordingSession second = new(rig) { IsSuccessor = true, AtConnected = self => self.CallHandOver(third) };
        RecordingServer server = rig.Serve(s => s.AtData = (self, unread) =>
        {
            if (unread.Length < 5) return 0;
            self.CallHandOver(second);
            return 0;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("hello");
        third.UntilReceived(5);
        Assert.Equal("hello", third.ReceivedText);
        Assert.Equal("connected, disconnected HandedOver", second.Life);
        Assert.Same(third, server.FindSession(third.Id));
        Assert.Equal(1, server.Events.Count(static e => e == "connected"));
    });

    [Fact, Contract(15)]
    public void A_second_hand_over_of_one_callback_throws_and_the_first_session_gets_the_connection() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) =>
        {
            self.CallHandOver(next);
            Assert.Throws<InvalidOperationException>(() => self.CallHandOver(new RecordingSession(rig)));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        next.Until("connected");
        peer.Write("hello");
        next.UntilReceived(5);
        Assert.Equal("connecting, connected, received 1, disconnected HandedOver", server.Session().Life);
    });

    [Fact, Contract(15)]
    public void A_hand_over_to_itself_to_null_or_to_a_connected_session_throws() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession other = server.Connected(1);
        rig.OnLoop(session, () =>
        {
            Assert.Throws<InvalidOperationException>(() => session.CallHandOver(session));
            Assert.Throws<InvalidOperationException>(() => session.CallHandOver(other));
            Assert.Throws<ArgumentNullException>(() => session.CallHandOver(null!));
        });
        other.Abort();
        other.End();
        rig.OnLoop(session, () => Assert.Throws<InvalidOperationException>(() => session.CallHandOver(other)));
        Assert.Throws<InvalidOperationException>(() => session.CallHandOver(new RecordingSession(rig)));
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(15, 4)]
    public void An_exception_of_the_next_sessions_OnConnected_ends_the_connection_as_its_own() => Run(rig =>
    {
        RecordingSession next = new(rig)
        {
            IsSuccessor = true,
            AtConnected = static _ => throw new InvalidOperationException("on purpose")
        };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) => self.CallHandOver(next));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal(CloseCause.UserException, next.End());
        Assert.Equal("connected, error InvalidOperationException, disconnected UserException", next.Life);
        Assert.Equal("connecting, connected, received 1, disconnected HandedOver", server.Session().Life);
    });

    [Theory, Contract(15, 1)]
    [InlineData("throw")]
    [InlineData("close")]
    [InlineData("abort")]
    public void A_session_that_ends_the_connection_in_its_last_callback_gets_no_second_end(string how) => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s =>
        {
            s.AtReceived = (self, _) => self.CallHandOver(next);
            s.AtDisconnected = (self, _) =>
            {
                if (how == "throw") throw new InvalidOperationException("on purpose");
                if (how == "close") self.Close();
                else self.Abort();
            };
        });
        rig.Expect("on purpose");
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession old = server.Session();
        Assert.Equal(CloseCause.HandedOver, old.End());
        peer.Close();
        rig.Until(() => server.SessionCount == 0, "the connection to end");
        rig.Settle();
        Assert.Equal(1, old.Count("disconnected"));
        Assert.Equal(0, next.Count("disconnected") - next.Count("connected"));
        Assert.Equal(1, server.Events.Count(static e => e.StartsWith("disconnected", StringComparison.Ordinal)));
    });

    [Theory, Contract(15, 12)]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    public void A_close_in_the_same_callback_wins(bool handOverFirst, bool abort) => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) =>
        {
            if (handOverFirst) self.CallHandOver(next);
            if (abort) self.Abort();
            else self.Close();
            if (!handOverFirst) self.CallHandOver(next);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession old = server.Session();
        if (!abort)
        {
            Assert.Empty(peer.ReadToEnd());
            peer.Close();
        }

        Assert.Equal(abort ? CloseCause.LocalAbort : CloseCause.LocalClose, old.End());
        Assert.Empty(next.Events);
    });

    [Fact, Contract(15, 5)]
    public void The_old_session_can_do_nothing_to_the_connection_any_more() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtReceived = (self, _) =>
        {
            self.CallStartTimer(TimeSpan.FromMilliseconds(20), TimeSpan.FromMilliseconds(20));
            self.CallHandOver(next);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession old = server.Connected();
        peer.Write("x");
        next.Until("connected");
        foreach (bool onLoop in (bool[])[true, false])
        {
            At(rig, next, onLoop, () =>
            {
                Assert.Equal(SendResult.Closed, old.Send("old"u8));
                Assert.Equal(SendResult.Closed, old.SendAsync(Bytes("old")).AsTask().GetAwaiter().GetResult());
                old.PauseReceiving();
                old.ShutdownSend();
                old.Close();
                old.Abort();
            });
        }

        Assert.False(old.IsConnected);
        Assert.Equal(0, old.BytesPending);
        rig.Pass(TimeSpan.FromMilliseconds(60));
        rig.Settle();
        Assert.Equal(0, old.Count("timer"));
        Assert.Equal(0, next.Count("timer"));
        Assert.Equal(SendResult.Queued, next.Send("new"u8));
        Assert.Equal("new", peer.ReadText(3));
        peer.Write("y");
        next.UntilReceived(1);
    });

    [Fact, Contract(15)]
    public void The_session_of_a_client_is_the_next_one() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingClient client = rig.MakeClient(listener.EndPoint,
            s => s.AtReceived = (self, _) => self.CallHandOver(next));
        RecordingSession old = rig.Connect(client);
        Peer peer = listener.Accept();
        peer.Write("x");
        next.Until("connected");
        Assert.Same(next, client.Session);
        Assert.Same(client, next.Client);
        Assert.False(old.IsConnected);
        ValueTask ended = client.DisconnectAsync();
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        rig.Await(ended);
        Assert.Equal(CloseCause.LocalClose, next.End());
        Assert.Equal(["connected", "disconnected LocalClose"], client.Events);
    });
}
