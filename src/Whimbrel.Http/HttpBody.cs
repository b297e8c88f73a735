using System.Threading.Tasks.Sources;

namespace Whimbrel.Http;

/// <summary>
/// Request body as a stream. A read asks the session for data, which is copied from the received block directly into
/// the memory of the read. Without a read the peer waits. One read at a time, from any thread: on the loop its
/// continuation runs there, otherwise on the pool.
/// </summary>
internal sealed class HttpBody : OneWayStream, IValueTaskSource<int>
{
    private const int Free = 0;
    private const int Waiting = 1;

    private readonly HttpSession _session;
    private ManualResetValueTaskSourceCore<int> _source;
    private CancellationTokenRegistration _registration;
    private CancellationToken _cancellation;
    private Memory<byte> _into;
    private Exception? _failure;
    private long _quietSinceMs;
    private int _filled;
    private int _state;
    private volatile bool _isAtEnd;
    private volatile bool _wasRead;
    private volatile bool _hasEnded; // the exchange has ended
    private bool _isCounted;

    internal HttpBody(HttpSession session, long nowMs)
        : base(isRead: true)
    {
        _session = session;
        _quietSinceMs = nowMs;
    }

    /// <summary>Whether a read was begun.</summary>
    internal bool WasRead => _wasRead;

    /// <summary>Whether a read is pending.</summary>
    internal bool IsWaiting => Volatile.Read(ref _state) == Waiting;

    /// <summary>Whether the pending read has data, or the end.</summary>
    internal bool HasSome { get; private set; }

    // ------------------------------------------------------------------ the reader's side, any thread

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<int>(cancellationToken);
        if (IsWaiting)
            throw new InvalidOperationException("A read of this body is in progress: only one read at a time.");
        if (Failure is { } failure) return ValueTask.FromException<int>(failure);
        if (_isAtEnd || buffer.IsEmpty) return new(0);
        _source.Reset();
        _source.RunContinuationsAsynchronously = !_session.Loop.IsCurrent;
        _into = buffer;
        _filled = 0;
        HasSome = _isCounted = false;
        _wasRead = true;
        short version = _source.Version;
        _cancellation = cancellationToken;
        _registration = cancellationToken.UnsafeRegister(static session => ((HttpSession)session!).CancelRead(),
            _session);
        Interlocked.Exchange(ref _state, Waiting); // before the next check: the end of the exchange checks in reverse
        if (_hasEnded) Fail(ServerExchange.Ended());
        else if (!_session.AskForBody()) Fail(new IOException("The connection has ended before its body did."));
        return new(this, version);
    }

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count)
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException("A read that blocks would block the loop: await ReadAsync.");
        return ReadAsync(buffer.AsMemory(offset, count)).AsTask().GetAwaiter().GetResult();
    }

    int IValueTaskSource<int>.GetResult(short token) => _source.GetResult(token);

    ValueTaskSourceStatus IValueTaskSource<int>.GetStatus(short token) => _source.GetStatus(token);

    void IValueTaskSource<int>.OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags) =>
        _source.OnCompleted(continuation, state, token, flags);

    // ------------------------------------------------------------------ the session's side

    /// <summary>Gets the rest of the memory of the pending read. Returns false if none is pending, its memory is full,
    /// or the body has ended.</summary>
    internal bool TryRoom(out Span<byte> room)
    {
        room = default;
        if (!IsWaiting || _isAtEnd) return false;
        room = _into.Span[_filled..];
        return !room.IsEmpty;
    }

    internal void Give(ReadOnlySpan<byte> piece, bool isLast)
    {
        piece.CopyTo(_into.Span[_filled..]);
        _filled += piece.Length;
        HasSome = true;
        _isAtEnd = isLast;
    }

    /// <summary>Returns the time without a pending read, in ms, when a read begins to wait: once for each
    /// read.</summary>
    internal long TakePauseMs(long nowMs)
    {
        if (_isCounted) return 0;
        _isCounted = true;
        return nowMs - _quietSinceMs;
    }

    /// <summary>Completes the pending read. Its continuation may run inside.</summary>
    internal void Complete()
    {
        if (!TryEnd()) return;
        _quietSinceMs = _session.Loop.TimeMs;
        _source.SetResult(_filled);
    }

    /// <summary>Ends the exchange: reads throw, even if data is available.</summary>
    internal void End()
    {
        _hasEnded = true;
        Interlocked.MemoryBarrier();
        if (IsWaiting) Fail(ServerExchange.Ended());
    }

    private Exception? Failure => _hasEnded ? ServerExchange.Ended() : _failure;

    /// <summary>Fails the pending read, and all later ones.</summary>
    internal void Fail(Exception exception)
    {
        _failure ??= exception;
        if (TryEnd()) _source.SetException(exception);
    }

    internal void CancelRead()
    {
        if (IsWaiting && _cancellation.IsCancellationRequested && TryEnd())
            _source.SetException(new OperationCanceledException(_cancellation));
    }

    private bool TryEnd()
    {
        if (Interlocked.CompareExchange(ref _state, Free, Waiting) != Waiting) return false;
        // Cleared here: otherwise a check on the loop, while the next read begins, would complete that read with the
        // result of this one.
        HasSome = false;
        _registration.Unregister();
        _into = default;
        return true;
    }
}
