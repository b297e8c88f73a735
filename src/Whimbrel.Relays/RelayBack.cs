namespace Whimbrel.Relays;

// The target's side of a relayed connection.
internal sealed class RelayBack : Session
{
    private readonly RelayFront _front;
    private readonly RelayOptions _options;
    private readonly TaskCompletionSource<bool> _stands = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _isOver;

    internal RelayBack(RelayFront front, RelayTarget target, RelayOptions options)
    {
        (_front, Target, _options) = (front, target, options);
        target.Take();
    }

    internal RelayTarget Target { get; }

    /// <summary>True when it is ready to be piped to, false when it ended before.</summary>
    internal Task<bool> Stands => _stands.Task;

    /// <summary>It has not come to stand. Once, whoever says it first.</summary>
    internal void GiveUp(bool isTargets)
    {
        if (Interlocked.Exchange(ref _isOver, 1) != 0) return;
        if (isTargets) Target.Failed();
        Target.GiveBack();
    }

    protected override void OnConnected()
    {
        if (_options.TargetHeader != ProxyHeaderForm.None)
        {
            MessageWriter message = new();
            if (_options.TargetHeader == ProxyHeaderForm.Line) _front.HeaderForTarget.WriteLine(message);
            else _front.HeaderForTarget.Write(message, hasChecksum: true);
            Send(message);
            if (_options.TargetTls is { } tls)
            {
                UpgradeToTls(tls);
                return;
            }
        }

        Stand();
    }

    protected override void OnHandshaked(TlsInfo info)
    {
        // By an upgrade; else OnConnected is still to come.
        if (ConnectedAt is not null && _options.TargetHeader != ProxyHeaderForm.None) Stand();
    }

    protected override void OnConnectFailed(CloseReason reason) => _stands.TrySetResult(false);

    protected override void OnDisconnected(CloseReason reason)
    {
        if (!_stands.TrySetResult(false) && Interlocked.Exchange(ref _isOver, 1) == 0) Target.GiveBack();
    }

    private void Stand()
    {
        Target.Reached();
        _stands.TrySetResult(true);
        _ = PipeToClientAsync();

        // False when the client has gone: then the pipe above ends this side.
        _front.Post(() => _front.Begin(this));
    }

    private async Task PipeToClientAsync()
    {
        PipeResult result = await PipeTo(_front);
        Target.AddFromTarget(result.Bytes);
    }
}
