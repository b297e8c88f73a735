namespace Whimbrel.Compat.Links;

/// <summary>How a Multicast sends to one session: a structure, so that the compiler sees the call.</summary>
internal interface IEachSend<in TSession>
{
    static abstract void Send(TSession session, ReadOnlySpan<byte> data);
}
