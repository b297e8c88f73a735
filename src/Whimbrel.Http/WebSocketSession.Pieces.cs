using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// A message in pieces: one at a time, by one flow of code. Nobody else's message may land between two of its frames, whichever thread it
// comes from. So the begin is an action of the session: behind it no whole message of another thread is on its way to the queue any more, and
// the end is one as well, behind the last piece (docs/design/0035).
public partial class WebSocketSession
{
    private const int PieceBytes = 16 * 1024; // of a stream, in one frame

    // States of _piece.
    private const int NoMessage = 0;
    private const int InText = 1;
    private const int InBinary = 2;
    private const int Busy = 3; // a piece is under way

    private const int HoldSteps = 3; // before the first piece

    private int _piece;
    private volatile bool _isInPieces;
    private BroadcastGate _gateThen;

    /// <summary>
    /// Sends a piece of a message, waiting for room in the queue: the counterpart of <see cref="OnPiece"/>. The first one begins a message, the last ends it.
    /// Await each before the next. While a message is under way other messages are <see cref="SendResult.Refused"/> and broadcasts wait;
    /// pings, pongs and the close frame go between. Pieces are never compressed. Any thread.
    /// </summary>
    /// <param name="piece">May be empty, and reused when the task completes. Of text it may end inside a character.</param>
    /// <param name="isText">The message is text. The same for all its pieces.</param>
    /// <param name="isLast">The message ends with it.</param>
    /// <param name="cancellationToken">Gives up waiting: this piece was not sent, the message goes on.</param>
    /// <returns><see cref="SendResult.Refused"/> when another piece, or a stream, is being sent.</returns>
    /// <exception cref="InvalidOperationException">The message was begun as the other kind.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<SendResult> SendPieceAsync(ReadOnlyMemory<byte> piece, bool isText, bool isLast, CancellationToken cancellationToken = default)
    {
        int kind = isText ? InText : InBinary;
        int before = Interlocked.CompareExchange(ref _piece, Busy, kind);
        if (before != kind) before = Interlocked.CompareExchange(ref _piece, Busy, NoMessage);
        if (before == Busy) return SendResult.Refused;
        if (before != kind && before != NoMessage) throw new InvalidOperationException("A message of the other kind was begun: end it first.");
        int after = before;
        try
        {
            if (before == NoMessage)
            {
                if (isLast) return await SendMessageAsync(OpcodeOf(isText), piece, cancellationToken).ConfigureAwait(false);
                for (int step = HoldSteps; step > 0; step = NextOf(step))
                {
                    if (!await PostStepAsync(step).ConfigureAwait(false)) return SendResult.Closed;
                }
            }

            SendResult result = await SendFrameOfPieceAsync(before == NoMessage ? OpcodeOf(isText) : WebSocketOpcode.Continuation, isLast, piece, cancellationToken).ConfigureAwait(false);
            if (result == SendResult.Queued) after = isLast ? NoMessage : kind;
            return result;
        }
        finally
        {
            if (after == NoMessage && _isInPieces) await LetOthersAsync().ConfigureAwait(false);
            Volatile.Write(ref _piece, after);
        }
    }

    /// <summary>Sends a message of text that is read from a stream to its end, in pieces: at most 16 KiB of it are in memory. As <see cref="SendBinaryAsync(Stream, CancellationToken)"/>.</summary>
    /// <param name="utf8">UTF-8; a peer closes the connection for anything else. Not disposed.</param>
    /// <param name="cancellationToken">Gives up. When something was sent already, the connection is closed with 1011: the message has no end.</param>
    public ValueTask<SendResult> SendTextAsync(Stream utf8, CancellationToken cancellationToken = default) => SendStreamAsync(utf8, isText: true, cancellationToken);

    /// <summary>
    /// Sends a message of bytes that is read from a stream to its end, in pieces: at most 16 KiB of it are in memory. What holds while a message is
    /// under way stands at <see cref="SendPieceAsync"/>. What the stream throws is thrown here, and the connection is closed with 1011 when something was sent already.
    /// </summary>
    /// <param name="data">Not disposed.</param>
    /// <param name="cancellationToken">Gives up. When something was sent already, the connection is closed with 1011: the message has no end.</param>
    /// <returns><see cref="SendResult.Refused"/>, with nothing read, when a message in pieces is under way.</returns>
    public ValueTask<SendResult> SendBinaryAsync(Stream data, CancellationToken cancellationToken = default) => SendStreamAsync(data, isText: false, cancellationToken);

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
                int count = await source.ReadAsync(buffer.AsMemory(0, PieceBytes), cancellationToken).ConfigureAwait(false);
                SendResult result = await SendFrameOfPieceAsync(hasBegun ? WebSocketOpcode.Continuation : OpcodeOf(isText), count == 0, buffer.AsMemory(0, count), cancellationToken).ConfigureAwait(false);
                if (result != SendResult.Queued) return result;
                hasBegun = true;
                isWhole = count == 0;
                if (isWhole) return result;
            }
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(buffer);
            // A part of a message can only be followed by the rest of it, or by the end.
            if (hasBegun && !isWhole) Close(WebSocketStatus.InternalError);
            if (_isInPieces) await LetOthersAsync().ConfigureAwait(false);
            Volatile.Write(ref _piece, NoMessage);
        }
    }

    private ValueTask<SendResult> SendFrameOfPieceAsync(WebSocketOpcode opcode, bool isFinal, ReadOnlyMemory<byte> piece, CancellationToken cancellationToken)
    {
        if (IsOnLoop) return IsClosing ? new(SendResult.Closed) : SendFrameAsync(opcode, isFinal, piece, cancellationToken);
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

    // The steps that keep others out stand in those who await them, and not in a method of their own: its state would be one more to find in the caches of the runtime, which know
    // of threads and not of sessions.
    private ValueTask<bool> PostStepAsync(int step) =>
        step == HoldSteps ? PostAsync(static s => ((WebSocketSession)s!).HoldOthers(), this) : PostAsync(static _ => { }, null);

    // The second is taken again until all who had looked before have sent; the third stands behind what they sent.
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
        // Behind a close frame it stays shut.
        if (!_saidClose) BroadcastGate = _gateThen;
    }
}
