namespace Whimbrel.Relays;

// The target's side of a relayed connection; or of a check, and then no client is behind it.
internal sealed class RelayBack : Session
{
    private readonly RelayFront? _front;
    private readonly RelayOptions _options;
    private readonly TaskCompletionSource<bool> _stands = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _isOver;

    internal RelayBack(RelayFront? front, RelayTarget target, RelayOptions options)
    {
        (_front, Target, _options) = (front, target, options);
        if (front is not null) target.Take();
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
            ProxyHeader header = _front?.HeaderForTarget ?? ProxyHeader.Local;
            if (_options.TargetHeader == ProxyHeaderForm.Line) header.WriteLine(message);
            else header.Write(message, hasChecksum: true);
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
        if (!_stands.TrySetResult(false) && _front is not null && Interlocked.Exchange(ref _isOver, 1) == 0) Target.GiveBack();
    }

    private void Stand()
    {
        if (_front is not { } front)
        {
            _stands.TrySetResult(true);
            Close();
            return;
        }

        Target.Reached();
        _stands.TrySetResult(true);
        _ = PipeToClientAsync(front);

        // False when the client has gone: then the pipe above ends this side.
        front.Post(() => front.Begin(this));
    }

    private async Task PipeToClientAsync(RelayFront front)
    {
        PipeResult result = await PipeTo(front);
        Target.AddFromTarget(result.Bytes);
    }
}
