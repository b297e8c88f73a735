using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A part of the received data that other code reads while the session keeps its connection
/// (<see cref="Session.StartBody"/>): a <see cref="Stream"/>; the session determines its end. Received bytes are copied
/// directly into the memory of the pending read. Without one they stay with the connection, and the peer has to wait.
/// </summary>
/// <remarks>
/// <list type="bullet">
/// <item>Any thread may read; on the session's loop a read is cheapest. One read at a time; a second one throws
/// <see cref="InvalidOperationException"/>.</item>
/// <item>A read of zero bytes waits for data or the end. A cancelled or timed-out read loses no data.</item>
/// <item>At the end reads return 0. If the connection ends before, they throw <see cref="NetworkException"/>, an
/// <see cref="IOException"/>, with the reason.</item>
/// <item>Dispose discards the rest, within the limit of <see cref="Session.StartBody"/>.</item>
/// <item>Synchronous reads block, up to <see cref="ReadTimeout"/>; on a loop's thread and in a callback of the session
/// they throw.</item>
/// </list>
/// </remarks>
public sealed class BodyStream : Stream
{
    // State of the pending read: Idle, Waits, Claimed. The thread that changes Waits to Claimed completes the read.
    private const int Idle = 0;
    private const int Waits = 1;
    private const int Claimed = 2;

    private static readonly object s_over = new();

    private readonly Session _session;
    private readonly long _skipLimit;
    private BodyRead? _read;
    private int _state;
    private int _isReading;
    private int _isDisposed;
    private int _readTimeoutMs = Timeout.Infinite;

    // True if unread bytes may have been left, so that a reader must request them. Initially true, because the session
    // may have left some.
    private bool _isBehind = true;
    private object? _end; // null before the end, then s_over or the exception

    // ---- the session's thread
    private int _filled;
    private bool _isFilling;
    private long _skipped;

    internal BodyStream(Session session, long skipLimit)
    {
        _session = session;
        _skipLimit = skipLimit;
        Intake = new Feed(this);
    }

    internal Intake Intake { get; }

    private Engine Engine => _session.Loop.Engine;

    // ------------------------------------------------------------------ reading, any thread

