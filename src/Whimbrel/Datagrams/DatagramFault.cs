namespace Whimbrel;

/// <summary>Why a datagram did not leave, or did not get there. A value.</summary>
/// <param name="Peer">Who it was for.</param>
/// <param name="Error">Error number, kind, and a sentence.</param>
/// <param name="Length">Bytes of the datagram; -1 where the system does not tell.</param>
/// <param name="PathMtu">Largest packet that the path takes, where the system tells it; else 0.</param>
public readonly record struct DatagramFault(DatagramPeer Peer, NetworkError Error, int Length, int PathMtu);
