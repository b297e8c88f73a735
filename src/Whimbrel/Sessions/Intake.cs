namespace Whimbrel;

/// <summary>
/// Receive handler that gets a session's data in place of its overrides. At most one for each session, used on the
/// session's thread only; it ends with the session.
/// </summary>
internal abstract class Intake
{
    /// <summary>Passes the unread bytes. Returns the number of consumed bytes, as <c>OnData</c> does.</summary>
    internal abstract int Take(Session session, ReadOnlySpan<byte> unread);

    /// <summary>
    /// Called when the callback that received data has returned; <paramref name="left"/> bytes were not consumed.
    /// </summary>
    internal abstract void Offered(Session session, int left);

    /// <summary>Called before unread data is passed again.</summary>
    internal abstract void OffersAgain();

    /// <summary>
    /// Called when the peer has finished, after all consumed data. Returns false to leave this to the session.
    /// </summary>
    internal virtual bool TakesFinish(Session session) => false;

    /// <summary>Called when the session receives no more: its end has begun, or it has handed over.</summary>
    internal abstract void End(CloseReason reason);
}
