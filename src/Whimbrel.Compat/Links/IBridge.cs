namespace Whimbrel.Compat.Links;

/// <summary>The native session of a link, for one connection.</summary>
internal interface IBridge
{
    /// <summary>In the session's order.</summary>
    void SetSendLimit(int bytes);

    /// <summary>What comes much at a time is received there, where that can be. In the session's order.</summary>
    void SetReceiveBuffer(byte[] buffer);
}
