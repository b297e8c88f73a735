namespace Whimbrel.Tool;

/// <summary>Sends numbered messages to a group at a rate. Runs on its loop.</summary>
internal sealed class MulticastSender(MulticastSettings settings, Action<string> tell) : DatagramHandler
{
    // If the sender is later than this, it skips messages instead of catching up.
    private const long LongestDebtMs = 1000;

    private readonly DatagramPeer _group = new(settings.Group);
    private readonly byte[] _message = new byte[settings.Size];
    private ulong _sequence;
    private long _startMs;
    private long _sent;
    private bool _hasFailed;

    protected override void OnStarted()
    {
        _startMs = Loop.TimeMs;
        double periodMs = Math.Clamp(1000.0 / settings.Rate, 1, 100);
        StartTimer(TimeSpan.Zero, TimeSpan.FromMilliseconds(periodMs));
    }

    protected override void OnTimer(LoopTimer timer)
    {
        long elapsedMs = Loop.TimeMs - _startMs;
        long due = (elapsedMs * settings.Rate / 1000) + 1 - _sent;
        if (due > settings.Rate * LongestDebtMs / 1000 && due > 1)
        {
            (_startMs, _sent, due) = (Loop.TimeMs, 0, 1);
        }

        for (; due > 0; due--)
        {
            PushMessage.Write(_message, ++_sequence);
            // Full: receivers see a gap, and the next turn has room.
            if (Send(_message, _group) != SendResult.Queued) break;
            _sent++;
        }
    }

    protected override void OnSendFailed(in DatagramFault fault)
    {
        // Usually there is no route, and the next datagram fails as well.
        if (_hasFailed) return;
        _hasFailed = true;
        tell($"whimbrel: {fault.Error.Message}");
    }
}
