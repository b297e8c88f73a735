using System.Net;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// One connect of a client or connector, and the connection that it leads to. Used on the loop where it was started,
/// unless the member's documentation says otherwise.
/// </summary>
internal abstract class PendingConnect(ConnectionHost host, List<EndPoint> targets)
{
    private Loop? _loop;
    private Loop? _chosen; // set before the attempt starts there
    private bool _closeAsked;

    internal Session? Session { get; set; }

    /// <summary>Exception of OnConnected, of the session or of one that took over.</summary>
    internal Exception? Thrown { get; set; }

    /// <summary>
    /// Returns the reason that a failed connect reports: the exception of OnConnected, if it threw, whatever the
    /// session's protocol reported.
    /// </summary>
    protected internal CloseReason ReasonFor(CloseReason reason) =>
        Thrown is { } thrown ? new CloseReason(CloseCause.UserException, 0, thrown) : reason;

    private ClientOptions Options => (ClientOptions)host.Options;

    /// <summary>The application's factory, and its name in messages.</summary>
    protected abstract (string What, object? Code) Factory { get; }

    /// <summary>True if the caller cancelled before the connection was established.</summary>
    protected abstract bool IsCancelled { get; }

    /// <summary>
    /// True if the connection is established, does not count as connected yet, and the caller has cancelled.
    /// </summary>
    protected virtual bool IsOpening => false;

    /// <summary>Calls the application's factory; its exception is passed to <see cref="FactoryThrew"/>.</summary>
    protected abstract Session? MakeSession(Loop loop);

    protected abstract void FactoryThrew(Exception exception);

    /// <summary>
    /// Starts the attempt on this loop, on that of the options, or on one of all loops. Returns false if the engine is
    /// disposed. Any thread.
    /// </summary>
    internal bool Post(Loop? wanted = null)
    {
        _chosen = wanted ?? Options.Loop ?? host.Engine.NextLoop();
        return _chosen.PostControl(static (loop, a, _, _) => ((PendingConnect)a!).Start(loop), this);
    }

    private void Start(Loop loop)
    {
        Session? session;
        Volatile.Write(ref _loop, loop);
        (string what, object? code) = Factory;
        loop.EnterWork(what, code);
        try
        {
            session = MakeSession(loop);
            if (session is null || session.IsUsed)
                Throw.State($"The factory must return a new session for each connect, and returned "
                    + $"{(session is null ? "null" : "one that had a connection before")}.");
        }
        catch (Exception e)
        {
            FactoryThrew(e);
            return;
        }
        finally
        {
            loop.LeaveWork();
        }

        Session = session;
        session.HostState = this;
        Connection connection = loop.TakeConnection();
        connection.Begin(host.ShardOf(loop), session, Engine.NextConnectionId(), Options.Socket.LocalEndPoint,
            PeerAddress.Of(targets[0]));
        session.SetRemoteEndPoint(targets[0]);
        // A cancelled attempt also gets both callbacks (contract 1).
        connection.Connecting(null);
    }

    /// <summary>Starts to connect, after the session's OnConnecting has returned.</summary>
    internal void Connect(Connection connection)
    {
        if (Volatile.Read(ref _closeAsked)) connection.AbortWith(new CloseReason(CloseCause.LocalClose));
        else if (IsCancelled) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
        if (connection.State == ConnectionState.Connecting)
            new ConnectOperation(connection, targets, Options.Socket.LocalEndPoint).Start(Options.Timeouts.Connect);
    }

    /// <summary>
    /// Cancels the connect; an established connection stays. Any thread. Before Start has run there is no loop yet;
    /// Start checks the token itself.
    /// </summary>
    internal void Cancel() => Volatile.Read(ref _loop)?.PostControl(
        static (_, a, _, _) =>
        {
            PendingConnect attempt = (PendingConnect)a!;
            if (attempt.Session?.Connection is { } connection && (connection.IsBeginning || attempt.IsOpening))
                connection.AbortWith(new CloseReason(CloseCause.Cancelled));
        },
        this);

    /// <summary>Closes the connection gracefully, or cancels the connect. Any thread.</summary>
    internal void Close()
    {
        Volatile.Write(ref _closeAsked, true);
        Session?.CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>Returns the user code that delays the end. Any thread; the result may be slightly outdated.</summary>
    internal List<UnfinishedCall> FindUnfinished()
    {
        List<UnfinishedCall> found = [];
        _chosen?.AddUnfinishedTurn(found);
        _chosen?.AddUnfinishedOnPool(found, host);
        return found;
    }

    /// <summary>Returns the exception for a caller that awaits a failed connect.</summary>
    internal static NetworkException Failure(List<EndPoint> targets, CloseReason reason, string more = "")
    {
        string tried = reason.Exception is AggregateException all
            ? $" Tried {string.Join("; ", all.InnerExceptions.Select(static e => e.Message))}."
            : "";
        string help = reason.Cause == CloseCause.TlsHandshake
            ? "See docs/symptoms/tls-handshake.md, or: whimbrel explain tls-handshake."
            : "See docs/symptoms/cannot-connect.md, or: whimbrel explain cannot-connect.";
        return new NetworkException(
            reason.Error with { Message = $"Cannot connect to {TextOf(targets)}: {reason}.{tried}{more} {help}" },
            reason.Exception);
    }

    internal static string TextOf(List<EndPoint> targets) =>
        string.Join(" or ", targets.Select(static t => t is DnsEndPoint name ? $"{name.Host}:{name.Port}" : $"{t}"));
}
