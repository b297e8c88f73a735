namespace Whimbrel.Tool.Bench;

/// <summary>Connection of a lane over TCP, TLS or a Unix socket: every byte that comes back is compared.</summary>
internal sealed class StreamLane(Lane lane, Payload payload) : Session, ILanePeer
{
    private long _first;
    private long _received;

    public string Progress => $"{_received} of {payload.SizeBytes} bytes came back";

    public bool TrySend(long number) => Send(payload.Message(lane.Key, number)) == SendResult.Queued;

    protected override void OnConnected()
    {
        _first = lane.Next;
        lane.Opened(this);
    }

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        long now = Clock.Now();
        long expected = (lane.Next - _first) * payload.SizeBytes;
        if (_received + data.Length > expected)
            End("extra-bytes", $"{_received + data.Length} bytes came back of {expected} that were sent");
        else if (!IsEcho(data))
            End("wrong-echo", $"the bytes after {_received} are not those that were sent");
        else Take(data.Length, now);
        lane.Load.SendDue(now);
    }

    protected override void OnDrained() => lane.Freed(Clock.Now());

    protected override void OnDisconnected(CloseReason reason) =>
        lane.Ended(this, ErrorCounts.KindOf(reason.Cause), reason.ToString());

    private void Take(int count, long now)
    {
        long answered = _received / payload.SizeBytes;
        _received += count;
        for (; answered < _received / payload.SizeBytes; answered++) lane.Answered(now);
    }

    private bool IsEcho(ReadOnlySpan<byte> data)
    {
        long position = (_first * payload.SizeBytes) + _received;
        for (int at = 0, count; at < data.Length; at += count)
        {
            count = Math.Min(data.Length - at, Payload.ChunkBytes);
            if (!data.Slice(at, count).SequenceEqual(payload.Stream(lane.Key, position + at, count))) return false;
        }

        return true;
    }

    private void End(string kind, string text)
    {
        lane.Ended(this, kind, text);
        Abort();
    }
}
