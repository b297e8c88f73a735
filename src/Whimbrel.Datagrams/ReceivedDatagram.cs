namespace Whimbrel;

/// <summary>Result of a receive call. A value.</summary>
/// <param name="Count">Number of bytes in the caller's memory.</param>
/// <param name="Length">Full length of the datagram in bytes.</param>
/// <param name="Peer">Sender of the datagram.</param>
public readonly record struct ReceivedDatagram(int Count, int Length, DatagramPeer Peer)
{
    /// <summary>True if the memory was too small: the rest of the datagram is lost.</summary>
    public bool IsTruncated => Length > Count;
}
