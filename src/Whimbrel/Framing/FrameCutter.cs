namespace Whimbrel;

/// <summary>
/// Splits a session's unread data into frames. A close, a pause or a hand-over by the session takes effect before the
/// next frame: the rest stays unconsumed.
/// </summary>
internal static class FrameCutter
{
    /// <summary>Implements OnData of a session.</summary>
    /// <returns>Number of bytes of the complete frames that were delivered.</returns>
    internal static int Cut<T>(T session, FrameReader reader, ReadOnlySpan<byte> unread)
        where T : Session, IFrameTaker
    {
        if (reader.Error != FrameError.None) return unread.Length;
        reader.Unfinished = 0;
        int taken = 0;
        while (reader.TryRead(unread[taken..], out Frame frame))
        {
            taken += frame.Bytes;
            session.Take(frame);
            if (taken == unread.Length || MustStop(session)) return taken;
        }

        if (reader.Error == FrameError.None)
        {
            reader.Unfinished = unread.Length - taken;
            return taken;
        }

        session.Fail(reader.Error, unread[taken..]);
        return unread.Length;
    }

    /// <summary>Returns the exception for a violated rule.</summary>
    internal static FrameException ExceptionOf(FrameError error, FrameFormat format, ReadOnlySpan<byte> unread) =>
        new(error, error switch
        {
            FrameError.TooLong => $"a message is longer than {format.LimitBytes:n0} bytes (FrameFormat.LimitBytes)",
            FrameError.LengthOverflow =>
                "the length of a message is none that a message can have (FrameError.LengthOverflow)",
            FrameError.LengthTooSmall =>
                "the length of a message counts itself and is smaller than itself (FrameError.LengthTooSmall)",
            _ => $"more than {format.EmptyLimit:n0} empty messages came in a row (FrameFormat.EmptyLimit)",
        } + LikelyCause(format, unread));

    /// <summary>
    /// Returns the likely cause: an impossible length is often the beginning of another protocol. The bytes may be
    /// secret, so they are not shown.
    /// </summary>
    private static string LikelyCause(FrameFormat format, ReadOnlySpan<byte> unread)
    {
        if (unread.Length < 4) return "";
        if (unread[0] == 0x16 && unread[1] == 3) return "; its bytes look like TLS: is TLS used on one side only?";
        bool isText = format.DelimiterBytes.IsEmpty
            && !unread[..Math.Min(unread.Length, 8)].ContainsAnyExceptInRange((byte)9, (byte)126);
        return isText ? "; its bytes look like text: does the peer send lines or HTTP?" : "";
    }

    // For nearly every message the first check is sufficient; the other checks find out what has stopped the session.
    private static bool MustStop(Session session) => !session.TakesMore
        && (!session.IsConnected || session.IsReceivingPaused || session.IsHandingOver || session.IsAboveHighWaterMark);
}
