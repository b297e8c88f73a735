using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// A message in pieces: one at a time, by one flow of code. No other message may come between two of its frames, from
// any thread. So the begin is an action of the session: after it no whole message of another thread is on its way to
// the queue. The end is an action too, after the last piece (docs/design/0035).
public partial class WebSocketSession
{
    private const int PieceBytes = 16 * 1024; // per frame, of a stream

    // States of _piece.
    private const int NoMessage = 0;
    private const int InText = 1;
    private const int InBinary = 2;
    private const int Busy = 3; // a piece is being sent

    private const int HoldSteps = 3; // before the first piece

    private int _piece;
    private volatile bool _isInPieces;
    private BroadcastGate _gateThen;

    /// <summary>
    /// Sends a piece of a message, waiting for room in the queue: the counterpart of <see cref="OnPiece"/>. The first
    /// piece begins a message, the last ends it. Await each before the next. Until the end, other messages are
    /// <see cref="SendResult.Refused"/> and broadcasts wait; pings, pongs and the close frame are sent between the
    /// pieces. Only a message of a single piece is compressed. Any thread.
    /// </summary>
    /// <param name="piece">May be empty; may end inside a character of text. May be reused when the task
    /// completes.</param>
    /// <param name="isText">Whether the message is text. The same for all its pieces.</param>
    /// <param name="isLast">Whether the message ends with this piece.</param>
    /// <param name="cancellationToken">Cancels the wait: this piece was not sent, and the message can be
    /// continued.</param>
    /// <returns><see cref="SendResult.Refused"/> while another piece, or a stream, is being sent.</returns>
    /// <exception cref="InvalidOperationException">The message was begun as the other kind.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<SendResult> SendPieceAsync(ReadOnlyMemory<byte> piece, bool isText, bool isLast,
        CancellationToken cancellationToken = default)
    {
        int kind = isText ? InText : InBinary;
        int before = Interlocked.CompareExchange(ref _piece, Busy, kind);
        if (before != kind) before = Interlocked.CompareExchange(ref _piece, Busy, NoMessage);
        if (before == Busy) return SendResult.Refused;
        if (before != kind && before != NoMessage)
            throw new InvalidOperationException("A message of the other kind was begun: end it first.");
        int after = before;
        try
        {
            if (before == NoMessage)
            {
                if (isLast)
                    return await SendMessageAsync(OpcodeOf(isText), piece, cancellationToken).ConfigureAwait(false);
                for (int step = HoldSteps; step > 0; step = NextOf(step))
                {
                    if (!await PostStepAsync(step).ConfigureAwait(false)) return SendResult.Closed;
                }
            }

            SendResult result = await SendFrameOfPieceAsync(
                before == NoMessage ? OpcodeOf(isText) : WebSocketOpcode.Continuation, isLast, piece, cancellationToken)
                .ConfigureAwait(false);
            if (result == SendResult.Queued) after = isLast ? NoMessage : kind;
            return result;
        }
        finally
        {
            if (after == NoMessage && _isInPieces) await LetOthersAsync().ConfigureAwait(false);
            Volatile.Write(ref _piece, after);
        }
    }

    /// <summary>Sends a text message that is read from a stream to its end, in pieces of at most 16 KiB. Same rules as
    /// <see cref="SendBinaryAsync(Stream, CancellationToken)"/>.</summary>
    /// <param name="utf8">Text in UTF-8, not checked: a peer closes the connection for invalid UTF-8. Not
    /// disposed.</param>
    /// <param name="cancellationToken">Cancels the send. If a part was sent already, the connection is closed with
    /// 1011, because the message has no end.</param>
    public ValueTask<SendResult> SendTextAsync(Stream utf8, CancellationToken cancellationToken = default) =>
        SendStreamAsync(utf8, isText: true, cancellationToken);

    /// <summary>
    /// Sends a binary message that is read from a stream to its end, in pieces of at most 16 KiB. The rules until its
    /// end are those of <see cref="SendPieceAsync"/>. An exception of the stream is thrown here, and the connection is
    /// closed with 1011 if a part was sent already.
    /// </summary>
    /// <param name="data">Source stream. Not disposed.</param>
    /// <param name="cancellationToken">Cancels the send. If a part was sent already, the connection is closed with
    /// 1011, because the message has no end.</param>
    /// <returns><see cref="SendResult.Refused"/>, with nothing read, while a message in pieces is being sent.</returns>
    public ValueTask<SendResult> SendBinaryAsync(Stream data, CancellationToken cancellationToken = default) =>
        SendStreamAsync(data, isText: false, cancellationToken);

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<SendResult> SendStreamAsync(Stream source, bool isText, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(source);
        if (Interlocked.CompareExchange(ref _piece, Busy, NoMessage) != NoMessage) return SendResult.Refused;
        byte[] buffer = ArrayPool<byte>.Shared.Rent(PieceBytes);
        bool hasBegun = false, isWhole = false;
        try
        {
            for (int step = HoldSteps; step > 0; step = NextOf(step))
            {
                if (!await PostStepAsync(step).ConfigureAwait(false)) return SendResult.Closed;
            }

            while (true)
            {
                int count = await source.ReadAsync(buffer.AsMemory(0, PieceBytes), cancellationToken)
                    .ConfigureAwait(false);
                SendResult result = await SendFrameOfPieceAsync(hasBegun ? WebSocketOpcode.Continuation
                    : OpcodeOf(isText), count == 0, buffer.AsMemory(0, count), cancellationToken).ConfigureAwait(false);
                if (result != SendResult.Queued) return result;
                hasBegun = true;
                isWhole = count == 0;
                if (isWhole) return result;
            }
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(buffer);
            // A partial message can only be followed by its rest, or by the end of the connection.
            if (hasBegun && !isWhole) Close(WebSocketStatus.InternalError);
            if (_isInPieces) await LetOthersAsync().ConfigureAwait(false);
            Volatile.Write(ref _piece, NoMessage);
        }
    }

    private ValueTask<SendResult> SendFrameOfPieceAsync(WebSocketOpcode opcode, bool isFinal,
        ReadOnlyMemory<byte> piece, CancellationToken cancellationToken)
    {
        if (IsOnLoop)
            return IsClosing ? new(SendResult.Closed) : SendFrameAsync(opcode, isFinal, piece, cancellationToken);
        if (!TryEnterSend()) return new(SendResult.Closed);
        try
        {
            return SendFrameAsync(opcode, isFinal, piece, cancellationToken);
        }
        finally
        {
            LeaveSend();
        }
    }

    private static WebSocketOpcode OpcodeOf(bool isText) => isText ? WebSocketOpcode.Text : WebSocketOpcode.Binary;

    // The steps that hold others back are inlined in the callers. A method of their own would need one more state
    // machine from the caches of the runtime, which are per thread and not per session.
    private ValueTask<bool> PostStepAsync(int step) =>
        step == HoldSteps
            ? PostAsync(static s => ((WebSocketSession)s!).HoldOthers(), this)
            : PostAsync(static _ => { }, null);

    // The second step repeats until all sends that had checked before are complete; the third runs after their
    // messages.
    private int NextOf(int step) => step == HoldSteps - 1 && SendsElsewhere > 0 ? step : step - 1;

    private void HoldOthers()
    {
        if (!_saidClose)
        {
            _gateThen = BroadcastGate;
            BroadcastGate = BroadcastGate.Held;
        }

        _isInPieces = true;
        Interlocked.MemoryBarrier();
    }

    private ValueTask<bool> LetOthersAsync() => PostAsync(static s => ((WebSocketSession)s!).LetOthers(), this);

    private void LetOthers()
    {
        _isInPieces = false;
        // After a close frame the gate stays shut.
        if (!_saidClose) BroadcastGate = _gateThen;
    }
}
