using System.Buffers;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// One order of messages and the close frame, whichever threads they come from: a message that was taken stands in front of the frame, and nothing behind it (docs/design/0030).
// Sends of the loop and the frame are on one thread. A send of another thread counts itself in, looks whether a close was asked for, sends, and counts itself out. The frame is queued
// when nobody is counted in: else whoever is the last to leave asks for it. What those have sent is in the mailbox by then, and the core queues it first.
public partial class WebSocketSession
{
    // Bits of _order, beside the number of sends under way.
    private const int SendsNothing = 1 << 30; // but the close frame
    private const int Ends = 1 << 29; // what comes is dropped
    private const int FrameWaits = 1 << 28; // for those who are counted in
    private const int Counted = FrameWaits - 1;

    private static readonly TimeSpan s_longestSpin = TimeSpan.FromMilliseconds(50);

    private int _order;
    private (WebSocketStatus Status, string Reason) _frame;
    private bool _isFrameQueued;
    private bool _isBehindAll;
    private bool? _endsBehindFrame; // peerFinished of the end that waits for it

    private bool IsClosing => (Volatile.Read(ref _order) & (SendsNothing | Ends)) != 0;

    private bool IsEnding => (Volatile.Read(ref _order) & Ends) != 0;

    private int SendsElsewhere => Volatile.Read(ref _order) & Counted;

    /// <summary>What comes is dropped from here on. False: it was so before.</summary>
    private bool EndsNow() => (Interlocked.Or(ref _order, SendsNothing | Ends) & Ends) == 0;

    /// <summary>True: the caller may send, and then calls <see cref="LeaveSend"/>. False: a close was asked for. Not for the loop of a session whose callbacks run there.</summary>
    private bool TryEnterSend()
    {
        if (IsClosing) return false;
        if ((Interlocked.Increment(ref _order) & SendsNothing) == 0) return true;
        LeaveSend();
        return false;
    }

    private void LeaveSend()
    {
        if ((Interlocked.Decrement(ref _order) & (FrameWaits | Counted)) == FrameWaits) Post(static s => ((WebSocketSession)s!).QueueFrame(), this);
    }

    /// <summary>Queues the close frame that was decided on, or leaves it to those who are in the middle of a send. The session's thread; may be called more than once.</summary>
    private void QueueFrame()
    {
        if (_isFrameQueued) return;
        if (!_isInline) AwaitSends();
        if ((Interlocked.Or(ref _order, FrameWaits) & Counted) != 0)
        {
            WaitAtMost();
            return;
        }

        // All that was taken is in the mailbox by now, perhaps behind the action that runs here, which sends in its own place: another one stands behind it.
        if (_isInline && !_isBehindAll)
        {
            _isBehindAll = true;
            if (Post(static s => ((WebSocketSession)s!).QueueFrame(), this)) return;
        }

        // Behind a full queue, or one large message, it would be refused, and what waits there lost. Nothing is sent after it.
        SendLimitBytes = MostSendLimitBytes;
        // Before it, and not after: a broadcast in between would stand behind the frame. Those of this thread are in the queue already.
        BroadcastGate = BroadcastGate.Shut;
        byte[] frame = new byte[WebSocketReader.MostControlBytes + WebSocketWriter.MostHeadBytes];
        Span<byte> payload = stackalloc byte[WebSocketReader.MostControlBytes];
        int length = _writer.WriteFrame(frame, WebSocketOpcode.Close, payload[..WebSocketClose.Write(payload, _frame.Status, _frame.Reason)]);
        if (Send(frame.AsSpan(0, length)) == SendResult.Full)
        {
            // A SendAsync of another thread is on its way to the queue, and comes first.
            if (_isInline)
            {
                WaitAtMost();
                Post(static s => ((WebSocketSession)s!).QueueFrame(), this);
                return;
            }

            _ = SendAsync(frame.AsMemory(0, length)).AsTask();
        }

        Volatile.Write(ref _isFrameQueued, true);
        if (_endsBehindFrame is { } peerFinished) EndConnection(peerFinished);
    }

    // A callback on the pool may block on the end, and what is posted would run behind it: so the few instructions of others are waited for.
    private void AwaitSends()
    {
        if (SendsElsewhere == 0) return;
        long from = Environment.TickCount64;
        SpinWait spin = default;
        while (SendsElsewhere > 0 && Environment.TickCount64 - from < s_longestSpin.TotalMilliseconds) spin.SpinOnce();
    }

    /// <summary>As <see cref="EndConnection"/>, behind the close frame. The session's thread.</summary>
    private void EndAfterFrame(bool peerFinished)
    {
        if (_saidClose && !_isFrameQueued) _endsBehindFrame ??= peerFinished;
        else EndConnection(peerFinished);
    }
}
