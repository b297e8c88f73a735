using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting;

/// <summary>The scopes of the sessions of one server: counted, so that a stop can wait for their end. Any thread.</summary>
internal sealed class SessionScopes(string server, ILogger logger)
{
    private readonly Lock _gate = new();
    private TaskCompletionSource? _allEnded;
    private int _open;

    /// <summary>Those that have been made and are not yet disposed.</summary>
    internal int Open => Volatile.Read(ref _open);

    internal void Enter() => Interlocked.Increment(ref _open);

    /// <summary>Disposes it off the loops: services may take their time.</summary>
    internal void End(AsyncServiceScope scope) => _ = Task.Run(() => EndAsync(scope));

    /// <summary>Completes when there is none any more; cancelled with the token.</summary>
    internal Task WaitAsync(CancellationToken cancellationToken)
    {
        lock (_gate)
        {
            if (Open == 0) return Task.CompletedTask;
            _allEnded ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return _allEnded.Task.WaitAsync(cancellationToken);
        }
    }

    private async Task EndAsync(AsyncServiceScope scope)
    {
        try
        {
            await scope.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception e)
        {
            Events.ScopeThrew(logger, server, e);
        }
        finally
        {
            lock (_gate)
            {
                if (Interlocked.Decrement(ref _open) == 0)
                {
                    _allEnded?.TrySetResult();
                    _allEnded = null;
                }
            }
        }
    }
}