    /// <summary>Reads available data, or waits for some. See the remarks of the class.</summary>
    /// <param name="buffer">Memory to fill, from its start; with length 0 the call only waits.</param>
    /// <param name="cancellationToken">Cancels the wait; no data is lost.</param>
    /// <returns>Number of bytes read; 0 at the end of the body.</returns>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (Volatile.Read(ref _isDisposed) != 0) Throw.Disposed(nameof(BodyStream));
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<int>(cancellationToken);
        BeginReading();
        if (Volatile.Read(ref _end) is not { } end) return StartRead(buffer, cancellationToken).Task;
        EndReading();
        return end is Exception failure ? ValueTask.FromException<int>(failure) : new(0);
    }

    /// <inheritdoc/>
    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>
    /// Reads available data, or blocks until there is some. Not on a loop's thread, and not in a callback of the
    /// session.
    /// </summary>
    /// <param name="buffer">Array to fill.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="count">Maximum number of bytes; 0 only waits.</param>
    /// <returns>Number of bytes read; 0 at the end of the body.</returns>
    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        if (Volatile.Read(ref _isDisposed) != 0) Throw.Disposed(nameof(BodyStream));
        if (Loop.Current is not null) Throw.BlocksLoop(nameof(Read));
        if (PoolSession.Current is { } pool && pool.Runs(_session))
            Throw.State(
                "Read would wait for the next callback of its own session. Await ReadAsync, or read elsewhere.");
        BeginReading();
        BodyRead read = StartRead(buffer.AsMemory(offset, count), CancellationToken.None);
        short version = read.Version;
        if (read.SignalWhenCompleted() is { } signal
            && !Engine.Block(signal, TimeSpan.FromMilliseconds(_readTimeoutMs)))
        {
            if (TryClaim())
                read.SetException(new NetworkException(new NetworkError(0, ErrorCategory.Timeout, $"Nothing of the "
                    + $"body was received within {_readTimeoutMs} ms (ReadTimeout). The stream may still be used.")));
            Engine.Block(signal, Timeout.InfiniteTimeSpan);
        }

        return read.GetResult(version);
    }

    private void BeginReading()
    {
        if (Interlocked.Exchange(ref _isReading, 1) == 1)
            Throw.State("A read is pending on this stream: one read at a time. Await it before the next.");
    }

    private void EndReading() => Volatile.Write(ref _isReading, 0);

    private BodyRead StartRead(Memory<byte> into, CancellationToken cancellation)
    {
        BodyRead read = _read ??= new BodyRead(this);
        read.Begin(into, cancellation);
        // A full barrier: the state is visible before this thread checks for the end and for left bytes. The session
        // checks in the opposite order.
        Interlocked.Exchange(ref _state, Waits);
        if (Volatile.Read(ref _end) is not null)
        {
            if (TryClaim()) Conclude();
            return read;
        }

        read.Watch();
        AskForMore();
        return read;
    }

    /// <summary>Called when the reader has taken its result.</summary>
    private void ReadConsumed()
    {
        Volatile.Write(ref _state, Idle);
        EndReading();
    }

    private void AskForMore()
    {
        if (Interlocked.Exchange(ref _isBehind, false)) _session.DeliverAgain();
    }

    private bool TryClaim() => Interlocked.CompareExchange(ref _state, Claimed, Waits) == Waits;

    private void Cancel(CancellationToken cancellation)
    {
        if (cancellation.IsCancellationRequested && TryClaim())
            _read!.SetException(new OperationCanceledException(cancellation));
    }

    // ------------------------------------------------------------------ the session's side, on its thread

    /// <summary>True if the last offer was not consumed completely and no reader has requested more since.</summary>
    internal bool HasRefused { get; private set; }

    internal int Offer(ReadOnlySpan<byte> data)
    {
        int taken = TakeFrom(data);
        HasRefused = taken < data.Length;
        return taken;
    }

    private int TakeFrom(ReadOnlySpan<byte> data)
    {
        int taken = 0;
        while (taken < data.Length)
        {
            if (Volatile.Read(ref _isDisposed) != 0) return taken + Skip(data.Length - taken);
            if (_isFilling || TryClaim())
            {
                taken += Fill(data[taken..]);
                continue;
            }

            if (_isBehind) return taken;
            // A reader that starts to wait after this sees the flag and requests more; one that started before is found
            // in the next round.
            Interlocked.Exchange(ref _isBehind, true);
        }

        return taken;
    }

    private int Fill(ReadOnlySpan<byte> data)
    {
        Span<byte> into;
        try
        {
            into = _read!.Into.Span;
        }
        catch (Exception e)
        {
            // The memory of a read belongs to the application and may throw: the read then fails, and the data stays
            // for the next read.
            _isFilling = false;
            _filled = 0;
            _read!.SetException(e);
            return 0;
        }

        int count = Math.Min(into.Length - _filled, data.Length);
        data[..count].CopyTo(into[_filled..]);
        _filled += count;
        _isFilling = _filled < into.Length;
        if (!_isFilling) Filled();
        return count;
    }

    private void Filled()
    {
        int count = _filled;
        _isFilling = false;
        _filled = 0;
        _read!.SetResult(count);
    }

    private int Skip(int count)
    {
        if (_isFilling) Filled();
        _skipped += count;
        if (_skipped > _skipLimit) _session.Close();
        return count;
    }

    /// <summary>Called when the session's callback has returned.</summary>
    private void Offered(int left)
    {
        if (_isFilling) Filled();
        if (left > 0 && HasRefused) _session.HoldFor(ReceiveGate.Reader);
    }

    internal void End(Exception? failure)
    {
        Interlocked.Exchange(ref _end, failure ?? s_over);
        if (_isFilling) Filled();
        else if (TryClaim()) Conclude();
    }

    private void Conclude()
    {
        if (_end is Exception failure) _read!.SetException(failure);
        else _read!.SetResult(0);
    }

    // ------------------------------------------------------------------ the end

    /// <summary>Discards the rest of the body when it arrives. Never blocks. Any thread.</summary>
    /// <param name="disposing">True if called by <see cref="IDisposable.Dispose"/>.</param>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0 && Volatile.Read(ref _end) is null)
        {
            if (TryClaim()) _read!.SetException(new ObjectDisposedException(nameof(BodyStream)));
            _session.DeliverAgain();
        }

        base.Dispose(disposing);
    }

    // ------------------------------------------------------------------ other members of Stream

    /// <inheritdoc/>
    public override bool CanRead => Volatile.Read(ref _isDisposed) == 0;

    /// <summary>False: data is sent through the session.</summary>
    public override bool CanWrite => false;

    /// <inheritdoc/>
    public override bool CanSeek => false;

    /// <inheritdoc/>
    public override bool CanTimeout => true;

    /// <summary>
    /// Maximum time in milliseconds that a synchronous read waits for its first byte; then it throws with category
    /// <see cref="ErrorCategory.Timeout"/>, and the stream stays usable. From 1; default -1, no limit.
    /// </summary>
    public override int ReadTimeout
    {
        get => _readTimeoutMs;
        set => _readTimeoutMs = CheckTimeout(value, nameof(ReadTimeout));
    }

    internal static int CheckTimeout(int valueMs, string name)
    {
        if (valueMs is < 1 and not Timeout.Infinite)
            Throw.OutOfRange(name, valueMs, "1 or more milliseconds, or -1 for no limit");
        return valueMs;
    }

    /// <summary>Not supported: a body has no known length.</summary>
    public override long Length => throw NoSeeking();

    /// <summary>Not supported: a body has no position.</summary>
    public override long Position
    {
        get => throw NoSeeking();
        set => throw NoSeeking();
    }

    /// <summary>Has no effect.</summary>
    public override void Flush()
    {
    }

    /// <inheritdoc/>
    public override long Seek(long offset, SeekOrigin origin) => throw NoSeeking();

    /// <inheritdoc/>
    public override void SetLength(long value) => throw NoSeeking();

    /// <summary>Not supported: a body can only be read.</summary>
    /// <param name="buffer">Ignored.</param>
    /// <param name="offset">Ignored.</param>
    /// <param name="count">Ignored.</param>
    public override void Write(byte[] buffer, int offset, int count) =>
        throw new NotSupportedException("A body can only be read. Send through the session.");

    private static NotSupportedException NoSeeking() => new("A body can only be read, and forwards.");

    /// <summary>Receive handler that connects the body to its session.</summary>
    internal sealed class Feed(BodyStream body) : Intake
    {
        internal BodyStream Body => body;

        internal override int Take(Session session, ReadOnlySpan<byte> unread) => session.CallOnData(unread);

        internal override void Offered(Session session, int left) => body.Offered(left);

        internal override void OffersAgain() => body.HasRefused = false;

        internal override void End(CloseReason reason) =>
            body.End(new NetworkException(
                reason.Error with { Message = $"Cannot read the rest of the body: {reason}." }, reason.Exception));
    }

    /// <summary>The pending read; reused for the next read.</summary>
    private sealed class BodyRead(BodyStream body) : Completion<int>(body.Engine)
    {
        private CancellationToken _cancellation;
        private CancellationTokenRegistration _registration;

        internal Memory<byte> Into { get; private set; }

        internal void Begin(Memory<byte> into, CancellationToken cancellation)
        {
            Into = into;
            _cancellation = cancellation;
        }

        /// <summary>
        /// Registers the cancellation for this read only. Called by the reader before it has the task, so the
        /// registration is released after this.
        /// </summary>
        internal void Watch()
        {
            if (_cancellation.CanBeCanceled)
                _registration = _cancellation.UnsafeRegister(static (read, token) => ((BodyRead)read!).Cancel(token),
                    this);
        }

        private void Cancel(CancellationToken token)
        {
            // A late call for an earlier read: the current read has another token, or none.
            if (_cancellation == token) body.Cancel(token);
        }

        private protected override void Consumed()
        {
            _registration.Unregister();
            _registration = default;
            _cancellation = default;
            Into = default;
            Reset();
            body.ReadConsumed();
        }
    }
}
