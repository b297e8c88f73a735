using System.Diagnostics;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Delivery to the session of one connection, for loop and pool: unread data and minimum bytes (contract 3), exceptions
/// (4), back-pressure (9), holds (10), the peer's FIN (11) and hand-over (15). The connection calls it on its loop
/// (Connection.Receive.cs), or the strand on the pool (PoolSession.cs). <see cref="DriverHost"/> has the differences.
/// </summary>
/// <remarks>
/// Session's thread. On the pool, other threads change the holds under the lock of the strand.
/// </remarks>
internal struct SessionDriver
{
    private UnreadStore _unread;
    private int _minimum; // of the next call of OnData, in bytes
    private bool _hasSeenQueue;
    private long _shortBytes; // number of pending bytes at which a wait for the queue ends

    /// <summary>Session whose callbacks are called.</summary>
    internal Session Session { get; private set; }

    /// <summary>Session that takes over after the running callback; null without a hand-over.</summary>
    internal Session? Next { get; private set; }

    /// <summary>Reasons for which nothing is delivered.</summary>
    internal ReceiveGate Gate { get; private set; }

    /// <summary>True if unread data is to be passed again before new data.</summary>
    internal bool OffersAgain { get; private set; }

    internal readonly int UnreadCount => _unread.Length;

    internal readonly bool HasMinimum => _minimum > 0;

    internal void Begin(Session session, ReceiveGate gate)
    {
        Debug.Assert(Session is null && _unread.Length == 0, "a driver begins once");
        Session = session;
        Gate = gate;
    }

    // ------------------------------------------------------------------ holds

    internal readonly bool IsHeld(ReceiveGate reasons) => (Gate & reasons) != 0;

    internal void Hold(ReceiveGate reason)
    {
        Debug.Assert(reason != ReceiveGate.None, "a hold has a reason");
        Gate |= reason;
    }

    /// <summary>Returns false if there was no hold for these reasons.</summary>
    internal bool Release(ReceiveGate reasons)
    {
        if ((Gate & reasons) == 0) return false;
        Gate &= ~reasons;
        return true;
    }

    internal void OfferAgain() => OffersAgain = true;

    internal void ForgetOffer() => OffersAgain = false;

    // ------------------------------------------------------------------ the wait for a short queue (contract 9)

    /// <summary>
    /// True if only unread data waits for a short queue, without a hold, because back-pressure is off.
    /// </summary>
    internal bool HoldsOffer { get; private set; }

    internal readonly bool WaitsForQueue => HoldsOffer || IsHeld(ReceiveGate.BackPressure);

    /// <summary>Waits until no more than this number of bytes is pending.</summary>
    internal void WaitForQueue(long mark, bool holdsOffer)
    {
        _shortBytes = mark;
        HoldsOffer |= holdsOffer;
    }

    /// <summary>True if it waits, and the queue is short enough.</summary>
    internal readonly bool IsQueueShort(long pending) => WaitsForQueue && pending <= _shortBytes;

    internal void EndWaitForQueue()
    {
        Debug.Assert(WaitsForQueue, "a wait ends once");
        HoldsOffer = false;
    }

    /// <summary>
    /// Records that the running callback has seen pending bytes: what it leaves unread waits until they are sent.
    /// </summary>
    internal void SeesQueue() => _hasSeenQueue = true;

    internal void SetMinimumBytes(int count, ConnectionOptions options)
    {
        if (count < 1 || count > options.CommonLimits.UnreadBytes)
            Throw.OutOfRange(nameof(count), count,
                $"between 1 and Limits.UnreadBytes ({options.CommonLimits.UnreadBytes})");
        _minimum = count;
    }

    // ------------------------------------------------------------------ received data

    /// <summary>Passes received data to the session, together with data that it has left unread.</summary>
    internal void Deliver(DriverHost host, ReadOnlySpan<byte> data)
    {
        if (Gate != ReceiveGate.None)
        {
            // The engine received it before it stopped reading.
            _unread.Append(data);
            OffersAgain = true;
            return;
        }

        if (_unread.Length > 0 || data.Length < _minimum)
        {
            _unread.Append(data);
            OfferUnread(host);
            return;
        }

        int taken = Offer(host, data);
        if (host.KeepsUnread) _unread.Append(data[taken..]);
        AfterOffer(host, taken);
    }

    /// <summary>Passes unread data to the session again, if it is enough for the session.</summary>
    internal void OfferUnread(DriverHost host)
    {
        if (_unread.Length == 0 || (_unread.Length < _minimum && !host.IsPeerDone)) return;
        int taken = Offer(host, _unread.Span);
        if (host.KeepsUnread) _unread.Consume(taken);
        else _unread.Clear();
        AfterOffer(host, taken);
    }

    /// <summary>One call of OnData, with back-pressure (contract 9).</summary>
    private int Offer(DriverHost host, ReadOnlySpan<byte> data)
    {
        _minimum = 0;
        _hasSeenQueue = false;
        long mark = host.BeginOffer(out bool hasPending);
        int taken;
        host.Enter("OnReceived");
        host.Offered.Begin(ref data);
        try
        {
            taken = Session.CallUnread(data);
            if ((uint)taken > (uint)data.Length) Throw.State($"OnData returned {taken} for {data.Length} bytes.");
        }
        catch (Exception e)
        {
            host.Offered.End();
            host.Leave();
            Fail(host, e, "OnReceived");
            return 0;
        }

        host.Offered.End();
        host.Leave();
        host.Flush();
        if (host.IsOver) return taken;
        if (host.HasFilledQueue(mark)) host.HoldBack(untilEmpty: false);
        // A session that takes nothing while nothing is pending waits for more bytes, not for the queue.
        else if (_hasSeenQueue && taken < data.Length && (taken > 0 || hasPending)) host.HoldBack(untilEmpty: true);
        return taken;
    }

