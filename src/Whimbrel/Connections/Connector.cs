using System.Net;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>One dial attempt. Brings its connection a connected socket, or the reason why there is none. Loop's thread only.</summary>
internal sealed class Connector : Resident
{
    private readonly Connection _connection;
    private LoopTimer? _deadline;
    private CloseReason _reason;
    private bool _isOver;

    internal Connector(Connection connection, EndPoint target, EndPoint? local)
        : base(connection.Loop)
    {
        _connection = connection;
        Target = target;
        LocalEndPoint = local;
        connection.Connector = this;
    }

    internal EndPoint Target { get; }

    /// <summary>Asked for before the attach; after it, what the socket is bound to. The engine sets it.</summary>
    internal EndPoint? LocalEndPoint { get; set; }

    /// <summary>What failed, when it was an option or the user's hook: known better than by the number given to <see cref="CompleteAttach"/>.</summary>
    internal NetworkException? Fault { get; set; }

    /// <summary>A connect that succeeds at once has only been noted by the system, and goes out with the first bytes.</summary>
    internal bool MayDefer => Options is ClientOptions { FastOpen: true } && Target is IPEndPoint;

    internal ConnectionOptions Options => _connection.Host.Options;

    internal void Start(TimeSpan timeout)
    {
        _deadline = Loop.StartTimer(timeout, static state => ((Connector)state!).Cancel(new CloseReason(CloseCause.TimedOut)), this);
        Loop.Attach(this);
    }

    internal override void CompleteAttach(int error)
    {
        if (_isOver) return;
        _isOver = true;
        _deadline?.Cancel();
        if (error != 0)
        {
            _reason = Fault is null ? new CloseReason(ErrorText.CauseOf(error), error) : new CloseReason(CloseCause.SocketOption, Fault.Error.Code, Fault);
            if (Slot >= 0) Loop.Detach(this);
            else Loop.Schedule(this);
            return;
        }

        Loop.Schedule(this);
    }

    /// <summary>Gives up: timed out, cancelled, closed by the session, engine stopped.</summary>
    internal void Cancel(CloseReason reason)
    {
        if (_isOver && _reason.Cause != CloseCause.None) return;
        bool wasOver = _isOver;
        _isOver = true;
        _reason = reason;
        _deadline?.Cancel();
        if (Slot >= 0) Loop.Detach(this);
        else if (!wasOver) Loop.Schedule(this);
    }

    internal override void CompleteClose() => Loop.Schedule(this);

    internal override void RunScheduled()
    {
        if (_reason.Cause != CloseCause.None)
        {
            if (ReferenceEquals(_connection.Connector, this)) _connection.DialFailed(_reason);
            return;
        }

        if (Slot < 0) return;
        RawSocket socket = Loop.Release(this);
        if (!ReferenceEquals(_connection.Connector, this))
        {
            Loop.Discard(socket);
            return;
        }

        _connection.Connector = null;
        _connection.Session.SetLocalEndPoint(LocalEndPoint);
        _connection.Adopt(socket);
    }
}
