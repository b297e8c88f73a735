using System.Diagnostics;

namespace Whimbrel.Relays;

// The target's side of a relayed connection; or of a check, which has no client.
internal sealed class RelayBack : Session
{
    private readonly RelayFront? _front;
    private readonly RelayOptions _options;
    private readonly TaskCompletionSource<bool> _stands = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<bool>? _verdict; // of a check: whether the target sent a byte
    private readonly long _connectStartedAt = Stopwatch.GetTimestamp();
    private long _stoodAt;
    private string? _whyNot;
    private int _isOver;

    internal RelayBack(RelayFront? front, RelayTarget target, RelayOptions options)
    {
        (_front, Target, _options) = (front, target, options);
        if (front is not null) target.Take();
        else _verdict = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    internal RelayTarget Target { get; }

    /// <summary>Completes with true when the connection is ready for the pipe, with false if it ended before.</summary>
    internal Task<bool> Stands => _stands.Task;

    /// <summary>
    /// Result of a check that is connected: true if the target sent a byte, false if it ended the connection before.
    /// </summary>
    internal Task<bool> Verdict => _verdict!.Task;

    /// <summary>Reason why the connection failed or ended.</summary>
    internal string WhyNot => _verdict is { Task: { IsCompletedSuccessfully: true, Result: false } }
        && Stands is { IsCompletedSuccessfully: true, Result: true }
        ? $"it ended the connection of a check within {_options.EarlyEnd.TotalSeconds} s, without a byte"
        : _whyNot ?? "it ended the connection";

    internal long StoodAt => _stoodAt;

    /// <summary>Connects to the target. A failure is posted to the client's session.</summary>
    internal async Task ConnectAsync(Loop loop)
    {
        RelayFront front = _front!;
        try
        {
            await Target.Connector.ConnectAsync(() => this, loop).ConfigureAwait(false);
            if (await Stands.ConfigureAwait(false)) return;
        }
        catch (Exception e) when (e is NetworkException or ObjectDisposedException)
        {
            _whyNot ??= e.Message;
        }
        catch (Exception e)
        {
            front.Post(() => front.ConnectThrew(e));
            return;
        }

        GiveUp(front.HasEnded ? null : WhyNot);
        front.Post(() => front.NotReached(this));
    }

    /// <summary>
    /// Ends this attempt because another target answered first. It counts as failed only if it had at least
    /// <see cref="RelayOptions.NextAfter"/>.
    /// </summary>
    internal void Lose()
    {
        bool isSlow = Stopwatch.GetElapsedTime(_connectStartedAt) >= _options.NextAfter;
        GiveUp(isSlow ? $"it has not answered within {_options.NextAfter.TotalSeconds} s" : null);
        Abort();
    }

    protected override void OnConnected()
    {
        if (_front is { IsServed: true })
        {
            // Another target answered first: no header is sent to this one.
            Stand();
            return;
        }

        if (_options.TargetHeader != ProxyHeaderForm.None)
        {
            MessageWriter message = new();
            ProxyHeader header = _front?.HeaderForTarget ?? ProxyHeader.Local;
            if (_options.TargetHeader == ProxyHeaderForm.Line) header.WriteLine(message);
            else header.Write(message, hasChecksum: true);
            Send(Outgoing.Written(message));
            if (_options.TargetTls is { } tls)
            {
                UpgradeToTls(tls);
                return;
            }
        }

        Stand();
    }

    protected override void OnTlsHandshakeCompleted(TlsInfo info)
    {
        // After an upgrade only. Otherwise OnConnected follows.
        if (ConnectedAt is not null && _options.TargetHeader != ProxyHeaderForm.None) Stand();
    }

    // Checks only: the data of clients goes through the pipe.
    protected override void OnReceived(ReadOnlySpan<byte> data) => _verdict?.TrySetResult(true);

    protected override void OnEndOfStream()
    {
        _verdict?.TrySetResult(false);
        base.OnEndOfStream();
    }

    // The target was down, and this connection has lasted for EarlyEnd.
    protected override void OnTimer(LoopTimer timer) => Target.Passed(_stoodAt);

    protected override void OnConnectFailed(CloseReason reason)
    {
        _whyNot = reason.ToString();
        _stands.TrySetResult(false);
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        _whyNot ??= reason.ToString();
        _verdict?.TrySetResult(false);
        if (!_stands.TrySetResult(false) && _front is not null) GiveUp(null);
    }

    /// <summary>
    /// Releases the connection's slot at the target, once. The first call decides whether a failure of the target is
    /// counted.
    /// </summary>
    private void GiveUp(string? whyNot)
    {
        if (Interlocked.Exchange(ref _isOver, 1) != 0) return;
        if (whyNot is not null) Target.CountFailure(whyNot);
        Target.GiveBack();
    }

    private void Stand()
    {
        _stoodAt = Stopwatch.GetTimestamp();
        if (_front is not { } front)
        {
            _stands.TrySetResult(true);
            return;
        }

        if (!front.TryTake(this))
        {
            Lose();
            return;
        }

        Target.CountConnection();
        _stands.TrySetResult(true);
        if (!Target.IsUp)
        {
            if (_options.EarlyEnd > TimeSpan.Zero) StartTimer(_options.EarlyEnd);
            else Target.Passed(_stoodAt);
        }

        _ = PipeToClientAsync(front);

        // Post returns false if the client has disconnected. The pipe above then ends this side.
        front.Post(() => front.Begin(this));
    }

    private async Task PipeToClientAsync(RelayFront front)
    {
        PipeResult result = await PipeTo(front);
        Target.AddFromTarget(result.Bytes);
        if (result.Bytes > 0) Target.Passed(_stoodAt);
        else if (IsTargets(result) && !front.HasFinished) NoteEarlyEnd();
    }

    // The client received nothing, and the next client would receive nothing either.
    private void NoteEarlyEnd()
    {
        TimeSpan lasted = Stopwatch.GetElapsedTime(_stoodAt);
        if (lasted >= _options.EarlyEnd) return;
        Target.CountFailure($"it ended the connection after {lasted.TotalMilliseconds:0} ms, without a byte");
    }

    private static bool IsTargets(PipeResult result) =>
        result.End == PipeEnd.Finished
        || (result.End == PipeEnd.SourceEnded && result.Reason.Cause is not (CloseCause.LocalClose
            or CloseCause.LocalAbort or CloseCause.ServerStopped or CloseCause.EngineStopped or CloseCause.HandedOver));
}
