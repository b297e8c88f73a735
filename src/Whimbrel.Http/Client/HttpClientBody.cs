namespace Whimbrel.Http;

/// <summary>
/// Body of a response: bytes received with its head, then bytes offered by the session. Its exceptions have the kind of
/// failure. One reader at a time; any thread.
/// </summary>
internal sealed class HttpClientBody(PooledSession session, ReadOnlyMemory<byte> prefix) : OneWayStream(isRead: true)
{
    private ReadOnlyMemory<byte> _prefix = prefix;
    private BodyStream? _rest;
    private HttpClientException? _failure;
    private CancellationTokenSource? _whole;
    private CancellationTokenRegistration _registration;
    private int _isDisposed;

    /// <summary>Whether a read has returned 0.</summary>
    internal bool EndWasRead { get; private set; }

    /// <summary>Number of bytes read, before decompression.</summary>
    internal long Received { get; private set; }

    internal HttpClientException? Failure => Volatile.Read(ref _failure);

    internal string Peer => session.Peer;

    public override bool CanRead => Volatile.Read(ref _isDisposed) == 0;

    /// <summary>Sets the rest of a body that is larger than its prefix. Before the body is published.</summary>
    internal void GoesOn(BodyStream rest) => _rest = rest;

    /// <summary>Continues the timeout of the whole request until the body has ended.</summary>
    internal void Watch(CancellationTokenSource whole)
    {
        _whole = whole;
        if (_rest is null) EndWatch();
        else _registration = whole.Token.UnsafeRegister(static body => ((HttpClientBody)body!).TimeOut(), this);
    }

    private void TimeOut()
    {
        Fail(new HttpClientException(HttpClientFailure.RequestTimeout,
            $"The body of {Peer} was not read to its end within RequestTimeout."));
        session.Post(static body => ((HttpClientBody)body!).GiveUp(), this);
    }

    private void GiveUp() => session.GiveUp(this);

    /// <summary>Sets the exception that reads throw from now on, unless one is set.</summary>
    internal void Fail(HttpClientException failure) => Interlocked.CompareExchange(ref _failure, failure, null);

    private void EndWatch()
    {
        if (Interlocked.Exchange(ref _whole, null) is not { } whole) return;
        _registration.Unregister();
        whole.Dispose();
    }

    // ------------------------------------------------------------------ reading

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<int>(cancellationToken);
        return TryRead(buffer.Span, out int count) ? new(count) : ReadRestAsync(buffer, cancellationToken);
    }

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        if (TryRead(buffer.AsSpan(offset, count), out int taken)) return taken;
        try
        {
            return Count(_rest!.Read(buffer, offset, count));
        }
        catch (IOException e)
        {
            throw Explain(e);
        }
    }

    private bool TryRead(Span<byte> into, out int count)
    {
        ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed) != 0, typeof(HttpClientResponse));
        if (Failure is { } failure) throw failure;
        count = Math.Min(into.Length, _prefix.Length);
        if (count == 0)
        {
            EndWasRead |= _rest is null && !into.IsEmpty;
            return _rest is null || (into.IsEmpty && !_prefix.IsEmpty);
        }

        _prefix.Span[..count].CopyTo(into);
        _prefix = _prefix[count..];
        Received += count;
        return true;
    }

    private async ValueTask<int> ReadRestAsync(Memory<byte> buffer, CancellationToken cancellationToken)
    {
        try
        {
            int count = await _rest!.ReadAsync(buffer, cancellationToken).ConfigureAwait(false);
            return buffer.IsEmpty ? count : Count(count);
        }
        catch (IOException e)
        {
            throw Explain(e);
        }
    }

    private int Count(int count)
    {
        if (count == 0)
        {
            EndWatch();
            EndWasRead = true;
        }

        Received += count;
        return count;
    }

    /// <summary>Converts an exception. A failure set by the session has priority over that of the core.</summary>
    private HttpClientException Explain(IOException e)
    {
        EndWatch();
        if (Failure is { } failure) return failure;
        if (e is HttpClientException told) return told;
        HttpClientFailure kind =
            e is not NetworkException network ? HttpClientFailure.BodyCut : network.Error.Category switch
            {
                ErrorCategory.Timeout => HttpClientFailure.Stalled,
                // A TLS end without close_notify is as truncated as an end without TLS, and common.
                ErrorCategory.Tls when network.InnerException is TlsException { Failure: TlsFailure.Truncated } =>
                    HttpClientFailure.BodyCut,
                ErrorCategory.Tls => HttpClientFailure.Tls,
                _ => HttpClientFailure.BodyCut,
            };
        return new HttpClientException(kind, $"The answer of {Peer} was not finished: {e.Message}", e);
    }

    // ------------------------------------------------------------------ the end

    /// <summary>Releases the body: the rest is skipped up to a limit, beyond it the connection is closed.</summary>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0)
        {
            _rest?.Dispose();
            EndWatch();
        }

        base.Dispose(disposing);
    }
}
