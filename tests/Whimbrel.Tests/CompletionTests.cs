using System.Collections.Concurrent;
using System.Threading.Tasks.Sources;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class CompletionTests
{
    private readonly MemoryEngine _engine = new(1, faults: MemoryFaults.None);

    private Loop Loop => _engine.GetLoop(0);

    [Fact]
    public async Task A_result_that_is_there_is_taken_at_once()
    {
        Completion<int> completion = new(_engine);
        completion.SetResult(7);
        ValueTask<int> task = completion.Task;
        Assert.True(task.IsCompletedSuccessfully);
        Assert.Equal(7, await task);
        Assert.Equal(ValueTaskSourceStatus.Succeeded, completion.GetStatus(completion.Version));
    }

    [Fact]
    public void An_await_on_a_loop_resumes_there_in_an_iteration_of_its_own()
    {
        Completion<int> completion = new(_engine);
        Loop? wentOnOn = null;
        int result = 0;
        bool isInside = false;
        async Task AwaitIt()
        {
            result = await completion.Task;
            Assert.False(isInside);
            wentOnOn = Loop.Current;
        }

        Task task = Task.CompletedTask;
        Loop.Post(() => task = AwaitIt());
        _engine.RunUntilIdle();
        Assert.False(task.IsCompleted);
        Loop.Post(() =>
        {
            isInside = true;
            completion.SetResult(3);
            isInside = false;
        });
        _engine.RunUntilIdle();
        Assert.True(task.IsCompletedSuccessfully, task.Exception?.ToString());
        Assert.Equal(3, result);
        Assert.Same(Loop, wentOnOn);
    }

    [Fact]
    public void An_await_elsewhere_resumes_off_the_loops()
    {
        Completion<int> completion = new(_engine);
        Loop? wentOnOn = Loop;
        async Task AwaitIt()
        {
            await completion.Task;
            wentOnOn = Whimbrel.Loop.Current;
        }

        Task? task = null;
        _engine.Elsewhere(() => task = AwaitIt());
        _engine.RunUntilIdle();
        Loop.Post(() => completion.SetResult(1));
        _engine.RunUntilIdle();
        Assert.True(task!.IsCompletedSuccessfully);
        Assert.Null(wentOnOn);
    }

    [Fact]
    public void AsTask_is_recognised_and_an_await_is_not()
    {
        Asked<string> first = new();
        Asked<string> second = new();
        _ = new ValueTask<string>(first, 0).AsTask();
        _ = new ValueTask<string>(second, 0).AsTask();
        _ = new ValueTask(first, 0).AsTask();
        _ = new ValueTask(second, 0).Preserve();
        Assert.Equal([true, true, true, true],
            [.. first.Given.Concat(second.Given).Select(AsTaskContinuation.Is<string>)]);
        Asked<string> awaited = new();
        new ValueTask<string>(awaited, 0).GetAwaiter().OnCompleted(static () => { });
        GoOnAnywhere(new ValueTask<string>(awaited, 0));
        _ = AwaitIt(new ValueTask(awaited, 0));
        Assert.Equal([false, false, false], [.. awaited.Given.Select(AsTaskContinuation.Is<string>)]);

        static async Task AwaitIt(ValueTask task) => await task;
    }

    private static void GoOnAnywhere(ValueTask<string> task) =>
        task.ConfigureAwait(false).GetAwaiter().UnsafeOnCompleted(static () => { });

    private sealed class Asked<T> : IValueTaskSource<T>, IValueTaskSource
    {
        internal List<Action<object?>> Given { get; } = [];

        public ValueTaskSourceStatus GetStatus(short token) => ValueTaskSourceStatus.Pending;

        public void OnCompleted(Action<object?> continuation, object? state, short token,
            ValueTaskSourceOnCompletedFlags flags) => Given.Add(continuation);

        public T GetResult(short token) => throw new NotSupportedException();

        void IValueTaskSource.GetResult(short token) => throw new NotSupportedException();
    }

    [Fact]
    public void A_second_await_is_refused()
    {
        Completion<int> completion = new(_engine);
        completion.OnCompleted(static _ => { }, null, completion.Version, ValueTaskSourceOnCompletedFlags.None);
        Assert.Throws<InvalidOperationException>(() => completion.OnCompleted(static _ => { }, null, completion.Version,
            ValueTaskSourceOnCompletedFlags.None));
        Assert.Throws<InvalidOperationException>(() => completion.GetStatus((short)(completion.Version + 1)));
        Assert.Throws<InvalidOperationException>(() => completion.GetResult((short)(completion.Version + 1)));
    }

    [Fact]
    public void Blocking_on_what_is_not_there_throws()
    {
        Completion<int> completion = new(_engine);
        Assert.Throws<InvalidOperationException>(() => completion.GetResult(completion.Version));
    }

    [Fact]
    public async Task An_exception_arrives_with_its_status()
    {
        Completion<int> failed = new(_engine);
        failed.SetException(new FormatException("odd"));
        ValueTask<int> failing = failed.Task;
        Assert.True(failing.IsFaulted);
        await Assert.ThrowsAsync<FormatException>(async () => await failing);
        Completion<int> cancelled = new(_engine);
        cancelled.SetException(new OperationCanceledException());
        ValueTask<int> cancelling = cancelled.Task;
        Assert.True(cancelling.IsCanceled);
        await Assert.ThrowsAsync<OperationCanceledException>(async () => await cancelling);
    }

    [Fact]
    public void A_flowing_context_is_present_when_an_await_resumes()
    {
        AsyncLocal<int> local = new();
        Completion<int> completion = new(_engine);
        int seen = 0;
        local.Value = 5;
        completion.OnCompleted(_ => seen = local.Value, null, completion.Version,
            ValueTaskSourceOnCompletedFlags.FlowExecutionContext);
        local.Value = 6;
        completion.SetResult(1);
        _engine.RunUntilIdle();
        Assert.Equal(5, seen);
    }

    [Fact]
    public void Result_and_await_at_the_same_moment_never_lose_each_other()
    {
        const int races = 100_000;
        CountingEngine engine = new();
        Completion<int>[] completions = [.. Enumerable.Range(0, races).Select(_ => new Completion<int>(engine))];
        using Barrier barrier = new(2);
        Thread setter = new(() =>
        {
            barrier.SignalAndWait();
            foreach (Completion<int> completion in completions) completion.SetResult(1);
        });
        setter.Start();
        barrier.SignalAndWait();
        foreach (Completion<int> completion in completions)
            completion.OnCompleted(static _ => { }, null, completion.Version, ValueTaskSourceOnCompletedFlags.None);
        setter.Join();
        Assert.Equal(races, engine.Offloaded);
    }

    [Fact]
    public void An_object_that_is_used_again_at_once_knows_nothing_of_the_use_before()
    {
        using Reused completion = new(_engine);
        short first = completion.Version;
        Thread setter = new(() => completion.SetResult(1)) { IsBackground = true };
        completion.HoldsUp = true;
        setter.Start();
        completion.UntilHeld();
        // As an await does: reading the result makes the object free for the next use.
        int result = completion.IsCompleted ? completion.Take(first) : 0;
        completion.LetGo();
        setter.Join();
        if (result == 0) result = completion.Take(first);
        Assert.Equal(1, result);
        short second = completion.Version;
        int resumed = 0;
        completion.OnCompleted(_ => resumed = completion.Take(second), null, second,
            ValueTaskSourceOnCompletedFlags.None);
        _engine.RunUntilIdle();
        Assert.Equal(0, resumed);
        completion.SetResult(2);
        _engine.RunUntilIdle();
        Assert.Equal(2, resumed);
    }

    [Fact]
    public void Its_awaiter_may_use_it_again_while_the_completer_is_still_inside()
    {
        RunningEngine engine = new();
        using Reused completion = new(engine);
        List<object?> ran = [];
        bool isWithin = false;
        completion.OnCompleted(
            state =>
            {
                ran.Add(state);
                isWithin = true;
                Assert.Equal(1, completion.Take(completion.Version));
                // The next use has started and ended before the completer of the first one returns.
                completion.OnCompleted(ran.Add, "second", completion.Version, ValueTaskSourceOnCompletedFlags.None);
                completion.SetResult(2);
                isWithin = false;
            },
            "first",
            completion.Version,
            ValueTaskSourceOnCompletedFlags.None);
        completion.SetResult(1);
        Assert.False(isWithin);
        Assert.Equal(["first", "second"], ran);
        Assert.Equal(2, completion.Take(completion.Version));
        Assert.False(completion.Task.IsCompleted);
    }

    // Four objects, each with one thread that completes and one that waits: by polling, by a continuation, and by
    // blocking.
    [Fact]
    public void Eight_threads_use_the_same_objects_again_and_again_and_every_result_arrives_once()
    {
        const int rounds = 10_000;
        RunningEngine engine = new();
        ConcurrentQueue<string> wrong = [];
        Thread[] threads = [.. Enumerable.Range(0, 4).SelectMany(_ => Pair(new Reused(engine) { Dawdles = true }))];
        foreach (Thread thread in threads) thread.Start();
        foreach (Thread thread in threads) Assert.True(thread.Join(TimeSpan.FromSeconds(120)), "a result was lost");
        Assert.Empty(wrong);

        IEnumerable<Thread> Pair(Reused completion)
        {
            int begun = 0;
            int resumed = 0;
            yield return new Thread(() => Guarded(() =>
            {
                for (int round = 1; round <= rounds && wrong.IsEmpty; round++)
                {
                    UntilIs(ref begun, round);
                    completion.SetResult(round);
                }
            }))
            { IsBackground = true };
            yield return new Thread(() => Guarded(() =>
            {
                for (int round = 1; round <= rounds && wrong.IsEmpty; round++)
                {
                    short version = completion.Version;
                    Volatile.Write(ref begun, round);
                    switch (round % 4)
                    {
                        case 1:
                            completion.OnCompleted(state => Volatile.Write(ref resumed, (int)state!), round, version,
                                ValueTaskSourceOnCompletedFlags.None);
                            UntilIs(ref resumed, round);
                            break;
                        case 3:
                            completion.SignalWhenCompleted()?.Wait();
                            break;
                        default:
                            SpinWait spin = default;
                            while (completion.GetStatus(version) == ValueTaskSourceStatus.Pending && wrong.IsEmpty)
                                spin.SpinOnce(sleep1Threshold: -1);
                            break;
                    }

                    // Throws if it was resumed too early.
                    int result = completion.Take(version);
                    if (result != round) wrong.Enqueue($"{result} in round {round}");
                }
            }))
            { IsBackground = true };
        }

        void UntilIs(ref int value, int wanted)
        {
            SpinWait spin = default;
            while (Volatile.Read(ref value) != wanted && wrong.IsEmpty) spin.SpinOnce(sleep1Threshold: -1);
        }

        void Guarded(Action run)
        {
            try
            {
                run();
            }
            catch (Exception e)
            {
                wrong.Enqueue(e.ToString());
            }
        }
    }

    // Is free again after its result was read, as reads and sends are; delays its completer where the result is not
    // visible yet.
    private sealed class Reused(Engine engine) : Completion<int>(engine), IDisposable
    {
        private readonly ManualResetEventSlim _held = new();
        private readonly ManualResetEventSlim _go = new();
        private int _completions;

        internal bool HoldsUp { get; set; }

        /// <summary>Delays a little, for a varying time.</summary>
        internal bool Dawdles { get; init; }

        internal int Take(short version) => GetResult(version);

        internal void UntilHeld() => Assert.True(_held.Wait(TimeSpan.FromSeconds(30)));

        internal void LetGo()
        {
            HoldsUp = false;
            _go.Set();
        }

        private protected override void Completing()
        {
            if (Dawdles) Thread.SpinWait(_completions++ % 64);
            if (!HoldsUp) return;
            _held.Set();
            _go.Wait(TimeSpan.FromSeconds(30));
        }

        private protected override void Consumed() => Reset();

        public void Dispose()
        {
            _held.Dispose();
            _go.Dispose();
        }
    }

    // Runs scheduled work immediately: the shortest path from the completer to the awaiter.
    private sealed class RunningEngine() : Engine("running", "a test", new EngineOptions())
    {
        internal override void Offload(Action<object?> action, object? state) => action(state);

        internal override void Offload(IThreadPoolWorkItem item) => item.Execute();
    }

    // Counts scheduled work.
    private sealed class CountingEngine() : Engine("counting", "a test", new EngineOptions())
    {
        private int _offloaded;

        internal int Offloaded => Volatile.Read(ref _offloaded);

        internal override void Offload(Action<object?> action, object? state) => Interlocked.Increment(ref _offloaded);

        internal override void Offload(IThreadPoolWorkItem item) => Interlocked.Increment(ref _offloaded);
    }

    [Fact]
    public async Task An_engine_disposed_on_its_own_loop_ends_and_its_caller_resumes()
    {
        Engine engine = new(new EngineOptions { Loops = 1 });
        engine.Start();
        TaskCompletionSource done = new(TaskCreationOptions.RunContinuationsAsynchronously);
        engine.GetLoop(0).Post(() => _ = DisposeHere());
        await done.Task.WaitAsync(TimeSpan.FromSeconds(30), TestContext.Current.CancellationToken);

        async Task DisposeHere()
        {
            await engine.DisposeAsync();
            done.SetResult();
        }
    }
}
