namespace Whimbrel.Conformance;

/// <summary>Helpers of the suites about sending: small limits, a peer that stops reading, threads that repeat
/// steps.</summary>
public abstract class TrafficSuite(Transport transport) : Suite(transport)
{
    /// <summary>The limit of <see cref="Narrow"/>.</summary>
    protected const int Limit = 64 * 1024;

    /// <summary>Receive buffer of a peer that reads much from a <see cref="Narrow"/> server.</summary>
    protected const int SmallBuffer = 32 * 1024;

    private static readonly byte[] s_filler = Pattern(8 * 1024 * 1024, 99);

    /// <summary>A server with small queues and socket buffers, so that a peer that does not read is noticed
    /// early.</summary>
    protected static ServerOptions Narrow(Rig rig, SlowConsumer policy = SlowConsumer.Wait, bool? backPressure = null,
        int limit = Limit)
    {
        ArgumentNullException.ThrowIfNull(rig);
        return new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { SendBytes = limit, SlowConsumer = policy, BackPressure = backPressure },
            Socket = new() { SendBufferBytes = 8192 },
        };
    }

    /// <summary>A connected session of a narrow server, and its peer.</summary>
    protected static (RecordingSession Session, Peer Peer) Pair(Rig rig, SlowConsumer policy = SlowConsumer.Wait,
        Action<RecordingSession>? setUp = null, int limit = Limit)
    {
        ArgumentNullException.ThrowIfNull(rig);
        RecordingServer server = rig.Serve(setUp, Narrow(rig, policy, limit: limit));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        return (server.Connected(), peer);
    }

    /// <summary>Sends until the kernel accepts no more: from now on every byte stays in the queue. Returns the sent
    /// data, which the peer must read first.</summary>
    protected static byte[] Clog(Rig rig, Session session)
    {
        ArgumentNullException.ThrowIfNull(rig);
        ArgumentNullException.ThrowIfNull(session);
        int total = 0;
        while (true)
        {
            rig.OnLoop(session, () =>
            {
                Assert.Equal(SendResult.Queued, session.Send(s_filler.AsSpan(total, 8192)));
                total += 8192;
            });
            rig.OnLoop(session, static () => { });
            if (session.BytesPending == 0) continue;
            // TCP acknowledges up to 40 ms later, and accepts more then.
            if (!rig.IsVirtual && !rig.IsUnix) rig.Pass(TimeSpan.FromMilliseconds(60));
            rig.Settle();
            long pending = session.BytesPending;
            rig.Settle();
            if (pending > 0 && pending == session.BytesPending) return s_filler[..total];
        }
    }

    /// <summary>Fills the queue of a clogged session so that exactly <paramref name="room"/> bytes are left. Returns
    /// the sent data.</summary>
    protected static byte[] FillTo(Rig rig, Session session, int room, int limit = Limit)
    {
        ArgumentNullException.ThrowIfNull(rig);
        List<byte> sent = [];
        rig.OnLoop(session, () =>
        {
            // A busy kernel may accept more after all, including what fills the queue; in virtual time it does not.
            int tries = rig.IsVirtual ? 1 : 10;
            do
            {
                byte[] filler = Pattern((int)(limit - session.BytesPending) - room, 5);
                Assert.Equal(SendResult.Queued, session.Send(filler));
                sent.AddRange(filler);
            }
            while (--tries > 0 && session.BytesPending != limit - room);

            Assert.Equal(limit - room, session.BytesPending);
        });
        return [.. sent];
    }

    /// <summary>Another thread that repeats a step until it returns true. In virtual time other events happen between
    /// two steps.</summary>
    protected static void Repeat(Rig rig, Func<bool> step)
    {
        ArgumentNullException.ThrowIfNull(rig);
        ArgumentNullException.ThrowIfNull(step);
        rig.Elsewhere(() =>
        {
            if (!rig.IsVirtual)
            {
                for (int idle = 0; !step(); idle++)
                {
                    if (idle % 16 == 15) Thread.Yield();
                }
            }
            else if (!step()) Repeat(rig, step);
        });
    }

    /// <summary>Runs an async method on a thread that is not a loop.</summary>
    protected static Task<T> StartElsewhere<T>(Rig rig, Func<ValueTask<T>> method)
    {
        ArgumentNullException.ThrowIfNull(rig);
        Task<T>? task = null;
        rig.Elsewhere(() => Volatile.Write(ref task, Wrap(method)));
        rig.Until(() => Volatile.Read(ref task) is not null, "the other thread to start");
        return task!;
    }

    /// <summary>
    /// Writes bytes one by one while reads of the other end are cancelled at any moment: none is lost.
    /// </summary>
    /// <param name="rig">Where.</param>
    /// <param name="peer">Writes them.</param>
    /// <param name="stream">Where they are read.</param>
    /// <param name="length">How many.</param>
    /// <param name="start">Starts the reader on the thread that the test is about.</param>
    protected static void ReadThroughCancels(Rig rig, Peer peer, Stream stream, int length,
        Func<Func<ValueTask<byte[]>>, Task<byte[]>> start)
    {
        ArgumentNullException.ThrowIfNull(peer);
        ArgumentNullException.ThrowIfNull(stream);
        ArgumentNullException.ThrowIfNull(start);
        byte[] data = Pattern(length);
        CancellationTokenSource? current = null;
        bool done = false;
        Task<byte[]> reader = start(ReadAllAsync);
        Repeat(rig, () =>
        {
            Volatile.Read(ref current)?.Cancel();
            return Volatile.Read(ref done);
        });
        for (int i = 0; i < length; i++) peer.Write([data[i]]);
        Assert.Equal(data, Await(rig, reader));

        async ValueTask<byte[]> ReadAllAsync()
        {
            List<byte> got = [];
            byte[] memory = new byte[3];
            for (int reads = 0; got.Count < length; reads++)
            {
                CancellationTokenSource source = new();
                Volatile.Write(ref current, source);
                try
                {
                    // Every second read is not cancellable: on a busy machine the others might never receive anything.
                    int count = await stream.ReadAsync(memory, reads % 2 == 0 ? source.Token : CancellationToken.None)
                        .ConfigureAwait(false);
                    Assert.True(count > 0);
                    got.AddRange(memory.AsSpan(0, count));
                }
                catch (OperationCanceledException)
                {
                    // The next read continues where this one ended, which is the point of the test.
                }
            }

            Volatile.Write(ref done, true);
            return [.. got];
        }
    }

    /// <summary>Starts an async method on the session's loop, outside of any callback.</summary>
    protected static Task<T> StartOnLoop<T>(Rig rig, Session session, Func<ValueTask<T>> method)
    {
        ArgumentNullException.ThrowIfNull(rig);
        Task<T>? task = null;
        rig.OnLoop(session, () => task = Wrap(method));
        return task!;
    }

    /// <summary>Same, for any loop.</summary>
    protected static Task<T> StartOnLoop<T>(Rig rig, Loop loop, Func<ValueTask<T>> method)
    {
        ArgumentNullException.ThrowIfNull(rig);
        Task<T>? task = null;
        rig.OnLoop(loop, () => task = Wrap(method));
        return task!;
    }

    /// <summary>On the session's loop or on another thread, as requested.</summary>
    protected static Task<T> Start<T>(Rig rig, Session session, bool onLoop, Func<ValueTask<T>> method) =>
        onLoop ? StartOnLoop(rig, session, method) : StartElsewhere(rig, method);

    /// <summary>Same, for any loop.</summary>
    protected static Task<T> Start<T>(Rig rig, Loop loop, bool onLoop, Func<ValueTask<T>> method) =>
        onLoop ? StartOnLoop(rig, loop, method) : StartElsewhere(rig, method);

    /// <summary>Runs an action on the session's loop or on another thread, and waits for it.</summary>
    protected static void At(Rig rig, Session session, bool onLoop, Action action)
    {
        ArgumentNullException.ThrowIfNull(rig);
        if (onLoop) rig.OnLoop(session, action);
        else Join(rig, action);
    }

    /// <summary>Same, for any loop.</summary>
    protected static void At(Rig rig, Loop loop, bool onLoop, Action action)
    {
        ArgumentNullException.ThrowIfNull(rig);
        if (onLoop) rig.OnLoop(loop, action);
        else Join(rig, action);
    }

    private static void Join(Rig rig, Action action)
    {
        rig.Elsewhere(action);
        rig.Join();
    }

    protected static T Await<T>(Rig rig, Task<T> task)
    {
        ArgumentNullException.ThrowIfNull(rig);
        ArgumentNullException.ThrowIfNull(task);
        rig.Until(() => task.IsCompleted, "the task to end");
        return task.GetAwaiter().GetResult();
    }

    /// <summary>A server with this many sessions, and their peers.</summary>
    protected static (RecordingServer Server, List<(RecordingSession Session, Peer Peer)> Pairs) Several(Rig rig,
        int count, ServerOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(rig);
        RecordingServer server = rig.Serve(null, options);
        List<(RecordingSession, Peer)> pairs = [];
        for (int i = 0; i < count; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            pairs.Add((server.Connected(i), peer));
        }

        rig.Until(() => server.Sessions.Count == count, "all to be members");
        return (server, pairs);
    }

    protected static byte[] Filled(char letter, int length)
    {
        byte[] bytes = new byte[length];
        bytes.AsSpan().Fill((byte)letter);
        return bytes;
    }

    private static async Task<T> Wrap<T>(Func<ValueTask<T>> method) => await method().ConfigureAwait(false);
}
