namespace Whimbrel.Connections;

/// <summary>
/// Optional overrides of the session of one connection, and the callbacks about sent bytes that are due: OnSent and
/// OnDrained. Loop's thread, except for <see cref="Has"/>.
/// </summary>
internal struct SendCallbacks
{
    private SessionHooks _hooks;
    private long _sent; // bytes that OnSent has not reported

    /// <summary>True if OnDrained is due as soon as the queue is short enough.</summary>
    internal bool OwesDrained { get; private set; }

    /// <summary>True if one of the two is due, or may be.</summary>
    internal readonly bool AreDue => OwesDrained || _sent > 0;

    internal readonly bool HasSent => _sent > 0;

    /// <summary>True if the session has one of these overrides. Any thread.</summary>
    internal readonly bool Has(SessionHooks hooks) => (_hooks & hooks) != 0;

    /// <summary>Calls another session from here on. Bytes sent before belong to the one before it.</summary>
    internal void Begin(SessionHooks hooks)
    {
        _hooks = hooks;
        _sent = 0;
    }

    /// <summary>Records sent bytes.</summary>
    /// <param name="count">Number of bytes.</param>
    /// <param name="isAboveMark">True if more was pending than the low-water mark: only then it can fall to it.</param>
    internal void Note(long count, bool isAboveMark)
    {
        _sent += count;
        OwesDrained |= isAboveMark;
    }

    /// <summary>Returns true if the session overrides OnDrained, which is then due.</summary>
    internal bool TryOweDrained() => Has(SessionHooks.Drained) && (OwesDrained = true);

    /// <summary>Takes the number of bytes to report by OnSent.</summary>
    internal long TakeSent()
    {
        long sent = _sent;
        _sent = 0;
        return sent;
    }

    /// <summary>Returns true if the session overrides OnDrained. It is not due any more.</summary>
    internal bool TakeDrained()
    {
        OwesDrained = false;
        return Has(SessionHooks.Drained);
    }
}
