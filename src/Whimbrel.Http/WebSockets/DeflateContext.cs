using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// What a session has for compressed messages, made when they were agreed on: most connections have none, and carry one reference for it. What is received belongs to the
/// session's thread; what is sent is under the lock.
/// </summary>
internal sealed class DeflateContext(DeflateTerms terms)
{
    internal readonly DeflateTerms Terms = terms;

    /// <summary>Of <see cref="History"/> and <see cref="BeginsAnew"/>.</summary>
    internal readonly Lock Sending = new();

    /// <summary>While a message comes, or for good where the peer's go on from those before.</summary>
    internal Inflater? Inflater;

    /// <summary>The message so far.</summary>
    internal MessageBuffer Inflated;

    /// <summary>Empty when each message begins anew.</summary>
    internal DeflateHistory History;

    /// <summary>Whatever was agreed on.</summary>
    internal bool BeginsAnew;

    internal void DropInflater()
    {
        if (Inflater is not { } inflater) return;
        Inflater = null;
        Inflater.Return(inflater);
    }

    /// <summary>The connection has ended.</summary>
    internal void Release()
    {
        Inflated.Release();
        DropInflater();
        lock (Sending) History.Forget();
    }
}
