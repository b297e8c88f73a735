using System.Buffers.Binary;

namespace Whimbrel.Clusters;

// The other nodes. Each announces itself, so that crashed nodes are detected, and so that after a reconnect nothing is
// published before the others have subscribed again.
public sealed partial class Cluster
{
    private void Announce(bool asks)
    {
        // The bus is slow. Presence does not count: it may be due in the same turn, and has no interval in it.
        if (!asks && _outbox.HasAnnouncement) return;
        Span<byte> payload = stackalloc byte[AnnouncementBytes];
        BinaryPrimitives.WriteInt32LittleEndian(payload, (int)_options.AnnounceInterval.TotalMilliseconds);
        payload[^1] = asks ? (byte)1 : (byte)0;
        Outgoing announcement = _form.Control(EnvelopeKind.Announcement, (ReadOnlySpan<byte>)[],
            _nodesSubject, payload);
        announcement.Sequence = 1;
        // If the queue is full, the bus takes nothing, and the others correctly report this node as missing.
        TryControl(announcement);
        _announcedAtMs = _loop.TimeMs;
    }

    /// <summary>
    /// Answers all questions of a tenth of a second with one announcement, because many nodes ask when a broker is
    /// back.
    /// </summary>
    private void AnswerAnnouncement()
    {
        if (_answerTimer is { IsActive: true }) return;
        long waitMs = _announcedAtMs + LeastBetweenAnnouncementsMs - _loop.TimeMs;
        if (waitMs <= 0) Announce(asks: false);
        else _answerTimer = _loop.StartTimer(TimeSpan.FromMilliseconds(waitMs),
            static c => ((Cluster)c!).AnnounceIfReached(), this);
    }

    private void AnnounceIfReached()
    {
        if (!_isDisposed && _isConnected) Announce(asks: false);
    }

    private void HearNode(in Envelope envelope)
    {
        if (envelope.Kind == EnvelopeKind.Goodbye)
        {
            _presence?.Forget(envelope.Instance);
            if (_nodes.Forget(envelope.Instance)) NodesChanged();
            return;
        }

        if (envelope.Payload.Length != AnnouncementBytes
            || BinaryPrimitives.ReadInt32LittleEndian(envelope.Payload) is var intervalMs && intervalMs <= 0)
        {
            Interlocked.Increment(ref _refused);
            return;
        }

        bool isAnother = _nodes.Announce(envelope.Instance, NameOf(envelope),
            BinaryPrimitives.ReadInt32LittleEndian(envelope.Payload), _watchMs);
        if (isAnother || _isHeld) NodesChanged();
        if (envelope.Payload[^1] != 0) AnswerAnnouncement();
    }

    /// <summary>Runs once per announce interval: announces this node and looks for missing nodes.</summary>
    private void Watch()
    {
        long nowMs = _loop.TimeMs, intervalMs = (long)_options.AnnounceInterval.TotalMilliseconds;
        // Because a suspended process has not read the announcements of that time, the time is not counted.
        _watchMs += Math.Min(nowMs - _beatAtMs, intervalMs);
        _beatAtMs = nowMs;
        if (!_isConnected) return;
        Announce(asks: false);
        if (!_isHeld && _nodes.Judge(_watchMs, intervalMs, (long)_options.ForgetNodesAfter.TotalMilliseconds))
            JudgeNodes();
    }

    private void NodesChanged()
    {
        if (!_isConnected || (_isHeld && _nodes.IsAwaiting)) return;
        if (_isHeld) Release();
        else JudgeNodes();
    }

    /// <summary>Releases held broadcasts: all known nodes are present, or the grace period has passed.</summary>
    private void Release()
    {
        if (!_isHeld) return;
        _isHeld = false;
        _grace?.Cancel();
        JudgeNodes();
        Flush();
    }

    private void JudgeNodes()
    {
        _nodes.EndAwaiting(_watchMs);
        if (!_nodes.IsMissing)
        {
            SetState(ClusterState.Healthy, $"{_bus.Reached} is reached.");
            return;
        }

        SetState(
            ClusterState.Degraded,
            $"{_bus.Reached} is reached, but these nodes are not heard there and have said no goodbye: "
            + $"{_nodes.NameMissing()}. They have crashed, or are connected to another server "
            + "(a split): what is broadcast here does not reach their members. Compare the addresses that the nodes "
            + "have reached.");
    }
}
