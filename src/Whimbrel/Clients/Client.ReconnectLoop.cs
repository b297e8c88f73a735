using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel;

/// <content>Reconnecting: the operation that one ConnectAsync starts.</content>
public partial class Client
{
    /// <summary>
    /// Operation that one ConnectAsync starts: a connect and, with a policy, further ones, one after the other, each
    /// with a session of its own. The one in the client's field is active. A disconnect, another connect and the
    /// policy's own end deactivate it, under the client's lock; later events of it are ignored. Between two connects it
    /// waits on a loop, as a pending operation of that loop. Its sessions call it where their callbacks run, never two
    /// at once. Fail and StopWaiting may be called on any thread.
    /// </summary>
    private sealed class ReconnectLoop(Host host, CancellationToken cancellation) : PendingOperation
    {
        private CancellationTokenRegistration _registration;
        private Loop? _waitsOn;
        private LoopTimer? _timer;
        private int _attempts;
        private long _troubleSinceMs;
        private bool _wasConnected;
        private volatile bool _isTrying;
        private int _isAnswered;

        internal Completion<Session> Result { get; } = new(host.Engine);

        internal bool IsAnswered => Volatile.Read(ref _isAnswered) == 1;

        internal bool IsTrying => _isTrying;

        /// <summary>True between two connects. Guarded by the client's lock.</summary>
        internal bool IsWaiting => _waitsOn is not null;

        /// <summary>True if its caller cancelled before the result was set.</summary>
        internal bool IsCancelled => !IsAnswered && cancellation.IsCancellationRequested;

        internal Client Client => host.Client;

        // -------------------------------------------------------------- the caller of ConnectAsync

        internal void WatchCancellation()
        {
            if (!cancellation.CanBeCanceled) return;
            TokenWatch.Store(ref _registration,
                cancellation.UnsafeRegister(static state => ((ReconnectLoop)state!).Cancel(), this));
            if (IsAnswered) _registration.Dispose();
        }

        private void Cancel()
        {
            Attempt? attempt;
            lock (Client._gate)
            {
                if (IsAnswered || !ReferenceEquals(Client._reconnectLoop, this)) return;
                attempt = Client._current;
                if (attempt is null) Client._reconnectLoop = null;
            }

            if (attempt is not null)
            {
                attempt.Cancel();
                return;
            }

            StopWaiting();
            Fail(new CloseReason(CloseCause.Cancelled));
            Client.TellIdle();
        }

        private bool TryAnswer()
        {
            if (Interlocked.Exchange(ref _isAnswered, 1) == 1) return false;
            _registration.Dispose();
            return true;
        }

        /// <summary>Sets the caller's result to this failure, unless it was set before.</summary>
        internal void Fail(CloseReason reason)
        {
            if (!TryAnswer()) return;
            if (reason.Cause == CloseCause.Cancelled) Result.SetException(new OperationCanceledException(cancellation));
            else Result.SetException(Explained(PendingConnect.Failure(host.Targets, reason, _attempts == 0
                ? "" : $" Gave up after {_attempts} more {(_attempts == 1 ? "attempt" : "attempts")}.")));
        }

        private Exception Explained(NetworkException failure)
        {
            try
            {
                return Client.FailureOf(failure);
            }
            catch (Exception e)
            {
                host.Engine.ReportException("an event of the client", e);
                return failure;
            }
        }

        // -------------------------------------------------------------- from the sessions

        internal void Connected(Session session)
        {
            _isTrying = false;
            if (_attempts > 0)
                host.Tell((session, _attempts), static (owner, s) => owner.OnReconnected(s.session, s._attempts));
            if (TryAnswer()) Result.SetResult(session);
        }

        /// <summary>Called after the session's last callback. Starts the next connect, or ends.</summary>
        internal void Ended(Attempt attempt, Loop loop, CloseReason reason, bool wasConnected)
        {
            ReconnectPolicy? policy = Client.Options.Reconnect;
            bool isOver = policy is null || (!wasConnected && !_wasConnected && !policy.RetryFirstConnect);
            if (IsCancelled)
            {
                isOver = true;
                reason = new CloseReason(CloseCause.Cancelled);
            }

            if (isOver) TakeOutOfForce();
            if (!IsInForce)
            {
                Fail(reason);
                return;
            }

            long now = host.Engine.NowMs;
            _wasConnected |= wasConnected;
            if (wasConnected && now - attempt.ConnectedAtMs >= (long)policy!.ResetAfter.TotalMilliseconds)
                _attempts = 0;
            if (_attempts == 0) _troubleSinceMs = now;
            TimeSpan delay = policy!.DelayBefore(_attempts + 1, host.Engine.NextRandom());
            if (loop.IsStopping || IsFinal(policy, reason) || _attempts >= policy.MaxAttempts
                || TimeSpan.FromMilliseconds(now - _troubleSinceMs) + delay > policy.MaxElapsed)
            {
                GiveUp(reason);
                return;
            }

            _attempts++;
            _isTrying = true;
            if (!wasConnected) host.ReportConnectFailed(reason, _attempts, delay);
            host.Tell((_attempts, delay, reason),
                static (owner, s) => owner.OnReconnecting(s._attempts, s.delay, s.reason));
            if (!TryWait(loop, delay)) Fail(reason);
        }

