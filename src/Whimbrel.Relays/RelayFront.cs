namespace Whimbrel.Relays;

// The client's side of a relayed connection. It is not read until a target has answered. All but the properties runs on
// its own thread.
internal sealed class RelayFront(Relay relay, ProxyHeader? header) : Session
{
    private readonly List<RelayTarget> _asked = [];
    private readonly List<RelayBack> _waiting = []; // connects in progress
    private LoopTimer? _patience;
    private RelayBack? _back; // the first that connected
    private volatile bool _hasEnded, _hasFinished;

    /// <summary>Whether a target has answered.</summary>
    internal bool IsServed => Volatile.Read(ref _back) is not null;

    internal bool HasEnded => _hasEnded;

    /// <summary>Whether the client's FIN was forwarded. The target may then end without having sent a byte.</summary>
    internal bool HasFinished => _hasFinished;

    internal ProxyHeader HeaderForTarget
    {
        get
        {
            if (header is { IsLocal: true }) return ProxyHeader.Local;
            ProxyHeader own = ProxyHeader.Of(RemoteEndPoint, LocalEndPoint);
            // The checksum belongs to the received header, padding has no meaning, and version 1 has no extensions.
            return header is null || relay.Options.TargetHeader == ProxyHeaderForm.Line ? own
                : own.With([.. header.Extensions.Where(
                    static e => e.Type is not (ProxyExtension.Checksum or ProxyExtension.Padding))]);
        }
    }

    /// <summary>Assigns the client to a target. Returns true for the first caller only. Any thread.</summary>
    internal bool TryTake(RelayBack back) => !_hasEnded && Interlocked.CompareExchange(ref _back, back, null) is null;

    protected override void OnConnected()
    {
        PauseReceiving();
        AskNext();
    }

    // Connections stay open until the deadline, because a proxy does not know where a message ends.
    protected override void OnServerStopping()
    {
    }

    // The targets asked so far have not answered within NextAfter: one more is tried in parallel.
    protected override void OnTimer(LoopTimer timer)
    {
        if (!IsServed) AskNext();
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        _hasEnded = true;
        foreach (RelayBack back in _waiting)
        {
            if (back != _back) back.Abort(); // the client has disconnected
        }
    }

    /// <summary>Starts forwarding to the target that answered.</summary>
    internal void Begin(RelayBack back)
    {
        _patience?.Cancel();
        foreach (RelayBack other in _waiting)
        {
            if (other != back) other.Lose();
        }

        _waiting.Clear();
        _ = PipeToTargetAsync(back);
        ResumeReceiving();
    }

    /// <summary>Tries the next target after one could not be reached.</summary>
    internal void NotReached(RelayBack back)
    {
        _waiting.Remove(back);
        if (!IsServed) AskNext();
    }

    /// <summary>Aborts the client's connection, which would otherwise wait for ever.</summary>
    internal void ConnectThrew(Exception exception)
    {
        ReportException(exception, "A relay that connected to a target",
            outcome: "The connection of its client is reset.");
        Abort();
    }

    private void AskNext()
    {
        if (relay.Next(_asked) is not { } target)
        {
            if (_waiting.Count > 0) return;
            relay.CountUnserved();
            Abort();
            return;
        }

        _asked.Add(target);
        RelayBack back = new(this, target, relay.Options);
        _waiting.Add(back);
        _patience?.Cancel();
        if (_asked.Count < relay.Targets.Count) _patience = StartTimer(relay.Options.NextAfter);
        _ = back.ConnectAsync(Loop);
    }

    private async Task PipeToTargetAsync(RelayBack back)
    {
        PipeResult result = await PipeTo(back);
        back.Target.AddToTarget(result.Bytes);
        if (result.End == PipeEnd.Finished) _hasFinished = true;
    }
}
