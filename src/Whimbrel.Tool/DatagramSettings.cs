using System.Net;

namespace Whimbrel.Tool;

/// <summary>What all commands on datagrams are asked for.</summary>
/// <param name="Engine">Which engine.</param>
/// <param name="Stats">Print a line a second.</param>
/// <param name="Duration">End by itself after this time, or null.</param>
internal sealed record DatagramSettings(EngineKind Engine, bool Stats, TimeSpan? Duration);

/// <summary>What <c>whimbrel serve udp</c> was asked for.</summary>
/// <param name="Address">Where to receive, in the one form of an address.</param>
/// <param name="Loops">Number of loops that share the port; 0 for one per core.</param>
/// <param name="SourceRate">Datagrams a second that one source may ask for; 0 for no limit.</param>
/// <param name="Offload">Let the system join and cut datagrams (UDP_GRO, UDP_SEGMENT).</param>
internal sealed record UdpSettings(NetworkAddress Address, int Loops, int SourceRate, bool Offload);

/// <summary>What <c>whimbrel serve multicast</c> sends, and where.</summary>
/// <param name="Group">Group and port.</param>
/// <param name="Interface">Where it leaves; null for the system's choice.</param>
/// <param name="Hops">Routers that it may pass, plus one.</param>
/// <param name="Loopback">Members on this machine get it too.</param>
/// <param name="Rate">Datagrams a second.</param>
/// <param name="Size">Bytes of a datagram.</param>
internal sealed record MulticastSettings(IPEndPoint Group, string? Interface, int Hops, bool Loopback, int Rate, int Size);

/// <summary>What <c>whimbrel join</c> listens to.</summary>
/// <param name="Group">Group and port.</param>
/// <param name="Source">Only what this sender sends; null for all.</param>
/// <param name="Interfaces">Where to join; empty for the system's choice.</param>
/// <param name="Count">End after so many datagrams; 0 for no end.</param>
/// <param name="Quiet">Print no datagrams.</param>
internal sealed record JoinSettings(IPEndPoint Group, IPAddress? Source, string[] Interfaces, long Count, bool Quiet);
