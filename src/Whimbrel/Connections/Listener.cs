using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// One bound accept socket. Passes each accepted socket to a loop of the engine. Without free descriptors it sheds new
/// connections with a descriptor kept in reserve, pauses, and recovers by itself. A listener that drains accepts the
/// connections that the system has completed before it closes, so that no connected peer is reset. Loop's thread only.
/// </summary>
internal sealed class Listener : Resident
{
    private const int RestMs = 100;

    /// <summary>Number of consecutive failed accepts after which the listener pauses, whatever the error.</summary>
    private const int MostFailuresInARow = 64;

    private readonly ConnectionHost _host;
    private readonly bool _preparesAccepted;
    private readonly Completion<EndPoint> _started;
    private List<Completion<bool>>? _stopped;
    private LoopTimer? _rest;
    private bool _isOpen;
    private bool _isAccepting;
    private int _bindError;
    private bool _isDetaching;
    private bool _isDraining;
    private int _failuresInARow;
    private volatile bool _isLeftBehind;
    private volatile bool _leavesRest;

    internal Listener(Loop loop, ConnectionHost host, ServerOptions options, EndPoint endPoint,
        PortSharing sharing = PortSharing.None, bool accepts = true)
        : base(loop)
    {
        _host = host;
        Options = options;
        Inherited = endPoint as InheritedSocket;
        LeavesRest = Inherited is not null;
        if (options.Upgrade is not null)
            Given = Inherited is { IsClaimed: true } ? Inherited.Name : UpgradeNames.Of(endPoint);
        EndPoint = endPoint = Inherited?.LocalEndPoint ?? endPoint;
        Sharing = sharing;
        _isAccepting = accepts;
        _preparesAccepted = options.Socket.OnCreated is not null || !SocketOptions.AreInherited(endPoint, options);
        _started = new Completion<EndPoint>(loop.Engine);
    }

    /// <summary>Requested end point; after the attach the bound address, set by the engine.</summary>
    internal EndPoint EndPoint { get; set; }

    internal ServerOptions Options { get; }

    /// <summary>Socket of another process, of which this one is a duplicate; null if this process binds.</summary>
    internal InheritedSocket? Inherited { get; }

    /// <summary>Address that the first process was given, as text: an upgrade finds the socket by it.</summary>
    internal string Given { get; } = "";

    /// <summary>
    /// True if another process may listen on the same socket, now or later. The blocking mode belongs to both: the
    /// descriptor stays non-blocking.
    /// </summary>
    internal bool IsShared => Inherited is not null || Options.Upgrade is not null;

    /// <summary>
    /// True while another process has the same socket. Filter, waiting connections and path belong to both: a stop
    /// leaves them as they are. Set on any thread before the stop.
    /// </summary>
    internal bool LeavesRest
    {
        get => _leavesRest;
        set => _leavesRest = value;
    }

    internal PortSharing Sharing { get; }

    /// <summary>True if it is being closed and still accepts completed connections.</summary>
    internal bool IsDraining => _isDraining;

    /// <summary>True if the engine accepts the waiting connections before it closes the listener.</summary>
    internal bool AcceptsRest => _isDraining && !LeavesRest;

    /// <summary>
    /// Failure of an option or of the user's hook, which is more precise than the number passed to
    /// <see cref="CompleteAttach"/>.
    /// </summary>
    internal NetworkException? Fault { get; set; }

    /// <summary>True if bound to all addresses: each accepted socket is then queried for its own.</summary>
    internal bool IsWildcard =>
        EndPoint is IPEndPoint ip && (ip.Address.Equals(IPAddress.Any) || ip.Address.Equals(IPAddress.IPv6Any));

    /// <summary>Completes with the bound address, or fails with a <see cref="NetworkException"/>.</summary>
    internal ValueTask<EndPoint> Started => _started.Task;

    internal void Start()
    {
        if (Loop.IsStopping)
        {
            _isDetaching = true;
            _started.SetException(Loop.Engine.EndedError());
            return;
        }

        Loop.Attach(this);
    }

    internal override void CompleteAttach(int error)
    {
        if (error != 0)
        {
            _isDetaching = true;
            _bindError = error;
            if (Fault is not null)
            {
                _started.SetException(Fault);
                return;
            }

            // The search for the holder of the port reads the descriptors of every process, which takes seconds on a
            // busy machine. It therefore does not run on this loop.
            Loop.Engine.Offload(static listener => ((Listener)listener!).TellBindError(), this);
            return;
        }

        _isOpen = true;
        _started.SetResult(EndPoint);
        if (_isAccepting) Loop.StartReceive(this);
    }

