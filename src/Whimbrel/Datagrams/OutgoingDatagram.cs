namespace Whimbrel;

/// <summary>One of several datagrams that are given to one send. A value.</summary>
/// <param name="Data">Its bytes; copied during the call.</param>
/// <param name="Peer">Who it is for; <c>default</c> for the peer of a connected socket.</param>
public readonly record struct OutgoingDatagram(ReadOnlyMemory<byte> Data, DatagramPeer Peer);
