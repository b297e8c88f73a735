using System.Diagnostics;

namespace Whimbrel.Http;

// Assignment of connections to requests. One gate for all origins: it is held for a few steps each time, without an
// await.
public sealed partial class HttpPool
{
    private const int MostEmptyOrigins = 256; // their connectors, with cached TLS state, are kept for later requests
    private const int MostRepeats = 3;

    private readonly Lock _gate = new();
    private readonly Dictionary<string, HttpOrigin> _origins = [];
    private Uri? _lastUri;
    private HttpOrigin? _lastOrigin; // of _lastUri
    private int _idle;
    private bool _isDisposed;

    /// <summary>Number of origins for which data is kept, for tests.</summary>
    internal int KnownOrigins
    {
        get
        {
            lock (_gate) return _origins.Count;
        }
    }

    /// <summary>Rents an idle connection, a new one, or the next one that becomes free.</summary>
    private ValueTask<(PooledSession Session, bool IsReused)> RentAsync(Uri uri, bool mustConnect,
        CancellationToken stop)
    {
        LinkedListNode<TaskCompletionSource<PooledSession?>>? waiter = null;
        HttpOrigin origin;
        lock (_gate)
        {
            if (_isDisposed) throw new HttpClientException(HttpClientFailure.Closed, "The pool was disposed.");
            origin = OriginOf(uri);
            while (!mustConnect && origin.Idle.Count > 0)
            {
                PooledSession kept = origin.Idle[^1];
                TakeOut(kept);
                if (kept.IsConnected) return new((kept, true));
            }

            if (origin.Connections < Options.ConnectionLimit) origin.Connections++;
            else if (origin.Waiters.Count >= Options.WaitingLimit)
                throw new HttpClientException(HttpClientFailure.TooManyWaiting, $"{origin.Waiters.Count} requests to "
                    + $"{origin.Text} wait for a connection already (WaitingLimit). {origin.BusyText}");
            else waiter = origin.Waiters.AddLast(
                new TaskCompletionSource<PooledSession?>(TaskCreationOptions.RunContinuationsAsynchronously));
        }

        return waiter is null ? ConnectAsync(origin, stop) : WaitOrConnectAsync(origin, waiter, stop);
    }

    private async ValueTask<(PooledSession Session, bool IsReused)> WaitOrConnectAsync(HttpOrigin origin,
        LinkedListNode<TaskCompletionSource<PooledSession?>> waiter, CancellationToken stop)
    {
        if (await WaitAsync(origin, waiter, stop).ConfigureAwait(false) is { } freed) return (freed, true);
        return await ConnectAsync(origin, stop).ConfigureAwait(false);
    }

    /// <summary>Opens a connection for a request that has reserved it.</summary>
    private async ValueTask<(PooledSession Session, bool IsReused)> ConnectAsync(HttpOrigin origin,
        CancellationToken stop)
    {
        Interlocked.Increment(ref _connects);
        HttpSlot slot = new() { ConnectStartedAt = Stopwatch.GetTimestamp() };
        try
        {
            Session session = await origin.Connector
                .ConnectAsync(() => new PooledSession(this, origin, slot), null, stop).ConfigureAwait(false);
            return ((PooledSession)session, false);
        }
        catch (Exception e)
        {
            Free(origin, slot);
            if (e is NetworkException failed) throw HttpClientException.OfConnect(failed);
            if (e is ObjectDisposedException)
                throw new HttpClientException(HttpClientFailure.Closed, "The pool was disposed.", e);
            throw;
        }
    }

