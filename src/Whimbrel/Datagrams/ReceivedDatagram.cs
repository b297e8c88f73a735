namespace Whimbrel;

/// <summary>What a pull-style receive brought. A value.</summary>
/// <param name="Count">Bytes in the caller's memory.</param>
/// <param name="Length">Bytes that the datagram had.</param>
/// <param name="Peer">Who sent it.</param>
public readonly record struct ReceivedDatagram(int Count, int Length, DatagramPeer Peer)
{
    /// <summary>The memory was too small: the rest of the datagram is lost.</summary>
    public bool IsTruncated => Length > Count;
}
