using System.Diagnostics;

namespace Whimbrel.Relays;

// The target's side of a relayed connection; or of a check, which has no client.
internal sealed class RelayBack : Session
{
    private readonly RelayFront? _front;
    private readonly RelayOptions _options;
    private readonly TaskCompletionSource<bool> _stands = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<bool>? _verdict; // of a check: it has sent a byte, or has ended without one
    private readonly long _dialledAt = Stopwatch.GetTimestamp();
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

    /// <summary>True when it is ready to be piped to, false when it ended before.</summary>
    internal Task<bool> Stands => _stands.Task;

    /// <summary>Of a check that stands: true when the target has sent a byte, false when it has ended the connection before.</summary>
    internal Task<bool> Verdict => _verdict!.Task;

    /// <summary>Why it does not stand, or not any more.</summary>
    internal string WhyNot => _verdict is { Task: { IsCompletedSuccessfully: true, Result: false } } && Stands is { IsCompletedSuccessfully: true, Result: true }
        ? $"it ended the connection of a check within {_options.EarlyEnd.TotalSeconds} s, without a byte" : _whyNot ?? "it ended the connection";

    internal long StoodAt => _stoodAt;

    /// <summary>Dials for the front, and tells it when that fails.</summary>
    internal async Task DialAsync(Loop loop)
    {
        RelayFront front = _front!;
        try
        {
            await Target.Dialler.ConnectAsync(() => this, loop).ConfigureAwait(false);
            if (await Stands.ConfigureAwait(false)) return;
        }
        catch (Exception e) when (e is NetworkException or ObjectDisposedException)
        {
            _whyNot ??= e.Message;
        }
        catch (Exception e)
        {
            front.Post(() => front.DialThrew(e));
            return;
        }

        GiveUp(front.HasEnded ? null : WhyNot);
        front.Post(() => front.NotReached(this));
    }

    /// <summary>Another target was quicker. One that had its time and another target's did not is not blamed.</summary>
    internal void Lose()
    {
        bool isSlow = Stopwatch.GetElapsedTime(_dialledAt) >= _options.NextAfter;
        GiveUp(isSlow ? $"it has not answered within {_options.NextAfter.TotalSeconds} s" : null);
        Abort();
    }

    protected override void OnConnected()
    {
        if (_front is { IsServed: true })
        {
            // Another one was quicker: this target need not see the client at all.
            Stand();
            return;
        }

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

    // Of checks: what clients get goes by a pipe.
    protected override void OnReceived(ReadOnlySpan<byte> data) => _verdict?.TrySetResult(true);

    protected override void OnPeerFinished()
    {
        _verdict?.TrySetResult(false);
        base.OnPeerFinished();
    }

    // It was down, and has lasted.
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

    /// <summary>Its place at the target is free. Once, whoever says it first: with a failure of the target's, or null.</summary>
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

        // False when the client has gone: then the pipe above ends this side.
        front.Post(() => front.Begin(this));
    }

    private async Task PipeToClientAsync(RelayFront front)
    {
        PipeResult result = await PipeTo(front);
        Target.AddFromTarget(result.Bytes);
        if (result.Bytes > 0) Target.Passed(_stoodAt);
        else if (IsTargets(result) && !front.HasFinished) NoteEarlyEnd();
    }

    // The client that came by it has got nothing, and the next one would get nothing either.
    private void NoteEarlyEnd()
    {
        TimeSpan lasted = Stopwatch.GetElapsedTime(_stoodAt);
        if (lasted >= _options.EarlyEnd) return;
        Target.CountFailure($"it ended the connection after {lasted.TotalMilliseconds:0} ms, without a byte");
    }

    private static bool IsTargets(PipeResult result) =>
        result.End == PipeEnd.Finished
        || (result.End == PipeEnd.SourceEnded && result.Reason.Cause is not (CloseCause.LocalClose or CloseCause.LocalAbort or CloseCause.ServerStopped or CloseCause.EngineStopped or CloseCause.HandedOver));
}
