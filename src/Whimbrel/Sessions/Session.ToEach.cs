using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <content>One message to several sessions.</content>
public abstract partial class Session
{
    /// <summary>
    /// Sends the same bytes to each of the sessions, as if <see cref="Send(ReadOnlySpan{byte})"/> was called for one
    /// after the other: with the same results, limits, policies and order. For receivers chosen per message; a
    /// <see cref="SessionGroup"/> serves fixed sets. Much cheaper than single sends from another thread: the bytes are
    /// copied once for each loop, and repeated sends to the same sessions leave together. Any thread.
    /// </summary>
    /// <param name="data">Bytes to send. May be reused at once.</param>
    /// <param name="sessions">Receiving sessions, of any servers, clients and engines. A session listed twice gets the
    /// bytes twice.</param>
    /// <param name="results">Result for each session, in the same order. Empty, or at least as long as the
    /// sessions.</param>
    /// <returns>Number of sessions that queued the message.</returns>
    /// <exception cref="ArgumentException">There are results, but fewer than sessions. Or the message is larger than
    /// the <see cref="SendLimitBytes"/> of one session without its <see cref="AllowLargeMessages"/>; then no session
    /// gets it.</exception>
    public static int SendToEach(ReadOnlySpan<byte> data, ReadOnlySpan<Session> sessions,
        Span<SendResult> results = default)
    {
        if (!results.IsEmpty && results.Length < sessions.Length)
            throw new ArgumentException($"There are {sessions.Length} sessions, and results for {results.Length}.",
                nameof(results));
        if (data.Length > ConnectionLimits.LeastSendBytes) CheckFits(data.Length, sessions);
        int taken = 0;
        SharedCopies copies = new(sessions.Length);
        try
        {
            for (int i = 0; i < sessions.Length; i++)
            {
                ArgumentNullException.ThrowIfNull(sessions[i]);
                SendResult result = sessions[i].Connection is { } connection
                    ? connection.Outbound.Send(data, sessions[i].Generation, ref copies)
                    : SendResult.Closed;
                if (result == SendResult.Queued) taken++;
                if (!results.IsEmpty) results[i] = result;
            }
        }
        finally
        {
            // Also when code of the user's threw: the sessions before it have been promised the message.
            copies.End();
        }

        return taken;
    }

    /// <summary>Before any of them gets it.</summary>
    private static void CheckFits(int length, ReadOnlySpan<Session> sessions)
    {
        foreach (Session session in sessions)
        {
            if (session?.Connection is { } connection && connection.Outbound.IsTooLarge(length, session.Generation))
                Throw.TooLarge(length, connection.Outbound.SendLimit, session.BroadcastRefusal is not null);
        }
    }
}
