namespace Whimbrel.Conformance;

/// <summary>The awaitable forms of posting: where they run, where the awaiting code resumes, and where their
/// exceptions.</summary>
public abstract class PostAsyncSuite(Transport transport) : TrafficSuite(transport)
{
    private static readonly Func<Task<int>> s_two = static async () =>
    {
        await Task.Yield();
        return 2;
    };

    private static Task<T> OnLoop<T>(Rig rig, Loop loop, Func<ValueTask<T>> method)
    {
        Task<T>? task = null;
        rig.OnLoop(loop, () => task = Wrap(method));
        return task!;

        static async Task<T> Wrap(Func<ValueTask<T>> method) => await method();
    }

    [Fact, Contract(14)]
    public void PostAsync_runs_on_its_loop_and_returns_the_result() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(1);
        Assert.Equal(1, rig.Await(loop.PostAsync(() => loop.IsCurrent ? 1 : 0)));
        bool ran = false;
        rig.Await(loop.PostAsync(() => ran = loop.IsCurrent));
        Assert.True(ran);
        string? seen = null;
        rig.Await(loop.PostAsync(state => seen = $"{state} {loop.IsCurrent}", "state"));
        Assert.Equal("state True", seen);
        Assert.Null(Loop.Current);
        Assert.Throws<ArgumentNullException>(() => rig.Await(loop.PostAsync((Action)null!)));
    });

    [Fact, Contract(4)]
    public void An_exception_of_a_posted_function_goes_to_the_awaiting_caller_and_not_into_a_diagnostic_event() =>
        Run(rig =>
        {
            rig.Serve();
            Loop loop = rig.Engine.GetLoop(0);
            Assert.Equal("1", Assert.Throws<TimeZoneNotFoundException>(() =>
                rig.Await(loop.PostAsync((Action)(static () => throw new TimeZoneNotFoundException("1"))))).Message);
            Assert.Equal("2", Assert.Throws<TimeZoneNotFoundException>(() =>
                rig.Await(loop.PostAsync((Func<int>)(static () => throw new TimeZoneNotFoundException("2"))))).Message);
            Assert.Equal("3", Assert.Throws<TimeZoneNotFoundException>(() => rig.Await(loop.PostAsync(static async () =>
            {
                await Loop.Current!.DelayAsync(TimeSpan.Zero);
                throw new TimeZoneNotFoundException("3");
            }))).Message);
            Assert.Throws<TaskCanceledException>(
                () => rig.Await(loop.PostAsync(static () => Task.FromCanceled(new CancellationToken(true)))));
            rig.OnLoop(loop, static () => { });
            Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
        });

    [Fact, Contract(6)]
    public void The_awaiting_code_resumes_on_the_loop_it_awaited_on_otherwise_off_the_loops() => Run(rig =>
    {
        rig.Serve();
        Loop first = rig.Engine.GetLoop(0);
        Loop second = rig.Engine.GetLoop(1);
        Task<string> onLoop = OnLoop(rig, first, async () =>
        {
            string story = Where();
            story += await second.PostAsync(Where);
            story += Where();
            await first.PostAsync(static () => { });
            return story + Where();
        });
        Assert.Equal("0100", Await(rig, onLoop));
        Task<string> elsewhere = StartElsewhere(rig, async () =>
        {
            string story = Where();
            story += await second.PostAsync(Where);
            return story + Where();
        });
        Assert.Equal("-1-", Await(rig, elsewhere));

        static string Where() => Loop.Current?.Index.ToString(System.Globalization.CultureInfo.InvariantCulture) ?? "-";
    });

    [Fact, Contract(6)]
    public void An_async_function_starts_on_the_loop_and_its_own_awaits_of_the_library_stay_there() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(1);
        bool stayed = rig.Await(loop.PostAsync(async () =>
        {
            bool before = loop.IsCurrent;
            await loop.DelayAsync(TimeSpan.FromMilliseconds(2));
            return before && loop.IsCurrent;
        }));
        Assert.True(stayed);
        if (!rig.IsVirtual) Assert.Equal(2, rig.Await(loop.PostAsync(s_two)));
    });

    [Fact, Contract(6)]
    public void Blocking_on_it_on_a_loop_throws() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        rig.OnLoop(loop, () =>
        {
            Assert.Contains("would stop its own loop", Assert.Throws<InvalidOperationException>(
                () => loop.PostAsync(static () => { }).GetAwaiter().GetResult()).Message, StringComparison.Ordinal);
            Assert.Throws<InvalidOperationException>(() => loop.PostAsync(static () => 1).Result);
            Assert.Throws<InvalidOperationException>(() => loop.DelayAsync(TimeSpan.FromMilliseconds(1)).GetAwaiter()
                .GetResult());
        });
    });

    [Fact]
    public void The_engine_posts_to_its_loops_in_turn_and_starts_for_it() => Run(rig =>
    {
        Assert.False(rig.Engine.IsStarted);
        int[] seen = new int[2];
        for (int i = 0; i < 10; i++) seen[rig.Await(rig.Engine.PostAsync(static () => Loop.Current!.Index))]++;
        Assert.True(rig.Engine.IsStarted);
        Assert.Equal([5, 5], seen);
        int posted = 0;
        for (int i = 0; i < 10; i++) Assert.True(rig.Engine.Post(() => Interlocked.Increment(ref posted)));
        rig.Until(() => Volatile.Read(ref posted) == 10, "all to run");
        rig.Await(rig.Engine.PostAsync(static () => { }));
        rig.Await(rig.Engine.PostAsync(static () => Task.CompletedTask));
        Assert.Equal(3, rig.Await(rig.Engine.PostAsync(static () => Task.FromResult(3))));
    });

    [Fact]
    public void Every_awaited_post_completes_also_when_the_engine_ends_meanwhile() => Run(rig =>
    {
        rig.Serve();
        List<Task> tasks = [];
        int ran = 0;
        for (int t = 0; t < 3; t++)
        {
            int round = 0;
            Repeat(rig, () =>
            {
                ValueTask task = rig.Engine.GetLoop(round % 2).PostAsync(() => { Interlocked.Increment(ref ran); });
                lock (tasks) tasks.Add(task.AsTask());
                return ++round == 100;
            });
        }

        rig.Until(() => Volatile.Read(ref ran) > 0, "one to run");
        rig.Await(rig.Engine.DisposeAsync());
        rig.Join();
        rig.Until(() => tasks.TrueForAll(static t => t.IsCompleted), "all to complete");
        Assert.Equal(ran, tasks.Count(static t => t.IsCompletedSuccessfully));
        Assert.All(tasks, static t => Assert.True(t.IsCompletedSuccessfully
            || t.Exception!.InnerException is ObjectDisposedException, t.Exception?.ToString()));
    });
}
