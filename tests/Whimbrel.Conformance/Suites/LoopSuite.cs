using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Features of a loop itself: posting, dispatching, timers.</summary>
public abstract class LoopSuite(Transport transport) : Suite(transport)
{
    private static readonly int[] s_dues = [30, 10, 20, 0, 10];

    private static Loop Started(Rig rig)
    {
        rig.Serve();
        return rig.Engine.GetLoop(rig.Engine.LoopCount - 1);
    }

    [Fact]
    public void A_descriptor_opened_by_a_callback_with_its_connections_number_is_not_touched_by_the_loop() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual || rig.IsPool || !OperatingSystem.IsLinux(),
                "The test needs an engine that reuses a descriptor's number at once.");
            List<Socket> opened = [];
            int accepted = -1;
            ServerOptions options = new()
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new()
                {
                    OnCreated = s => accepted = s.Role == SocketRole.Accepted ? (int)s.Descriptor : accepted
                }
            };
            RecordingServer server = rig.Serve(
                s => s.AtReceived = (x, _) =>
                {
                    x.Abort();
                    for (int number = -1; number != accepted && opened.Count < 100; number = (int)opened[^1].Handle)
                    {
                        // Permanently readable, because it is not read.
                        Socket socket = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
                        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
                        socket.SendTo("x"u8, socket.LocalEndPoint!);
                        opened.Add(socket);
                    }
                },
                options);
            rig.ConnectPeer(server.EndPoint!).Write("x");
            Assert.Equal(CloseCause.LocalAbort, server.Session().End());
            rig.Settle();
            long turns = Turns(rig);
            long stale = Volatile.Read(ref rig.Engine.Loops[0].Counters.StaleCompletions);
            rig.Pass(TimeSpan.FromMilliseconds(50));
            Assert.InRange(Turns(rig) - turns, 0, 20);
            Assert.Equal(stale, Volatile.Read(ref rig.Engine.Loops[0].Counters.StaleCompletions));
            foreach (Socket socket in opened) socket.Dispose();
        },
        loops: 1);

    [Fact]
    public void A_socket_that_epoll_refuses_ends_or_rests_and_the_others_continue() => Run(
        rig =>
        {
            Assert.SkipUnless(rig.Engine.Kind == EngineKind.Epoll,
                "Only epoll registers each socket by a call of its own.");
            rig.Expect("Cannot accept");
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
            Peer bystander = rig.ConnectPeer(server.EndPoint!);
            bystander.Write("a");
            Assert.Equal("a", bystander.ReadText(1));
            LoopRoom.Forbid(rig, (233, 21), Errno.ENOMEM); // epoll_ctl
            // One more connection: nothing would ever be reported for it.
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            Assert.Equal(CloseCause.ResourceLimit, server.Session(1).End());
            peer.EndsInReset();
            // A listener is retried periodically, and a diagnostic event is raised.
            RecordingServer second = rig.Serve();
            rig.Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.DescriptorLimit), "the notice");
            rig.Settle();
            long turns = Turns(rig);
            rig.Pass(TimeSpan.FromMilliseconds(100));
            Assert.InRange(Turns(rig) - turns, 0, 40);
            bystander.Write("b");
            Assert.Equal("b", bystander.ReadText(1));
            Assert.Equal(0, second.SessionCount);
        },
        loops: 1);

    [Fact]
    public void A_lack_of_memory_that_lasts_rests_a_connection_and_ends_nothing() => Run(
        rig =>
        {
            Assert.SkipUnless(rig.Engine.Kind == EngineKind.Epoll, "The simulation tests this for io_uring.");
            RecordingServer server = rig.Serve();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            LoopRoom.Forbid(rig, (45, 207), Errno.ENOMEM); // recvfrom
            peer.Write("x");
            rig.Settle();
            long turns = Turns(rig);
            rig.Pass(TimeSpan.FromMilliseconds(100));
            Assert.InRange(Turns(rig) - turns, 1, 60);
            Assert.True(session.IsConnected);
            Assert.Equal(0, session.ReceivedCount);
            session.Abort();
            session.End();
        },
        loops: 1);

    private static long Turns(Rig rig) => rig.Engine.Loops.Sum(static l => Volatile.Read(ref l.Counters.Turns));

    [Fact]
    public void A_loop_that_was_woken_sleeps_again() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine's loop never sleeps.");
        rig.Engine.Start();
        foreach (Loop loop in rig.Engine.Loops)
        {
            for (int i = 0; i < 3; i++) rig.OnLoop(loop, static () => { });
        }

        rig.Settle();
        long before = Turns(rig);
        rig.Pass(TimeSpan.FromMilliseconds(50));
        Assert.InRange(Turns(rig) - before, 0, 20);
    });

    [Fact]
    public void Posted_actions_run_on_the_loop_in_order() => Run(rig =>
    {
        Loop loop = Started(rig);
        List<int> seen = [];
        bool foreign = false;
        for (int i = 0; i < 1000; i++)
        {
            Assert.True(loop.Post(
                n =>
                {
                    foreign |= !loop.IsCurrent || Loop.Current != loop;
                    seen.Add((int)n!);
                },
                i));
        }

        rig.OnLoop(loop, static () => { });
        Assert.Equal(Enumerable.Range(0, 1000), seen);
        Assert.False(foreign);
        Assert.Null(Loop.Current);
        Assert.False(loop.IsCurrent);
    });

    [Fact]
    public void Post_never_runs_inside_the_callers_stack_and_Dispatch_does_on_the_loop() => Run(rig =>
    {
        Loop loop = Started(rig);
        string order = "";
        rig.OnLoop(loop, () =>
        {
            loop.Post(() => order += "posted ");
            loop.Dispatch(() => order += "dispatched ");
            order += "returned ";
        });
        rig.OnLoop(loop, static () => { });
        Assert.Equal("dispatched returned posted ", order);
        loop.Dispatch(() => order += "from elsewhere");
        rig.Until(() => order.EndsWith("elsewhere", StringComparison.Ordinal), "the dispatched action");
    });

    [Fact]
    public void Timers_fire_in_order_and_never_early() => Run(rig =>
    {
        Loop loop = Started(rig);
        List<string> fired = [];
        bool early = false;
        foreach (int due in s_dues)
        {
            long start = rig.Engine.NowMs;
            loop.StartTimer(
                TimeSpan.FromMilliseconds(due),
                state =>
                {
                    early |= rig.Engine.NowMs - start < due;
                    lock (fired) fired.Add((string)state!);
                },
                $"{due}");
        }

        rig.Pass(TimeSpan.FromMilliseconds(31));
        rig.Until(() => fired.Count == 5, "all timers");
        Assert.False(early);
        if (rig.IsVirtual) Assert.Equal(["0", "10", "10", "20", "30"], fired);
        else Assert.Equal(["0", "10", "10", "20", "30"], fired.Order());
    });

    [Fact]
    public void A_cancelled_timer_does_not_fire() => Run(rig =>
    {
        Loop loop = Started(rig);
        int fired = 0;
        LoopTimer cancelled = loop.StartTimer(TimeSpan.FromMilliseconds(5), _ => fired += 100);
        Assert.True(cancelled.IsActive);
        cancelled.Cancel();
        cancelled.Cancel();
        LoopTimer other = loop.StartTimer(TimeSpan.FromMilliseconds(10), _ => fired++);
        rig.Pass(TimeSpan.FromMilliseconds(15));
        rig.Until(() => fired > 0, "the other timer");
        Assert.Equal(1, fired);
        rig.OnLoop(loop, () => Assert.False(other.IsActive || cancelled.IsActive));
    });

    [Fact]
    public void A_periodic_timer_continues_until_it_cancels_itself() => Run(rig =>
    {
        Loop loop = Started(rig);
        int fired = 0;
        LoopTimer? timer = null;
        rig.OnLoop(loop, () => timer = loop.StartTimer(
            TimeSpan.FromMilliseconds(1),
            _ =>
            {
                if (++fired == 5) timer!.Cancel();
            },
            null,
            TimeSpan.FromMilliseconds(2)));
        Assert.Equal(TimeSpan.FromMilliseconds(2), timer!.Period);
        rig.Pass(TimeSpan.FromMilliseconds(30));
        rig.Until(() => fired == 5, "five firings");
        rig.Pass(TimeSpan.FromMilliseconds(10));
        rig.Settle();
        Assert.Equal(5, fired);
    });

    [Fact]
    public void A_timer_that_restarts_itself_at_once_does_not_starve_others() => Run(rig =>
    {
        Loop loop = Started(rig);
        bool stop = false;
        void Again(object? state)
        {
            if (!Volatile.Read(ref stop)) loop.StartTimer(TimeSpan.Zero, Again);
        }

        loop.StartTimer(TimeSpan.Zero, Again);
        for (int i = 0; i < 5; i++) rig.OnLoop(loop, static () => { });
        Volatile.Write(ref stop, true);
    });

    [Fact]
    public void Mistakes_with_timers_are_thrown_at_the_call() => Run(rig =>
    {
        Loop loop = Started(rig);
        Assert.Throws<ArgumentOutOfRangeException>(() => loop.StartTimer(TimeSpan.FromMilliseconds(-1),
            static _ => { }));
        Assert.Throws<ArgumentOutOfRangeException>(() => loop.StartTimer(TimeSpan.Zero, static _ => { }, null,
            TimeSpan.FromMilliseconds(-1)));
        Assert.Throws<ArgumentNullException>(() => loop.StartTimer(TimeSpan.Zero, (Action<object?>)null!));
        Assert.Throws<ArgumentNullException>(() => loop.Post((Action)null!));
        Assert.Throws<ArgumentNullException>(() => loop.Dispatch((Action)null!));
    });

    [Fact, Contract(1)]
    public void Timers_of_a_session_end_with_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.CallStartTimer(TimeSpan.FromMilliseconds(5));
            x.CallStartTimer(TimeSpan.FromMilliseconds(1), TimeSpan.FromMilliseconds(1));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Pass(TimeSpan.FromMilliseconds(3));
        session.Until("timer");
        peer.ShutdownSend();
        session.End();
        rig.Pass(TimeSpan.FromMilliseconds(10));
        rig.Settle();
        Assert.StartsWith("disconnected", session.Events[^1], StringComparison.Ordinal);
        Assert.Throws<InvalidOperationException>(() => session.CallStartTimer(TimeSpan.Zero));
    });

    [Fact, Contract(14)]
    public void A_callback_that_blocks_its_loop_is_named_in_a_diagnostic_event() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
            {
                rig.Block(TimeSpan.FromMilliseconds(400));
                x.Send(data);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            // Twice: in an iteration with JIT compilation, user code has 250 ms.
            for (int i = 0; i < 2; i++)
            {
                peer.Write("x");
                Assert.Equal("x", peer.ReadText(1));
            }

            rig.Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.BlockedLoop), "a notice");
            DiagnosticEvent notice = rig.Notices.First(static n => n.Kind == DiagnosticEventKind.BlockedLoop);
            Assert.Contains("OnReceived of RecordingSession", notice.Message, StringComparison.Ordinal);
            Assert.Contains("loop 0", notice.Message, StringComparison.Ordinal);
            Assert.Equal("blocked-loop.md", notice.Page);
        },
        loops: 1);

    [Fact, Contract(14)]
    public void Callbacks_that_wait_for_a_cpu_are_not_accused() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "The memory engine's time passes on one thread only.");
            Assert.SkipUnless(Linux.ThreadTimes.TryRead(Linux.CurrentThread.Id, out _),
                "This system does not count how long a thread waits for a cpu.");
            int over = 0;
            Thread[] others = [.. Enumerable.Range(0, 8 * Environment.ProcessorCount)
                .Select(_ => new Thread(Compute) { IsBackground = true })];
            foreach (Thread other in others) other.Start();
            try
            {
                RecordingServer server = rig.Serve(s => s.AtReceived = static (x, data) =>
                {
                    // Long enough to be preempted many times, and far from the limit in CPU time.
                    for (int i = 0; i < 4_000_000; i++) Interlocked.MemoryBarrier();
                    x.Send(data);
                });
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                for (int i = 0; i < 10; i++)
                {
                    peer.Write("x");
                    Assert.Equal("x", peer.ReadText(1));
                }
            }
            finally
            {
                Volatile.Write(ref over, 1);
                foreach (Thread other in others) other.Join();
            }

            rig.Settle();
            Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.BlockedLoop);

            void Compute()
            {
                while (Volatile.Read(ref over) == 0) Thread.SpinWait(1_000);
            }
        },
        loops: 1);

    [Fact, Contract(14)]
    public void A_callback_that_does_not_return_is_named_while_it_blocks_and_again_when_it_has_ended() => Run(
        rig =>
        {
            using ManualResetEventSlim release = new();
            RecordingServer server = rig.Serve(s => s.AtReceived = (_, _) =>
            {
                if (rig.IsVirtual) rig.Block(TimeSpan.FromSeconds(5));
                else release.Wait(TestContext.Current.CancellationToken);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            peer.Write("x");
            string who = $"OnReceived of RecordingSession (session {session.Id:x})";
            try
            {
                rig.Until(() => rig.Notices.Any(n => n.Message.StartsWith($"{who} has blocked loop 0 for ",
                    StringComparison.Ordinal)), "the notice while it blocks");
                if (!rig.IsVirtual)
                    Assert.DoesNotContain(rig.Notices,
                        n => n.Message.StartsWith($"{who} blocked loop 0 for ", StringComparison.Ordinal));
            }
            finally
            {
                release.Set();
            }

            rig.Until(() => rig.Notices.Any(n => n.Message.StartsWith($"{who} blocked loop 0 for ",
                StringComparison.Ordinal)), "the notice when it has ended");
            Assert.Equal(2, rig.Notices.Count(n => n.Kind == DiagnosticEventKind.BlockedLoop
                && n.Message.StartsWith(who, StringComparison.Ordinal)));
        },
        loops: 1);

    [Fact, Contract(14)]
    public void Waiting_on_a_loop_for_what_only_this_loop_can_do_is_named() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            using CancellationTokenSource release = new();
            Loop loop = Started(rig);
            loop.Post(() =>
            {
                TaskCompletionSource posted = new();
                loop.Post(posted.SetResult);
                try
                {
                    posted.Task.Wait(release.Token);
                }
                catch (OperationCanceledException)
                {
                    // The end of the test.
                }
            });
            try
            {
                rig.Until(() => rig.Notices.Any(static n => n.Message.StartsWith(
                    $"a posted action (LoopSuite.{nameof(Waiting_on_a_loop_for_what_only_this_loop_can_do_is_named)}) "
                    + $"has blocked loop 0 for ", StringComparison.Ordinal)), "the notice");
            }
            finally
            {
                release.Cancel();
            }
        },
        loops: 1);

    [Fact, Contract(14)]
    public void Each_callback_has_a_diagnostic_event_of_its_own_in_a_minute() => Run(
        rig =>
        {
            // The watchdog needs two checks, 100 ms apart; a busy machine delays them.
            RecordingServer server = rig.Serve(s =>
            {
                s.AtConnected = _ => rig.Block(TimeSpan.FromMilliseconds(600));
                s.AtReceived = (x, data) =>
                {
                    rig.Block(TimeSpan.FromMilliseconds(600));
                    x.Send(data);
                };
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            for (int i = 0; i < 2; i++)
            {
                server.Connected();
                peer.Write("x");
                Assert.Equal("x", peer.ReadText(1));
            }

            rig.Settle();
            Assert.Equal(1, rig.Notices.Count(static n => n.Message.StartsWith("OnConnected of RecordingSession",
                StringComparison.Ordinal)));
            Assert.Equal(1, rig.Notices.Count(static n => n.Message.StartsWith("OnReceived of RecordingSession",
                StringComparison.Ordinal)));
        },
        loops: 1);
}
