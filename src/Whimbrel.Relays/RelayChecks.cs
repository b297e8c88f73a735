namespace Whimbrel.Relays;

// Asks each target again and again whether it can be reached, TLS and header included, and whether it keeps the connection. Begun with the relay; ends, with what is pending, when it is disposed.
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
            // The end of the relay.
        }
    }

    private async Task LookAsync(RelayTarget target)
    {
        RelayBack check = new(null, target, _options);
        try
        {
            await target.Dialler.ConnectAsync(() => check, null, _ending.Token).ConfigureAwait(false);
            // An upgrade to TLS comes after the dial, and has the time of one.
            if (await check.Stands.WaitAsync(_options.ConnectTimeout, _ending.Token).ConfigureAwait(false) && await LastsAsync(check).ConfigureAwait(false)) target.Passed(check.StoodAt);
            else target.NotPassed(check.WhyNot);
        }
        catch (Exception e) when (e is NetworkException or TimeoutException)
        {
            target.NotPassed(e is TimeoutException ? $"no TLS within {_options.ConnectTimeout.TotalSeconds} s" : check.WhyNot);
        }
        finally
        {
            if (check.Stands.IsCompleted) check.Close();
            else check.Abort();
        }
    }

    // A target that accepts and ends at once serves nobody.
    private async Task<bool> LastsAsync(RelayBack check)
    {
        using CancellationTokenSource watch = CancellationTokenSource.CreateLinkedTokenSource(_ending.Token);
        Task lasted = Task.Delay(_options.EarlyEnd, watch.Token);
        await Task.WhenAny(check.Verdict, lasted).ConfigureAwait(false);
        await watch.CancelAsync().ConfigureAwait(false);
        _ending.Token.ThrowIfCancellationRequested();
        return _options.EarlyEnd == TimeSpan.Zero || !check.Verdict.IsCompleted || await check.Verdict.ConfigureAwait(false);
    }
}
