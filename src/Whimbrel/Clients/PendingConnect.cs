using System.Net;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>One dial of a client or a dialler, and the connection that came of it. On the loop where it was begun, but for the members that say otherwise.</summary>
internal abstract class PendingConnect(ConnectionHost host, List<EndPoint> targets)
{
    private Loop? _loop;
    private Loop? _chosen; // also before it began there
    private bool _closeAsked;

    internal Session? Session { get; set; }

    /// <summary>What OnConnected has thrown, of the session or of one that took over.</summary>
    internal Exception? Thrown { get; set; }

    /// <summary>The reason that a failed connect reports: what OnConnected threw, if it threw, however the session's protocol has ended.</summary>
    protected internal CloseReason ReasonFor(CloseReason reason) => Thrown is { } thrown ? new CloseReason(CloseCause.UserException, 0, thrown) : reason;

    private ClientOptions Options => (ClientOptions)host.Options;

    /// <summary>The user's factory, as messages name it.</summary>
    protected abstract (string What, object? Code) Factory { get; }

    /// <summary>Its caller gave up before it was connected.</summary>
    protected abstract bool IsCancelled { get; }

    /// <summary>It is connected, which does not count yet, and its caller has given up.</summary>
    protected virtual bool IsOpening => false;

    /// <summary>Calls the user's factory; what that throws is told by <see cref="FactoryThrew"/>.</summary>
    protected abstract Session? MakeSession(Loop loop);

    protected abstract void FactoryThrew(Exception exception);

    /// <summary>Begins it on this loop, that of the options, or one of them all. False when the engine is disposed. Any thread.</summary>
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
            if (session is null || session.IsUsed) Throw.State($"The factory must give a new session for each dial, and gave {(session is null ? "null" : "one that had a connection before")}.");
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
        connection.Begin(host.ShardOf(loop), session, Engine.NextConnectionId(), Options.LocalEndPoint, PeerAddress.Of(targets[0]));
        session.SetRemoteEndPoint(targets[0]);
        // Also an attempt that was given up before it began has both callbacks (contract 1).
        connection.Connecting(null);
    }

    /// <summary>The session's OnConnecting has returned.</summary>
    internal void Connect(Connection connection)
    {
        if (Volatile.Read(ref _closeAsked)) connection.AbortWith(new CloseReason(CloseCause.LocalClose));
        else if (IsCancelled) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
        if (connection.State == ConnectionState.Connecting) new ConnectOperation(connection, targets, Options.LocalEndPoint).Start(Options.ConnectTimeout);
    }

    /// <summary>Gives up the dial; a connection stays. Any thread. Before Start ran there is no loop yet, and Start looks at the token itself.</summary>
    internal void Cancel() => Volatile.Read(ref _loop)?.PostControl(
        static (_, a, _, _) =>
        {
            PendingConnect attempt = (PendingConnect)a!;
            if (attempt.Session?.Connection is { } connection && (connection.IsBeginning || attempt.IsOpening)) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
        },
        this);

    /// <summary>Closes the connection gracefully, or gives up the dial. Any thread.</summary>
    internal void Close()
    {
        Volatile.Write(ref _closeAsked, true);
        Session?.CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>The user code that holds its end up. Any thread; true a moment ago.</summary>
    internal List<UnfinishedCall> FindUnfinished()
    {
        List<UnfinishedCall> found = [];
        _chosen?.AddUnfinishedTurn(found);
        _chosen?.AddUnfinishedOnPool(found, host);
        return found;
    }

    /// <summary>Why there is no connection, for who awaits it.</summary>
    internal static NetworkException Failure(List<EndPoint> targets, CloseReason reason, string more = "")
    {
        string tried = reason.Exception is AggregateException all ? $" Tried {string.Join("; ", all.InnerExceptions.Select(static e => e.Message))}." : "";
        string help = reason.Cause == CloseCause.TlsHandshake
            ? "See docs/symptoms/tls-handshake.md, or: whimbrel explain tls-handshake."
            : "See docs/symptoms/cannot-connect.md, or: whimbrel explain cannot-connect.";
        return new NetworkException(reason.Error with { Message = $"Cannot connect to {TextOf(targets)}: {reason}.{tried}{more} {help}" }, reason.Exception);
    }

    internal static string TextOf(List<EndPoint> targets) => string.Join(" or ", targets.Select(static t => t is DnsEndPoint name ? $"{name.Host}:{name.Port}" : $"{t}"));
}
