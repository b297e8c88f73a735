using System.Net;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// One connect attempt to one address. Returns a connected socket or the failure to its <see cref="ConnectOperation"/>.
/// Loop's thread only.
/// </summary>
internal sealed class ConnectAttempt : Resident
{
    private readonly ConnectOperation _connect;
    private CloseReason _reason;
    private bool _isOver;

    internal ConnectAttempt(ConnectOperation operation, EndPoint target, EndPoint? local)
        : base(operation.Loop)
    {
        _connect = operation;
        Target = target;
        LocalEndPoint = local;
    }

    internal EndPoint Target { get; }

    /// <summary>
    /// Requested host: the name that <see cref="Target"/> was resolved from, or the address itself; null for paths.
    /// </summary>
    internal string? HostName { get; init; }

    /// <summary>
    /// Requested local end point before the attach; afterwards the one that the socket is bound to, set by the engine.
    /// </summary>
    internal EndPoint? LocalEndPoint { get; set; }

    /// <summary>
    /// Failure of an option or of the user's hook, which is more precise than the number passed to
    /// <see cref="CompleteAttach"/>.
    /// </summary>
    internal NetworkException? Fault { get; set; }

    /// <summary>
    /// True if a connect that succeeds at once has only been recorded by the system, and is sent with the first bytes.
    /// </summary>
    internal bool MayDefer => Options is ClientOptions { Socket.FastOpen: true } && Target is IPEndPoint;

    internal ConnectionOptions Options => _connect.Options;

    internal override void CompleteAttach(int error)
    {
        if (_isOver) return;
        _isOver = true;
        if (error != 0)
        {
            _reason = Fault is null
                ? new CloseReason(ErrorText.CauseOf(error), error)
                : new CloseReason(CloseCause.SocketOption, Fault.Error.Code, Fault);
            if (Slot >= 0) Loop.Detach(this);
            else Loop.Schedule(this);
            return;
        }

        Loop.Schedule(this);
    }

    /// <summary>Cancels the attempt: another address was faster, the connect is over, or the engine stops.</summary>
    internal void Cancel(CloseReason reason)
    {
        if (_isOver && _reason.Cause != CloseCause.None) return;
        bool wasOver = _isOver;
        _isOver = true;
        _reason = reason;
        if (Slot >= 0) Loop.Detach(this);
        else if (!wasOver) Loop.Schedule(this);
    }

    internal override void Abort() => Cancel(new CloseReason(CloseCause.EngineStopped));

    internal override void CompleteClose() => Loop.Schedule(this);

    private RawSocket ReleaseSocket()
    {
        RawSocket socket = Loop.Release(this) with { Made = Made };
        Made = null;
        return socket;
    }

    internal override void RunScheduled()
    {
        // A failed attempt reports when its descriptor is closed, so that its local port is free for the next.
        if (_reason.Cause != CloseCause.None)
        {
            if (Slot < 0) _connect.Failed(this, _reason);
            return;
        }

        if (Slot >= 0) _connect.Connected(this, ReleaseSocket());
    }
}
