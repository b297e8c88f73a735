// The test thread blocks deliberately, because the tests check which thread does what.
#pragma warning disable xUnit1031
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using static Whimbrel.Conformance.LoopTurns;

namespace Whimbrel.Conformance;

/// <summary>Loops that run on the caller's thread, by Run or Turn, and the messages for misuse. Real engines.</summary>
public sealed class AdoptedLoopTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    private sealed class Echo : Session
    {
        internal Action? AtReceived { get; init; }

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            AtReceived?.Invoke();
            Send(data);
        }
    }

    private static Engine Make(EngineKind kind, int loops = 1, int adopted = 1, Action<string>? record = null) =>
        new(new EngineOptions
        {
            Kind = kind,
            Loops = loops,
            AdoptedLoops = adopted,
            OnLoopStarted = loop => record?.Invoke($"{loop.Index} started by {Environment.CurrentManagedThreadId}"),
            OnLoopStopping = loop => record?.Invoke($"{loop.Index} stopping by {Environment.CurrentManagedThreadId}"),
        });

    private static Server Serve(Engine engine, Action? atReceived = null) =>
        new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new Echo { AtReceived = atReceived });

    private static Socket Connect(Server server)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            ReceiveTimeout = (int)s_deadline.TotalMilliseconds
        };
        socket.Connect(server.EndPoint!);
        return socket;
    }

    private static Thread Start(Action action)
    {
        Thread thread = new(() => action()) { IsBackground = true };
        thread.Start();
        return thread;
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void The_thread_that_runs_a_loop_is_not_refused_between_its_iterations_and_other_threads_are(EngineKind kind)
    {
        const int Count = 20;
        Transport.Needs(kind);
        Engine engine =
            new(new EngineOptions { Kind = kind, Loops = 1, AdoptedLoops = 1, MailboxLimitBytes = 64 * 1024 });
        Loop loop = engine.GetLoop(0);
        List<Echo> made = [];
        Server server = new(
            new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () =>
            {
                made.Add(new Echo());
                return made[^1];
            });
        TurnUntilEnd(loop, server.StartAsync().AsTask());
        Socket[] sockets = [.. Enumerable.Range(0, Count).Select(_ => Connect(server))];
        TurnUntil(loop, () => server.Sessions.Count == Count);
        Session[] sessions = [.. sockets.Select(s => made.Single(c => c.RemoteEndPoint!.Equals(s.LocalEndPoint)))];
        byte[] message = new byte[8 * 1024];
        for (int i = 0; i < Count; i++)
        {
            Assert.Equal(SendResult.Queued, sessions[i].Send(message));
            Assert.Equal(message.Length, sessions[i].BytesPending);
            Assert.Equal(SendResult.Queued, server.Broadcast("to all"));
            if (i > 0) continue;
            // Its own send limit (contract 8) and the call order (contract 7) still hold.
            Assert.Equal(SendResult.Queued, sessions[i].Send("bye"));
            sessions[i].Close();
            Assert.Equal(SendResult.Closed, sessions[i].Send("too late"));
        }

        Assert.True(engine.ReadCounters().MailboxBytes > engine.Options.MailboxLimitBytes);
        Join(Start(() => Assert.Equal(SendResult.Full, sessions[1].Send("x"))));
        Assert.Equal(1, engine.ReadCounters().SendsRefused);
        for (int i = 0; i < Count; i++)
        {
            byte[] expected = i == 0
                ? [.. message, .. "to allbye"u8]
                : [.. Enumerable.Repeat("to all"u8.ToArray(), i).SelectMany(static b => b), .. message,
                    .. Enumerable.Repeat("to all"u8.ToArray(), Count - i).SelectMany(static b => b)];
            byte[] got = new byte[expected.Length];
            int at = 0;
            sockets[i].Blocking = false;
            TurnUntil(loop, () =>
            {
                while (at < got.Length && sockets[i].Available > 0) at += sockets[i].Receive(got.AsSpan(at));
                return at == got.Length;
            });
            Assert.True(got.AsSpan().SequenceEqual(expected), $"session {i}");
            sockets[i].Dispose();
        }

        Assert.Equal(0, engine.ReadCounters().MailboxBytes);
        TurnUntilEnd(loop, engine.DisposeAsync().AsTask());
    }

    private static void Join(Thread thread) => Assert.True(thread.Join(s_deadline), "the thread did not end");

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void A_game_runs_the_loop_itself_and_everything_runs_on_its_thread(EngineKind kind)
    {
        Transport.Needs(kind);
        List<string> story = [];
        Engine engine = Make(kind, record: story.Add);
        Loop loop = engine.GetLoop(0);
        Assert.True(loop.IsAdopted);
        int me = Environment.CurrentManagedThreadId;
        int received = 0;
        Server server = Serve(engine,
            () => received += Environment.CurrentManagedThreadId == me && loop.IsCurrent ? 1 : 1000);
        TurnUntilEnd(loop, server.StartAsync().AsTask());
        Assert.Null(Loop.Current);
        using Socket socket = Connect(server);
        byte[] buffer = new byte[5];
        int fired = 0;
        loop.StartTimer(TimeSpan.FromMilliseconds(2), _ => fired++);
        loop.Post(() => fired++);
        for (int i = 0; i < 3; i++)
        {
            int before = received;
            socket.Send("frame"u8);
            // The response is sent in the iteration that received the request: nothing runs between the last iteration
            // and this read.
            TurnUntil(loop, () => received > before);
            Assert.Equal(5, socket.Receive(buffer));
            Assert.Equal("frame", Encoding.ASCII.GetString(buffer));
        }

        TurnUntil(loop, () => fired == 2);
        Assert.Equal(3, received);
        Assert.Equal([$"0 started by {me}"], story);

        // Called on the thread that runs the loop, outside an iteration, the stop itself ends the loop.
        Assert.True(engine.StopAsync().IsCompleted);
        Assert.Equal([$"0 started by {me}", $"0 stopping by {me}"], story);
        Assert.False(loop.Turn(TimeSpan.FromMinutes(1)));
        Assert.False(loop.Run());
        Assert.True(engine.DisposeAsync().IsCompleted);
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void Run_gives_the_thread_back_by_its_token_or_when_the_engine_stops(EngineKind kind)
    {
        Transport.Needs(kind);
        Engine engine = Make(kind, loops: 2);
        Loop loop = engine.GetLoop(0);
        List<bool> returned = [];
        using CancellationTokenSource source = new();
        Thread thread = Start(() =>
        {
            returned.Add(loop.Run(source.Token));
            returned.Add(loop.Run());
            returned.Add(loop.Run());
        });
        Assert.Equal(1, loop.PostAsync(() => loop.IsCurrent ? 1 : 0).AsTask().GetAwaiter().GetResult());
        Server server = Serve(engine);
        server.StartAsync().AsTask().GetAwaiter().GetResult();
        using Socket socket = Connect(server);
        byte[] buffer = new byte[4];
        socket.Send("echo"u8);
        Assert.Equal(4, socket.Receive(buffer));
        source.Cancel();
        Assert.Equal(1, loop.PostAsync(() => 1).AsTask().GetAwaiter().GetResult());
        Assert.True(returned[0]);
        engine.StopAsync().AsTask().GetAwaiter().GetResult();
        Join(thread);
        Assert.Equal([true, false, false], returned);

        // After a restart another thread may run it.
        engine.StartAsync().AsTask().GetAwaiter().GetResult();
        thread = Start(() => loop.Run());
        Assert.Equal(2, loop.PostAsync(() => 2).AsTask().GetAwaiter().GetResult());
        engine.DisposeAsync().AsTask().GetAwaiter().GetResult();
        Join(thread);
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void Wrong_uses_are_reported_and_break_nothing(EngineKind kind)
    {
        Transport.Needs(kind);
        Engine engine = Make(kind, loops: 2);
        Loop adopted = engine.GetLoop(0);
        Loop own = engine.GetLoop(1);
        Assert.Throws<ArgumentOutOfRangeException>(() => adopted.Turn(TimeSpan.FromMilliseconds(-2)));
        Assert.True(adopted.Turn(TimeSpan.Zero)); // starts the engine, and binds the loop to this thread
        Assert.True(engine.IsStarted);
        Assert.Contains("a thread of its own",
            Assert.Throws<InvalidOperationException>(() => own.Turn(TimeSpan.Zero)).Message, StringComparison.Ordinal);
        Assert.Contains("a thread of its own", Assert.Throws<InvalidOperationException>(() => own.Run()).Message,
            StringComparison.Ordinal);

        Exception? foreign = null;
        Join(Start(() => foreign = Record(() => adopted.Turn(TimeSpan.Zero))));
        Assert.Contains("belongs to thread", Assert.IsType<InvalidOperationException>(foreign).Message,
            StringComparison.Ordinal);

        Exception? inside = null;
        adopted.Post(() => inside = Record(() => adopted.Turn(TimeSpan.Zero)));
        TurnUntil(adopted, () => inside is not null);
        Assert.Contains("inside one of its own callbacks", Assert.IsType<InvalidOperationException>(inside).Message,
            StringComparison.Ordinal);

        Exception? other = own.PostAsync(() => Record(() => adopted.Run())).AsTask().GetAwaiter().GetResult();
        Assert.Contains("would hold", other!.Message.Replace("here would hold", "would hold", StringComparison.Ordinal),
            StringComparison.Ordinal);

        // It still works.
        bool ran = false;
        adopted.Post(() => ran = true);
        TurnUntil(adopted, () => ran);
        Assert.True(engine.DisposeAsync().AsTask().Wait(s_deadline));

        static Exception? Record(Action action)
        {
            try
            {
                action();
                return null;
            }
            catch (InvalidOperationException e)
            {
                return e;
            }
        }
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void A_stop_from_another_thread_is_processed_in_the_next_iterations(EngineKind kind)
    {
        Transport.Needs(kind);
        List<string> story = [];
        Engine engine = Make(kind, record: story.Add);
        Loop loop = engine.GetLoop(0);
        Server server = Serve(engine);
        TurnUntilEnd(loop, server.StartAsync().AsTask());
        using Socket socket = Connect(server);
        TurnUntil(loop, () => server.SessionCount == 1);
        Task? stop = null;
        Join(Start(() => stop = engine.StopAsync().AsTask()));
        Assert.False(stop!.IsCompleted);
        Assert.Equal(1, server.SessionCount);
        while (loop.Turn(TimeSpan.FromSeconds(1)))
        {
        }

        Assert.True(stop.Wait(s_deadline));
        Assert.Equal(0, server.SessionCount);
        Assert.Equal(2, story.Count);
        Assert.True(engine.DisposeAsync().IsCompleted);
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void A_loop_that_never_ran_does_not_delay_the_stop(EngineKind kind)
    {
        Transport.Needs(kind);
        List<string> story = [];
        Engine engine = Make(kind, loops: 3, adopted: 3, record: story.Add);
        engine.StartAsync().AsTask().GetAwaiter().GetResult();
        int ran = 0;
        Assert.True(engine.GetLoop(2).Post(() => ran++));
        ValueTask<int> posted = engine.GetLoop(1).PostAsync(() => ++ran);
        Assert.True(engine.StopAsync().IsCompleted);
        Assert.InRange(posted.AsTask().GetAwaiter().GetResult(), 1, 2);
        Assert.Equal(2, ran);
        Assert.Empty(story);
        Assert.False(engine.GetLoop(0).Turn(TimeSpan.Zero));
        engine.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void A_turn_waits_up_to_its_timeout_or_the_first_event(EngineKind kind)
    {
        Transport.Needs(kind);
        Engine engine = Make(kind);
        Loop loop = engine.GetLoop(0);
        long start = 0;
        double waitedMs = 0;
        // An iteration may end early, for instance because of a signal, but not forever.
        for (int i = 0; i < 20 && waitedMs < 25; i++)
        {
            start = Stopwatch.GetTimestamp();
            loop.Turn(TimeSpan.FromMilliseconds(30));
            waitedMs = Stopwatch.GetElapsedTime(start).TotalMilliseconds;
        }

        Assert.InRange(waitedMs, 25, 10_000);
        Thread poster = Start(() => loop.Post(static () => { }));
        start = Stopwatch.GetTimestamp();
        loop.Turn(s_deadline); // the post arrives before the wait, which is skipped, or during the wait, which ends
        Join(poster);
        loop.Turn(TimeSpan.Zero);
        long armed = Stopwatch.GetTimestamp();
        loop.StartTimer(TimeSpan.FromMilliseconds(100), static _ => { });
        loop.Turn(s_deadline); // picks up the timer
        Assert.True(loop.Timers.Count == 1 || Stopwatch.GetElapsedTime(armed).TotalMilliseconds >= 100);
        while (loop.Timers.Count > 0) loop.Turn(s_deadline); // cancelled by the token
        Assert.True(Stopwatch.GetElapsedTime(armed).TotalMilliseconds >= 99);
        Assert.True(Stopwatch.GetElapsedTime(armed) < s_deadline / 2 && Stopwatch.GetElapsedTime(start) < s_deadline);
        Assert.True(engine.DisposeAsync().IsCompleted);
    }
}
