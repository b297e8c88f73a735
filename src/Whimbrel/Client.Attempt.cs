using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <content>One dial, and the connection that came of it.</content>
public partial class Client
{
    private sealed class Attempt(Host host, Pursuit pursuit)
    {
        private Loop? _loop;
        private Loop? _chosen; // also before it began there
        private bool _closeAsked;

        internal Pursuit Pursuit { get; } = pursuit;

        /// <summary>Completed when the connection has ended. Guarded by the client's gate.</summary>
        internal List<StopWait<bool>> Ended { get; } = [];

        internal Session? Session { get; set; }

        internal long ConnectedAtMs { get; set; }

        /// <summary>Begins it on the loop of the options, or on one of them all. False when the engine is disposed.</summary>
        internal bool Post(Engine engine)
        {
            _chosen = host.Client.Options.Loop ?? engine.NextLoop();
            return _chosen.PostControl(static (loop, a, _, _) => ((Attempt)a!).Start(loop), this);
        }

        /// <summary>The user code that holds its end up. Any thread; true a moment ago.</summary>
        internal List<UnfinishedCall> FindUnfinished()
        {
            List<UnfinishedCall> found = [];
            _chosen?.AddUnfinishedTurn(found);
            _chosen?.AddUnfinishedOnPool(found, host);
            return found;
        }

        /// <summary>The same where nobody can be told by an exception. Any thread.</summary>
        internal void PostOrGiveUp()
        {
            if (Post(host.Engine)) return;
            CloseReason reason = new(CloseCause.EngineStopped);
            Finish();
            Pursuit.GiveUp(reason);
            // Also when a disconnect had ended it meanwhile.
            Pursuit.Fail(reason);
            TellEnded();
        }

        private void Start(Loop loop)
        {
            Session session;
            Client owner = host.Client;
            ClientOptions options = owner.Options;
            Volatile.Write(ref _loop, loop);
            loop.EnterWork("The factory of the client", (object?)owner._factory ?? owner._contextFactory);
            try
            {
                session = owner._factory is { } factory
                    ? factory()
                    : owner._contextFactory!(new SessionContext(null, owner, loop, options.LocalEndPoint, host.Targets[0]));
                if (session is null || session.IsUsed) Throw.State("The factory must give a new session for each dial.");
            }
            catch (Exception e)
            {
                Finish();
                Pursuit.FactoryThrew(e);
                TellEnded();
                return;
            }
            finally
            {
                loop.LeaveWork();
            }

            Session = session;
            session.HostState = this;
            Connection connection = loop.TakeConnection();
            connection.Begin(host.ShardOf(loop), session, Engine.NextConnectionId(), options.LocalEndPoint, PeerAddress.Of(host.Targets[0]));
            session.SetRemoteEndPoint(host.Targets[0]);
            // Also an attempt that was given up before it began has both callbacks (contract 1).
            connection.Connecting(null);
        }

        internal void Dial(Connection connection)
        {
            ClientOptions options = host.Client.Options;
            if (Volatile.Read(ref _closeAsked)) connection.AbortWith(new CloseReason(CloseCause.LocalClose));
            else if (Pursuit.IsCancelled) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
            if (connection.State == ConnectionState.Connecting) new Dial(connection, host.Targets, options.LocalEndPoint).Start(options.ConnectTimeout);
        }

        /// <summary>Gives up the dial; a connection stays. Any thread. Before Start ran there is no loop yet, and Start looks at the token itself.</summary>
        internal void Cancel() => Volatile.Read(ref _loop)?.PostControl(
            static (_, a, _, _) =>
            {
                if (((Attempt)a!).Session?.Connection is { IsBeginning: true } connection) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
            },
            this);

        internal void Close()
        {
            Volatile.Write(ref _closeAsked, true);
            Session?.CloseWith(new CloseReason(CloseCause.LocalClose));
        }

        /// <summary>The client may dial again (contract 1: also from inside the last callback).</summary>
        internal void Finish()
        {
            lock (host.Client._gate)
            {
                if (ReferenceEquals(host.Client._current, this)) host.Client._current = null;
            }
        }

        internal void TellEnded()
        {
            StopWait<bool>[] waiting;
            lock (host.Client._gate)
            {
                waiting = [.. Ended];
                Ended.Clear();
            }

            foreach (StopWait<bool> wait in waiting) wait.TryEnd(true);
        }
    }
}
