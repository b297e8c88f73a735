// The test thread blocks deliberately, because the tests check which thread does what.
#pragma warning disable xUnit1031
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>The threads of an engine: name, CPU, priority, hooks that throw, and behaviour when idle. Real
/// engines.</summary>
public sealed class EngineThreadTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    private static void Wait(ValueTask task)
    {
        Task running = task.AsTask();
        // tidy: waits because this is the deadline of the wait itself
        Assert.True(Task.WhenAny(running, Task.Delay(s_deadline)).GetAwaiter().GetResult() == running,
            "it did not end in time");
        running.GetAwaiter().GetResult();
    }

    private static string Own(Loop loop, Func<string> question) =>
        loop.PostAsync(question).AsTask().GetAwaiter().GetResult();

    private static string StatusLine(string name) =>
        File.ReadLines("/proc/thread-self/status")
            .First(line => line.StartsWith(name, StringComparison.Ordinal))[(name.Length + 1)..].Trim();

    private static void EchoOnce(Engine engine, string text)
    {
        Server server = new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            static () => new Echo());
        server.StartAsync().AsTask().GetAwaiter().GetResult();
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            ReceiveTimeout = (int)s_deadline.TotalMilliseconds
        };
        socket.Connect(server.EndPoint!);
        socket.Send(System.Text.Encoding.ASCII.GetBytes(text));
        byte[] buffer = new byte[text.Length];
        for (int got = 0; got < buffer.Length;) got += socket.Receive(buffer.AsSpan(got));
        Assert.Equal(text, System.Text.Encoding.ASCII.GetString(buffer));
        socket.Close(); // otherwise the stop waits for it
        Wait(server.DisposeAsync());
    }

    [Fact]
    public void Threads_carry_the_name_and_the_number_of_their_loop()
    {
        Engine engine = new(new EngineOptions { Loops = 2, Name = "named" });
        Wait(engine.StartAsync());
        for (int i = 0; i < 2; i++)
            Assert.Equal($"named-{i}", Own(engine.GetLoop(i), static () => Thread.CurrentThread.Name!));
        Wait(engine.DisposeAsync());
    }

    [Fact]
    public void Loops_run_on_their_cpus_and_only_there()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Threads are bound to CPUs on Linux only.");
        int[] allowed = Allowed();
        Engine engine =
            new(new EngineOptions { Loops = 3, Cpus = allowed.Length > 1 ? [allowed[1], allowed[0]] : [allowed[0]] });
        Wait(engine.StartAsync());
        int[] expected =
            allowed.Length > 1 ? [allowed[1], allowed[0], allowed[1]] : [allowed[0], allowed[0], allowed[0]];
        for (int i = 0; i < 3; i++)
            Assert.Equal($"{expected[i]}", Own(engine.GetLoop(i), static () => StatusLine("Cpus_allowed_list:")));
        Wait(engine.RestartAsync());
        Assert.Equal($"{expected[0]}", Own(engine.GetLoop(0), static () => StatusLine("Cpus_allowed_list:")));
        Wait(engine.DisposeAsync());
        Assert.Equal(allowed, Allowed());
    }

    private static int[] Allowed() =>
        [.. StatusLine("Cpus_allowed_list:").Split(',').Select(static range => range.Split('-')).SelectMany(
            static r => Enumerable.Range(int.Parse(r[0], null), int.Parse(r[^1], null) - int.Parse(r[0], null) + 1))];

    [Fact]
    public void A_missing_cpu_fails_the_start_by_name_and_leaves_nothing_running()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Threads are bound to CPUs on Linux only.");
        List<string> story = [];
        Engine engine = new RecordingEngine(new EngineOptions
        {
            Loops = 2,
            Cpus = [Allowed()[0], 1000],
            OnLoopStarted = loop => Add($"loop {loop.Index} started"),
            OnLoopStopping = loop => Add($"loop {loop.Index} stopping")
        }, Add);
        for (int round = 0; round < 2; round++)
        {
            NetworkException e = Assert.Throws<NetworkException>(() => Wait(engine.StartAsync()));
            Assert.Contains("loop 1 to cpu 1000 (EngineOptions.Cpus)", e.Message, StringComparison.Ordinal);
            Assert.False(engine.IsStarted);
            Assert.All(engine.Loops, static l => Assert.True(l.IsStopped));
        }

        Server server = new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            static () => new Echo());
        Assert.Contains("cpu 1000",
            Assert.Throws<NetworkException>(() => server.StartAsync().AsTask().GetAwaiter().GetResult()).Message,
            StringComparison.Ordinal);
        Assert.DoesNotContain("started", story);
        Assert.DoesNotContain("stopped", story);
        Assert.Equal(story.Count(static s => s == "loop 0 started"), story.Count(static s => s == "loop 0 stopping"));
        Wait(engine.DisposeAsync());

        void Add(string what)
        {
            lock (story) story.Add(what);
        }
    }

    [Theory]
    [InlineData(ThreadPriority.Lowest, 10)]
    [InlineData(ThreadPriority.BelowNormal, 5)]
    [InlineData(ThreadPriority.Normal, 0)]
    [InlineData(ThreadPriority.AboveNormal, -5)]
    [InlineData(ThreadPriority.Highest, -10)]
    public void A_priority_is_a_nice_value_of_the_thread_or_fails_the_start_by_name(ThreadPriority priority, int nice)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Nice values need Linux.");
        int own = NiceOfThisThread();
        Engine engine = new(new EngineOptions { Loops = 1, Priority = priority });
        try
        {
            Wait(engine.StartAsync());
        }
        catch (NetworkException e)
        {
            Assert.True(nice < 0, e.Message);
            Assert.Contains($"the priority {priority} (nice {nice}; less than 0 needs CAP_SYS_NICE)", e.Message,
                StringComparison.Ordinal);
            Wait(engine.DisposeAsync());
            return;
        }

        int seen = engine.GetLoop(0).PostAsync(NiceOfThisThread).AsTask().GetAwaiter().GetResult();
        Assert.Equal(priority == ThreadPriority.Normal ? own : nice, seen);
        Assert.Equal(own, NiceOfThisThread());
        Wait(engine.DisposeAsync());
    }

    // The fields after the name, which is in parentheses; nice is field 19.
    private static int NiceOfThisThread()
    {
        string stat = File.ReadAllText("/proc/thread-self/stat");
        return int.Parse(stat[(stat.LastIndexOf(')') + 2)..].Split(' ')[16],
            System.Globalization.CultureInfo.InvariantCulture);
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public void A_hook_that_throws_fails_the_start_and_the_next_start_may_work(EngineKind kind)
    {
        Transport.Needs(kind);
        bool isBroken = true;
        int stopping = 0;
        Engine engine = new(new EngineOptions
        {
            Kind = kind,
            Loops = 2,
            OnLoopStarted = loop =>
            {
                if (isBroken && loop.Index == 1) throw new TimeZoneNotFoundException("on purpose");
            },
            OnLoopStopping = _ => Interlocked.Increment(ref stopping),
        });
        Assert.Equal("on purpose", Assert.Throws<TimeZoneNotFoundException>(() => Wait(engine.StartAsync())).Message);
        Assert.False(engine.IsStarted);
        Assert.Equal(1, stopping); // of the loop without a throwing hook
        isBroken = false;
        EchoOnce(engine, "now it starts");
        Wait(engine.DisposeAsync());
        Assert.Equal(3, stopping);
    }

    [Fact]
    public void An_exception_of_the_stopping_hook_is_a_diagnostic_event_and_its_posts_still_run()
    {
        List<string> notices = [];
        bool ran = false;
        Engine engine = new(new EngineOptions
        {
            Loops = 1,
            OnDiagnosticEvent = n => notices.Add(n.Message),
            OnLoopStopping = loop =>
            {
                Assert.True(loop.Post(() => ran = loop.IsCurrent));
                throw new TimeZoneNotFoundException("on purpose");
            },
        });
        Wait(engine.StartAsync());
        Wait(engine.DisposeAsync());
        Assert.True(ran);
        Assert.Single(notices, static n => n.StartsWith("OnLoopStopping threw TimeZoneNotFoundException: on purpose",
            StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(EngineKind.Epoll, IdleStrategy.SpinThenBlock)]
    [InlineData(EngineKind.Uring, IdleStrategy.SpinThenBlock)]
    [InlineData(EngineKind.Epoll, IdleStrategy.Spin)]
    [InlineData(EngineKind.Uring, IdleStrategy.Spin)]
    [InlineData(EngineKind.Portable, IdleStrategy.SpinThenBlock)]
    [InlineData(EngineKind.Portable, IdleStrategy.Spin)]
    public void A_spinning_loop_serves_and_calls_OnIdle_when_it_found_nothing(EngineKind kind, IdleStrategy idle)
    {
        Transport.Needs(kind);
        int calls = 0;
        int astray = 0;
        using ManualResetEventSlim polled = new();
        Engine engine = new(new EngineOptions
        {
            Kind = kind,
            Loops = 1,
            Idle = idle,
            SpinTime = TimeSpan.FromMilliseconds(1),
            OnIdle = loop =>
            {
                if (!loop.IsCurrent || loop.Active is not null) astray++;
                if (Interlocked.Increment(ref calls) >= 100) polled.Set();
            },
        });
        EchoOnce(engine, "spun");
        for (int round = 0; idle == IdleStrategy.SpinThenBlock && round < 1000 && !polled.IsSet; round++)
            Wait(engine.GetLoop(0).PostAsync(static () => { }));
        Assert.True(polled.Wait(s_deadline), "OnIdle was called too rarely");
        Assert.Equal(0, astray);
        long wakes = engine.GetLoop(0).Mailbox.Wakes;
        int fired = 0;
        LoopTimer timer = engine.GetLoop(0).StartTimer(TimeSpan.FromMilliseconds(5), _ => fired++);
        Assert.True(timer.Wait(s_deadline));
        // A loop that never sleeps is never woken: a post makes no system call.
        if (idle == IdleStrategy.Spin) Assert.Equal(0, engine.GetLoop(0).Mailbox.Wakes);
        else Assert.True(engine.GetLoop(0).Mailbox.Wakes >= wakes);
        Wait(engine.DisposeAsync());
        Assert.Equal(1, fired);
    }

    [Fact]
    public void An_idle_loop_that_spins_for_a_while_sleeps_then()
    {
        int calls = 0;
        Engine engine = new(new EngineOptions
        {
            Loops = 1,
            Idle = IdleStrategy.SpinThenBlock,
            SpinTime = TimeSpan.FromMicroseconds(100),
            OnIdle = _ => Interlocked.Increment(ref calls)
        });
        Wait(engine.StartAsync());
        Loop loop = engine.GetLoop(0);
        long before = loop.Mailbox.Wakes;
        for (int i = 0; i < 20; i++)
        {
            Wait(loop.PostAsync(static () => { }));
            int seen;
            do
            {
                seen = Volatile.Read(ref calls);
                Thread.Sleep(20); // tidy: waits because the test checks that nothing more happens
            }
            while (seen != Volatile.Read(ref calls));
        }

        Assert.InRange(loop.Mailbox.Wakes - before, 1, 20);
        Assert.True(calls > 0);
        Wait(engine.DisposeAsync());
    }

    [Fact]
    public void An_exception_of_OnIdle_is_reported_once_a_minute_and_the_loop_continues()
    {
        List<string> notices = [];
        int calls = 0;
        Engine engine = new(new EngineOptions
        {
            Loops = 1,
            Idle = IdleStrategy.Spin,
            OnDiagnosticEvent = n => notices.Add(n.Message),
            OnIdle = _ =>
            {
                Interlocked.Increment(ref calls);
                throw new TimeZoneNotFoundException("on purpose");
            },
        });
        EchoOnce(engine, "still served");
        Wait(engine.DisposeAsync());
        Assert.True(calls > 1);
        Assert.Single(notices, static n => n.StartsWith("OnIdle threw", StringComparison.Ordinal));
    }

    [Fact]
    public void All_mistakes_in_the_options_are_reported_together()
    {
        string message = Assert.Throws<ArgumentException>(static () => new Engine(new EngineOptions
        {
            Kind = (EngineKind)99,
            Loops = 2,
            AdoptedLoops = 3,
            BlockedLoopMs = 0,
            Name = null!,
            Priority = (ThreadPriority)9,
            Cpus = [],
            Idle = (IdleStrategy)7,
            SpinTime = TimeSpan.Zero,
        })).Message;
        foreach (string part in (string[])["Kind = 99", "AdoptedLoops = 3, allowed 0 to 2", "BlockedLoopMs = 0",
            "Name is null", "Priority = 9", "Cpus is empty", "Idle = 7", "SpinTime = 00:00:00"])
            Assert.Contains(part, message, StringComparison.Ordinal);
        Assert.Contains("OnIdle is never called with Idle = Block", Assert.Throws<ArgumentException>(
            static () => new Engine(new EngineOptions { OnIdle = static _ => { } })).Message, StringComparison.Ordinal);
        Assert.Contains("Cpus = 1024, allowed 0 to 1023",
            Assert.Throws<ArgumentException>(static () => new Engine(new EngineOptions { Cpus = [0, 1024] })).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void Several_engines_run_side_by_side_and_end_one_by_one()
    {
        Engine[] engines = [.. Enumerable.Range(0, 3).Select(static i => new Engine(new EngineOptions
        {
            Loops = 1,
            Kind = i == 1 ? EngineKind.Portable : EngineKind.Auto,
            Name = $"side{i}"
        }))];
        foreach (Engine engine in engines) EchoOnce(engine, "side by side");
        Wait(engines[0].StopAsync());
        EchoOnce(engines[1], "others go on");
        EchoOnce(engines[2], "others go on");
        foreach (Engine engine in engines) Wait(engine.DisposeAsync());
    }
}
