namespace Whimbrel.Relays;

// Asks each target again and again whether it can be reached, TLS and header included. Begun with the relay; ends, with what is under way, when it is disposed.
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
                if (await IsReachedAsync(target).ConfigureAwait(false)) target.Passed();
                else target.NotPassed();
                await Task.Delay(_options.CheckEvery, _ending.Token).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (e is OperationCanceledException or ObjectDisposedException)
        {
            // The end of the relay.
        }
    }

    private async Task<bool> IsReachedAsync(RelayTarget target)
    {
        RelayBack check = new(null, target, _options);
        try
        {
            await target.Dialler.ConnectAsync(() => check, null, _ending.Token).ConfigureAwait(false);
            // An upgrade to TLS comes behind the dial, and has the time of one.
            return await check.Stands.WaitAsync(_options.ConnectTimeout, _ending.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (e is NetworkException or TimeoutException)
        {
            return false;
        }
        finally
        {
            if (!check.Stands.IsCompleted) check.Abort();
        }
    }
}
