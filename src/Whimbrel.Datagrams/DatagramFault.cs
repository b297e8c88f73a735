namespace Whimbrel;

/// <summary>Error of a datagram that was not sent or not delivered. A value.</summary>
/// <param name="Peer">Destination of the datagram.</param>
/// <param name="Error">Error number, category, and a sentence.</param>
/// <param name="Length">Length of the datagram in bytes; -1 if the system does not report it.</param>
/// <param name="PathMtu">Largest packet of the path in bytes, if the system reports it; otherwise 0.</param>
public readonly record struct DatagramFault(DatagramPeer Peer, NetworkError Error, int Length, int PathMtu);
