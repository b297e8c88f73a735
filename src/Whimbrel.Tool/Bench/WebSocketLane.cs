using Whimbrel.Http;

namespace Whimbrel.Tool.Bench;

/// <summary>WebSocket of a lane: every binary message comes back whole and in order.</summary>
internal sealed class WebSocketLane(Lane lane, Payload payload) : WebSocketSession, ILanePeer
{
    public string Progress => "no binary message came back";

    public bool TrySend(long number) => SendBinary(payload.Message(lane.Key, number)) == SendResult.Queued;

    protected override void OnConnected()
    {
        base.OnConnected();
        lane.Opened(this);
    }

    protected override void OnBinary(ReadOnlySpan<byte> data)
    {
        long now = Clock.Now();
        if (lane.IsQuiet) End("extra-message", "a message came back when none was in flight");
        else if (!data.SequenceEqual(payload.Message(lane.Key, lane.Oldest)))
            End("wrong-echo", $"a message of {data.Length} bytes is not the one that was sent");
        else lane.Answered(now);
        lane.Load.SendDue(now);
    }

    protected override void OnText(ReadOnlySpan<byte> utf8) =>
        End("wrong-echo", $"a text message of {utf8.Length} bytes came back, not the binary one that was sent");

    protected override void OnDrained() => lane.Freed(Clock.Now());

    protected override void OnDisconnected(CloseReason reason)
    {
        base.OnDisconnected(reason);
        lane.Ended(this, ErrorCounts.KindOf(reason.Cause), $"{reason}; WebSocket status {(int)CloseStatus}");
    }

    private void End(string kind, string text)
    {
        lane.Ended(this, kind, text);
        Abort();
    }
}
