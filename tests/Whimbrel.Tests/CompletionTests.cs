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
    public void What_was_awaited_on_a_loop_goes_on_there_in_a_turn_of_its_own()
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
    public void What_was_awaited_elsewhere_goes_on_off_the_loops()
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
    public void A_second_await_is_refused()
    {
        Completion<int> completion = new(_engine);
        completion.OnCompleted(static _ => { }, null, completion.Version, ValueTaskSourceOnCompletedFlags.None);
        Assert.Throws<InvalidOperationException>(() => completion.OnCompleted(static _ => { }, null, completion.Version, ValueTaskSourceOnCompletedFlags.None));
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
    public void A_context_that_flows_is_there_when_it_goes_on()
    {
        AsyncLocal<int> local = new();
        Completion<int> completion = new(_engine);
        int seen = 0;
        local.Value = 5;
        completion.OnCompleted(_ => seen = local.Value, null, completion.Version, ValueTaskSourceOnCompletedFlags.FlowExecutionContext);
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
        foreach (Completion<int> completion in completions) completion.OnCompleted(static _ => { }, null, completion.Version, ValueTaskSourceOnCompletedFlags.None);
        setter.Join();
        Assert.Equal(races, engine.Offloaded);
    }

    // Counts what it is given to run elsewhere.
    private sealed class CountingEngine() : Engine("counting", "a test", new EngineOptions())
    {
        private int _offloaded;

        internal int Offloaded => Volatile.Read(ref _offloaded);

        internal override void Offload(Action<object?> action, object? state) => Interlocked.Increment(ref _offloaded);
    }

    [Fact]
    public async Task An_engine_disposed_on_its_own_loop_ends_and_its_caller_goes_on()
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
