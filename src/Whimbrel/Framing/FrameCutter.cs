namespace Whimbrel;

/// <summary>Cuts what is unread of a session into frames. What the session does with one is heeded before the next: after a close, a pause or a hand-over the rest stays unread.</summary>
internal static class FrameCutter
{
    /// <summary>What a session's OnUnread does.</summary>
    /// <returns>The bytes of the whole frames that were given.</returns>
    internal static int Cut<T>(T session, FrameReader reader, ReadOnlySpan<byte> unread)
        where T : Session, IFrameTaker
    {
        if (reader.Error != FrameError.None) return unread.Length;
        int taken = 0;
        while (reader.TryRead(unread[taken..], out Frame frame))
        {
            taken += frame.Bytes;
            session.Take(frame);
            if (taken == unread.Length || MustStop(session)) return taken;
        }

        if (reader.Error == FrameError.None) return taken;
        session.Fail(reader.Error);
        return unread.Length;
    }

    // The first question is the answer for nearly every message; the others tell the session what it was held back by.
    private static bool MustStop(Session session) => !session.TakesMore && (!session.IsConnected || session.IsReceivingPaused || session.IsHandingOver || session.IsHeldBack);
}
