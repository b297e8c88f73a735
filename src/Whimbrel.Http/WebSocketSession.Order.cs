using System.Buffers;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Messages and the close frame of all threads have one order: each accepted message precedes the frame, and nothing
// follows it (docs/design/0030). Sends of the loop and the frame use one thread. A send of another thread increments a
// count, checks whether a close was requested, sends, and decrements the count. The frame is queued when the count is
// 0; otherwise the last sender that leaves posts a request for it. By then the earlier sends are in the mailbox, and
// the core queues them first.
public partial class WebSocketSession
{
    // Bits of _order, beside the number of sends in progress.
    private const int SendsNothing = 1 << 30; // except the close frame
    private const int Ends = 1 << 29; // received data is dropped
    private const int FrameWaits = 1 << 28; // for counted sends of other threads
    private const int Counted = FrameWaits - 1;

    private static readonly TimeSpan s_longestSpin = TimeSpan.FromMilliseconds(50);

    private int _order;
    private (WebSocketStatus Status, string Reason) _frame;
    private bool _isFrameQueued;
    private bool _isBehindAll;
    private bool? _endsBehindFrame; // peerFinished of the end that follows the frame

    private bool IsClosing => (Volatile.Read(ref _order) & (SendsNothing | Ends)) != 0;

    private bool IsEnding => (Volatile.Read(ref _order) & Ends) != 0;

    private int SendsElsewhere => Volatile.Read(ref _order) & Counted;

    /// <summary>Drops all data received from now on. Returns false if this was so already.</summary>
    private bool EndsNow() => (Interlocked.Or(ref _order, SendsNothing | Ends) & Ends) == 0;

    /// <summary>Enters a send of another thread than the loop. After true the caller sends and calls
    /// <see cref="LeaveSend"/>; false means that a close was requested. Not for the loop of a session with callbacks on
    /// the loop.</summary>
    private bool TryEnterSend()
    {
        if (IsClosing) return false;
        if ((Interlocked.Increment(ref _order) & SendsNothing) == 0) return true;
        LeaveSend();
        return false;
    }

    private void LeaveSend()
    {
        if ((Interlocked.Decrement(ref _order) & (FrameWaits | Counted)) == FrameWaits)
            Post(static s => ((WebSocketSession)s!).QueueFrame(), this);
    }

    /// <summary>Queues the chosen close frame, or leaves it to the sends in progress on other threads. The session's
    /// thread; may be called more than once.</summary>
    private void QueueFrame()
    {
        if (_isFrameQueued) return;
        if (!_isInline) AwaitSends();
        if ((Interlocked.Or(ref _order, FrameWaits) & Counted) != 0)
        {
            WaitAtMost();
            return;
        }

        // All accepted sends are in the mailbox by now, but perhaps after the action that runs here. So a second action
        // queues the frame after them.
        if (_isInline && !_isBehindAll)
        {
            _isBehindAll = true;
            if (Post(static s => ((WebSocketSession)s!).QueueFrame(), this)) return;
        }

        // With a full queue, or one large message in it, the frame would be refused and queued data lost. Nothing is
        // sent after the frame.
        SendLimitBytes = MostSendLimitBytes;
        // Before the frame: a broadcast after it and before this line would follow the frame. Those of this thread are
        // queued already.
        BroadcastGate = BroadcastGate.Shut;
        byte[] frame = new byte[WebSocketReader.MostControlBytes + WebSocketWriter.MostHeadBytes];
        Span<byte> payload = stackalloc byte[WebSocketReader.MostControlBytes];
        int length = _writer.WriteFrame(frame, WebSocketOpcode.Close,
            payload[..WebSocketClose.Write(payload, _frame.Status, _frame.Reason)]);
        if (Send(frame.AsSpan(0, length)) == SendResult.Full)
        {
            // A SendAsync of another thread is not queued yet, and comes first.
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

    // A callback on the pool may block on the end, and a posted action would run only after it returns. So this waits
    // for the few instructions of the other threads.
    private void AwaitSends()
    {
        if (SendsElsewhere == 0) return;
        long from = Environment.TickCount64;
        SpinWait spin = default;
        while (SendsElsewhere > 0 && Environment.TickCount64 - from < s_longestSpin.TotalMilliseconds) spin.SpinOnce();
    }

    /// <summary>Calls <see cref="EndConnection"/> after the close frame is queued. The session's thread.</summary>
    private void EndAfterFrame(bool peerFinished)
    {
        if (_saidClose && !_isFrameQueued) _endsBehindFrame ??= peerFinished;
        else EndConnection(peerFinished);
    }
}