    private async ValueTask<PooledSession?> WaitAsync(HttpOrigin origin,
        LinkedListNode<TaskCompletionSource<PooledSession?>> waiter, CancellationToken stop)
    {
        try
        {
            return await waiter.Value.Task.WaitAsync(Options.WaitTimeout, stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is OperationCanceledException or TimeoutException)
        {
            // A connection given in the same moment is not lost. After this none is given.
            if (!waiter.Value.TrySetCanceled(CancellationToken.None))
                return await waiter.Value.Task.ConfigureAwait(false);
            string busy;
            lock (_gate)
            {
                if (waiter.List is not null) origin.Waiters.Remove(waiter);
                busy = origin.BusyText;
            }

            if (e is OperationCanceledException) throw new OperationCanceledException(busy, e, stop);
            throw new HttpClientException(HttpClientFailure.TooManyWaiting,
                $"No connection became free within {Options.WaitTimeout} (WaitTimeout). {busy}", e);
        }
    }

    private HttpOrigin OriginOf(Uri uri)
    {
        if (ReferenceEquals(uri, _lastUri)) return _lastOrigin!;
        string key = uri.GetComponents(UriComponents.SchemeAndServer | UriComponents.StrongPort, UriFormat.UriEscaped);
        if (!_origins.TryGetValue(key, out HttpOrigin? origin))
        {
            if (_origins.Count >= MostEmptyOrigins) ForgetEmptyOrigins();
            _origins.Add(key, origin = new HttpOrigin(this, uri));
        }

        (_lastUri, _lastOrigin) = (uri, origin);
        return origin;
    }

    private void ForgetEmptyOrigins()
    {
        _lastUri = null;
        foreach ((string key, HttpOrigin origin) in _origins)
        {
            if (!origin.IsEmpty) continue;
            _origins.Remove(key);
            _ = origin.Connector.DisposeAsync().AsTask(); // completes without a wait
        }
    }

    /// <summary>Takes back a connection after its request, to serve another. On its loop.</summary>
    internal void Return(PooledSession session)
    {
        lock (_gate)
        {
            if (!_isDisposed && session.IsConnected && !session.IsOld)
            {
                if (TryGive(session.Origin, session)) return;
                if (_idle < Options.IdleLimit)
                {
                    session.Origin.Idle.Add(session);
                    session.IsIdle = true;
                    _idle++;
                    session.Rest();
                    return;
                }
            }
        }

        session.Retire();
    }

    /// <summary>Gives a connection, or the right to connect, to the first request that still waits.</summary>
    private static bool TryGive(HttpOrigin origin, PooledSession? session)
    {
        while (origin.Waiters.First is { } waiter)
        {
            origin.Waiters.RemoveFirst();
            if (waiter.Value.TrySetResult(session)) return true;
        }

        return false;
    }

    /// <summary>Removes an idle connection from the pool. Returns false if it is not there any more.</summary>
    internal bool MayDrop(PooledSession session)
    {
        lock (_gate)
        {
            if (!session.IsIdle) return false;
            TakeOut(session);
            return true;
        }
    }

    private void TakeOut(PooledSession session)
    {
        session.Origin.Idle.Remove(session);
        session.IsIdle = false;
        _idle--;
    }

    internal void Ended(PooledSession session) => Free(session.Origin, session.Slot);

    private void Free(HttpOrigin origin, HttpSlot slot)
    {
        lock (_gate)
        {
            if (slot.IsFree) return;
            slot.IsFree = true;
            // A waiting request gets the right to connect.
            if (!TryGive(origin, null)) origin.Connections--;
        }
    }

    /// <summary>Returns the counters and current numbers. Any thread.</summary>
    public HttpPoolCounters ReadCounters()
    {
        int connections = 0, waiting = 0;
        lock (_gate)
        {
            foreach (HttpOrigin origin in _origins.Values)
            {
                connections += origin.Connections;
                waiting += origin.Waiters.Count;
            }

            return new HttpPoolCounters(Interlocked.Read(ref _requests), Interlocked.Read(ref _failures),
                Interlocked.Read(ref _connects), Interlocked.Read(ref _repeats), Interlocked.Read(ref _redirects),
                connections, _idle, waiting);
        }
    }

    /// <summary>Closes all connections. Pending and waiting requests fail with <see cref="HttpClientFailure.Closed"/>.
    /// Completes when all connections have ended.</summary>
    /// <exception cref="NetworkException">Thrown when awaited, with category Timeout, if a callback blocks a
    /// loop.</exception>
    public async ValueTask DisposeAsync()
    {
        HttpOrigin[] origins;
        lock (_gate)
        {
            _isDisposed = true;
            origins = [.. _origins.Values];
            foreach (HttpOrigin origin in origins)
            {
                foreach (TaskCompletionSource<PooledSession?> waiter in origin.Waiters)
                    waiter.TrySetException(new HttpClientException(HttpClientFailure.Closed, "The pool was disposed."));
                origin.Waiters.Clear();
            }
        }

        foreach (HttpOrigin origin in origins) await origin.Connector.DisposeAsync().ConfigureAwait(false);
    }
}
