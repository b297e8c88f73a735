using Whimbrel.Connections;

namespace Whimbrel;

/// <content>One message to several sessions.</content>
public abstract partial class Session
{
    /// <summary>
    /// Sends the same bytes to each of the sessions, as if <see cref="Send(ReadOnlySpan{byte})"/> was called for one after the other: with the same results, limits and policies, and
    /// in the same order with what the caller sends before and after. For receivers that are chosen anew for each message; a <see cref="SessionGroup"/> serves those that stay the same. From a
    /// thread that is not theirs it costs a fraction: the bytes are copied once for each loop, and what goes to the same sessions again and again leaves together. Any thread.
    /// </summary>
    /// <param name="data">What to send. Free to be reused at once.</param>
    /// <param name="sessions">Of any servers, clients and engines. One that is listed twice gets the bytes twice, the second time perhaps behind what the next call sends it.</param>
    /// <param name="results">What became of each, in their order, if they are wanted: empty, or as long as the sessions at least.</param>
    /// <returns>How many took it.</returns>
    /// <exception cref="ArgumentException">There are results, but fewer than sessions; or the message is larger than
    /// the <see cref="SendLimitBytes"/> of one of them, without its <see cref="AllowLargeMessages"/>: then nobody
    /// gets it.</exception>
    public static int SendToEach(ReadOnlySpan<byte> data, ReadOnlySpan<Session> sessions, Span<SendResult> results = default)
    {
        if (!results.IsEmpty && results.Length < sessions.Length) throw new ArgumentException($"There are {sessions.Length} sessions, and results for {results.Length}.", nameof(results));
        return SharedSend.Run(data, sessions, results);
    }
}
