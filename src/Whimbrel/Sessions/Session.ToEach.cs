using Whimbrel.Connections;

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
    /// bytes twice, the second time possibly after the message of the next call.</param>
    /// <param name="results">Result for each session, in the same order. Empty, or at least as long as the
    /// sessions.</param>
    /// <returns>Number of sessions that queued the message.</returns>
    /// <exception cref="ArgumentException">There are results, but fewer than sessions. Or the message is larger than
    /// the <see cref="SendLimitBytes"/> of one session without its <see cref="AllowLargeMessages"/>; then no session
    /// gets it.</exception>
    public static int SendToEach(ReadOnlySpan<byte> data, ReadOnlySpan<Session> sessions, Span<SendResult> results = default)
    {
        if (!results.IsEmpty && results.Length < sessions.Length) throw new ArgumentException($"There are {sessions.Length} sessions, and results for {results.Length}.", nameof(results));
        return SharedSend.Run(data, sessions, results);
    }
}
