using System.Net;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>One attempt at one address. Brings its dial a connected socket, or the reason why there is none. Loop's thread only.</summary>
internal sealed class ConnectAttempt : Resident
{
    private readonly ConnectOperation _connect;
    private CloseReason _reason;
    private bool _isOver;

    internal ConnectAttempt(ConnectOperation dial, EndPoint target, EndPoint? local)
        : base(dial.Loop)
    {
        _connect = dial;
        Target = target;
        LocalEndPoint = local;
    }

    internal EndPoint Target { get; }

    /// <summary>What was asked for: the name whose address <see cref="Target"/> is, or the address itself; null for paths.</summary>
    internal string? HostName { get; init; }

    /// <summary>Asked for before the attach; after it, what the socket is bound to. The engine sets it.</summary>
    internal EndPoint? LocalEndPoint { get; set; }

    /// <summary>What failed, when it was an option or the user's hook: known better than by the number given to <see cref="CompleteAttach"/>.</summary>
    internal NetworkException? Fault { get; set; }

    /// <summary>A connect that succeeds at once has only been noted by the system, and goes out with the first bytes.</summary>
    internal bool MayDefer => Options is ClientOptions { FastOpen: true } && Target is IPEndPoint;

    internal ConnectionOptions Options => _connect.Options;

    internal override void CompleteAttach(int error)
    {
        if (_isOver) return;
        _isOver = true;
        if (error != 0)
        {
            _reason = Fault is null ? new CloseReason(ErrorText.CauseOf(error), error) : new CloseReason(CloseCause.SocketOption, Fault.Error.Code, Fault);
            if (Slot >= 0) Loop.Detach(this);
            else Loop.Schedule(this);
            return;
        }

        Loop.Schedule(this);
    }

    /// <summary>Gives up: another address was quicker, the dial is over, the engine stops.</summary>
    internal void Cancel(CloseReason reason)
    {
        if (_isOver && _reason.Cause != CloseCause.None) return;
        bool wasOver = _isOver;
        _isOver = true;
        _reason = reason;
        if (Slot >= 0) Loop.Detach(this);
        else if (!wasOver) Loop.Schedule(this);
    }

    internal override void CompleteClose() => Loop.Schedule(this);

    private RawSocket ReleaseSocket()
    {
        RawSocket socket = Loop.Release(this) with { Made = Made };
        Made = null;
        return socket;
    }

    internal override void RunScheduled()
    {
        // A failed one reports when its descriptor is closed: then its local port is free for the next.
        if (_reason.Cause != CloseCause.None)
        {
            if (Slot < 0) _connect.Failed(this, _reason);
            return;
        }

        if (Slot >= 0) _connect.Connected(this, ReleaseSocket());
    }
}
