namespace Whimbrel.Compat.Links;

/// <summary>How a Multicast sends to one session: a structure, so that the compiler sees the call.</summary>
internal interface IEachSend<in TSession>
{
    /// <summary>No code of users can change the list of sessions, so a copy of it is used until a session comes or goes.</summary>
    static virtual bool IsListPrivate => false;

    static abstract void Send(TSession session, Multicasting multicasting, ReadOnlySpan<byte> data);
}
