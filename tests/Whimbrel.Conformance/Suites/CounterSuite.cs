using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Counters of sessions, bytes and messages in both directions, and the end of idle connections.</summary>
public abstract class CounterSuite(Transport transport) : Suite(transport)
{
    // ------------------------------------------------------------------ counters

    [Fact]
    public void Messages_and_bytes_are_exact_after_stop() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), CountSends = true });
        RecordingSession[] clients = [.. Enumerable.Range(0, 4).Select(_ => rig.Connect(server.EndPoint!))];
        foreach (RecordingSession client in clients)
        {
            RecordingSession c = client;
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < 30; n++) c.Send(new byte[50]);
            });
        }

        rig.Join();
        rig.Until(() => clients.Sum(static c => c.ReceivedCount) == 4 * 30 * 50, "all echoes");
        foreach (RecordingSession client in clients) client.Close();
        foreach (RecordingSession client in clients) client.End();
        rig.Await(server.StopAsync());
        ServerCounters counters = server.ReadCounters();
        long offers = server.Made.Sum(static s => s.Offers.Count);
        Assert.Equal(new ServerCounters(0, 4, 0, 0, 0, 6000, 6000, offers, offers), counters);
        Assert.Equal((6000, 6000), (server.BytesReceived, server.BytesSent));
    });

    [Fact]
    public void The_engine_counts_completions_and_iterations_without_any() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        EngineCounters before = rig.Engine.ReadCounters();
        for (int n = 0; n < 10; n++)
        {
            peer.Write("x");
            Assert.Equal("x", peer.ReadText(1));
        }

        EngineCounters after = rig.Engine.ReadCounters();
        Assert.InRange(after.Completions - before.Completions, 9, 10_000);
        Assert.InRange(after.Turns - before.Turns, 9, 10_000);
        for (int n = 0; n < 10; n++) rig.OnLoop(rig.Engine.GetLoop(0), static () => { });
        EngineCounters last = rig.Engine.ReadCounters();
        // Each ended a wait without completions, except for leftovers of the last echo. A simulation has iterations
        // only when there is work.
        if (!rig.IsVirtual) Assert.InRange(last.EmptyTurns - after.EmptyTurns, 5, 10_000);
        Assert.InRange(last.Completions - after.Completions, 0, 5);
        Assert.InRange(last.EmptyTurns, 0, last.Turns);
    });

    [Fact]
    public void Pending_bytes_of_a_server_count_those_in_mailboxes() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual || rig.IsPool,
            "The memory engine has one thread, and callbacks on the pool have no loop: neither can block a loop.");
        RecordingServer server = rig.Serve();
        Peer[] peers = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!)];
        RecordingSession[] sessions = [server.Connected(0), server.Connected(1)];
        Assert.Equal(0, server.BytesPending);
        using ManualResetEventSlim gate = HoldLoops(rig);
        foreach (RecordingSession session in sessions) Assert.Equal(SendResult.Queued, session.Send(new byte[1000]));
        long pending = server.BytesPending;
        gate.Set();
        Assert.Equal(2000, pending);
        foreach (Peer peer in peers) peer.Read(1000);
        rig.Until(() => server.BytesPending == 0, "nothing to be pending");
    });

    /// <summary>Both loops are blocked until it is set.</summary>
    private static ManualResetEventSlim HoldLoops(Rig rig)
    {
        ManualResetEventSlim gate = new();
        using CountdownEvent held = new(2);
        for (int i = 0; i < 2; i++)
        {
            rig.Engine.GetLoop(i).Post(() =>
            {
                held.Signal();
                gate.Wait();
            });
        }

        held.Wait(TestContext.Current.CancellationToken);
        return gate;
    }

    [Fact]
    public void The_slowest_sessions_are_those_with_the_most_pending() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual || rig.IsPool,
            "The memory engine has one thread, and callbacks on the pool have no loop: neither can block a loop.");
        RecordingServer server = rig.Serve();
        Peer[] peers = new Peer[4];
        RecordingSession[] sessions = new RecordingSession[4];
        for (int i = 0; i < 4; i++)
        {
            // One after the other: two loops may establish connections in another order.
            peers[i] = rig.ConnectPeer(server.EndPoint!);
            sessions[i] = server.Connected(i);
        }

        Assert.Empty(server.FindSlowest(10));
        int[] sizes = [2000, 3000, 0, 1000];
        long[] ofLoops = new long[2];
        using ManualResetEventSlim gate = HoldLoops(rig);
        for (int i = 0; i < 4; i++)
        {
            if (sizes[i] > 0) sessions[i].Send(new byte[sizes[i]]);
            ofLoops[sessions[i].Loop.Index] += sizes[i];
        }

        IReadOnlyList<SlowSession> two = server.FindSlowest(2);
        IReadOnlyList<SlowSession> all = server.FindSlowest(10);
        long[] pending = [rig.Engine.GetLoop(0).BytesPending, rig.Engine.GetLoop(1).BytesPending];
        gate.Set();
        Assert.Equal([new SlowSession(sessions[1], 3000), new SlowSession(sessions[0], 2000)], two);
        Assert.Equal([3000, 2000, 1000], all.Select(static s => s.BytesPending));
        Assert.Equal(ofLoops, pending);
        for (int i = 0; i < 4; i++) peers[i].Read(sizes[i]);
        rig.Until(() => server.FindSlowest(1).Count == 0
            && rig.Engine.GetLoop(0).BytesPending + rig.Engine.GetLoop(1).BytesPending == 0, "nothing to be pending");
        Assert.Throws<ArgumentOutOfRangeException>(() => server.FindSlowest(0));
        Assert.Throws<ArgumentOutOfRangeException>(() => server.FindSlowest(10_001));
    });

    [Fact]
    public void A_loop_counts_what_its_connections_do() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        LoopCounters before = session.Loop.ReadCounters();
        Assert.Equal(1, before.Connections);
        for (int n = 0; n < 10; n++)
        {
            peer.Write("twelve bytes");
            Assert.Equal("twelve bytes", peer.ReadText(12));
        }

        LoopTimer timer = session.Loop.StartTimer(TimeSpan.FromHours(1), static _ => { });
        LoopCounters after = default;
        rig.OnLoop(session.Loop, () => after = session.Loop.ReadCounters());
        Assert.Equal(before.Timers + 1, after.Timers);
        // With TLS the bytes of its records.
        Assert.InRange(after.BytesReceived - before.BytesReceived, 120, 10_000);
        Assert.InRange(after.BytesSent - before.BytesSent, 120, 10_000);
        Assert.InRange(after.Receives - before.Receives, 10, 120);
        if (!rig.IsVirtual) Assert.InRange(after.Sends - before.Sends, 10, 120);
        Assert.InRange(after.Completions - before.Completions, 9, 10_000);
        rig.OnLoop(session.Loop, () => timer.Cancel());
        peer.Close();
        session.End();
        rig.Until(() => session.Loop.ReadCounters().Connections == 0, "the loop to have no connection");
        // A post of another thread wakes a waiting loop; in a simulation no loop waits.
        if (rig.IsVirtual) return;
        rig.Until(
            () =>
            {
                rig.OnLoop(session.Loop, static () => { });
                return session.Loop.ReadCounters().Wakes > before.Wakes;
            },
            "a wake");
    });

    [Fact]
    public void Sends_of_every_kind_are_counted_once_each() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, data) =>
            {
                for (int i = 0; i < 100; i++) x.Send("ten bytes."u8);
                x.Send(Outgoing.Pieces("head "u8, "body"u8));
                x.Send("text");
                x.Send(ReadOnlySpan<byte>.Empty);
                x.Send(new byte[40_000]);
                Span<byte> room = x.CallReserve(100);
                room[..7].Fill((byte)'r');
                x.CallCommit(7);
                x.CallReserve(100);
                x.CallCommit(0);
                IMemoryOwner<byte> small = MemoryPool<byte>.Shared.Rent(100);
                if (x.Send(Outgoing.Owned(small, 100)) != SendResult.Queued) small.Dispose();
                IMemoryOwner<byte> large = MemoryPool<byte>.Shared.Rent(30_000);
                if (x.Send(Outgoing.Owned(large, 30_000)) != SendResult.Queued) large.Dispose();
                _ = x.SendAsync(new byte[11]).AsTask();
            },
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), CountSends = true });
        const int inCallback = 100 + 2 + 1 + 1 + 2 + 1;
        const int bytes = 1000 + 9 + 4 + 40_000 + 7 + 100 + 30_000 + 11;
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("x");
        byte[] got = peer.Read(bytes);
        Assert.Equal("ten bytes.ten bytes.", Text(got.AsSpan(980, 20)));
        Assert.Equal("head bodytext", Text(got.AsSpan(1000, 13)));
        rig.Until(() => server.ReadCounters().MessagesSent == inCallback, "the sends of the callback to be counted");

        // From another thread: counted when the loop processes them.
        rig.Elsewhere(() =>
        {
            session.Send("12345"u8);
            session.Send(Outgoing.Pieces("6"u8, "7"u8));
            IMemoryOwner<byte> owner = MemoryPool<byte>.Shared.Rent(8);
            if (session.Send(Outgoing.Owned(owner, 8)) != SendResult.Queued) owner.Dispose();
        });
        rig.Join();
        peer.Read(15);
        Assert.Equal(inCallback + 3, server.ReadCounters().MessagesSent);

        // A message larger than the limit is sent in pieces and counts as one.
        ValueTask<SendResult> large = session.SendAsync(new byte[3_000_000]);
        peer.Read(3_000_000);
        Assert.Equal(SendResult.Queued, rig.Await(large));
        peer.Close();
        session.End();
        rig.Await(server.StopAsync());
        Assert.Equal(inCallback + 4, server.ReadCounters().MessagesSent);
        Assert.Equal(bytes + 15 + 3_000_000, server.BytesSent);
    });

    [Fact]
    public void Without_the_option_sends_are_not_counted_and_reported_as_unknown() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(static s => s.AtReceived = static (x, data) => x.Send(data));
        Assert.Equal(default, server.ReadCounters());
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.ReadText(1);
        peer.Write("y");
        peer.ReadText(1);
        ServerCounters counters = server.ReadCounters();
        Assert.Null(counters.MessagesSent);
        Assert.Equal((1, 1L, 2L, 2L),
            (counters.Sessions, counters.Accepted, counters.BytesReceived, counters.MessagesReceived));
    });

    [Fact, Contract(8)]
    public void Counted_sends_meet_the_same_limit() => Run(rig =>
    {
        List<SendResult> results = [];
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, data) =>
            {
                for (int i = 0; i < 9; i++) results.Add(x.Send(new byte[1000]));
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                CountSends = true,
                Limits = new() { SendBytes = 8000, SlowConsumer = SlowConsumer.DropNewest }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.Read(8000);
        Assert.Equal([.. Enumerable.Repeat(SendResult.Queued, 8), SendResult.Full], results);
        Assert.Equal(8, server.ReadCounters().MessagesSent);
    });

    // ------------------------------------------------------------------ idle connections

    private static readonly TimeSpan s_idle = TimeSpan.FromMilliseconds(400);

    [Fact]
    public void A_connection_without_traffic_is_closed_not_early_and_not_much_too_late() => Run(rig =>
    {
        DateTimeOffset ended = default;
        RecordingServer server = rig.Serve(
            s => s.AtDisconnecting = (_, _) => ended = rig.Engine.UtcNow,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Timeouts = new() { Idle = s_idle } });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Pass(s_idle / 2);
        // Taken before the bytes are on their way: this thread may be late after them.
        DateTimeOffset last = rig.Engine.UtcNow;
        peer.Write("still here");
        session.UntilReceived(10);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.IdleTimeout, session.End());
        Assert.Equal(CloseInitiator.Library, session.Reason.Initiator);
        Assert.Equal(ErrorCategory.Timeout, session.Reason.Error.Category);
        // The real wall clock and the timers' clock may differ by a tick.
        TimeSpan slack = rig.IsVirtual ? TimeSpan.Zero : TimeSpan.FromMilliseconds(30);
        Assert.True(ended - last >= s_idle - slack, $"closed after {ended - last}");
        if (rig.IsVirtual) Assert.True(ended - last <= s_idle * 1.25, $"closed after {ended - last}");
    });

    [Fact]
    public void Bytes_in_either_direction_keep_a_connection() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Timeouts = new() { Idle = s_idle } });
        // If the machine was suspended for the limit, the server is right to close them: try again with others.
        for (int i = 0; !TryKeep(rig, server, first: 2 * i); i++)
            Assert.True(i < 100, "the machine stands still again and again");
    });

    /// <summary>Returns false if nothing ran for so long that the limit passed, although the next byte was due long
    /// before.</summary>
    private static bool TryKeep(Rig rig, RecordingServer server, int first)
    {
        Peer listens = rig.ConnectPeer(server.EndPoint!);
        RecordingSession sends = server.Connected(first);
        Peer talks = rig.ConnectPeer(server.EndPoint!);
        RecordingSession receives = server.Connected(first + 1);
        // From before the last byte that was certainly sent, up to when the next one has certainly arrived.
        long saidMs = rig.Engine.NowMs;
        for (int i = 1; i <= 16; i++)
        {
            rig.Pass(s_idle / 8); // twice the limit in total, and short compared with the pauses of a busy machine
            long nowMs = rig.Engine.NowMs;
            sends.Send("x"u8);
            talks.Write("y");
            rig.Until(() => (sends.BytesSent >= i && receives.ReceivedCount >= i) || !sends.IsConnected
                || !receives.IsConnected, $"{i} bytes in both directions");
            if (rig.Engine.NowMs - saidMs >= s_idle.TotalMilliseconds)
            {
                listens.Close();
                talks.Close();
                return false;
            }

            saidMs = nowMs;
            Assert.Equal((true, true), (sends.IsConnected, receives.IsConnected));
            listens.Read(1);
        }

        Assert.Empty(listens.ReadToEnd());
        Assert.Empty(talks.ReadToEnd());
        listens.Close();
        talks.Close();
        Assert.Equal(CloseCause.IdleTimeout, sends.End());
        Assert.Equal(CloseCause.IdleTimeout, receives.End());
        return true;
    }

    [Fact]
    public void The_idle_limit_does_not_affect_closing_sessions_or_those_without_it() => Run(rig =>
    {
        RecordingServer off = rig.Serve();
        Peer quiet = rig.ConnectPeer(off.EndPoint!);
        RecordingSession session = off.Connected();
        RecordingServer on = rig.Serve(
            static s => s.AtReceived = static (x, _) => x.Close(),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Idle = TimeSpan.FromMilliseconds(100) }
            });
        Peer closed = rig.ConnectPeer(on.EndPoint!);
        closed.Write("x");
        Assert.Empty(closed.ReadToEnd());
        // Its linger time is longer than the idle limit, and another timer.
        rig.Pass(TimeSpan.FromMilliseconds(300));
        Assert.False(on.Session().IsOver);
        closed.Close();
        Assert.Equal(CloseCause.LocalClose, on.Session().End());
        if (rig.IsVirtual) rig.Pass(TimeSpan.FromDays(1));
        Assert.True(session.IsConnected);
        quiet.Close();
        session.End();
    });

    [Fact]
    public void Client_connections_have_their_own_idle_limit() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingSession session = rig.Connect(rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Timeouts = new() { Idle = TimeSpan.FromMilliseconds(100) }
        }));
        Assert.Equal(CloseCause.IdleTimeout, session.End());
        Assert.Equal(CloseCause.PeerClosed, server.Session().End());
    });

    [Fact]
    public void A_recycled_connection_starts_its_idle_time_again() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(null,
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Timeouts = new() { Idle = s_idle }
                });
            Peer first = rig.ConnectPeer(server.EndPoint!);
            server.Connected();
            rig.Pass(s_idle * 0.9);
            first.Close();
            server.Session().End();
            Peer second = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(1);
            rig.Pass(s_idle * 0.5);
            Assert.True(session.IsConnected);
            Assert.Empty(second.ReadToEnd());
            second.Close();
            Assert.Equal(CloseCause.IdleTimeout, session.End());
        },
        loops: 1);
}
