namespace Whimbrel;

/// <summary>One of several datagrams for one send. A value.</summary>
/// <param name="Data">Bytes of the datagram; copied during the call.</param>
/// <param name="Peer">Destination; <c>default</c> for the peer of a connected socket.</param>
public readonly record struct OutgoingDatagram(ReadOnlyMemory<byte> Data, DatagramPeer Peer);