        private bool IsFinal(ReconnectPolicy policy, CloseReason reason)
        {
            if (reason.Cause == CloseCause.EngineStopped) return true;
            try
            {
                return policy.StopWhen?.Invoke(reason) ?? Client.IsFinal(reason);
            }
            catch (Exception e)
            {
                host.Engine.ReportException("StopWhen of a reconnect policy", e);
                return true;
            }
        }

        internal void FactoryThrew(Exception exception)
        {
            TakeOutOfForce();
            bool isAwaited = TryAnswer();
            if (!isAwaited) host.Engine.ReportException("the factory of a client", exception);
            else host.Engine.UserCodeThrew(exception);
            if (_attempts > 0)
                host.Tell(new CloseReason(CloseCause.UserException, 0, exception),
                    static (owner, r) => owner.OnGaveUp(r));
            if (isAwaited) Result.SetException(exception);
        }

        internal void GiveUp(CloseReason reason)
        {
            if (!TakeOutOfForce()) return;
            if (Client.Options.Reconnect is not null) host.Tell(reason, static (owner, r) => owner.OnGaveUp(r));
            Fail(reason);
            Client.TellIdle();
        }

        private bool IsInForce
        {
            get
            {
                lock (Client._gate) return ReferenceEquals(Client._reconnectLoop, this);
            }
        }

        /// <summary>Deactivates it. Returns false if it was not active.</summary>
        private bool TakeOutOfForce()
        {
            _isTrying = false;
            lock (Client._gate)
            {
                if (!ReferenceEquals(Client._reconnectLoop, this)) return false;
                Client._reconnectLoop = null;
                return true;
            }
        }

        // -------------------------------------------------------------- between two connects

        /// <summary>
        /// Starts the wait. Returns false if it was deactivated, because the event may have disconnected or connected.
        /// </summary>
        private bool TryWait(Loop loop, TimeSpan delay)
        {
            lock (Client._gate)
            {
                if (!ReferenceEquals(Client._reconnectLoop, this)) return false;
                _waitsOn = loop;
            }

            // Sessions on the pool end on another thread, and the state of a loop may be used on the loop only.
            long delayMs = (long)Math.Ceiling(delay.TotalMilliseconds);
            if (loop.IsCurrent) StartTimer(loop, delayMs);
            else if (!loop.PostControl(static (l, p, _, ms) => ((ReconnectLoop)p!).StartTimer(l, ms),
                this, null, delayMs))
                GiveUp(new CloseReason(CloseCause.EngineStopped));
            return true;
        }

        private void StartTimer(Loop loop, long delayMs)
        {
            if (loop.IsStopping) GiveUp(new CloseReason(CloseCause.EngineStopped));
            if (!IsInForce) return;
            loop.Add(this);
            _timer = loop.StartTimer(TimeSpan.FromMilliseconds(delayMs),
                static state => ((ReconnectLoop)state!).ConnectAgain(), this);
        }

        private void ConnectAgain()
        {
            Attempt attempt;
            LeaveLoop();
            lock (Client._gate)
            {
                if (!ReferenceEquals(Client._reconnectLoop, this)) return;
                _waitsOn = null;
                Client._current = attempt = new Attempt(host, this);
            }

            attempt.PostOrGiveUp();
        }

        /// <summary>Cancels the timer after the deactivation. Any thread.</summary>
        internal void StopWaiting()
        {
            _isTrying = false;
            Loop? loop;
            lock (Client._gate) loop = _waitsOn;
            loop?.PostControl(static (_, p, _, _) => ((ReconnectLoop)p!).LeaveLoop(), this);
        }

        private void LeaveLoop()
        {
            if (_timer is not { } timer) return;
            _timer = null;
            timer.Cancel();
            timer.Loop.Remove(this);
        }

        internal override void Stop()
        {
            LeaveLoop();
            GiveUp(new CloseReason(CloseCause.EngineStopped));
        }
    }
}
