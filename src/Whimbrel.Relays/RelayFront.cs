namespace Whimbrel.Relays;

// The client's side of a relayed connection: waits, unread, until a target has answered.
internal sealed class RelayFront(Relay relay, ProxyHeader? header) : Session
{
    private RelayBack? _dialled;
    private bool _hasEnded;

    internal ProxyHeader HeaderForTarget => header is { IsLocal: true } ? ProxyHeader.Local : ProxyHeader.Of(RemoteEndPoint, LocalEndPoint);

    protected override void OnConnected()
    {
        PauseReceiving();
        _ = GuardAsync();
    }

    // Connections go on until the deadline: a proxy does not know where a message of theirs ends.
    protected override void OnServerStopping()
    {
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        _hasEnded = true;
        if (_dialled is { Stands.IsCompleted: false } dialled) dialled.Abort(); // nobody waits for it any more
    }

    // On the front's own thread, when the target's side stands.
    internal void Begin(RelayBack back)
    {
        _ = PipeToTargetAsync(back);
        ResumeReceiving();
    }

    private async Task PipeToTargetAsync(RelayBack back)
    {
        PipeResult result = await PipeTo(back);
        back.Target.AddToTarget(result.Bytes);
    }

    private async Task GuardAsync()
    {
        try
        {
            await FindTargetAsync();
        }
        catch (Exception e)
        {
            // Nobody awaits it: without this the client would wait for ever.
            NoteException(e, "A relay that looked for a target");
            Abort();
        }
    }

    private async Task FindTargetAsync()
    {
        HashSet<RelayTarget> asked = [];
        while (!_hasEnded && relay.Next(asked) is { } target)
        {
            asked.Add(target);
            RelayBack back = new(this, target, relay.Options);
            _dialled = back;
            try
            {
                await target.Dialler.ConnectAsync(() => back, Loop);
                if (await back.Stands) return;
            }
            catch (Exception e) when (e is NetworkException or ObjectDisposedException)
            {
                // The next one.
            }

            back.GiveUp(isTargets: !_hasEnded);
        }

        if (_hasEnded) return;
        relay.CountUnserved();
        Abort();
    }
}
