using Whimbrel.Engines;

namespace Whimbrel.Clusters;

// Messages for local members that a loop had no room for: after a reconnect the queues of all other nodes arrive in one
// burst. They wait here in order and are delivered again.
public sealed partial class Cluster
{
    // After this time without room a message counts as missed, so that the groups after it do not wait.
    private const long ArrearsPatienceMs = 2_000;
    private const int MemoryAroundArrear = 128; // an object, an array and a place in the queue
    private static readonly TimeSpan s_arrearsRetry = TimeSpan.FromMilliseconds(5);

    private readonly Queue<Arrear> _arrears = [];
    private long _arrearsBytes;
    private LoopTimer? _arrearsTimer;

    /// <summary>Delivers a broadcast of another node to the local members.</summary>
    /// <returns>False if a loop has no room for it now.</returns>
    private bool TryReceive(GroupState state, string node, ReadOnlySpan<byte> payload)
    {
        try
        {
            if (payload.Length > _options.MaxPayloadBytes)
            {
                Interlocked.Increment(ref _refused);
                Miss(state, node, 1);
                return true;
            }

            if (Deliver(state, payload, null) == SendResult.Full) return false;
            Interlocked.Increment(ref _received);
        }
        catch (Exception e)
        {
            Report(e);
            Miss(state, node, 1);
        }

        return true;
    }

    /// <summary>Keeps messages of an envelope, in encoded form, until there is room.</summary>
    private void KeepArrears(GroupState state, string node, ReadOnlySpan<byte> messages, int count)
    {
        if (_arrearsBytes + messages.Length + MemoryAroundArrear > _options.QueueLimitBytes)
        {
            Miss(state, node, count);
            return;
        }

        _arrears.Enqueue(new Arrear(state, node, messages.ToArray(), _loop.TimeMs) { Left = count });
        _arrearsBytes += messages.Length + MemoryAroundArrear;
        if (_arrears.Count == 1) RetryArrears();
    }

    private void RetryArrears() =>
        _arrearsTimer = _loop.StartTimer(s_arrearsRetry, static c => ((Cluster)c!).DeliverArrears(), this);

    private void DeliverArrears()
    {
        if (_isDisposed) return;
        while (_arrears.TryPeek(out Arrear? one))
        {
            int missed = 0;
            ReadOnlySpan<byte> rest = one.Messages.AsSpan(one.At);
            for (; one.Left > 0 && Envelope.TryTakeMessage(ref rest, out ReadOnlySpan<byte> message);
                one.Left--, one.At = one.Messages.Length - rest.Length)
            {
                if (TryReceive(one.Group, one.Node, message)) continue;
                if (_loop.TimeMs - one.SinceMs > ArrearsPatienceMs) missed++;
                else break;
            }

            if (missed > 0) Miss(one.Group, one.Node, missed);
            if (one.Left > 0)
            {
                RetryArrears();
                return;
            }

            _arrearsBytes -= _arrears.Dequeue().Messages.Length + MemoryAroundArrear;
        }
    }

    private void CloseArrears()
    {
        _arrearsTimer?.Cancel();
        while (_arrears.TryDequeue(out Arrear? one)) Miss(one.Group, one.Node, one.Left);
        _arrearsBytes = 0;
    }

    private void Miss(GroupState group, string node, int count)
    {
        Interlocked.Add(ref _missed, count);
        TellGap(node, group.Name, count);
    }
}
