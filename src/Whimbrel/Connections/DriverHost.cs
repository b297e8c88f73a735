using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// All differences between callbacks on the loop and on the pool that the <see cref="SessionDriver"/> knows: the
/// connection runs them itself, or its <see cref="PoolSession"/> does. Session's thread.
/// </summary>
internal readonly struct DriverHost(Connection connection, PoolSession? pool)
{
    internal ConnectionHost Host => pool is null ? connection.Host : pool.Host;

    internal Engine Engine => connection.Loop.Engine;

    /// <summary>True if the connection is ending: nothing more is delivered.</summary>
    internal bool IsOver => pool is null ? connection.State > ConnectionState.Open : pool.IsEnded;

    /// <summary>
    /// True if unread data is still needed. On the pool always, because an upgrade to TLS may request it after the end.
    /// </summary>
    internal bool KeepsUnread => pool is not null || connection.TakesInput;

    /// <summary>True if the session is, or was, notified of the peer's FIN: no more data follows.</summary>
    internal bool IsPeerDone => pool?.IsPeerDone ?? connection.IsPeerDone;

    /// <summary>Data of the running callback.</summary>
    internal ref OfferedBytes Offered => ref pool is null ? ref connection.Loop.Offered : ref pool.Offered;

    /// <summary>Called before a callback.</summary>
    internal void Enter(string callback)
    {
        if (pool is null) connection.Loop.EnterCallback(connection, callback);
        else pool.Enter(callback);
    }

    /// <summary>Called after a callback, also if it has thrown.</summary>
    internal void Leave()
    {
        if (pool is null) connection.Loop.LeaveCallback();
        else pool.EndOffer();
    }

    /// <summary>Sends what the callback has queued. The loop does that at the end of the turn.</summary>
    internal void Flush() => pool?.Sends.FlushAtEnd();

    /// <summary>Carries out what the callback has requested and must not happen inside it.</summary>
    internal void AfterCallback()
    {
        if (pool is null) connection.AfterCallback();
        else pool.AfterCallback();
    }

    internal void AbortWith(CloseReason reason)
    {
        if (pool is null) connection.AbortWith(reason);
        else pool.AbortWith(reason);
    }

    /// <summary>Called before received data is passed to the session.</summary>
    /// <param name="hasPending">True if sent data is pending.</param>
    /// <returns>A number for <see cref="HasFilledQueue"/>.</returns>
    internal long BeginOffer(out bool hasPending) =>
        pool is null ? connection.BeginOffer(out hasPending) : pool.BeginOffer(out hasPending);

    /// <summary>True if the callback has queued more than the high-water mark (contract 9).</summary>
    /// <param name="mark">Result of <see cref="BeginOffer"/>.</param>
    internal bool HasFilledQueue(long mark) =>
        Host.BackPressure && (pool is null ? connection.HasFilledQueue(mark) : pool.Sends.HaveFilledQueue);

    /// <summary>Delivers nothing until the queue has drained.</summary>
    /// <param name="untilEmpty">True to wait until nothing is pending, false for the low-water mark.</param>
    internal void HoldBack(bool untilEmpty)
    {
        if (pool is null) connection.HoldBack(untilEmpty);
        else pool.HoldBack(untilEmpty);
    }
}