    /// <summary>Starts to accept, for a listener that only listened so far; waiting connections come first.</summary>
    internal void Accept()
    {
        if (_isAccepting || !_isOpen || _isDetaching || _isDraining) return;
        _isAccepting = true;
        Loop.StartReceive(this);
    }

    private void TellBindError() => _started.SetException(
        new NetworkException(BindError.Describe(EndPoint, _bindError, SocketFactory.NoSocketAt(EndPoint))));

    /// <summary>Called when the engine has accepted a socket, which is placed or discarded here.</summary>
    internal void CompleteAccept(RawSocket socket, PeerAddress peer, EndPoint? local)
    {
        if (!_isOpen || (_isDetaching && !_isDraining))
        {
            Loop.Discard(socket);
            return;
        }

        if (Loop.Engine.Descriptors.IsReached(socket.Number))
        {
            Loop.Discard(socket);
            CompleteAcceptError(Errno.EMFILE, shed: true);
            return;
        }

        _failuresInARow = 0;
        if (_preparesAccepted && SocketOptions.ApplyToAccepted(this, socket) is { } fault)
        {
            Loop.Counters.AcceptErrors++;
            Loop.Discard(socket);
            _host.AcceptFailed(fault);
            return;
        }

        _host.Accepted(this, socket, peer, local ?? EndPoint);
    }

    /// <summary>
    /// Called when accepting failed. The engine has shed one connection if it could. Errors of a single connection are
    /// only counted. After lack of resources, or repeated failures, the listener pauses, so that the loop does not
    /// spin. A socket that no longer listens, because it was shut down elsewhere, is closed.
    /// </summary>
    internal void CompleteAcceptError(int error, bool shed)
    {
        Loop.Counters.AcceptErrors++;
        if (shed)
        {
            Loop.Counters.AcceptsShed++;
            _host.CountShed();
        }

        if (_isDetaching || _isDraining)
        {
            if (IsLimit(error)) _host.NoteDescriptorLimit(error);
            return;
        }

        if (error is Errno.EBADF or Errno.EINVAL or Errno.ENOTSOCK or Errno.EOPNOTSUPP)
        {
            _host.ListenerEnded(this, error);
            Stop();
            return;
        }

        if (IsLimit(error)) _host.NoteDescriptorLimit(error);
        else if (++_failuresInARow < MostFailuresInARow) return;
        else _host.NoteAcceptFailing(this, error);
        if (error is Errno.EMFILE or Errno.ENFILE && !shed) Loop.Engine.Descriptors.LookUp();
        if (_rest is not null) return;
        Loop.StopReceive(this);
        _rest = Loop.StartTimer(TimeSpan.FromMilliseconds(RestMs), static state => ((Listener)state!).Rested(), this);
    }

    private static bool IsLimit(int error) =>
        error is Errno.EMFILE or Errno.ENFILE or Errno.ENOBUFS or Errno.ENOMEM or Errno.ENOSPC;

    private void Rested()
    {
        _rest = null;
        if (!_isDetaching) Loop.StartReceive(this);
    }

    /// <summary>
    /// Frees the address, although the loop has not closed the listener yet. Waiting connections are rejected. Does
    /// nothing if it is closed. Any thread.
    /// </summary>
    internal void StopListening()
    {
        _isLeftBehind = true;
        if (LeavesRest) return;
        try
        {
            ShareSocket()?.Shutdown(SocketShutdown.Both);
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException or NetworkException)
        {
            // Closed meanwhile, or there is no descriptor for a duplicate. The start that follows reports the obstacle.
        }
    }

    /// <summary>False if the path belongs to another process, or may already belong to another listener.</summary>
    internal override bool OwnsPath => !_isLeftBehind && !LeavesRest;

    /// <summary>Stops accepting and closes. Completes when the descriptor is closed.</summary>
    /// <param name="stopped">Completion to set at the end; or null.</param>
    /// <param name="drain">True to accept connections that the system has completed, instead of resetting them.</param>
    internal void Stop(Completion<bool>? stopped = null, bool drain = false)
    {
        if (Slot < 0)
        {
            stopped?.SetResult(true);
            return;
        }

        if (stopped is not null) (_stopped ??= []).Add(stopped);
        if (_isDetaching || _isDraining) return;
        _rest?.Cancel();
        _isDraining = drain && _isOpen;
        _isDetaching = true;
        Loop.Detach(this);
    }

    internal override void CompleteClose()
    {
        _isOpen = false;
        _isDraining = false;
        if (_stopped is not { } waiting) return;
        _stopped = null;
        foreach (Completion<bool> stopped in waiting) stopped.SetResult(true);
    }

    internal override void RunScheduled()
    {
    }

    internal override void Abort() => Stop();
}
