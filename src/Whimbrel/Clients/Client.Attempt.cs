using Whimbrel.Engines;

namespace Whimbrel;

/// <content>One connect, and the connection that it leads to.</content>
public partial class Client
{
    private sealed class Attempt(Host host, ReconnectLoop pursuit) : PendingConnect(host, host.NextTargets)
    {
        private volatile bool _isOver; // the session's last callback has begun, or there is none

        internal ReconnectLoop ReconnectLoop { get; } = pursuit;

        /// <summary>Waits for the end of the connection. Guarded by the client's lock.</summary>
        internal List<StopWait<bool>> Ended { get; } = [];

        internal long ConnectedAtMs { get; private set; }

        /// <summary>The session that opens the connection when its OnConnected returns.</summary>
        internal Session? Opening { get; set; }

        /// <summary>True if the connect counts as successful. Changes on the session's thread.</summary>
        internal bool IsOpen { get; private set; }

        protected override (string What, object? Code) Factory =>
            ("The factory of the client", (object?)host.Client._factory ?? host.Client._contextFactory);

        protected override bool IsCancelled => ReconnectLoop.IsCancelled;

        protected override bool IsOpening => host.Client.HasOpening && ReconnectLoop.IsCancelled;

        /// <summary>Posts the attempt when no caller can receive an exception. Any thread.</summary>
        internal void PostOrGiveUp()
        {
            if (Post()) return;
            CloseReason reason = new(CloseCause.EngineStopped);
            Finish();
            ReconnectLoop.GiveUp(reason);
            // Also if a disconnect has ended it in the meantime.
            ReconnectLoop.Fail(reason);
            TellEnded();
        }

        protected override Session? MakeSession(Loop loop) => host.Client._factory is { } factory
            ? factory()
            : host.Client._contextFactory!(new SessionContext(null, host.Client, loop,
                host.Client.Options.Socket.LocalEndPoint, host.NextTargets[0]));

        protected override void FactoryThrew(Exception exception)
        {
            Finish();
            ReconnectLoop.FactoryThrew(exception);
            TellEnded();
        }

        internal void Open(Session session)
        {
            if (IsOpen || _isOver || Thrown is not null) return;
            IsOpen = true;
            ConnectedAtMs = host.Engine.NowMs;
            ReconnectLoop.Connected(session);
        }

        /// <summary>Allows the client to connect again (contract 1: also inside the last callback).</summary>
        internal void Finish()
        {
            _isOver = true;
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
            host.Client.TellIdle();
        }
    }
}
