using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting;

/// <summary>
/// Scopes of the sessions of one server, counted so that a stop can wait for their disposal. Thread-safe.
/// </summary>
internal sealed class SessionScopes(string server, ILogger logger)
{
    private readonly Lock _gate = new();
    private TaskCompletionSource? _allEnded;
    private int _open;

    /// <summary>Number of scopes that are not yet disposed.</summary>
    internal int Open => Volatile.Read(ref _open);

    internal void Enter() => Interlocked.Increment(ref _open);

    /// <summary>Disposes a scope on the thread pool, because services may block.</summary>
    internal void End(AsyncServiceScope scope) => _ = Task.Run(() => EndAsync(scope));

    /// <summary>Waits until all scopes are disposed, or the token is cancelled.</summary>
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
