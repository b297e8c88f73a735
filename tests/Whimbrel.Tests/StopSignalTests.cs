namespace Whimbrel.Tests;

// Signals themselves are sent to the programs of Whimbrel.Gallery, because a signal ends the process of the tests.
public sealed class StopSignalTests
{
    [Fact]
    public async Task A_cancelled_wait_throws_and_leaves_others_waiting()
    {
        using CancellationTokenSource first = new(), second = new();
        Task one = StopSignal.WaitAsync(first.Token), two = StopSignal.WaitAsync(second.Token);
        await first.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => one);
        Assert.False(two.IsCompleted);
        await second.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => two);
    }
}
