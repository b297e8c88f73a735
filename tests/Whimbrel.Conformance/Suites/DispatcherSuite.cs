using System.Collections.Concurrent;

namespace Whimbrel.Conformance;

/// <summary>Contract 14 with threads of the user instead of the pool: one thread, one that is blocked, one that
/// fails.</summary>
public abstract class DispatcherSuite(Transport transport) : TrafficSuite(transport)
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(15);

    [ThreadStatic]
    private static bool t_posts;

    /// <summary>One thread that runs items in order; in virtual time the other threads of the simulation do.</summary>
    private sealed class OneThread : IDisposable
    {
        private readonly BlockingCollection<IThreadPoolWorkItem> _items = [];
        private readonly Rig _rig;
        private readonly Thread? _thread;
        private int _inside;

        public OneThread(Rig rig)
        {
            _rig = rig;
            if (rig.IsVirtual) return;
            _thread = new Thread(Work) { IsBackground = true, Name = "the test's dispatcher" };
            _thread.Start();
        }

        public int Given { get; private set; }

        /// <summary>True on this thread.</summary>
        public bool IsHere => _thread is null ? Volatile.Read(ref _inside) > 0 : Thread.CurrentThread == _thread;

        public void Dispatch(IThreadPoolWorkItem item)
        {
            lock (_items) Given++;
            if (_thread is null) _rig.Elsewhere(() => RunOne(item));
            else _items.Add(item);
        }

        private void RunOne(IThreadPoolWorkItem item)
        {
            _inside++;
            item.Execute();
            _inside--;
        }

        private void Work()
        {
            foreach (IThreadPoolWorkItem item in _items.GetConsumingEnumerable()) RunOne(item);
        }

        public void Dispose()
        {
            _items.CompleteAdding();
            _thread?.Join();
            _items.Dispose();
        }
    }

    private static ServerOptions With(Rig rig, Action<IThreadPoolWorkItem> dispatcher) => new()
    {
        Engine = rig.Engine,
        EndPoint = rig.NewAddress(),
        Scheduling = Scheduling.ThreadPool,
        Dispatcher = dispatcher
    };

    [Fact, Contract(14)]
    public void All_callbacks_of_all_sessions_run_on_the_one_thread_of_a_dispatcher() => Run(rig =>
    {
        using OneThread one = new(rig);
        int astray = 0;
        void Check()
        {
            if (!one.IsHere) Interlocked.Increment(ref astray);
        }

        RecordingServer server = rig.Serve(
            s =>
            {
                s.AtConnecting = _ => Check();
                s.AtConnected = x =>
                {
                    Check();
                    x.CallStartTimer(TimeSpan.FromMilliseconds(1));
                };
                s.AtTimer = (_, _) => Check();
                s.AtReceived = (x, data) =>
                {
                    Check();
                    x.Send(data);
                };
                s.AtEndOfStream = x =>
                {
                    Check();
                    x.Close();
                };
                s.AtDisconnecting = (_, _) => Check();
                s.AtDisconnected = (_, _) => Check();
            },
            With(rig, one.Dispatch));
        List<Peer> peers = [.. Enumerable.Range(0, 6).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        byte[] large = Pattern(300_000);
        for (int round = 0; round < 5; round++)
        {
            foreach (Peer peer in peers) peer.Write($"{round}");
            foreach (Peer peer in peers) Assert.Equal($"{round}", peer.ReadText(1));
        }

        rig.Elsewhere(() => peers[0].Write(large));
        Assert.True(peers[0].Read(large.Length).AsSpan().SequenceEqual(large));
        rig.Join();
        RecordingSession first = server.Connected(0);
        rig.Until(() => first.Saw("timer"), "its timer");
        Assert.True(rig.Await(first.PostAsync(Check)));
        foreach (Peer peer in peers) peer.ShutdownSend();
        for (int i = 0; i < peers.Count; i++) server.Connected(i).End();
        Assert.Equal(0, astray);
        Assert.True(one.Given > 30);
        rig.Await(server.StopAsync());
    });

    [Fact, Contract(14, 12)]
    public void A_blocked_dispatcher_delays_reading_and_a_stop_up_to_its_deadline_and_nothing_is_lost() => Run(
        rig =>
        {
            rig.Expect("has not ended at the deadline");
            Queue<IThreadPoolWorkItem> kept = new();
            bool stands = false;
            void Dispatch(IThreadPoolWorkItem item)
            {
                lock (kept)
                {
                    if (stands)
                    {
                        kept.Enqueue(item);
                        return;
                    }
                }

                rig.Elsewhere(item.Execute);
            }

            RecordingServer server = rig.Serve(null, With(rig, Dispatch));
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            byte[] all = Pattern(8 * 1024 * 1024, 6);
            Stand();
            int written = peer.WriteUntilFull(all);
            Assert.True(written < all.Length, "the peer is not held back");
            Assert.Equal(0, session.ReceivedCount);
            GoOn();
            rig.Until(() => session.ReceivedCount == written, "what was written");
            Assert.True(all.AsSpan(0, written).SequenceEqual(session.Received));
            rig.Settle();
            Stand();
            Task<StopReport> stop = server.StopAsync(TimeSpan.FromMilliseconds(50)).AsTask();
            // It cannot be informed of the stop, and so is reset at the deadline; its last callback cannot be called.
            if (rig.IsVirtual) rig.Pass(TimeSpan.FromSeconds(3));
            rig.Until(() => stop.IsCompleted, "the stop to give up");
            Assert.Equal(1, stop.Result.Left);
            Assert.Contains("waits for the Dispatcher of RecordingSession", Assert.Single(stop.Result.Unfinished).What,
                StringComparison.Ordinal);
            Assert.False(session.Saw("disconnected"));
            GoOn();
            session.End();
            rig.Join();
            Assert.Equal(1, session.Count("disconnected"));
            Assert.Equal(written, session.ReceivedCount);

            void GoOn()
            {
                lock (kept)
                {
                    stands = false;
                    while (kept.TryDequeue(out IThreadPoolWorkItem? item)) rig.Elsewhere(item.Execute);
                }
            }

            void Stand()
            {
                lock (kept) stands = true;
            }
        },
        loops: 1);

    [Theory, Contract(14)]
    [InlineData("throws")]
    [InlineData("keeps the item and throws")]
    [InlineData("runs it at once")]
    [InlineData("runs it twice")]
    public void A_dispatcher_that_breaks_its_contract_causes_a_diagnostic_event_and_loses_no_callback(string what) =>
        Run(rig =>
        {
            if (what != "runs it twice") rig.Expect("The Dispatcher threw");
            int calls = 0;
            void Dispatch(IThreadPoolWorkItem item)
            {
                bool isBad = Interlocked.Increment(ref calls) % 2 == 0;
                switch (isBad ? what : "")
                {
                    case "throws":
                        throw new InvalidOperationException("on purpose");
                    case "runs it at once":
                        item.Execute();
                        break;
                    case "runs it twice":
                        rig.Elsewhere(item.Execute);
                        rig.Elsewhere(item.Execute);
                        break;
                    default:
                        rig.Elsewhere(item.Execute);
                        if (isBad) throw new InvalidOperationException("on purpose");
                        break;
                }
            }

            RecordingServer server = rig.Serve(s => s.AtReceived = static (x, data) => x.Send(data),
                With(rig, Dispatch));
            List<Peer> peers = [.. Enumerable.Range(0, 4).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            for (int round = 0; round < 10; round++)
            {
                // The recording sessions report callbacks that overlap, nest or run in the stack of a loop.
                foreach (Peer peer in peers) peer.Write($"{round}");
                foreach (Peer peer in peers) Assert.Equal($"{round}", peer.ReadText(1));
                RecordingSession session = server.Connected(0);
                bool wasInStack = false;
                t_posts = true;
                Assert.True(session.Post(() => wasInStack = t_posts));
                t_posts = false;
                Assert.True(rig.Await(session.PostAsync(static () => { })));
                Assert.False(wasInStack);
            }

            foreach (Peer peer in peers) peer.ShutdownSend();
            for (int i = 0; i < peers.Count; i++)
            {
                RecordingSession session = server.Connected(i);
                session.End();
                Assert.Equal("0123456789", session.ReceivedText);
            }

            rig.Join();
            Assert.Equal(what != "runs it twice",
                rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.UserException
                    && n.Message.Contains("The Dispatcher threw", StringComparison.Ordinal)));
        });

    [Fact, Contract(2, 14)]
    public void An_item_that_is_run_again_inside_the_callback_that_it_runs_does_nothing() => Run(
        rig =>
        {
            IThreadPoolWorkItem? last = null;
            bool isInside = false;
            int nested = 0;
            RecordingServer server = rig.Serve(
                s => s.AtReceived = (x, data) =>
                {
                    isInside = true;
                    Assert.True(x.Post(() => nested += isInside ? 1 : 0));
                    last!.Execute();
                    isInside = false;
                    x.Send(data);
                },
                With(rig, item =>
                {
                    last = item;
                    rig.Elsewhere(item.Execute);
                }));
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            for (int i = 0; i < 5; i++)
            {
                peer.Write("x");
                Assert.Equal("x", peer.ReadText(1));
            }

            Assert.Equal(0, nested);
        },
        loops: 1);

    [Fact, Contract(14, 12)]
    public void With_a_dispatcher_sessions_begin_answer_and_stop_while_every_thread_of_the_pool_is_busy() => Run(
        rig =>
        {
            Assert.SkipUnless(!rig.IsVirtual && rig.Engine.Kind is EngineKind.Epoll or EngineKind.Uring
                && rig.Tls == TlsKind.None, "Needs an engine that does not use the thread pool itself.");
            using OneThread one = new(rig);
            RecordingServer server = rig.Serve(s => s.AtReceived = static (x, data) => x.Send(data),
                With(rig, one.Dispatch));
            using BusyPool busy = new();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            for (int i = 0; i < 20; i++)
            {
                peer.Write("again");
                Assert.Equal("again", peer.ReadText(5));
            }

            ValueTask<StopReport> stop = server.StopAsync(s_patience);
            Assert.Equal("", peer.ReadTextToEnd());
            peer.Close();
            Assert.Equal(new StopReport(1, 0), rig.Await(stop) with { Unfinished = [] });
            Assert.True(busy.IsBusy);
        },
        loops: 1);

    [Fact]
    public void A_dispatcher_without_callbacks_on_the_pool_is_a_mistake_of_the_options() => Run(rig =>
    {
        ServerOptions options =
            new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), Dispatcher = static _ => { } };
        Assert.Contains("Dispatcher", Assert.Throws<ArgumentException>(() => rig.Await(new Server(options,
            () => new RecordingSession(rig)).StartAsync())).Message, StringComparison.Ordinal);
    });
}
