using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Whimbrel.Conformance;

/// <summary>Many things at once: no end is reported twice, nothing is left over, and no byte is wrong.</summary>
public abstract partial class StressSuite(Transport transport) : TrafficSuite(transport)
{
    [Fact, Contract(1, 2, 5, 12)]
    public void Close_abort_and_send_from_every_callback_and_from_other_threads_at_once() => Run(rig =>
    {
        int seed = rig.IsVirtual ? 1 : Random.Shared.Next();
        int sessions = rig.IsVirtual ? 25 : Depth.IsDeep ? 1000 : 150;
        try
        {
            Mix(rig, new Random(seed), sessions);
        }
        catch (Exception e)
        {
            throw new InvalidOperationException($"the mix had seed {seed}", e);
        }
    });

    [Fact, Contract(1)]
    public void Peers_that_disconnect_before_they_are_accepted_leave_nothing_open() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static self => self.Send("welcome"u8));
        for (int i = 0; i < 60; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            if (i % 3 == 0) peer.Reset();
            else if (i % 3 == 1) peer.Close();
            else peer.ShutdownSend();
        }

        rig.Until(() => server.Made.Count(static s => s.IsOver) >= server.Made.Count && server.AcceptedCount >= 40,
            "the gone peers to be noticed");
        Peer last = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("welcome", last.ReadText(7));
        Assert.All(server.Made.Where(static s => s.IsOver), static s => s.CheckLife());
    });

    [Fact, Contract(1)]
    public void Sessions_in_waves_give_back_descriptors_blocks_and_slots() => Run(rig =>
    {
        const int Wave = 100;
        int waves = rig.IsVirtual ? 3 : Depth.IsDeep ? 100 : 8;
        Server server = rig.Keep(new Server(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
            static () => new EchoSession()));
        rig.Await(server.StartAsync());
        int descriptors = 0;
        byte[] message = Pattern(3000);
        for (int wave = 0; wave < waves; wave++)
        {
            Peer[] peers = [.. Enumerable.Range(0, Wave).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            foreach (Peer peer in peers) peer.Write(message);
            foreach (Peer peer in peers) Assert.True(peer.Read(message.Length).AsSpan().SequenceEqual(message));
            Assert.Equal(Wave, server.SessionCount);
            foreach (Peer peer in peers) peer.Reset();
            rig.Until(() => server.SessionCount == 0, "the wave to end");
            // The listener remains.
            rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == 1, "the slots to be given back");
            Assert.Equal(0, rig.Engine.Loops.Sum(static l => l.Blocks.Outstanding));
            if (rig.IsVirtual || !OperatingSystem.IsLinux()) continue;
            int now = Directory.GetFileSystemEntries("/proc/self/fd").Length;
            if (wave == 0) descriptors = now;
            else Assert.InRange(now, 0, descriptors + 8);
        }

        Assert.Equal(waves * Wave, server.AcceptedCount);
    });

    [Fact, Contract(17)]
    public void Two_loops_that_broadcast_flat_out_into_each_others_groups_do_not_stall() => Run(rig =>
    {
        TimeSpan time = TimeSpan.FromSeconds(Depth.IsDeep ? 10 : 0.5);
        ServerOptions options =
            new()
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SlowConsumer = SlowConsumer.DropNewest }
            };
        List<EchoSession> made = [];
        Server server = rig.Keep(new Server(options, () =>
        {
            EchoSession session = new();
            lock (made) made.Add(session);
            return session;
        }));
        rig.Await(server.StartAsync());
        Peer[] peers = [.. Enumerable.Range(0, 6).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        rig.Until(() => server.Sessions.Count == 6, "all to be members");
        SessionGroup[] groups = [.. rig.Engine.Loops.Select(static l => new SessionGroup($"on {l.Index}"))];
        foreach (EchoSession session in made) groups[session.Loop.Index].Join(session);
        long[] rounds = new long[groups.Length];
        bool stop = false;
        byte[] message = new byte[500];
        foreach (Loop loop in rig.Engine.Loops) loop.Post(() => Round(loop));
        byte[] buffer = new byte[256 * 1024];
        long start = System.Diagnostics.Stopwatch.GetTimestamp();
        long[] before = new long[rounds.Length];
        int steps = 0;
        while (rig.IsVirtual ? steps < 20 : System.Diagnostics.Stopwatch.GetElapsedTime(start) < time)
        {
            // Each step waits until both loops have made progress: a stall fails here.
            for (int i = 0; i < rounds.Length; i++) before[i] = Volatile.Read(ref rounds[i]);
            rig.Until(
                () =>
                {
                    foreach (Peer peer in peers) _ = peer.TryRead(buffer);
                    return Enumerable.Range(0, rounds.Length).All(i => Volatile.Read(ref rounds[i]) > before[i]);
                },
                "both loops to go on");
            steps++;
        }

        Volatile.Write(ref stop, true);
        foreach (Loop loop in rig.Engine.Loops) rig.OnLoop(loop, static () => { });

        void Round(Loop loop)
        {
            for (int i = 0; i < 20; i++)
            {
                foreach (SessionGroup group in groups) group.Broadcast(message);
            }

            Volatile.Write(ref rounds[loop.Index], rounds[loop.Index] + 1);
            if (!Volatile.Read(ref stop)) loop.Post(() => Round(loop));
        }
    });

    [Fact, Contract(8, 9)]
    public void Sixty_four_echo_peers_that_never_read_do_not_harm_the_sixty_fifth() => Run(rig =>
    {
        Server server = rig.Keep(new Server(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
            static () => new EchoSession()));
        rig.Await(server.StartAsync());
        byte[] piece = Pattern(64 * 1024);
        Peer[] dead = [.. Enumerable.Range(0, 64).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        foreach (Peer peer in dead)
        {
            while (peer.TryWrite(piece) > 0)
            {
            }
        }

        Peer alive = rig.ConnectPeer(server.EndPoint!);
        byte[] message = Pattern(1000, 3);
        for (int i = 0; i < 100; i++)
        {
            foreach (Peer peer in dead.Take(8)) _ = peer.TryWrite(piece);
            alive.Write(message);
            Assert.True(alive.Read(message.Length).AsSpan().SequenceEqual(message));
        }

        Assert.Equal(65, server.SessionCount);
    });

    [Fact, Contract(9)]
    public void One_client_that_floods_does_not_keep_the_others_waiting() => Run(
        rig =>
        {
            Server server = rig.Keep(new Server(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
                static () => new EchoSession()));
            rig.Await(server.StartAsync());
            Peer flooding = rig.ConnectPeer(server.EndPoint!);
            byte[] piece = Pattern(256 * 1024);
            byte[] buffer = new byte[256 * 1024];
            bool stop = false;
            long echoed = 0;
            Repeat(rig, () =>
            {
                _ = flooding.TryWrite(piece);
                int got = flooding.TryRead(buffer);
                if (got > 0) Volatile.Write(ref echoed, echoed + got);
                return Volatile.Read(ref stop);
            });
            Peer other = rig.ConnectPeer(server.EndPoint!);
            List<double> times = [];
            for (int i = 0; i < 150; i++)
            {
                long start = System.Diagnostics.Stopwatch.GetTimestamp();
                other.Write("ping");
                Assert.Equal("ping", other.ReadText(4));
                times.Add(System.Diagnostics.Stopwatch.GetElapsedTime(start).TotalMilliseconds);
            }

            rig.Until(() => Volatile.Read(ref echoed) > 256 * 1024, "the flood to be answered as well");
            Volatile.Write(ref stop, true);
            rig.Join();
            times.Sort();
            Assert.True(rig.IsVirtual || times[times.Count / 2] < 100,
                $"median of a round trip beside the flood: {times[times.Count / 2]:0.0} ms");
        },
        loops: 1);

    [Fact, Contract(3, 7)]
    public void Keyed_streams_of_many_echo_sessions_come_back_byte_for_byte() => Run(rig =>
    {
        int total = rig.IsVirtual ? 100_000 : Depth.IsDeep ? 20_000_000 : 400_000;
        Server server = rig.Keep(new Server(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
            static () => new EchoSession()));
        rig.Await(server.StartAsync());
        Random random = new(5);
        var streams = Enumerable.Range(0, 16)
            .Select(i => (Peer: rig.ConnectPeer(server.EndPoint!), Data: Pattern(total, i), At: new int[2])).ToArray();
        byte[] buffer = new byte[100_000];
        rig.Until(
            () =>
            {
                bool done = true;
                foreach (var (peer, data, at) in streams)
                {
                    int length = Math.Min(total - at[0], random.Next(1, 50_000));
                    at[0] += peer.TryWrite(data.AsSpan(at[0], length));
                    int got;
                    while ((got = peer.TryRead(buffer.AsSpan(0, random.Next(1, buffer.Length)))) > 0)
                    {
                        Assert.True(data.AsSpan(at[1], got).SequenceEqual(buffer.AsSpan(0, got)),
                            $"a difference after byte {at[1]}");
                        at[1] += got;
                    }

                    done &= at[1] == total;
                }

                return done;
            },
            "all streams to come back");
    });

    [Fact, Contract(5)]
    public void Sends_to_a_peer_that_is_gone_end_the_session_and_not_the_process() => Run(rig =>
    {
        for (int i = 0; i < 10; i++)
        {
            RecordingServer server = rig.Serve();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            rig.OnLoop(session, session.PauseReceiving);
            if (i % 2 == 0) peer.Reset();
            else peer.Close();
            for (int n = 0; n < 200 && session.IsConnected; n++)
                rig.OnLoop(session, () => session.Send("nobody hears this"u8));
            session.End();
            Assert.Equal(1, session.Count("disconnected"));
        }
    });

    [Fact, Contract(1)]
    public void A_listener_that_closes_while_connections_arrive_loses_no_accepted_session() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (self, data) => self.Send(data));
        List<Peer> peers = [];
        for (int i = 0; i < 10; i++) peers.Add(rig.ConnectPeer(server.EndPoint!));
        // These are certainly accepted; of the following ones some may be aborted.
        rig.Until(() => server.Sessions.Count == 10, "ten sessions");
        ValueTask stopping = default;
        for (int i = 0; i < 20; i++)
        {
            if (i == 10) stopping = server.StopAcceptingAsync();
            try
            {
                rig.ConnectPeer(server.EndPoint!);
            }
            catch (Exception e) when (e is SocketException or IOException or InvalidOperationException)
            {
                // No listener is left.
            }
        }

        rig.Await(stopping);
        Assert.False(server.IsAccepting);
        foreach (Peer peer in peers)
        {
            peer.Write("still open");
            Assert.Equal("still open", peer.ReadText(10));
        }
    });

    [Fact, Contract(1)]
    public void A_client_that_is_stopped_while_it_connects_ends_cleanly() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        for (int i = 0; i < 40; i++)
        {
            RecordingClient client = rig.MakeClient(server.EndPoint!);
            Task<Session> connecting = client.ConnectAsync().AsTask();
            if (i % 3 == 0) rig.Settle();
            ValueTask end = i % 2 == 0 ? client.DisposeAsync() : client.DisconnectAsync();
            rig.Await(end);
            rig.Until(() => connecting.IsCompleted, "the connect to end");
            Assert.True(connecting.IsCompletedSuccessfully || connecting.Exception?.InnerException is NetworkException
                or OperationCanceledException, $"{connecting.Exception}");
            Assert.Null(client.Session);
        }

        rig.Until(() => server.SessionCount == 0, "the server to notice");
    });

    [Fact, Contract(1)]
    public void Out_of_descriptors_it_sheds_new_connections_gives_a_diagnostic_event_and_recovers_by_itself() =>
        Run(rig =>
        {
            Assert.SkipWhen(rig.IsVirtual || !OperatingSystem.IsLinux(),
                "Needs the descriptor limit of Linux; for the memory engine see MemoryFaultTests.");
            // Before it listens: io_uring uses the limit that applied when its accept started.
            using DescriptorLimit limit = new();
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (self, data) => self.Send(data));
            Peer open = rig.ConnectPeer(server.EndPoint!);
            Echo(open);
            bool isUnix = rig.IsUnix;
            Socket[] waiting = [.. Enumerable.Range(0, 40)
                .Select(_ => new Socket(isUnix ? AddressFamily.Unix : AddressFamily.InterNetwork, SocketType.Stream,
                    isUnix ? ProtocolType.Unspecified : ProtocolType.Tcp))];
            int descriptors = OpenDescriptors();
            using (limit.Fill())
            {
                long start = System.Diagnostics.Stopwatch.GetTimestamp();
                int opened = 0;
                Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.DescriptorLimit), "the notice");
                Echo(open);
                // The first one proves nothing: the next one needs the descriptor that the first one freed.
                Until(() => rig.Engine.Loops.Sum(static l => l.Counters.AcceptsShed) >= 3,
                    "three connections to be shed, one after the other");
                // With a rest of a tenth of a second between two.
                Assert.True(System.Diagnostics.Stopwatch.GetElapsedTime(start).TotalMilliseconds > 150);
                Echo(open);

                // A late release by the previous test frees a descriptor for one, which takes it: then another one
                // connects instead.
                void Until(Func<bool> condition, string what) => rig.Until(
                    () =>
                    {
                        for (; opened < Math.Min(4 + server.SessionCount - 1, waiting.Length); opened++)
                            waiting[opened].Connect(server.EndPoint!);
                        return condition();
                    },
                    what);
            }

            foreach (Socket socket in waiting) socket.Dispose();
            // Their descriptors were counted, and are closed: nothing may have taken their place.
            rig.Until(() => OpenDescriptors() <= descriptors - waiting.Length, "every descriptor to be given back");
            Peer after = rig.ConnectPeer(server.EndPoint!);
            Echo(after);
            Echo(open);
            DiagnosticEvent notice = Assert.Single(rig.Notices,
                static n => n.Kind == DiagnosticEventKind.DescriptorLimit);
            Assert.StartsWith("Cannot accept: ", notice.Message, StringComparison.Ordinal);

            static int OpenDescriptors() => Directory.GetFileSystemEntries("/proc/self/fd").Length;

            static void Echo(Peer peer)
            {
                peer.Write("hello");
                Assert.Equal("hello", peer.ReadText(5));
            }
        });

    [Fact, Contract(14)]
    public void Signals_that_interrupt_system_calls_change_nothing() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "Needs signals and threads of Linux.");
        if (OperatingSystem.IsWindows()) Assert.Skip("Needs signals and threads of Linux.");
        else SendSignals(rig);
    });

    [System.Runtime.Versioning.UnsupportedOSPlatform("windows")]
    private static void SendSignals(Rig rig)
    {
        using PosixSignalRegistration registration = PosixSignalRegistration.Create(PosixSignal.SIGWINCH,
            static context => context.Cancel = true);
        Server server = rig.Keep(new Server(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
            static () => new EchoSession()));
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        int[] threads = [.. Directory.GetDirectories("/proc/self/task").Where(
            static t => File.ReadAllText(Path.Combine(t, "comm")).StartsWith("conformance", StringComparison.Ordinal))
            .Select(static t => int.Parse(Path.GetFileName(t), System.Globalization.CultureInfo.InvariantCulture))];
        Assert.NotEmpty(threads);
        byte[] message = Pattern(20_000);
        for (int i = 0; i < 200; i++)
        {
            foreach (int thread in threads) Assert.Equal(0, SendSignal(Environment.ProcessId, thread, Winch));
            peer.Write(message);
            Assert.True(peer.Read(message.Length).AsSpan().SequenceEqual(message));
        }
    }

    private static void Mix(Rig rig, Random random, int count)
    {
        rig.Expect("on purpose");
        object gate = new();
        RecordingServer server = null!;
        server = rig.Serve(s =>
        {
            s.AtConnected = Act;
            s.AtReceived = (self, _) => Act(self);
            s.AtTimer = (self, _) => Act(self);
            s.AtDisconnected = (self, _) => Act(self);
            s.AtEndOfStream = self =>
            {
                Act(self);
                self.Close();
            };
        });
        List<Peer> peers = [];
        for (int i = 0; i < count; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peers.Add(peer);
            Try(() => peer.TryWrite("hello"u8));
            for (int t = 0; t < 2; t++)
            {
                rig.Elsewhere(() =>
                {
                    IReadOnlyList<RecordingSession> made = server.Made;
                    for (int n = 0; n < 20 && made.Count > 0; n++) Act(made[^1]);
                });
            }

            if (Next(3) == 0) Try(peers[Next(peers.Count)].Reset);
        }

        rig.Join();
        foreach (Peer peer in peers) Try(peer.Close);
        rig.Until(
            () =>
            {
                // A paused session may be notified of the end only when it is resumed (contract 10), and some pause
                // again.
                foreach (RecordingSession session in server.Made) session.ResumeReceiving();
                return server.SessionCount == 0;
            },
            "all sessions to end");
        Assert.All(server.Made, static s => s.CheckLife());

        int Next(int below)
        {
            lock (gate) return random.Next(below);
        }

        void Act(RecordingSession? session)
        {
            if (session is null) return;
            switch (Next(40))
            {
                case 0:
                    session.Close();
                    break;
                case 1:
                    session.Abort();
                    break;
                case 2:
                    session.ShutdownSend();
                    break;
                case 3:
                    session.PauseReceiving();
                    break;
                case 4 or 5:
                    session.ResumeReceiving();
                    break;
                case 6 when Loop.Current is { Active: not null } && session.IsConnected
                    && !session.Saw("disconnected"):
                    session.CallStartTimer(TimeSpan.FromMilliseconds(1));
                    break;
                case 7:
                    _ = session.SendAsync(new byte[Next(3_000_000)]).AsTask();
                    break;
                case 8 when Loop.Current is { Active: not null }:
                    throw new InvalidOperationException("on purpose");
                case 9:
                    server.Sessions.Broadcast("all"u8);
                    break;
                default:
                    session.Send(new byte[Next(20_000)]);
                    break;
            }
        }

        static void Try(Action action)
        {
            try
            {
                action();
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException or SocketException)
            {
                // The other side was faster.
            }
        }
    }

    private const int Winch = 28;

    [LibraryImport("libc", EntryPoint = "tgkill")]
    private static partial int SendSignal(int process, int thread, int signal);

    private sealed class EchoSession : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    /// <summary>A limit a little above the number of open descriptors; once filled, the process cannot open another
    /// one.</summary>
    private sealed unsafe partial class DescriptorLimit : IDisposable
    {
        private const int FileLimit = 7; // RLIMIT_NOFILE
        private const int Room = 256; // including the engine's margin
        private readonly List<FileStream> _fillers = [];
        private readonly ulong _before;
        private readonly ulong _hard;
        private readonly ulong _limit;

        // Safe: the system call reads or writes the two numbers of the buffer during the call.
        internal DescriptorLimit()
        {
            HaveThreads();
            ulong* limits = stackalloc ulong[2];
            Assert.Equal(0, GetLimit(FileLimit, limits));
            (_before, _hard) = (limits[0], limits[1]);
            long highest = Directory.GetFileSystemEntries("/proc/self/fd")
                .Max(static f => long.Parse(Path.GetFileName(f), System.Globalization.CultureInfo.InvariantCulture));
            _limit = (ulong)highest + Room;
            Set(_limit);
        }

        /// <summary>Occupies every free number below the limit, up to the last possible descriptor.</summary>
        internal DescriptorLimit Fill()
        {
            do _fillers.Add(new FileStream("/dev/null", FileMode.Open, FileAccess.Read));
            while ((ulong)_fillers[^1].SafeFileHandle.DangerousGetHandle() < _limit - 1);
            return this;
        }

        /// <summary>Starting a thread needs a descriptor, and the runtime ends the process if the pool cannot start
        /// one: so the threads exist before.</summary>
        private static void HaveThreads()
        {
            const int Count = 12;
            using PoolThreads threads = new(Count);
            using Barrier all = new(Count);
            Assert.True(Task.WaitAll(
                [.. Enumerable.Range(0, Count).Select(_ => Task.Run(() => all.SignalAndWait(20_000)))], 30_000));
        }

        public void Dispose()
        {
            Set(_before);
            foreach (FileStream filler in _fillers) filler.Dispose();
            _fillers.Clear();
        }

        // Safe: as above.
        private void Set(ulong soft)
        {
            ulong* limits = stackalloc ulong[2];
            (limits[0], limits[1]) = (soft, _hard);
            Assert.Equal(0, SetLimit(FileLimit, limits));
        }

        [LibraryImport("libc", EntryPoint = "getrlimit")]
        private static partial int GetLimit(int resource, ulong* limits);

        [LibraryImport("libc", EntryPoint = "setrlimit")]
        private static partial int SetLimit(int resource, ulong* limits);
    }
}
