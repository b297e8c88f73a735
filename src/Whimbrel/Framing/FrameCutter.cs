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

    /// <summary>What is wrong, in words.</summary>
    internal static FrameException ExceptionOf(FrameError error, FrameFormat format) => new(error, error switch
    {
        FrameError.TooLong => $"a message is longer than {format.LimitBytes:n0} bytes (FrameFormat.LimitBytes)",
        FrameError.LengthOverflow => "the length of a message is none that a message can have (FrameError.LengthOverflow)",
        FrameError.LengthTooSmall =>
            "the length of a message counts itself and is smaller than itself (FrameError.LengthTooSmall)",
        _ => $"more than {format.EmptyLimit:n0} empty messages came in a row (FrameFormat.EmptyLimit)",
    });

    // The first question is the answer for nearly every message; the others tell the session what it was held back by.
    private static bool MustStop(Session session) => !session.TakesMore && (!session.IsConnected || session.IsReceivingPaused || session.IsHandingOver || session.IsHeldBack);
}