    private void AfterOffer(DriverHost host, int taken)
    {
        if (!host.IsOver && taken == 0 && _unread.Length >= host.Host.Options.CommonLimits.UnreadBytes
            && !IsHeld(ReceiveGate.Reader))
        {
            host.Host.NoteUnreadLimit(Session, _unread.Length);
            host.AbortWith(new CloseReason(CloseCause.UnreadLimit));
        }

        host.AfterCallback();
    }

    /// <summary>
    /// Passes the last data to the session, without a minimum. Returns false if the session pauses, hands over or ends
    /// the connection then, or if data is to be passed again: the FIN waits.
    /// </summary>
    internal bool DeliverLast(DriverHost host)
    {
        Debug.Assert(host.IsPeerDone, "no more data follows");
        if (_minimum > 0) OfferUnread(host);
        return !host.IsOver && (Gate & ~ReceiveGate.Finished) == ReceiveGate.None
            && !(OffersAgain && _unread.Length > 0);
    }

    /// <summary>Returns the unread data, which then belongs to the caller.</summary>
    internal UnreadStore TakeUnread()
    {
        UnreadStore unread = _unread;
        _unread = default;
        return unread;
    }

    internal void ClearUnread() => _unread.Clear();

    // ------------------------------------------------------------------ callbacks

    /// <summary>
    /// Calls one override, then the host of the session. An exception is passed to OnError and ends this connection
    /// only (contract 4).
    /// </summary>
    internal void Call(DriverHost host, SessionCallback callback, object? argument)
    {
        Session session = Session;
        Exception? thrown = null;
        host.Enter(callback.Name);
        try
        {
            callback.Call(session, argument);
        }
        catch (Exception e)
        {
            thrown = e;
        }

        host.Leave();
        if (thrown is not null) Fail(host, thrown, callback.Name);
        callback.Behind?.Invoke(host.Host, session, argument, host.IsOver);
        host.Flush();
    }

    /// <summary>Calls OnError, then ends the connection. Exceptions of OnError are caught too.</summary>
    internal void Fail(DriverHost host, Exception exception, string callback)
    {
        host.Enter("OnError");
        CallError(host, Session, exception, callback);
        Next = null;
        try
        {
            Session.CallEndAfterException(exception);
        }
        catch (Exception second)
        {
            host.Engine.ReportException("EndAfterException", second);
            host.AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
        }

        host.Leave();
        host.Flush();
    }

    private static void CallError(DriverHost host, Session session, Exception exception, string callback)
    {
        try
        {
            session.CallError(exception, callback);
        }
        catch (Exception second)
        {
            host.Engine.ReportOnErrorThrew(session, callback, exception, second);
        }
    }

    // ------------------------------------------------------------------ hand-over and end

    /// <summary>Records the session that takes over when the running callback has returned.</summary>
    internal void HandOver(Session next)
    {
        if (Next is not null)
            Throw.State("This callback has handed its connection over already; one session gets it, not two.");
        Next = next;
    }

    /// <summary>Returns the session that takes over; the request is then done.</summary>
    internal Session TakeNext()
    {
        Debug.Assert(Next is not null, "a callback has handed over");
        Session next = Next;
        Next = null;
        return next;
    }

    /// <summary>The next session receives from here on. Its minimum is its own.</summary>
    internal void Replace(Session next)
    {
        Debug.Assert(!ReferenceEquals(Session, next), "a session takes over once");
        Session = next;
        _minimum = 0;
    }

    /// <summary>The last callbacks of a session that has handed over. Returns the exception of the last one.</summary>
    internal static Exception? CallHandedOver(DriverHost host, Session old, bool wasConnected)
    {
        CloseReason reason = new(CloseCause.HandedOver);
        Exception? thrown = wasConnected
            ? CallEnd(host, "OnDisconnecting", static (s, r) => s.CallDisconnecting(r), old, reason)
            : null;
        thrown = CallLast(host, old, reason, wasConnected) ?? thrown;
        old.TellEnded(reason);
        return thrown;
    }

    /// <summary>The last callback of a session.</summary>
    internal static Exception? CallLast(DriverHost host, Session session, CloseReason reason, bool wasConnected) =>
        wasConnected
            ? CallEnd(host, "OnDisconnected", static (s, r) => s.CallDisconnected(r), session, reason)
            : CallEnd(host, "OnConnectFailed", static (s, r) => s.CallConnectFailed(r), session, reason);

    private static Exception? CallEnd(DriverHost host, string name, Action<Session, CloseReason> callback,
        Session session, CloseReason reason)
    {
        Exception? thrown = null;
        host.Enter(name);
        try
        {
            callback(session, reason);
        }
        catch (Exception e)
        {
            thrown = e;
            CallError(host, session, e, name);
        }

        host.Leave();
        host.Flush();
        return thrown;
    }
}
