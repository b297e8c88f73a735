using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Contracts 11 and 12: the peer's end, the end of this half, the graceful close and the reset.</summary>
public abstract class ClosingSuite(Transport transport) : Suite(transport)
{
    private const int Large = 1024 * 1024;

    private static ServerOptions WithDrain(Rig rig, int milliseconds) =>
        new()
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Timeouts = new() { Drain = TimeSpan.FromMilliseconds(milliseconds) }
        };

    [Fact, Contract(12)]
    public void A_peer_that_reads_a_byte_now_and_then_does_not_keep_a_closing_connection_open_forever() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsVirtual && rig.Tls == TlsKind.None,
            "Only the memory engine accepts single bytes; real sockets take packets and TLS takes records.");
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, _) =>
            {
                x.Send(new byte[Large]);
                x.Close();
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Drain = TimeSpan.FromMilliseconds(100), DrainTotal = TimeSpan.FromSeconds(1) }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        byte[] one = new byte[1];
        int looks = 0;
        for (; looks < 100 && !session.IsOver; looks++)
        {
            peer.TryRead(one);
            rig.Pass(TimeSpan.FromMilliseconds(50));
        }

        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.InRange(looks, 18, 22);
        Assert.InRange(session.BytesSent, 1, Large - 1);
    });

    [Theory]
    [InlineData(5, 0, 60)]
    [InlineData(10, 0, 100)]
    [InlineData(5, 5, 5)]
    public void Draining_has_a_total_limit_also_without_the_option(int timeout, int limit, int expected) =>
        Assert.Equal(TimeSpan.FromSeconds(expected),
            new ServerOptions
            {
                Timeouts = new() { Drain = TimeSpan.FromSeconds(timeout), DrainTotal = TimeSpan.FromSeconds(limit) }
            }
                .Timeouts.DrainTotalOrDefault);

    // ------------------------------------------------------------------ a protocol that says goodbye (12)

    [Fact, Contract(12)]
    public void A_class_with_its_own_close_is_called_for_every_form_of_a_close_and_decides_the_end() => Run(rig =>
    {
        Task<CloseReason>? awaited = null;
        Action<Session>[] forms = [static s => s.Close(), static s => s.CloseWithoutLingering(),
            s => awaited = s.CloseAsync().AsTask()];
        foreach (Action<Session> form in forms)
        {
            RecordingServer server = rig.Serve(s =>
            {
                s.AtClose = static (x, isBlocking) => x.Send(isBlocking ? "wrong" : x.IsHere ? "bye" : "far");
                s.AtReceived = (x, data) =>
                {
                    if (data[0] == 'c') form(x);
                    else x.CloseNow();
                };
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("c");
            Assert.Equal("bye", peer.ReadText(3));
            RecordingSession session = server.Session();
            Assert.False(session.IsOver);
            Assert.Equal(SendResult.Queued, session.Send("more"u8)); // the session's own limit decides what is refused
            Assert.Equal("more", peer.ReadText(4));
            peer.Write("e");
            Assert.Empty(peer.ReadToEnd());
            peer.ShutdownSend();
            Assert.Equal(CloseCause.LocalClose, session.End());
        }

        rig.Until(() => awaited!.IsCompleted, "the awaited close");
        Assert.Equal(CloseCause.LocalClose, awaited!.Result.Cause);
    });

    [Fact, Contract(12)]
    public void A_class_with_its_own_close_is_called_at_the_end_of_its_half_too() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtFinishing = static x => x.Send("bye");
            s.AtReceived = static (x, data) =>
            {
                if (data[0] == 'f') ((Session)x).ShutdownSend();
                else x.CloseNow();
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("f");
        Assert.Equal("bye", peer.ReadText(3));
        peer.Write("e");
        Assert.Empty(peer.ReadToEnd());
        peer.ShutdownSend();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Fact, Contract(12)]
    public void Cancelling_an_awaited_close_ends_a_close_handshake_that_is_not_answered() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtClose = static (_, _) => { });
        rig.ConnectPeer(server.EndPoint!).Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        using CancellationTokenSource stop = new();
        Task<CloseReason> closing = session.CloseAsync(stop.Token).AsTask();
        Assert.False(closing.IsCompleted);
        stop.Cancel();
        rig.Until(() => closing.IsCompleted, "the awaited close");
        Assert.True(closing.IsCanceled);
        Assert.Equal(CloseCause.LocalAbort, session.End());
    });

    // ------------------------------------------------------------------ the peer finishes (11)

    [Fact, Contract(11)]
    public void When_the_peer_finishes_queued_data_is_sent_before_the_close() => Run(rig =>
    {
        byte[] data = Pattern(Large);
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) => x.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        server.Session().UntilReceived(1);
        peer.ShutdownSend();
        Assert.Equal(data, peer.ReadToEnd());
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
        Assert.Equal(data.Length, server.Session().BytesSent);
    });

    [Fact, Contract(11)]
    public void An_override_of_OnEndOfStream_keeps_this_half_open() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtEndOfStream = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("question");
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.Until("peer finished");
        rig.Settle();
        Assert.True(session.IsConnected);
        for (int i = 0; i < 5; i++)
        {
            Assert.Equal(SendResult.Queued, session.Send("answer"u8));
            Assert.Equal("answer", peer.ReadText(6));
        }

        session.ShutdownSend();
        Assert.Empty(peer.ReadToEnd());
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal("connecting, connected, received 8, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(11)]
    public void A_half_open_connection_ends_with_Close_as_well() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtEndOfStream = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.Until("peer finished");
        session.Send("bye"u8);
        session.Close();
        Assert.Equal("bye", peer.ReadTextToEnd());
        Assert.Equal(CloseCause.PeerClosed, session.End());
    });

    [Fact, Contract(11)]
    public void A_half_open_session_may_send_from_a_timer() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtEndOfStream = static x => x.CallStartTimer(TimeSpan.FromMilliseconds(1), TimeSpan.FromMilliseconds(1));
            s.AtTimer = static (x, timer) =>
            {
                x.Send("t"u8);
                if (x.Count("timer") < 3) return;
                x.ShutdownSend();
                timer.Cancel();
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.ShutdownSend();
        Assert.Equal("ttt", peer.ReadTextToEnd());
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
        Assert.Equal(3, server.Session().Count("timer"));
    });

    [Fact, Contract(11)]
    public void ShutdownSend_sends_queued_data_then_FIN_and_continues_to_receive() => Run(rig =>
    {
        byte[] data = Pattern(Large);
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send(data);
            x.ShutdownSend();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Assert.Equal(data, peer.ReadToEnd());
        for (int i = 1; i <= 3; i++)
        {
            peer.Write("more");
            session.UntilReceived(4 * i);
        }

        peer.ShutdownSend();
        session.End();
        Assert.Equal("connecting, connected, received 12, peer finished, disconnected LocalClose", session.Life);
    });

    [Fact, Contract(5, 11)]
    public void After_ShutdownSend_sends_are_refused() => Run(rig =>
    {
        List<SendResult> results = [];
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            results.Add(x.Send("before"u8));
            x.ShutdownSend();
            results.Add(x.Send("after"u8));
            results.Add(x.Send(Outgoing.Pieces("af"u8, "ter"u8)));
            results.Add(x.Send(Outgoing.Owned(new Memory("after"), 5)));
            x.ShutdownSend();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("before", peer.ReadTextToEnd());
        // With thread-pool scheduling the peer's FIN may arrive while the callback still runs.
        rig.Until(() => results.Count == 4, "the callback to come to its end");
        Assert.Equal([SendResult.Queued, SendResult.Closed, SendResult.Closed, SendResult.Closed], results);
        Assert.Equal(SendResult.Closed, server.Session().Send("elsewhere"u8));
        Assert.True(server.Session().IsConnected);
    });

    [Fact, Contract(11)]
    public void ShutdownSend_from_another_thread_comes_after_its_sends() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Elsewhere(() =>
        {
            for (int i = 0; i < 100; i++) session.Send("0123456789"u8);
            session.ShutdownSend();
            session.Send("never"u8);
        });
        rig.Join();
        Assert.Equal(1000, peer.ReadToEnd().Length);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Fact, Contract(11)]
    public void Both_sides_finish_at_once() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtEndOfStream = static x => x.ShutdownSend());
        for (int i = 0; i < 20; i++)
        {
            RecordingSession client = rig.Connect(server.EndPoint!, static s => s.AtEndOfStream = static _ => { });
            RecordingSession session = server.Connected(i);
            rig.Elsewhere(session.ShutdownSend);
            rig.Elsewhere(client.ShutdownSend);
            rig.Join();
            Assert.True(session.End() is CloseCause.LocalClose or CloseCause.PeerClosed, session.Life);
            Assert.True(client.End() is CloseCause.LocalClose or CloseCause.PeerClosed, client.Life);
        }
    });

    // ------------------------------------------------------------------ Close (12)

    [Fact, Contract(12)]
    public void Close_sends_the_whole_queue_before_FIN() => Run(rig =>
    {
        byte[] data = Pattern(Large);
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            for (int i = 0; i < data.Length; i += 4096) x.Send(data.AsSpan(i, 4096));
            x.Close();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Settle();
        Assert.Equal(data, peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Fact, Contract(7, 12)]
    public void Close_from_another_thread_comes_after_its_sends() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        byte[] data = Pattern(500_000);
        rig.Elsewhere(() =>
        {
            for (int i = 0; i < data.Length; i += 5000) session.Send(data.AsSpan(i, 5000));
            session.Close();
            session.Send("never"u8);
        });
        rig.Join();
        Assert.Equal(data, peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Fact, Contract(12)]
    public void Nothing_is_delivered_after_Close() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtReceived = static (x, _) => x.Close();
            s.AtTimer = static (x, _) => x.Tag = "a timer";
            s.AtConnected = static x => x.CallStartTimer(TimeSpan.FromMilliseconds(50));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("first");
        Assert.Empty(peer.ReadToEnd());
        for (int i = 0; i < 10; i++) peer.Write("ignored");
        rig.Settle();
        rig.Pass(TimeSpan.FromMilliseconds(60));
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.InRange(session.ReceivedCount, 1, 5);
        Assert.Equal($"connecting, connected, received {session.ReceivedCount}, disconnected LocalClose", session.Life);
        Assert.Null(session.Tag);
        // Over TLS, discarded data is not decrypted.
        if (rig.Tls == TlsKind.None) Assert.Equal(75, session.BytesReceived);
    });

    [Fact, Contract(12)]
    public void A_peer_that_continues_to_send_after_our_close_is_reset_at_the_limit() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Close());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(peer.ReadToEnd());
        Assert.Throws<IOException>(() =>
        {
            // More than the buffers of both ends hold, in case the loop does not run for a while.
            for (int i = 0; i < 50_000; i++) peer.Write(new byte[4096]);
        });
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
        // One receive may exceed the limit.
        if (rig.Tls == TlsKind.None) Assert.InRange(server.Session().BytesReceived, 64 * 1024, (64 + 260) * 1024);
    });

    [Fact, Contract(12)]
    public void A_peer_that_never_closes_is_reset_after_the_linger_time() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsVirtual || Depth.IsDeep,
            "Takes 5 s in real time: runs with --deep, and always on the memory engine.");
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Close());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(peer.ReadToEnd());
        rig.Pass(TimeSpan.FromSeconds(4));
        Assert.False(server.Session().IsOver);
        rig.Pass(TimeSpan.FromSeconds(2));
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Fact, Contract(12)]
    public void A_peer_that_never_reads_is_reset_when_the_drain_time_is_over() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtConnected = static x =>
            {
                while (x.BytesPending < 900_000) x.Send(new byte[50_000]);
                x.PauseReceiving();
            },
            WithDrain(rig, 50));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        // Until the socket buffers are full, so that the rest must wait.
        rig.OnLoop(session, static () => { });
        long pending = -1;
        while (pending != session.BytesPending || (pending == 0 && !rig.IsVirtual))
        {
            pending = session.BytesPending;
            if (pending < 900_000) session.Send(new byte[100_000]);
            rig.Settle();
        }

        Assert.True(pending > 0, "the kernel took everything");
        session.Close();
        rig.Settle();
        rig.Pass(TimeSpan.FromMilliseconds(60));
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal(rig.HasResets, peer.EndsInReset());
    });

    [Theory, Contract(12)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_peer_that_reads_slowly_gets_everything_however_long_it_takes(bool inOnePiece) => Run(rig =>
    {
        Assert.SkipUnless(rig.IsVirtual || Depth.IsDeep,
            "Slow in real time: runs with --deep, and always on the memory engine.");
        byte[] data = Pattern(Large);
        RecordingServer server = rig.Serve(
            s => s.AtConnected = x =>
            {
                if (inOnePiece) x.Send(Outgoing.Owned(new Memory(data), data.Length));
                else x.Send(data);
                x.Close();
            },
            // A Unix socket becomes writable when three quarters of its buffer are free, not at every read.
            WithDrain(rig, 1000));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        using MemoryStream got = new();
        while (got.Length < data.Length)
        {
            rig.Pass(TimeSpan.FromMilliseconds(100));
            got.Write(peer.Read((int)Math.Min(data.Length - got.Length, 64 * 1024)));
        }

        Assert.Empty(peer.ReadToEnd());
        Assert.Equal(data, got.ToArray());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Theory, Contract(12)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_close_after_the_peers_end_does_not_wait_and_the_peer_gets_everything(bool elsewhere) => Run(rig =>
    {
        byte[] data = Pattern(Large);
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            if (elsewhere) return;
            x.Send(data);
            x.CloseWithoutLingering();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        // One byte: bytes of a longer message after the close would arrive as well.
        peer.Write("?");
        RecordingSession session = server.Session();
        session.Until("received");
        if (elsewhere)
        {
            rig.Elsewhere(() =>
            {
                session.Send(data);
                session.CloseWithoutLingering();
            });
            rig.Join();
        }

        Assert.Equal(data, peer.ReadToEnd());
        long before = rig.Engine.NowMs;
        // TLS has its own end, close_notify, which the peer must send.
        if (rig.Tls != TlsKind.None) peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.InRange(rig.Engine.NowMs - before, 0, 4_000);
        if (rig.Tls == TlsKind.None) Assert.False(peer.EndsInReset());
    });

    [Fact, Contract(12)]
    public void A_peer_that_sends_on_though_its_end_was_foretold_gets_everything_when_that_is_noticed() => Run(rig =>
    {
        long sent = 0;
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("?");
        RecordingSession session = server.Session();
        session.Until("received");
        // Until the socket buffers are full, so that the rest must wait.
        for (long pending = -1; pending != session.BytesPending || pending == 0; rig.Settle())
        {
            pending = session.BytesPending;
            if (pending < 900_000 && session.Send(new byte[100_000]) == SendResult.Queued) sent += 100_000;
        }

        session.CloseWithoutLingering();
        rig.Settle();
        peer.Write("and another one");
        rig.Settle();
        Assert.Equal(sent, peer.ReadToEnd().Length);
        Assert.False(session.IsOver);
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Fact, Contract(12)]
    public void A_large_piece_read_slowly_by_its_peer_is_not_aborted() => Run(rig =>
    {
        Assert.SkipUnless(rig.Engine.Kind == EngineKind.Portable && !rig.IsUnix,
            "The other engines know how much of a pending send was sent.");
        byte[] data = Pattern(2 * Large);
        RecordingServer server = rig.Serve(
            s => s.AtConnected = x =>
            {
                x.Send(Outgoing.Owned(new Memory(data), data.Length));
                x.Close();
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Drain = TimeSpan.FromMilliseconds(600) },
                Socket = new() { SendBufferBytes = 8192 },
                Limits = new() { SendBytes = 4 * Large }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        using MemoryStream got = new();
        while (got.Length < data.Length)
        {
            rig.Pass(TimeSpan.FromMilliseconds(50));
            got.Write(peer.Read((int)Math.Min(data.Length - got.Length, 64 * 1024)));
        }

        Assert.Empty(peer.ReadToEnd());
        Assert.Equal(data, got.ToArray());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Fact, Contract(5, 12)]
    public void After_Close_sends_are_refused_in_the_same_callback() => Run(rig =>
    {
        List<SendResult> results = [];
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            results.Add(x.Send("before"u8));
            x.Close();
            results.Add(x.Send("after"u8));
            results.Add(x.CallReserve(10).Length == 0 ? SendResult.Closed : SendResult.Queued);
            x.Close();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("before", peer.ReadTextToEnd());
        peer.Close();
        server.Session().End();
        Assert.Equal([SendResult.Queued, SendResult.Closed, SendResult.Closed], results);
    });

    [Fact, Contract(12)]
    public void Abort_after_Close_ends_at_once_with_the_first_cause() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.Send(new byte[Large]);
            x.Close();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Settle();
        Assert.False(session.IsOver);
        session.Abort();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal(rig.HasResets, peer.EndsInReset());
    });

    [Fact, Contract(12)]
    public void Close_may_be_called_any_number_of_times_from_anywhere() => Run(rig =>
    {
        bool isSent = false;
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send("hello"u8);
            Volatile.Write(ref isSent, true);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Until(() => Volatile.Read(ref isSent), "the greeting"); // the callback may still run
        for (int i = 0; i < 3; i++)
        {
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < 20; n++) session.Close();
            });
        }

        rig.Join();
        Assert.Equal("hello", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        session.Close();
        session.Abort();
        session.ShutdownSend();
    });

    [Fact, Contract(12)]
    public void A_peer_that_is_reset_while_we_drain_changes_no_cause() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.Send(new byte[Large]);
            x.Close();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Settle();
        peer.Reset();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    // ------------------------------------------------------------------ Abort (12)

    [Fact, Contract(12)]
    public void Abort_resets_and_discards() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.OnLoop(session, () =>
        {
            session.Send("never sent"u8);
            session.Abort();
        });
        bool reset = true;
        byte[] got = [];
        try
        {
            got = peer.ReadToEnd();
            reset = false;
        }
        catch (IOException)
        {
            // Expected where resets exist.
        }

        Assert.Equal(rig.HasResets, reset);
        Assert.Empty(got);
        Assert.Equal(CloseCause.LocalAbort, session.End());
        Assert.Equal(CloseInitiator.Local, session.Reason.Initiator);
        Assert.False(session.Reason.IsGraceful);
        Assert.Equal(0, session.BytesSent);
    });

    [Fact, Contract(12)]
    public void Abort_from_another_thread_ends_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Elsewhere(session.Abort);
        Assert.Equal(CloseCause.LocalAbort, session.End());
        Assert.Equal(rig.HasResets, peer.EndsInReset());
    });

    [Fact, Contract(12)]
    public void A_reset_by_the_peer_is_reported_as_such() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        peer.Reset();
        Assert.Equal(ResetSeen(rig), session.End());
        Assert.Equal(rig.HasResets, session.Reason.ErrorCode != 0);
        Assert.Equal(CloseInitiator.Peer, session.Reason.Initiator);
    });

    [Fact, Contract(12)]
    public void Bytes_that_arrived_before_the_peers_reset_of_our_send_are_still_delivered() => Run(rig =>
    {
        // The peer writes, shuts down and closes; the response to it fails, which must not discard its data.
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, _) => x.Send(new byte[10_000]));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        byte[] data = Pattern(5_000);
        peer.Write(data);
        peer.Close();
        session.End();
        Assert.Equal(data, session.Received);
    });

    // ------------------------------------------------------------------ what is still known at the end

    [Fact, Contract(12)]
    public void Addresses_and_counters_can_be_read_in_the_last_callback_and_after_it() => Run(rig =>
    {
        EndPoint? remote = null, local = null;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtReceived = static (x, data) => x.Send(data);
            s.AtDisconnected = (x, _) =>
            {
                remote = x.RemoteEndPoint;
                local = x.LocalEndPoint;
            };
        });
        RecordingSession client = rig.Connect(server.EndPoint!);
        EndPoint? own = client.LocalEndPoint;
        client.Send("hello"u8);
        client.UntilReceived(5);
        client.Close();
        RecordingSession session = server.Session();
        session.End();
        client.End();
        Assert.Equal(own, remote);
        Assert.Equal(server.EndPoint, local);
        Assert.Equal(own, session.RemoteEndPoint);
        Assert.Equal((5, 5, 5, 5), (session.BytesReceived, session.BytesSent, client.BytesReceived, client.BytesSent));
        Assert.Equal(0, session.BytesPending);
    });

    [Fact, Contract(1, 12)]
    public void Close_in_OnConnected_is_a_whole_life() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Close());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        server.Session().End();
        Assert.Equal("connecting, connected, disconnected LocalClose", server.Session().Life);
        rig.Until(() => server.Events.Contains("disconnected LocalClose"), "the server's event");
        Assert.Equal(["started", "connected", "disconnected LocalClose"], server.Events);
    });

    [Fact, Contract(12)]
    public void DisconnectAll_closes_every_session_gracefully_and_the_server_continues() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("hello"u8));
        Peer[] peers = [.. Enumerable.Range(0, 5).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        for (int i = 0; i < peers.Length; i++) server.Connected(i);
        rig.Until(() => server.Events.Count(static e => e == "connected") == 5, "all to be announced");
        server.DisconnectAll();
        foreach (Peer peer in peers)
        {
            Assert.Equal("hello", peer.ReadTextToEnd());
            peer.Close();
        }

        Assert.All(server.Made, static s => Assert.Equal(CloseCause.LocalClose, s.End()));
        Assert.Equal("hello", rig.ConnectPeer(server.EndPoint!).ReadText(5));
    });
}
