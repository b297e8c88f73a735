namespace Whimbrel.Relays;

// Checks each target periodically: connects with TLS and header, and waits whether the target keeps the connection.
// Runs until it is disposed.
internal sealed class RelayChecks : IAsyncDisposable
{
    private readonly CancellationTokenSource _ending = new();
    private readonly RelayOptions _options;
    private readonly Task _all;

    internal RelayChecks(RelayTarget[] targets, RelayOptions options)
    {
        _options = options;
        _all = Task.WhenAll(targets.Select(CheckAsync));
    }

    public async ValueTask DisposeAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await _all.ConfigureAwait(false);
        _ending.Dispose();
    }

    private async Task CheckAsync(RelayTarget target)
    {
        try
        {
            while (true)
            {
                await LookAsync(target).ConfigureAwait(false);
                await Task.Delay(_options.CheckEvery, _ending.Token).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (e is OperationCanceledException or ObjectDisposedException)
        {
            // The relay has stopped.
        }
    }

    private async Task LookAsync(RelayTarget target)
    {
        RelayBack check = new(null, target, _options);
        try
        {
            await target.Connector.ConnectAsync(() => check, null, _ending.Token).ConfigureAwait(false);
            // An upgrade to TLS follows the connect and has the same time limit.
            if (await check.Stands.WaitAsync(_options.ConnectTimeout, _ending.Token).ConfigureAwait(false)
                && await LastsAsync(check).ConfigureAwait(false))
                target.Passed(check.StoodAt);
            else target.NotPassed(check.WhyNot);
        }
        catch (Exception e) when (e is NetworkException or TimeoutException)
        {
            target.NotPassed(
                e is TimeoutException ? $"no TLS within {_options.ConnectTimeout.TotalSeconds} s" : check.WhyNot);
        }
        finally
        {
            if (check.Stands.IsCompleted) check.Close();
            else check.Abort();
        }
    }

    // A target that accepts and closes at once serves no client.
    private async Task<bool> LastsAsync(RelayBack check)
    {
        using CancellationTokenSource watch = CancellationTokenSource.CreateLinkedTokenSource(_ending.Token);
        Task lasted = Task.Delay(_options.EarlyEnd, watch.Token);
        await Task.WhenAny(check.Verdict, lasted).ConfigureAwait(false);
        await watch.CancelAsync().ConfigureAwait(false);
        _ending.Token.ThrowIfCancellationRequested();
        return _options.EarlyEnd == TimeSpan.Zero || !check.Verdict.IsCompleted
            || await check.Verdict.ConfigureAwait(false);
    }
}
