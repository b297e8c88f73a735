using System.Buffers;
using System.Buffers.Binary;
using System.Threading.Tasks.Sources;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// Received data of a pulled session. Bytes for a pending read are unmasked from the received block directly into its
/// memory. Others are kept with their message ends, and at <see cref="HoldBytes"/> receiving pauses. The session adds
/// data on its thread; one reader at a time removes it on any thread. Both use one lock, held for a copy. Continuations
/// run outside of it.
/// </summary>
internal sealed class WebSocketInbox(WebSocketSession session, Func<WebSocketSession, CancellationToken, Task>? handler)
    : IValueTaskSource<int>, IValueTaskSource<WebSocketReceived>
{
    /// <summary>Kept bytes at which receiving pauses without a pending read. The rest of one receive may come on
    /// top.</summary>
    internal const int HoldBytes = 64 * 1024;

    // Header of each kept piece: its length and these bits.
    private const int HeadBytes = 4;
    private const uint TextBit = 1u << 31;
    private const uint LastBit = 1u << 30;
    private const int MessageStep = 4096;

    private readonly Lock _gate = new();
    private readonly CancellationTokenSource? _stop = handler is null ? null : new CancellationTokenSource();
    private ManualResetValueTaskSourceCore<WebSocketReceived> _source;
    private CancellationTokenRegistration _registration;
    private CancellationToken _cancellation;
    private MessageBuffer _message; // of the reader

    private byte[]? _kept;
    private int _start;
    private int _end;
    private uint _front; // header of the first kept piece, with the rest of its length
    private bool _hasFront;

    private Memory<byte> _into;
    private int _filled;
    private int _isReading;
    private bool _isWaiting;
    private bool _isStream;
    private bool _isReadOnLoop;
    private bool _hasSome;
    private bool _isFull;
    private bool _gotText;
    private bool _gotLast;

    private Exception? _failure;
    private bool _hasEnded;
    private bool _isAsked;

    /// <summary>Whether receiving is paused until the next read. Changed on the session's thread only.</summary>
    internal bool IsHolding { get; private set; }

    /// <summary>Whether the end of a route's handler closes the WebSocket.</summary>
    internal bool HasHandler => handler is not null;

    /// <summary>Whether a message exceeded the limit, and its read has thrown.</summary>
    internal bool WasTooLarge { get; set; }

    /// <summary>Status of the peer's close frame; null before.</summary>
    internal WebSocketStatus? PeerStatus { get; private set; }

    /// <summary>Reason of the peer's close frame.</summary>
    internal string PeerReason { get; private set; } = "";

    // ------------------------------------------------------------------ the session's side, on its thread

    /// <summary>Adds a piece of a message.</summary>
    /// <param name="piece">Masked bytes.</param>
    /// <param name="key">Mask key of the first byte; 0 for none.</param>
    /// <param name="isText">Whether the message is text.</param>
    /// <param name="isLast">Whether the message ends with this piece.</param>
    internal void Take(ReadOnlySpan<byte> piece, uint key, bool isText, bool isLast)
    {
        lock (_gate)
        {
            if (_hasEnded) return;
            int given = 0;
            if (_isWaiting && !_isFull && _kept is null)
            {
                Span<byte> room = _into.Span[_filled..];
                given = Math.Min(room.Length, piece.Length);
                WebSocketMask.Copy(piece[..given], room, key);
                _filled += given;
                _gotText = isText;
                _gotLast = isLast && given == piece.Length;
                _isFull = given == room.Length || (_gotLast && !_isStream);
                _hasSome |= given > 0 || !piece.IsEmpty || (_gotLast && !_isStream);
                if (given == piece.Length && (_gotLast || !isLast)) return;
            }

            Keep(piece[given..], WebSocketMask.Rotate(key, given), isText, isLast);
            if (IsHolding || _end - _start < HoldBytes) return;
            IsHolding = true;
            session.PauseReceiving();
        }
    }

    /// <summary>Resumes receiving, however much is kept.</summary>
    internal void StopHolding()
    {
        if (!IsHolding) return;
        IsHolding = false;
        session.ResumeReceiving();
    }

    /// <summary>Completes the pending read after all received data was added.</summary>
    internal void EndTurn()
    {
        WebSocketReceived got;
        lock (_gate)
        {
            if (!_isWaiting || !_hasSome) return;
            got = StopWaiting();
        }

        Complete(got);
    }

    /// <summary>Adds the peer's close frame.</summary>
    internal void PeerCloses(WebSocketStatus status, string reason)
    {
        PeerReason = reason;
        PeerStatus = status;
        End(null);
    }

    /// <summary>Ends the inbox. Only the first call has an effect. Any thread.</summary>
    /// <param name="failure">Exception of reads after all kept data; null for a close frame of the peer.</param>
    internal void End(Exception? failure)
    {
        WebSocketReceived got;
        lock (_gate)
        {
            if (_hasEnded) return;
            _failure = failure;
            _hasEnded = true;
            if (!_isWaiting) return;
            bool hasSome = _hasSome;
            failure = FailureOf(_isStream);
            got = StopWaiting();
            if (hasSome) failure = null;
            else got = new WebSocketReceived(0, false, false, IsEnd: true);
        }

        if (failure is null) Complete(got);
        else Complete(failure);
    }

    // For a stream only these statuses mean that the peer's data is complete. Under the lock.
    private Exception? FailureOf(bool isStream) =>
        _failure is null && isStream
        && PeerStatus is { } status and not (WebSocketStatus.Normal or WebSocketStatus.None)
            ? new WebSocketException(status, PeerReason)
            : _failure;

    // ------------------------------------------------------------------ the reader's side, any thread

    internal ValueTask<WebSocketReceived> ReceiveAsync(Memory<byte> into, CancellationToken cancellation)
    {
        if (cancellation.IsCancellationRequested) return ValueTask.FromCanceled<WebSocketReceived>(cancellation);
        if (!TryServe(into, isStream: false, cancellation, out WebSocketReceived got, out Exception? failure))
            return new(this, _source.Version);
        return failure is null ? new(got) : ValueTask.FromException<WebSocketReceived>(failure);
    }

    /// <summary>Reads bytes of any messages; 0 at the end.</summary>
    internal ValueTask<int> ReadAsync(Memory<byte> into, CancellationToken cancellation)
    {
        if (cancellation.IsCancellationRequested) return ValueTask.FromCanceled<int>(cancellation);
        if (!TryServe(into, isStream: true, cancellation, out WebSocketReceived got, out Exception? failure))
            return new(this, _source.Version);
        return failure is null ? new(got.Count) : ValueTask.FromException<int>(failure);
    }

    internal Memory<byte> RoomForMessage()
    {
        _ = _message.Room(MessageStep);
        return _message.FreeMemory;
    }

    internal int AddToMessage(int count)
    {
        _message.Advance(count);
        return _message.Length;
    }

    internal byte[] TakeMessage()
    {
        byte[] bytes = _message.Span.ToArray();
        _message.Release();
        return bytes;
    }

    private bool TryServe(Memory<byte> into, bool isStream, CancellationToken cancellation, out WebSocketReceived got,
        out Exception? failure)
    {
        if (Interlocked.Exchange(ref _isReading, 1) == 1)
            throw new InvalidOperationException(
                "A receive of this WebSocket is in progress: only one at a time. Await it before the next.");
        bool isServed = false, asks = false;
        failure = null;
        try
        {
            lock (_gate)
            {
                isServed = TryGiveKept(into.Span, isStream, out got);
                if (isServed)
                {
                    asks = IsHolding && !_isAsked && _end - _start <= HoldBytes / 2;
                    _isAsked |= asks;
                }
                else if (_hasEnded)
                {
                    got = new WebSocketReceived(0, false, false, IsEnd: true);
                    failure = FailureOf(isStream);
                    isServed = true;
                }
                else
                {
                    Wait(into, isStream, cancellation);
                }
            }
        }
        catch
        {
            Volatile.Write(ref _isReading, 0); // a copy to the user's memory may throw
            throw;
        }

        if (isServed) Volatile.Write(ref _isReading, 0);
        if (asks) AskForMore();
        return isServed;
    }

    private void Wait(Memory<byte> into, bool isStream, CancellationToken cancellation)
    {
        _source.Reset();
        _into = into;
        _filled = 0;
        _hasSome = _isFull = _gotText = _gotLast = false;
        _isStream = isStream;
        _isReadOnLoop = session.IsOnItsLoop;
        _cancellation = cancellation;
        _isWaiting = true;
        // If it was cancelled meanwhile, the callback runs inside: this thread holds the lock.
        _registration = cancellation.UnsafeRegister(static s => ((WebSocketInbox)s!).CancelRead(), this);
    }

    private void CancelRead()
    {
        WebSocketReceived got;
        bool hasSome;
        lock (_gate)
        {
            // This may be a late callback of an earlier read's token.
            if (!_isWaiting || !_cancellation.IsCancellationRequested) return;
            hasSome = _hasSome;
            got = StopWaiting();
        }

        if (hasSome) Complete(got);
        else Complete(new OperationCanceledException(_cancellation));
    }

    private WebSocketReceived StopWaiting()
    {
        _isWaiting = false;
        _registration.Unregister();
        _registration = default;
        _into = default;
        return new WebSocketReceived(_filled, _gotText, _gotLast, IsEnd: false);
    }

    private void Complete(WebSocketReceived got)
    {
        _source.RunContinuationsAsynchronously = !(_isReadOnLoop && session.IsOnItsLoop);
        _source.SetResult(got);
    }

    private void Complete(Exception failure)
    {
        _source.RunContinuationsAsynchronously = true;
        _source.SetException(failure);
    }

    // The session's thread paused, so it also resumes, to keep the order.
    private void AskForMore()
    {
        if (session.IsOnItsLoop) Resume();
        else session.Post(static s => ((WebSocketInbox)s!).Resume(), this);
    }

    private void Resume()
    {
        lock (_gate)
        {
            _isAsked = false;
            if (_end - _start > HoldBytes / 2) return;
        }

        StopHolding();
    }

    int IValueTaskSource<int>.GetResult(short token) => GetResult(token).Count;

    WebSocketReceived IValueTaskSource<WebSocketReceived>.GetResult(short token) => GetResult(token);

    ValueTaskSourceStatus IValueTaskSource<int>.GetStatus(short token) => _source.GetStatus(token);

    ValueTaskSourceStatus IValueTaskSource<WebSocketReceived>.GetStatus(short token) => _source.GetStatus(token);

    void IValueTaskSource<int>.OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags) => _source.OnCompleted(continuation, state, token, flags);

    void IValueTaskSource<WebSocketReceived>.OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags) => _source.OnCompleted(continuation, state, token, flags);

    private WebSocketReceived GetResult(short token)
    {
        try
        {
            return _source.GetResult(token);
        }
        finally
        {
            Volatile.Write(ref _isReading, 0);
        }
    }

    // ------------------------------------------------------------------ what is kept, under the lock

    private void Keep(ReadOnlySpan<byte> piece, uint key, bool isText, bool isLast)
    {
        MakeRoom(HeadBytes + piece.Length);
        BinaryPrimitives.WriteUInt32LittleEndian(_kept.AsSpan(_end),
            (uint)piece.Length | (isText ? TextBit : 0) | (isLast ? LastBit : 0));
        WebSocketMask.Copy(piece, _kept.AsSpan(_end + HeadBytes), key);
        _end += HeadBytes + piece.Length;
    }

    private void MakeRoom(int count)
    {
        if (_kept is { } kept && kept.Length - _end >= count) return;
        int length = _end - _start;
        byte[] larger = _kept is { } old && old.Length - length >= count
            ? old
            : ArrayPool<byte>.Shared.Rent(Math.Max(length + count, 2 * length));
        _kept.AsSpan(_start, length).CopyTo(larger);
        if (_kept is not null && !ReferenceEquals(larger, _kept)) ArrayPool<byte>.Shared.Return(_kept);
        _kept = larger;
        _start = 0;
        _end = length;
    }

    private bool TryGiveKept(Span<byte> into, bool isStream, out WebSocketReceived got)
    {
        int filled = 0;
        bool isText = false, isLast = false, hasSome = false;
        while (_kept is not null && !(isLast && !isStream) && !(hasSome && filled == into.Length))
        {
            if (!_hasFront)
            {
                _front = BinaryPrimitives.ReadUInt32LittleEndian(_kept.AsSpan(_start));
                _start += HeadBytes;
                _hasFront = true;
            }

            int left = (int)(_front & ~(TextBit | LastBit));
            int given = Math.Min(left, into.Length - filled);
            _kept.AsSpan(_start, given).CopyTo(into[filled..]);
            _start += given;
            filled += given;
            _front -= (uint)given;
            isText = (_front & TextBit) != 0;
            hasSome |= left > 0;
            if (given < left) break;
            isLast = (_front & LastBit) != 0;
            hasSome |= isLast && !isStream;
            _hasFront = false;
            if (_start < _end) continue;
            ArrayPool<byte>.Shared.Return(_kept);
            _kept = null;
            _start = _end = 0;
        }

        got = new WebSocketReceived(filled, isText, isLast, IsEnd: false);
        return hasSome;
    }

    // ------------------------------------------------------------------ the handler of a route

    /// <summary>Starts the handler, when the connection is established.</summary>
    /// <param name="isInline">Whether the handler starts on the loop; otherwise on the pool, beside the session's
    /// callbacks.</param>
    internal void Start(bool isInline)
    {
        if (handler is null) return;
        if (isInline) _ = ServeAsync();
        else _ = Task.Run(ServeAsync);
    }

    /// <summary>Cancels the handler's token, because the server stops. Returns false without a handler.</summary>
    internal bool TryTellHandler()
    {
        _ = _stop?.CancelAsync();
        return _stop is not null;
    }

    /// <summary>Ends the inbox, and cancels the handler's token, because the connection has ended.</summary>
    /// <param name="failure">As in <see cref="End"/>.</param>
    internal void Disconnected(Exception? failure)
    {
        End(failure);
        _ = _stop?.CancelAsync();
    }

    private async Task ServeAsync()
    {
        CancellationToken stop = _stop!.Token;
        try
        {
            await handler!(session, stop).ConfigureAwait(false);
            if (stop.IsCancellationRequested) session.CloseBecauseOfStop();
            else session.Close(WebSocketStatus.Normal);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            session.CloseBecauseOfStop(); // the handler has stopped as requested
        }
        catch (WebSocketException) when (session.IsConnected && PeerStatus is { } status)
        {
            // A stream throws this for the peer's status. The close frame repeats it, and the handler has made no
            // error.
            session.Close(status);
        }
        catch (Exception e) when ((WasTooLarge || !session.IsConnected)
            && e is (IOException or System.Net.WebSockets.WebSocketException))
        {
            // The connection has failed, or its peer exceeded the limit and got a close frame: no error of the handler.
        }
        catch (Exception e)
        {
            session.HandlerThrew(e);
        }
    }
}
