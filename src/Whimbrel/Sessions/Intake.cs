namespace Whimbrel;

/// <summary>
/// What takes part in a session's receiving beside its overrides. One at a time for each session, and only on the session's thread; its end
/// is told when the session's is.
/// </summary>
internal abstract class Intake
{
    /// <summary>The bytes that are unread. Gives what was taken, as <c>OnData</c> does.</summary>
    internal abstract int Take(Session session, ReadOnlySpan<byte> unread);

    /// <summary>The callback that got the bytes has returned, and left so many.</summary>
    internal abstract void Offered(Session session, int left);

    /// <summary>What is unread will come again.</summary>
    internal abstract void OffersAgain();

    /// <summary>The peer has finished, behind all that was taken. False: that is for the session.</summary>
    internal virtual bool TakesFinish(Session session) => false;

    /// <summary>The session has no more to receive: its end has begun, or it handed over.</summary>
    internal abstract void End(CloseReason reason);
}
