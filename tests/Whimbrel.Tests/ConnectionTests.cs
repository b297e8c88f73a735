using System.Net;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// One server on a memory loop with raw peers: behaviour that cannot be observed or forced through real sockets. The
// simulation found several of these defects.
public sealed class ConnectionTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    private static (MemoryEngine Engine, Server Server) Serve(Func<Session> factory,
        int sendLimit = 64 * 1024, MemoryFaults? faults = null, SlowConsumer policy = SlowConsumer.Wait,
        Action<DiagnosticEvent>? onDiagnosticEvent = null)
    {
        MemoryEngine engine = new(1, onDiagnosticEvent: onDiagnosticEvent, faults: faults ?? MemoryFaults.None);
        Server server = new(
            new ServerOptions
            {
                Engine = engine,
                EndPoint = s_here,
                Limits = new() { SendBytes = sendLimit, SlowConsumer = policy }
            },
            factory);
        engine.Run(server.StartAsync());
        return (engine, server);
    }

    private static void End(MemoryEngine engine)
    {
        engine.Run(engine.DisposeAsync());
        foreach (Loop loop in engine.Loops) Assert.Equal((0, 0), (loop.Blocks.Outstanding, loop.ResidentCount));
    }

    private static byte[] ReadAll(MemoryPeer peer)
    {
        byte[] bytes = new byte[peer.Available];
        peer.Read(bytes);
        return bytes;
    }

    [Fact]
    public void An_old_session_that_closes_in_its_last_callback_has_one_end_and_does_not_end_the_next()
    {
        Recorder next = new();
        Recorder first = new() { WhenReceived = s => s.GiveTo(next), WhenDisconnected = static s => s.Abort() };
        (MemoryEngine engine, _) = Serve(() => first);
        engine.Connect(s_here).Write([1]);
        engine.RunUntilIdle();
        Assert.Equal(["connecting", "connected", "disconnected HandedOver"], first.Calls);
        Assert.Equal(["connected"], next.Calls);
        End(engine);
        Assert.Equal(["connected", "disconnected EngineStopped"], next.Calls);
        Assert.Equal(3, first.Calls.Count);
    }

    [Fact]
    public void An_old_session_that_throws_in_its_last_callback_gets_OnError_and_the_connection_ends()
    {
        Recorder next = new();
        Recorder first = new()
        {
            WhenReceived = s => s.GiveTo(next),
            WhenDisconnected = static _ => throw new FormatException("odd")
        };
        (MemoryEngine engine, _) = Serve(() => first);
        engine.Connect(s_here).Write([1]);
        engine.RunUntilIdle();
        Assert.Equal(["connecting", "connected", "disconnected HandedOver", "error odd"], first.Calls);
        Assert.Equal(["connected", "disconnected UserException"], next.Calls);
        End(engine);
    }

    [Fact]
    public void A_cancel_that_overtakes_its_SendAsync_in_the_mailbox_is_not_lost()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session, sendLimit: 4096,
            faults: MemoryFaults.None with { WireBytes = 1 });
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() => Assert.Equal(SendResult.Queued, session.Send(new byte[4096].AsSpan())));
        engine.RunUntilIdle();
        using CancellationTokenSource cancel = new();
        // Both arrive before the loop's next check: control is processed first.
        Task<SendResult> waiting = session.SendAsync(new byte[4000], cancel.Token).AsTask();
        cancel.Cancel();
        engine.RunUntilIdle();
        Assert.True(waiting.IsCanceled);
        Assert.True(peer.IsConnected);
        End(engine);
    }

    [Fact]
    public void An_empty_send_returns_Closed_after_the_end()
    {
        Recorder session = new() { WhenReceived = static s => s.Close() };
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Equal(SendResult.Queued, session.Send(ReadOnlySpan<byte>.Empty));
        peer.Write([1]);
        engine.RunUntilIdle();
        Assert.Equal(SendResult.Closed, session.Send(ReadOnlySpan<byte>.Empty));
        session.Loop.Post(() => Assert.Equal(SendResult.Closed, session.Send(ReadOnlySpan<byte>.Empty)));
        engine.RunUntilIdle();
        End(engine);
    }

    [Fact]
    public void Cancelled_timers_of_a_session_are_not_kept()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        engine.Connect(s_here);
        engine.RunUntilIdle();
        List<WeakReference> timers = [];
        session.Loop.Post(() => StartAndCancel(session, timers));
        engine.RunUntilIdle();
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.True(timers.Count(t => t.IsAlive) <= 2,
            $"{timers.Count(t => t.IsAlive)} of {timers.Count} cancelled timers are alive");
        End(engine);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void StartAndCancel(Recorder session, List<WeakReference> timers)
    {
        for (int i = 0; i < 1000; i++)
        {
            LoopTimer timer = session.After(TimeSpan.FromHours(1));
            timers.Add(new WeakReference(timer));
            timer.Cancel();
            Assert.False(timer.IsActive);
        }
    }

    [Fact]
    public void A_token_does_not_keep_an_end_alive_that_is_not_awaited()
    {
        Recorder? session = null;
        (MemoryEngine engine, _) = Serve(() => session = new Recorder());
        using CancellationTokenSource cancellation = new();
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        WeakReference kept = CloseUnawaited(ref session, cancellation.Token);
        peer.Close();
        engine.RunUntilIdle();
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.False(kept.IsAlive);
        End(engine);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static WeakReference CloseUnawaited(ref Recorder? session, CancellationToken cancellation)
    {
        WeakReference closed = new(session);
        _ = session!.CloseAsync(cancellation).Preserve();
        session = null;
        return closed;
    }

    [Fact]
    public void Fired_timers_of_a_session_are_not_kept()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        engine.Connect(s_here);
        engine.RunUntilIdle();
        List<WeakReference> timers = [];
        session.Loop.Post(() => StartMany(session, timers));
        engine.RunFor(TimeSpan.FromMilliseconds(10));
        Assert.Equal(1002, session.Calls.Count);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.True(timers.Count(t => t.IsAlive) <= 2,
            $"{timers.Count(t => t.IsAlive)} of {timers.Count} fired timers are alive");
        End(engine);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void StartMany(Recorder session, List<WeakReference> timers)
    {
        for (int i = 0; i < 1000; i++) timers.Add(new WeakReference(session.After(TimeSpan.FromMilliseconds(1))));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    public void The_timers_beside_a_cancelled_one_end_with_the_session(int cancelled)
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        LoopTimer[] timers = [];
        session.Loop.Post(() =>
        {
            timers = [session.After(TimeSpan.FromHours(1)), session.After(TimeSpan.FromHours(1)),
                session.After(TimeSpan.FromHours(1))];
            timers[cancelled].Cancel();
        });
        engine.RunUntilIdle();
        Assert.Equal(2, timers.Count(t => t.IsActive));
        peer.Close();
        engine.RunUntilIdle();
        Assert.Equal(0, timers.Count(t => t.IsActive));
        End(engine);
    }

    [Fact]
    public void Timers_that_are_due_before_the_connection_is_there_fire_right_after_OnConnected()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        MemoryEndPoint nowhere = new("nowhere");
        engine.AddBlackHole(nowhere);
        engine.Listen(s_here);
        LoopTimer? periodic = null;
        Recorder session = new()
        {
            WhenConnecting = s =>
            {
                s.After(TimeSpan.FromMilliseconds(1));
                periodic = s.After(TimeSpan.FromMilliseconds(100), TimeSpan.FromMinutes(1));
                s.After(TimeSpan.FromMilliseconds(2)).Cancel();
            },
        };
        // The second address is tried after the head start of the first, when the timers are due.
        Client client = new(new ClientOptions { Engine = engine, EndPoints = [nowhere, s_here] }, () => session);
        engine.Run(client.ConnectAsync());
        Assert.True(periodic!.IsActive);
        engine.RunFor(TimeSpan.FromMilliseconds(10));
        Assert.Equal(["connecting", "connected", "timer"], session.Calls);
        engine.RunFor(TimeSpan.FromMinutes(1));
        Assert.Equal(["connecting", "connected", "timer", "timer"], session.Calls);
        engine.Run(engine.DisposeAsync());
        Assert.False(periodic.IsActive);
    }

    [Fact]
    public void A_diagnostic_event_that_broadcasts_inside_a_broadcast_does_not_disturb_it()
    {
        SessionGroup group = new("all");
        byte[] message = [.. Enumerable.Range(0, 200).Select(static i => (byte)i)];
        byte[] warning = [.. Enumerable.Repeat((byte)0xEE, 100)];
        List<Recorder> sessions = [];
        Recorder Make()
        {
            Recorder session = new() { WhenConnected = group.Join };
            sessions.Add(session);
            return session;
        }

        (MemoryEngine engine, _) = Serve(
            Make,
            sendLimit: 4096,
            faults: MemoryFaults.None with { WireBytes = 100_000 },
            policy: SlowConsumer.Disconnect,
            onDiagnosticEvent: notice =>
            {
                if (notice.Kind == DiagnosticEventKind.SlowConsumer) group.Broadcast(warning);
            });
        MemoryPeer healthy = engine.Connect(s_here);
        engine.RunUntilIdle();
        engine.Connect(s_here);
        engine.RunUntilIdle();
        // Members are served from the last to the first: the member that joined last reaches its limit first.
        sessions[1].Loop.Post(() =>
        {
            sessions[1].Send(new byte[4096].AsSpan());
            group.Broadcast(message);
        });
        engine.RunUntilIdle();
        Assert.Equal(["connecting", "connected", "disconnected SlowConsumer"], sessions[1].Calls);
        byte[] got = ReadAll(healthy);
        Assert.Equal([.. warning, .. message], got);
        End(engine);
    }

    [Fact]
    public void Bytes_that_are_lent_stay_what_they_are_when_the_session_closes()
    {
        bool isSame = false;
        LeavingSession session = new(unread =>
        {
            byte[] before = unread.ToArray();
            byte[] rented = System.Buffers.ArrayPool<byte>.Shared.Rent(before.Length);
            rented.AsSpan().Fill(0xEE);
            isSame = unread.SequenceEqual(before);
            System.Buffers.ArrayPool<byte>.Shared.Return(rented);
        });
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        peer.Write(new byte[600]);
        engine.RunUntilIdle();
        peer.Write(new byte[600]);
        engine.RunUntilIdle();
        Assert.True(isSame);
        End(engine);
    }

    [Fact]
    public void A_pause_in_the_last_OnData_holds_the_peers_FIN_back()
    {
        Recorder session = new()
        {
            WhenConnected = static s => s.Ask(100),
            WhenReceived = static s => s.PauseReceiving(),
        };
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        peer.Write([1, 2, 3]);
        peer.ShutdownSend();
        engine.RunUntilIdle();
        Assert.Equal([1, 2, 3], session.Received);
        Assert.Equal(["connecting", "connected"], session.Calls);
        session.ResumeReceiving();
        engine.RunUntilIdle();
        Assert.Equal("disconnected PeerClosed", session.Calls[^1]);
        End(engine);
    }

    [Fact]
    public void The_peers_FIN_does_not_overtake_unread_bytes_that_wait_for_the_completion_phase()
    {
        Recorder session = new() { WhenConnected = static s => s.PauseReceiving() };
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            // As an engine that had received both before it was asked to stop.
            Connection connection = session.Connection!;
            connection.CompleteReceive([1, 2, 3]);
            session.ResumeReceiving();
            connection.CompleteReceiveEnd();
        });
        engine.RunUntilIdle();
        Assert.Equal([1, 2, 3], session.Received);
        Assert.Equal("disconnected PeerClosed", session.Calls[^1]);
        peer.Close();
        End(engine);
    }

    // The delivery by the resume, and then those that the session requests.
    [Fact]
    public void The_peers_FIN_does_not_overtake_what_the_session_asks_for_again_and_again()
    {
        ByteAtATime session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            Connection connection = session.Connection!;
            connection.CompleteReceive("abcd"u8);
            connection.CompleteReceiveEnd();
        });
        engine.RunUntilIdle();
        Assert.Equal("abcd, finished", session.Story);
        peer.Close();
        End(engine);
    }

    [Fact]
    public void A_failed_send_is_the_cause_of_the_end_when_a_later_receive_fails()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            Connection connection = session.Connection!;
            connection.Outbound.FailSend(Linux.Errno.EPIPE);
            connection.CompleteReceiveError(Linux.Errno.ETIMEDOUT);
        });
        engine.RunUntilIdle();
        Assert.Equal("disconnected PeerReset", session.Calls[^1]);
        End(engine);
    }

    [Fact]
    public void A_failed_send_is_the_cause_of_the_end_when_the_session_aborts_later()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            session.Connection!.Outbound.FailSend(Linux.Errno.EPIPE);
            session.Abort();
        });
        engine.RunUntilIdle();
        Assert.Equal("disconnected PeerReset", session.Calls[^1]);
        End(engine);
    }

    [Fact]
    public void A_close_after_a_held_back_FIN_of_the_peer_does_not_wait()
    {
        Recorder session = new() { WhenConnected = static s => s.PauseReceiving() };
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            // As an engine that had read it before it was asked to stop.
            session.Connection!.CompleteReceiveEnd();
            session.Send("last"u8);
            session.Close();
        });
        engine.RunUntilIdle(); // no time passes
        Assert.Equal("disconnected LocalClose", session.Calls[^1]);
        Assert.Equal("last"u8.ToArray(), ReadAll(peer));
        peer.Close();
        End(engine);
    }

    [Fact]
    public void A_peer_that_sends_much_while_this_side_drains_gets_everything()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session, faults: MemoryFaults.None with { WireBytes = 1000 });
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            session.Send(new byte[5000].AsSpan());
            session.Close();
        });
        engine.RunUntilIdle();
        for (int written = 0; written < 100_000; engine.RunUntilIdle()) written += peer.Write(new byte[1000]);
        int received = 0;
        for (; received < 5000 && peer.Available > 0; engine.RunUntilIdle()) received += ReadAll(peer).Length;
        Assert.Equal(5000, received);
        peer.Close();
        engine.RunUntilIdle();
        Assert.Equal("disconnected LocalClose", session.Calls[^1]);
        End(engine);
    }

    [Fact]
    public void Sends_of_a_byte_stop_exactly_at_the_limit()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session, sendLimit: 10_000);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        int taken = 0;
        session.Loop.Post(() =>
        {
            while (taken < 20_000 && session.Send([1]) == SendResult.Queued) taken++;
        });
        engine.RunUntilIdle();
        Assert.Equal(10_000, taken);
        Assert.Equal(10_000, ReadAll(peer).Length);
        End(engine);
    }

    [Fact]
    public void A_waiter_after_a_cancelled_last_one_is_served()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session, sendLimit: 4096,
            faults: MemoryFaults.None with { WireBytes = 1 });
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() => session.Send(new byte[4096].AsSpan()));
        engine.RunUntilIdle();
        using CancellationTokenSource cancel = new();
        Task<SendResult> first = session.SendAsync(new byte[4000]).AsTask();
        Task<SendResult> cancelled = session.SendAsync(new byte[4000], cancel.Token).AsTask();
        engine.RunUntilIdle();
        cancel.Cancel();
        engine.RunUntilIdle();
        Assert.True(cancelled.IsCanceled);
        Task<SendResult> last = session.SendAsync(new byte[4000]).AsTask();
        int received = 0;
        for (engine.RunUntilIdle(); peer.Available > 0; engine.RunUntilIdle()) received += ReadAll(peer).Length;
        Assert.Equal((SendResult.Queued, SendResult.Queued),
            (engine.Run(new ValueTask<SendResult>(first)), engine.Run(new ValueTask<SendResult>(last))));
        Assert.Equal(4096 + 8000, received);
        End(engine);
    }

    [Fact]
    public void A_send_accepted_from_another_thread_precedes_a_message_in_pieces()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session, sendLimit: 4096);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Equal(SendResult.Queued, session.Send("first"u8));
        Task<SendResult>? pieces = null;
        // Control is processed before data: the place of the first is reserved, and its bytes are in transit.
        session.Loop.Post(() => pieces = session.SendAsync(new byte[10_000]).AsTask());
        List<byte> received = [];
        for (engine.RunUntilIdle(); peer.Available > 0; engine.RunUntilIdle()) received.AddRange(ReadAll(peer));
        Assert.Equal(SendResult.Queued, engine.Run(new ValueTask<SendResult>(pieces!)));
        Assert.Equal([.. "first"u8, .. new byte[10_000]], received);
        End(engine);
    }

    [Fact]
    public void Members_that_took_the_place_of_others_leave_and_stay_as_themselves()
    {
        SessionGroup group = new("moved");
        List<Recorder> members = [];
        (MemoryEngine engine, _) = Serve(() =>
        {
            members.Add(new Recorder { WhenConnected = group.Join });
            return members[^1];
        });
        MemoryPeer[] peers = [engine.Connect(s_here), engine.Connect(s_here), engine.Connect(s_here)];
        engine.RunUntilIdle();
        // The last one moves into the first place, and leaves from there.
        members[0].Loop.Post(() => group.Leave(members[0]));
        engine.RunUntilIdle();
        members[0].Loop.Post(() => group.Leave(members[2]));
        engine.RunUntilIdle();
        group.Broadcast("here"u8);
        engine.RunUntilIdle();
        Assert.Equal([0, 4, 0], peers.Select(static p => p.Available));
        End(engine);
    }

    [Fact]
    public void A_broadcast_after_ShutdownSend_skips_the_session()
    {
        SessionGroup group = new("late");
        Recorder session = new() { WhenConnected = group.Join };
        (MemoryEngine engine, _) = Serve(() => session);
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        session.Loop.Post(() =>
        {
            group.Broadcast("before"u8);
            session.ShutdownSend();
            group.Broadcast("after"u8);
        });
        engine.RunUntilIdle();
        Assert.Equal("before"u8.ToArray(), ReadAll(peer));
        peer.Close();
        End(engine);
    }

    [Fact]
    public void A_session_that_stays_when_its_server_stops_is_notified_once()
    {
        StayingSession session = new();
        (MemoryEngine engine, _) = Serve(() => session);
        engine.Connect(s_here);
        engine.RunUntilIdle();
        // The stop itself, and the host's check of a session that connected meanwhile.
        session.Loop.Post(() => session.Connection!.ServerStopping());
        session.Loop.Post(() => session.Connection!.ServerStopping());
        engine.RunUntilIdle();
        Assert.Equal(1, session.Told);
        End(engine);
    }

    [Fact]
    public void A_client_that_reconnects_when_it_ends_does_not_keep_its_engine_alive()
    {
        MemoryEngine engine = new(1, loops: 2, faults: MemoryFaults.None);
        MemoryPeerListener listener = engine.Listen(s_here);
        Client? client = null;
        List<Recorder> sessions = [];
        client = new Client(new ClientOptions { Engine = engine, EndPoint = s_here }, () =>
        {
            Recorder session = new() { WhenDisconnected = _ => ConnectAgain(client!) };
            sessions.Add(session);
            return session;
        });
        engine.Run(client.ConnectAsync());
        listener.TryAccept();
        engine.Run(engine.DisposeAsync());
        Assert.All(sessions, s => Assert.Equal("connecting", s.Calls[0]));
        Assert.Contains("disconnected EngineStopped", sessions[0].Calls);
        Assert.All(sessions.Skip(1), s => Assert.Equal(["connecting", "failed EngineStopped"], s.Calls));
    }

    private static void ConnectAgain(Client client) => _ = client.ConnectAsync().AsTask();

    [Fact]
    public void A_send_of_another_thread_that_is_drained_after_the_close_leaves_no_room_for_more()
    {
        Recorder session = new();
        (MemoryEngine engine, _) = Serve(() => session, faults: MemoryFaults.None with { WireBytes = 10 });
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        SendResult late = SendResult.Full;
        session.Loop.Post(() => session.Close());
        Assert.Equal(SendResult.Queued, session.Send("before"u8));
        engine.RunUntilIdle();
        // A second round, with a send on the loop between the drain and the flush.
        session.Loop.Post(() => late = session.Send("after"u8));
        engine.RunUntilIdle();
        Assert.Equal(SendResult.Closed, late);
        Assert.Equal("before"u8.ToArray(), ReadAll(peer));
        End(engine);
    }

    [Fact]
    public void The_group_counts_and_reports_when_it_is_occupied()
    {
        OccupiedGroup group = new();
        (MemoryEngine engine, _) = Serve(() => new Recorder { WhenConnected = group.Join });
        MemoryPeer first = engine.Connect(s_here);
        MemoryPeer second = engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Equal((2, "yes"), (group.Count, string.Join(' ', group.Told)));
        first.Close();
        engine.RunUntilIdle();
        Assert.Equal(1, group.Count);
        second.Close();
        engine.RunUntilIdle();
        Assert.Equal((0, "yes no"), (group.Count, string.Join(' ', group.Told)));
        End(engine);
    }

    [Fact]
    public void The_group_of_all_sessions_cannot_be_joined()
    {
        Recorder session = new();
        (MemoryEngine engine, Server server) = Serve(() => session);
        engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Throws<InvalidOperationException>(() => server.Sessions.Join(session));
        Assert.Throws<InvalidOperationException>(() => server.Sessions.Leave(session));
        Assert.Equal(1, server.Sessions.Count);
        End(engine);
    }

    private sealed class OccupiedGroup() : SessionGroup("occupied")
    {
        internal List<string> Told { get; } = [];

        protected override void OnOccupiedChanged(bool isOccupied)
        {
            Told.Add(isOccupied ? "yes" : "no");
            throw new FormatException("and throws");
        }
    }

    private sealed class StayingSession : Session
    {
        internal int Told { get; private set; }

        protected override void OnServerStopping() => Told++;
    }

    private sealed class LeavingSession(LeavingSession.Look look) : Session
    {
        internal delegate void Look(ReadOnlySpan<byte> unread);

        protected override int OnData(ReadOnlySpan<byte> unread)
        {
            if (unread.Length < 1000) return 0;
            Close();
            look(unread);
            return unread.Length;
        }
    }

    private sealed class ByteAtATime : Session
    {
        internal string Story { get; private set; } = "";

        protected override int OnData(ReadOnlySpan<byte> unread)
        {
            Story += (char)unread[0];
            DeliverAgain();
            return 1;
        }

        protected override void OnEndOfStream()
        {
            Story += ", finished";
            base.OnEndOfStream();
        }
    }
}
