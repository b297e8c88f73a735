using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// Compression state of a session, created when it was agreed on; other connections have one null reference. The
/// session's thread uses the receiving part; the lock guards the sending part.
/// </summary>
internal sealed class DeflateContext(DeflateTerms terms)
{
    internal readonly DeflateTerms Terms = terms;

    /// <summary>Lock of <see cref="History"/> and <see cref="BeginsAnew"/>.</summary>
    internal readonly Lock Sending = new();

    /// <summary>Decompressor: set during a message, or permanently if the peer's messages have context.</summary>
    internal Inflater? Inflater;

    /// <summary>Current message so far.</summary>
    internal MessageBuffer Inflated;

    /// <summary>Context for sending; empty if each message is compressed without context.</summary>
    internal DeflateHistory History;

    /// <summary>Whether messages are compressed without context, whatever was agreed on.</summary>
    internal bool BeginsAnew;

    internal void DropInflater()
    {
        if (Inflater is not { } inflater) return;
        Inflater = null;
        Inflater.Return(inflater);
    }

    /// <summary>Releases memory, because the connection has ended.</summary>
    internal void Release()
    {
        Inflated.Release();
        DropInflater();
        lock (Sending) History.Forget();
    }
}
