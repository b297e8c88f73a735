using System.Collections.Concurrent;

namespace Whimbrel.Conformance;

/// <summary>
/// Contract 10: after PauseReceiving nothing is delivered until ResumeReceiving; then all of it, in order.
/// </summary>
public abstract class PauseSuite(Transport transport) : Suite(transport)
{
    [Fact, Contract(10)]
    public void After_a_pause_in_OnReceived_nothing_is_delivered_until_resume() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("a");
        session.UntilReceived(1);
        peer.Write("bc");
        rig.Settle();
        Assert.Equal("a", session.ReceivedText);
        session.AtReceived = null;
        session.ResumeReceiving();
        session.UntilReceived(3);
        Assert.Equal("abc", session.ReceivedText);
    });

    [Fact, Contract(10)]
    public void A_session_knows_that_it_is_paused_at_once_on_its_thread_and_soon_on_others() => Run(rig =>
    {
        ConcurrentQueue<bool> inside = [];
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            inside.Enqueue(x.IsReceivingPaused);
            x.PauseReceiving();
            inside.Enqueue(x.IsReceivingPaused);
            x.ResumeReceiving();
            inside.Enqueue(x.IsReceivingPaused);
            x.PauseReceiving();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Assert.False(session.IsReceivingPaused);
        peer.Write("a");
        session.UntilReceived(1);
        rig.Until(() => session.IsReceivingPaused, "the pause to be seen");
        rig.Until(() => inside.Count == 3, "the callback to look");
        Assert.Equal([false, true, false], inside);
        rig.OnLoop(session, () =>
        {
            session.ResumeReceiving();
            Assert.False(session.IsReceivingPaused);
        });
        rig.Elsewhere(session.PauseReceiving);
        rig.Until(() => session.IsReceivingPaused, "the pause of another thread");
        session.Abort();
        session.End();
        rig.Until(() => !session.IsReceivingPaused, "the end of the pause with the connection's");
    });

    [Fact, Contract(10, 15)]
    public void A_pause_stays_with_the_connection_when_that_is_handed_over() => Run(rig =>
    {
        bool? atConnected = null;
        RecordingSession next = new(rig) { IsSuccessor = true, AtConnected = x => atConnected = x.IsReceivingPaused };
        Assert.False(next.IsReceivingPaused);
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.PauseReceiving();
            x.CallHandOver(next);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("a");
        next.Until("connected");
        peer.Write("b");
        rig.Settle();
        Assert.True(atConnected);
        Assert.True(next.IsReceivingPaused);
        Assert.False(session.IsReceivingPaused);
        Assert.Equal("connected", next.Life);
        next.ResumeReceiving();
        next.UntilReceived(1);
        Assert.False(next.IsReceivingPaused);
    });

    [Fact, Contract(10)]
    public void A_pause_in_OnConnected_holds_what_waits_already() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("early");
        RecordingSession session = server.Connected();
        rig.Settle();
        Assert.Equal(0, session.ReceivedCount);
        session.ResumeReceiving();
        session.UntilReceived(5);
    });

    [Fact, Contract(10)]
    public void A_pause_in_OnConnecting_holds_as_well() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnecting = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("early");
        RecordingSession session = server.Connected();
        rig.Settle();
        Assert.Equal(0, session.ReceivedCount);
        session.ResumeReceiving();
        session.UntilReceived(5);
    });

    [Fact, Contract(10)]
    public void A_pause_outside_of_callbacks_holds_from_when_it_returns() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        int atPause = -1;
        rig.Elsewhere(() => session.Send("unrelated"u8));
        peer.Write(Pattern(100_000));
        rig.OnLoop(session, () =>
        {
            session.PauseReceiving();
            atPause = session.ReceivedCount;
        });
        rig.Settle();
        Assert.Equal(atPause, session.ReceivedCount);
        session.ResumeReceiving();
        session.UntilReceived(100_000);
        Assert.Equal(Pattern(100_000), session.Received);
    });

    [Fact, Contract(10)]
    public void Pause_and_resume_from_other_threads_lose_and_double_nothing() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        byte[] data = Pattern(1_000_000);
        for (int i = 0; i < 2; i++)
        {
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < 200; n++)
                {
                    session.PauseReceiving();
                    session.ResumeReceiving();
                }
            });
        }

        peer.Write(data);
        rig.Join();
        session.ResumeReceiving();
        session.UntilReceived(data.Length);
        Assert.Equal(data, session.Received);
    });

    [Fact, Contract(10)]
    public void Pause_is_a_state_and_not_a_count() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.PauseReceiving();
            x.PauseReceiving();
            x.ResumeReceiving();
        });
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session().UntilReceived(1);
    });

    [Fact, Contract(10)]
    public void Resume_without_a_pause_does_nothing() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) => x.ResumeReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        for (int i = 1; i <= 5; i++)
        {
            peer.Write("x");
            server.Session().UntilReceived(i);
        }

        Assert.Equal("connecting, connected, received 5", server.Session().Life);
    });

    [Fact, Contract(3, 10)]
    public void Unread_data_is_delivered_first_after_resume_without_new_bytes() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtData = static (x, _) =>
        {
            x.PauseReceiving();
            return 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("abcdef");
        session.UntilReceived(1);
        rig.Settle();
        Assert.Single(session.Offers);
        session.ResumeReceiving();
        session.UntilReceived(2);
        session.AtData = null;
        peer.Write("gh");
        session.ResumeReceiving();
        session.UntilReceived(8);
        Assert.Equal("abcdefgh", session.ReceivedText);
    });

    [Fact, Contract(10)]
    public void A_timer_may_resume_what_a_callback_paused() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtReceived = static (x, _) =>
            {
                x.PauseReceiving();
                x.CallStartTimer(TimeSpan.FromMilliseconds(1));
            };
            s.AtTimer = static (x, _) => x.ResumeReceiving();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 1; i <= 5; i++)
        {
            peer.Write("x");
            session.UntilReceived(i);
        }
    });

    [Fact, Contract(10)]
    public void A_peer_that_writes_while_this_side_is_paused_is_held_up_and_loses_nothing() => Run(static rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        HoldsUp(rig, rig.ConnectPeer(server.EndPoint!), server.Connected());
    });

    [Fact, Contract(10)]
    public void A_peer_that_is_read_already_is_held_up_by_a_pause_in_OnReceived() => Run(static rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) =>
        {
            if (x.ReceivedCount <= 1) x.PauseReceiving();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write(Pattern(1));
        session.UntilReceived(1);
        HoldsUp(rig, peer, session);
    });

    /// <summary>Paused now: the peer writes until its data is no longer accepted.</summary>
    private static void HoldsUp(Rig rig, Peer peer, RecordingSession session)
    {
        int before = session.ReceivedCount;
        byte[] piece = Pattern(1 << 16);
        int written = peer.WriteUntilFull(piece);
        Assert.InRange(written, 1, (64 * 1024 * 1024) - 1);
        Assert.Equal(before, session.ReceivedCount);
        Assert.True(session.BytesReceived <= 256 * 1024, $"{session.BytesReceived} bytes were taken while paused");
        session.ResumeReceiving();
        session.UntilReceived(before + written);
        byte[] received = session.Received;
        for (int i = 0; i < written; i++)
        {
            if (received[before + i] != piece[i % piece.Length]) Assert.Fail($"byte {i} of {written} is wrong");
        }
    }

    [Fact, Contract(10, 11)]
    public void A_FIN_that_arrives_while_paused_is_reported_after_resume_and_after_the_data() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("last words");
        peer.ShutdownSend();
        rig.Settle();
        Assert.Equal("connecting, connected", session.Life);
        session.ResumeReceiving();
        session.End();
        Assert.Equal("connecting, connected, received 10, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(10)]
    public void A_FIN_that_arrives_with_the_bytes_at_which_the_session_pauses_waits_for_resume() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        rig.Settle();
        Assert.Equal("connecting, connected, received 1", session.Life);
        session.ResumeReceiving();
        Assert.Equal(CloseCause.PeerClosed, session.End());
    });

    [Fact, Contract(10)]
    public void A_reset_that_arrives_while_paused_is_noticed_at_resume() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Reset();
        rig.Settle();
        session.ResumeReceiving();
        Assert.Equal(ResetSeen(rig), session.End());
    });

    [Fact, Contract(10)]
    public void A_reset_seen_by_a_receive_from_before_the_pause_is_reported_after_resume() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        rig.Settle();
        rig.OnLoop(session, () =>
        {
            // A pending receive is still pending when the reset arrives.
            session.PauseReceiving();
            if (!rig.IsPool) peer.Reset();
        });
        // The pause is a post to the loop, and this is queued after it.
        if (rig.IsPool) rig.OnLoop(session.Loop, peer.Reset);
        rig.Settle();
        rig.Settle();
        Assert.Equal("connecting, connected, received 1", session.Life);
        session.ResumeReceiving();
        Assert.Equal(ResetSeen(rig), session.End());
    });

    [Fact, Contract(3, 10, 11)]
    public void A_pause_in_the_last_offer_before_the_peers_end_holds_that_end() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtData = static (x, unread) =>
        {
            if (!unread.EndsWith("."u8)) x.CallSetMinimumBytes(10);
            if (x.Offers.Count == 1) return 0;
            x.PauseReceiving();
            return unread.Length;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("abcd");
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesReceived == 4 && session.Offers.Count >= 1, "the first offer");
        peer.ShutdownSend();
        session.UntilReceived(4);
        rig.Settle();
        Assert.Equal("connecting, connected, received 4", session.Life);
        session.ResumeReceiving();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal("connecting, connected, received 4, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(2, 10)]
    public void A_callback_that_pauses_and_resumes_is_followed_by_the_next_bytes_once() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) =>
        {
            x.PauseReceiving();
            x.ResumeReceiving();
            x.Send(data);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        for (int i = 0; i < 20; i++)
        {
            // Sometimes more than one receive returns.
            byte[] message = Pattern(i % 4 == 3 ? 5_000 : 10, i);
            peer.Write(message);
            Assert.Equal(message, peer.Read(message.Length));
        }

        Assert.True(server.Session().IsConnected);
    });

    [Fact, Contract(10, 12)]
    public void A_callback_that_pauses_and_closes_ends_gracefully_while_the_peer_continues() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) =>
        {
            x.PauseReceiving();
            x.Send("bye"u8);
            x.Close();
        });
        for (int i = 0; i < 5; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("bye", peer.ReadText(3));
            // Received and discarded, so that the peer's FIN is seen.
            peer.Write("more");
            peer.ShutdownSend();
            Assert.Empty(peer.ReadToEnd());
            Assert.Equal(CloseCause.LocalClose, server.Session(i).End());
        }
    });

    [Fact, Contract(10)]
    public void A_reset_that_arrives_while_paused_is_noticed_at_a_send() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Reset();
        rig.Settle();
        session.Send("x"u8);
        Assert.Equal(CloseCause.PeerReset, session.End());
        Assert.Equal(SendResult.Closed, session.Send("y"u8));
    });

    [Theory, Contract(10)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_connection_that_ends_while_paused_does_not_keep_its_loop_busy(bool isReset) => Run(rig =>
    {
        // Not before the first byte: a connection that was never read from is not watched at all.
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        if (isReset)
        {
            peer.Reset();
        }
        else
        {
            // Both halves: the kernel reports that regardless of the registered interest.
            session.ShutdownSend();
            Assert.Empty(peer.ReadToEnd());
            peer.ShutdownSend();
        }

        rig.Settle();
        long before = Turns();
        rig.Pass(TimeSpan.FromMilliseconds(50));
        Assert.InRange(Turns() - before, 0, 20);
        session.ResumeReceiving();
        session.End();

        long Turns() => rig.Engine.Loops.Sum(static l => Volatile.Read(ref l.Counters.Turns));
    });

    [Fact, Contract(10, 12)]
    public void Close_while_paused_ends_without_delivering_held_data() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("never delivered");
        rig.Settle();
        session.Send("bye"u8);
        session.Close();
        Assert.Equal("bye", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal("connecting, connected, disconnected LocalClose", session.Life);
    });

    [Fact, Contract(10)]
    public void Sending_continues_while_receiving_is_paused() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.PauseReceiving());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        byte[] data = Pattern(500_000);
        Assert.Equal(SendResult.Queued, session.Send(data));
        Assert.Equal(data, peer.Read(data.Length));
        Assert.True(session.IsConnected);
    });
}
