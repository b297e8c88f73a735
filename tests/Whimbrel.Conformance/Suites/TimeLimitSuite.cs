namespace Whimbrel.Conformance;

/// <summary>Timeouts: silence of the peer, a peer that does not read, and phases of a protocol.</summary>
public abstract class TimeLimitSuite(Transport transport) : Suite(transport)
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMilliseconds(200);

    private static readonly SessionPhase s_head = new("the request head", s_limit);

    private static readonly SessionPhase s_long = new("the day", TimeSpan.FromDays(1));

    private static RecordingServer Serve(Rig rig, Action<RecordingSession>? setUp, TimeSpan receive = default,
        TimeSpan send = default) => rig.Serve(
            setUp,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Receive = receive, Send = send },
                Limits = new() { SendBytes = 64 * 1024 * 1024, SlowConsumer = SlowConsumer.Wait }
            });

    /// <summary>The real wall clock and the timers' clock may differ by a tick, and a phase uses a coarse
    /// clock.</summary>
    private static void CheckTime(Rig rig, DateTimeOffset from, DateTimeOffset to, TimeSpan limit)
    {
        TimeSpan slack = rig.IsVirtual ? TimeSpan.Zero : TimeSpan.FromMilliseconds(30);
        Assert.True(to - from >= limit - slack, $"after {to - from}");
        if (rig.IsVirtual)
            Assert.True(to - from <= (limit * 1.25) + TimeSpan.FromMilliseconds(20), $"after {to - from}");
    }

    // ------------------------------------------------------------------ silence

    [Fact, Contract(19)]
    public void A_peer_that_only_listens_is_closed_by_the_receive_limit() => Run(rig =>
    {
        DateTimeOffset ended = default;
        RecordingServer server = Serve(
            rig,
            s =>
            {
                s.AtConnected = static x => x.CallStartTimer(TimeSpan.FromMilliseconds(20),
                    TimeSpan.FromMilliseconds(20));
                s.AtTimer = static (x, _) => x.Send("."u8);
                s.AtDisconnecting = (_, _) => ended = rig.Engine.UtcNow;
            },
            receive: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Pass(s_limit / 2);
        // Taken before the peer writes: on a busy machine this thread may run long after the session has received.
        DateTimeOffset last = rig.Engine.UtcNow;
        peer.Write("still here");
        session.UntilReceived(10);
        peer.ReadToEnd();
        peer.Close();
        Assert.Equal(CloseCause.ReceiveTimeout, session.End());
        Assert.Equal(CloseInitiator.Library, session.Reason.Initiator);
        Assert.Equal(ErrorCategory.Timeout, session.Reason.Error.Category);
        CheckTime(rig, last, ended, s_limit);
    });

    [Fact, Contract(10, 19)]
    public void A_peer_that_is_not_listened_to_is_not_silent() => Run(rig =>
    {
        DateTimeOffset ended = default;
        long pausedMs = -1;
        RecordingServer server = Serve(
            rig,
            s =>
            {
                s.AtConnected = x =>
                {
                    x.PauseReceiving();
                    Volatile.Write(ref pausedMs, rig.Engine.NowMs);
                };
                s.AtDisconnecting = (_, _) => ended = rig.Engine.UtcNow;
            },
            receive: s_limit);
        Peer peer = null!;
        RecordingSession session = null!;
        // If the machine is suspended before the session has sent anything, the limit passes.
        long beganMs = 0;
        for (int i = 0; i == 0 || Volatile.Read(ref pausedMs) - beganMs >= s_limit.TotalMilliseconds / 2; i++)
        {
            Assert.True(i < 100, "the machine stands still again and again");
            if (i > 0) peer.Close();
            Volatile.Write(ref pausedMs, -1);
            beganMs = rig.Engine.NowMs;
            peer = rig.ConnectPeer(server.EndPoint!);
            session = server.Connected(i);
            rig.Until(() => Volatile.Read(ref pausedMs) >= 0, "the session to pause");
        }

        rig.Pass(s_limit * 2);
        Assert.True(session.IsConnected);
        DateTimeOffset resumed = rig.Engine.UtcNow;
        session.ResumeReceiving();
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.ReceiveTimeout, session.End());
        CheckTime(rig, resumed, ended, s_limit);
    });

    [Fact, Contract(11, 19)]
    public void A_peer_that_has_finished_is_not_silent() => Run(rig =>
    {
        RecordingServer server = Serve(rig, static s => s.AtEndOfStream = static _ => { }, receive: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.ShutdownSend();
        RecordingSession session = server.Session();
        session.Until("peer finished");
        rig.Pass(s_limit * 2);
        Assert.True(session.IsConnected);
        session.Send("answer");
        session.Close();
        Assert.Equal("answer", peer.ReadTextToEnd());
        peer.Close();
        session.End();
    });

    [Fact, Contract(19)]
    public void A_peer_that_reads_nothing_is_reset_by_the_send_limit() => Run(rig =>
    {
        RecordingServer server = Serve(rig,
            static s => s.AtReceived = static (x, _) => x.Send(new byte[16 * 1024 * 1024]), send: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Pass(s_limit * 2);
        // Having nothing to read is no violation.
        Assert.True(session.IsConnected);
        peer.Write("more");
        Assert.Equal(CloseCause.SendTimeout, session.End());
        Assert.True(session.BytesSent < 16 * 1024 * 1024);
        Assert.Equal($"aborted because the peer took nothing for SendTimeout; "
            + $"{(16 * 1024 * 1024) - session.BytesSent:n0} accepted bytes were not sent", session.Reason.ToString());
        peer.Close();
    });

    [Fact, Contract(19)]
    public void A_peer_that_reads_slowly_keeps_its_connection() => Run(rig =>
    {
        const int Length = 24 * 1024 * 1024;
        RecordingServer server = Serve(rig, static s => s.AtReceived = static (x, _) => x.Send(new byte[Length]),
            send: s_limit);
        // If the machine was suspended for the limit, the server is right to close it: try again with another one.
        for (int i = 0; !TryTakeSlowly(rig, server, Length, i); i++)
            Assert.True(i < 100, "the machine stands still again and again");
    });

    /// <summary>Returns false if nothing ran for so long that the limit may have passed, although the peer was about to
    /// read long before.</summary>
    private static bool TryTakeSlowly(Rig rig, RecordingServer server, int length, int index)
    {
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Connected(index);
        session.UntilReceived(1);
        int got = 0;
        long tookMs = rig.Engine.NowMs;
        try
        {
            for (int i = 0; i < 16; i++)
            {
                rig.Pass(s_limit / 4);
                long nowMs = rig.Engine.NowMs;
                got += peer.Read(1024 * 1024).Length;
                tookMs = nowMs;
            }

            Assert.True(session.IsConnected);
            peer.Read(length - got);
        }
        catch (IOException) when (rig.Engine.NowMs - tookMs >= s_limit.TotalMilliseconds / 2)
        {
            peer.Close();
            return false;
        }

        peer.Close();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        return true;
    }

    [Fact, Contract(19)]
    public void A_session_sets_its_own_limits_at_any_time_from_any_thread() => Run(rig =>
    {
        RecordingServer server = Serve(
            rig,
            static s =>
            {
                s.SendTimeout = TimeSpan.FromSeconds(30);
                s.AtConnected = static x => x.ReceiveTimeout = TimeSpan.Zero;
            },
            receive: s_limit,
            send: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Pass(s_limit * 2);
        Assert.True(session.IsConnected);
        Assert.Equal((TimeSpan.Zero, TimeSpan.FromSeconds(30), TimeSpan.Zero),
            (session.ReceiveTimeout, session.SendTimeout, session.IdleTimeout));
        Assert.Throws<ArgumentOutOfRangeException>(() => session.ReceiveTimeout = TimeSpan.FromMilliseconds(99));
        Assert.Throws<ArgumentOutOfRangeException>(() => session.IdleTimeout = TimeSpan.FromDays(8));
        Assert.Throws<ArgumentOutOfRangeException>(() => session.SendTimeout = TimeSpan.FromTicks(-1));
        rig.Elsewhere(() => session.IdleTimeout = s_limit);
        rig.Join();
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.IdleTimeout, session.End());
        Assert.Equal(s_limit, session.IdleTimeout);
    });

    [Fact, Contract(19)]
    public void A_silence_that_the_session_permits_is_reported_again() => Run(rig =>
    {
        int told = 0;
        RecordingServer server = Serve(
            rig,
            s => s.AtTimeout = (x, reason) =>
            {
                x.Send("?"u8);
                if (++told == 3) x.CallTimedOut(reason);
            },
            receive: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("???", peer.ReadTextToEnd());
        peer.Close();
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.ReceiveTimeout, session.End());
        Assert.Equal("connecting, connected, timeout ReceiveTimeout, timeout ReceiveTimeout, timeout ReceiveTimeout, "
            + "disconnected ReceiveTimeout", session.Life);
    });

    // ------------------------------------------------------------------ phases

    [Fact, Contract(19)]
    public void A_phase_that_takes_too_long_ends_the_connection_and_is_named() => Run(rig =>
    {
        DateTimeOffset began = default, ended = default;
        RecordingServer server = Serve(rig, s =>
        {
            s.AtConnected = x =>
            {
                began = rig.Engine.UtcNow;
                x.CallBeginPhase(s_head);
            };
            s.AtDisconnecting = (_, _) => ended = rig.Engine.UtcNow;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.PhaseTimeout, session.End());
        Assert.Equal("the request head took longer than 0.2 s", session.Reason.ToString());
        Assert.IsType<TimeoutException>(session.Reason.Exception);
        Assert.Equal((CloseInitiator.Library, ErrorCategory.Timeout),
            (session.Reason.Initiator, session.Reason.Error.Category));
        CheckTime(rig, began, ended, s_limit);
    });

    [Fact, Contract(19)]
    public void A_session_may_send_a_message_when_a_phase_has_expired() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s =>
        {
            s.AtConnected = static x => x.CallBeginPhase(s_head);
            s.AtTimeout = static (x, reason) =>
            {
                Assert.Equal(SendResult.Queued, x.Send("408 "));
                x.CallTimedOut(reason);
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("408 ", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.PhaseTimeout, server.Session().End());
        Assert.Equal("connecting, connected, timeout PhaseTimeout, disconnected PhaseTimeout", server.Session().Life);
    });

    [Fact, Contract(19)]
    public void Each_message_may_restart_the_phase_and_an_ended_phase_does_not_expire() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s =>
        {
            s.AtConnected = static x => x.CallBeginPhase(s_long);
            s.AtReceived = static (x, data) =>
            {
                if (data[^1] == '.') x.CallEndPhase();
                else x.CallBeginPhase(s_head);
                x.Send(data);
            };
        });
        int index = 0;
        Peer? peer;
        // If the machine was suspended for the limit, the server is right to close it: try again with another one.
        while ((peer = SixMessages(rig, server)) is null)
            Assert.True(++index < 100, "the machine stands still again and again");
        rig.Pass(s_limit * 2);
        Assert.True(server.Session(index).IsConnected);
        peer.Write("x");
        peer.Read(1);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.PhaseTimeout, server.Session(index).End());
    });

    /// <summary>Six messages, half the limit apart, and one that ends the phase; each is answered. Null if the limit
    /// passed between two of them because nothing ran.</summary>
    private static Peer? SixMessages(Rig rig, RecordingServer server)
    {
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] answer = new byte[1];
        long beganMs = rig.Engine.NowMs;
        try
        {
            foreach (char message in "xxxxxx.")
            {
                long beginsMs = rig.Engine.NowMs;
                peer.Write(message.ToString());
                int got = -1;
                rig.Until(() => (got = peer.TryRead(answer)) >= 0, "an answer");
                if (got == 0) throw new IOException("It has ended.");
                beganMs = beginsMs;
                if (message == 'x') rig.Pass(s_limit / 2);
            }

            return peer;
        }
        catch (IOException) when (rig.Engine.NowMs - beganMs >= s_limit.TotalMilliseconds)
        {
            peer.Close();
            return null;
        }
    }

    [Fact, Contract(19)]
    public void A_phase_passes_once_and_the_next_one_counts() => Run(rig =>
    {
        int told = 0;
        RecordingServer server = Serve(rig, s =>
        {
            s.AtConnected = static x => x.CallBeginPhase(s_head);
            s.AtTimeout = (x, _) =>
            {
                if (++told == 2) x.Close();
                else if (told == 1) x.Send("1"u8);
            };
            s.AtReceived = static (x, _) => x.CallBeginPhase(s_head);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("1", peer.ReadText(1));
        rig.Pass(s_limit * 2);
        Assert.Equal(1, Volatile.Read(ref told));
        peer.Write("x");
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
        Assert.Equal(2, told);
    });

    [Fact, Contract(1, 19)]
    public void A_phase_that_begins_in_OnConnecting_is_checked_after_OnConnected() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s =>
        {
            s.AtConnecting = x =>
            {
                x.CallBeginPhase(s_head);
                rig.Block(s_limit * 1.5);
            };
            s.AtTimeout = static (x, reason) => x.CallTimedOut(reason);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        RecordingSession session = server.Session();
        session.End();
        Assert.Equal("connecting, connected, timeout PhaseTimeout, disconnected PhaseTimeout", session.Life);
    });

    [Fact, Contract(15, 19)]
    public void A_hand_over_ends_phase_and_limits_of_the_leaving_session() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = Serve(
            rig,
            s =>
            {
                s.ReceiveTimeout = TimeSpan.Zero;
                s.AtConnected = x =>
                {
                    x.CallBeginPhase(s_head);
                    x.CallHandOver(next);
                };
            },
            receive: s_limit * 3);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        next.Until("connected");
        Assert.Equal(s_limit * 3, next.ReceiveTimeout);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.ReceiveTimeout, next.End());
        Assert.Equal(CloseCause.HandedOver, server.Session().End());
    });

    [Fact, Contract(15, 19)]
    public void The_next_session_of_a_hand_over_has_the_limits_of_the_options() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = Serve(
            rig,
            s =>
            {
                // A session without any limit: no timer runs when it hands the connection over.
                s.ReceiveTimeout = TimeSpan.Zero;
                s.AtReceived = (x, _) => x.CallHandOver(next);
            },
            receive: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Pass(s_limit * 2);
        peer.Write("x");
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.ReceiveTimeout, next.End());
    });

    [Fact, Contract(4, 19)]
    public void An_exception_of_OnTimeout_ends_the_session() => Run(rig =>
    {
        RecordingServer server = Serve(rig, s =>
        {
            s.AtConnected = static x => x.CallBeginPhase(s_head);
            s.AtTimeout = static (_, _) => throw new InvalidDataException("no");
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.UserException, session.End());
        Assert.Equal("connecting, connected, timeout PhaseTimeout, error InvalidDataException, disconnected "
            + "UserException", session.Life);
        peer.Close();
    });

    [Fact, Contract(16, 19)]
    public void A_handshake_has_its_own_deadline_and_the_phase_counts_again_after_it() => Run(rig =>
    {
        Assert.SkipWhen(rig.Tls != TlsKind.None, "This transport has TLS already.");
        // Prepared here: a callback that creates the certificates takes longer than the phase on a busy machine.
        TlsOptions options = rig.WithProvider(TestCertificates.ServerOptions);
        RecordingServer server = Serve(rig, s =>
        {
            s.AtReceived = (x, _) =>
            {
                if (x.ReceivedCount < 8) return;
                x.Send("go ahead"u8);
                x.CallBeginPhase(s_head);
                x.CallUpgrade(options);
            };
            s.AtTlsHandshakeCompleted = static (_, _) => { };
            s.AtTimeout = static (x, reason) => x.CallTimedOut(reason);
        });
        Peer raw = rig.ConnectPeer(server.EndPoint!);
        raw.Write("STARTTLS");
        Assert.Equal("go ahead", raw.ReadText(8));
        rig.Pass(s_limit * 2);
        RecordingSession session = server.Session();
        Assert.True(session.IsConnected);
        TlsPeer peer = rig.Secure(raw, isAccepted: false, TestCertificates.ClientOptions);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        session.End();
        Assert.Equal("connecting, connected, received 8, handshaked, timeout PhaseTimeout, disconnected PhaseTimeout",
            session.Life);
    });

    [Fact, Contract(19)]
    public void A_peer_below_the_minimum_rate_is_disconnected_and_one_at_the_rate_is_not() => Run(rig =>
    {
        SessionPhase body = new("the request body", s_limit * 2, leastBytesPerSecond: 100);
        RecordingServer server = Serve(rig, s => s.AtConnected = x => x.CallBeginPhase(body));
        Peer honest = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Peer drips = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        // It is disconnected after eight; on a busy machine the loop, or the pool, may be late.
        for (int i = 0; i < 12 || (i < 200 && server.Session(1).IsConnected); i++)
        {
            // Eight times the required amount, because on a busy machine it is late as well.
            honest.Write(new byte[rig.IsVirtual ? 20 : 160]);
            if (!server.Session(1).IsOver) drips.TryWrite("x"u8);
            rig.Pass(s_limit / 4);
        }

        Assert.True(server.Session().IsConnected);
        drips.Close();
        Assert.Equal(CloseCause.PhaseTimeout, server.Session(1).End());
        Assert.Contains("the request body came with less than 100 bytes per second",
            server.Session(1).Reason.ToString(), StringComparison.Ordinal);
        honest.Close();
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
    });

    [Fact, Contract(19)]
    public void The_next_connection_in_the_same_place_has_no_phase() => Run(
        rig =>
        {
            int made = 0;
            RecordingServer server = Serve(rig, s =>
            {
                if (++made == 1) s.AtConnected = static x => x.CallBeginPhase(s_head);
            });
            Peer first = rig.ConnectPeer(server.EndPoint!);
            server.Connected();
            first.Close();
            server.Session().End();
            Peer second = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(1);
            rig.Pass(s_limit * 2);
            Assert.True(session.IsConnected);
            second.Close();
            Assert.Equal(CloseCause.PeerClosed, session.End());
        },
        loops: 1);

    [Fact, Contract(19)]
    public void A_callback_on_the_pool_that_takes_its_time_does_not_make_the_peer_silent() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsPool && !rig.IsVirtual, "Only callbacks on the pool of a real engine may block.");
        RecordingServer server = Serve(
            rig,
            s => s.AtReceived = (x, _) =>
            {
                rig.Block(s_limit * 3);
                x.Send("done"u8);
            },
            receive: s_limit);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("done", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.ReceiveTimeout, server.Session().End());
    });

    [Fact, Contract(19)]
    public void A_pool_callback_that_blocks_for_long_causes_one_report_of_silence_afterwards() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsPool && !rig.IsVirtual, "Only callbacks on the pool of a real engine may block.");
        int told = 0;
        RecordingServer server = Serve(rig, s =>
        {
            s.IdleTimeout = s_limit;
            s.AtReceived = (x, _) =>
            {
                rig.Block(s_limit * 8);
                x.IdleTimeout = TimeSpan.Zero;
                x.Send("done"u8);
            };
            s.AtTimeout = (_, _) => Interlocked.Increment(ref told);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("done", peer.ReadText(4));
        RecordingSession session = server.Session();
        rig.OnLoop(session, static () => { });
        Assert.Equal(1, Volatile.Read(ref told));
        peer.Close();
        Assert.Equal(CloseCause.PeerClosed, session.End());
    });

    [Fact, Contract(19)]
    public void A_phase_of_a_session_without_a_connection_throws() => Run(rig =>
        Assert.Throws<InvalidOperationException>(() => new RecordingSession(rig).CallBeginPhase(s_head)));
}
