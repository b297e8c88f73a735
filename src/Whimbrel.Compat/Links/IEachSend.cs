namespace Whimbrel.Compat.Links;

/// <summary>How a Multicast sends to one session. A struct implements it, so that the call is inlined.</summary>
internal interface IEachSend<in TSession>
{
    /// <summary>True if user code cannot change the list of sessions, so that a copy is valid until a session is added
    /// or removed.</summary>
    static virtual bool IsListPrivate => false;

    static abstract void Send(TSession session, Multicasting multicasting, ReadOnlySpan<byte> data);
}
