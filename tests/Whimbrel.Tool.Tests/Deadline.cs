namespace Whimbrel.Tool.Tests;

// Deadline of all waits of these tests. Only a broken build reaches it.
internal static class Deadline
{
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    public static async Task<T> Within<T>(Func<CancellationToken, Task<T>> wait, Func<string> what)
    {
        using var timer = CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        timer.CancelAfter(Patience);
        try
        {
            return await wait(timer.Token);
        }
        catch (OperationCanceledException) when (!TestContext.Current.CancellationToken.IsCancellationRequested)
        {
            throw new TimeoutException($"Waited {Patience} for {what()}");
        }
    }
}
