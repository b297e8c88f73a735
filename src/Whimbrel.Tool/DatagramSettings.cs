using System.Net;

namespace Whimbrel.Tool;

/// <summary>Common settings of the datagram commands.</summary>
/// <param name="Engine">Kind of the engine.</param>
/// <param name="Stats">True to print a line per second.</param>
/// <param name="Duration">Time after which the command ends, or null.</param>
internal sealed record DatagramSettings(EngineKind Engine, bool Stats, TimeSpan? Duration);

/// <summary>Settings of <c>whimbrel serve udp</c>.</summary>
/// <param name="Address">Address to receive at, in the library's form.</param>
/// <param name="Loops">Number of loops that share the port; 0 for one per core.</param>
/// <param name="SourceRate">Answered datagrams per second and source; 0 for no limit.</param>
/// <param name="Offload">True to use UDP_GRO and UDP_SEGMENT.</param>
internal sealed record UdpSettings(NetworkAddress Address, int Loops, int SourceRate, bool Offload);

/// <summary>Settings of <c>whimbrel serve multicast</c>.</summary>
/// <param name="Group">Group and port.</param>
/// <param name="Interface">Outgoing interface; null for the system's choice.</param>
/// <param name="Hops">Hop limit.</param>
/// <param name="Loopback">True to deliver to members on this machine.</param>
/// <param name="Rate">Datagrams a second.</param>
/// <param name="Size">Bytes per datagram.</param>
internal sealed record MulticastSettings(IPEndPoint Group, string? Interface, int Hops, bool Loopback,
    int Rate, int Size);

/// <summary>Settings of <c>whimbrel join</c>.</summary>
/// <param name="Group">Group and port.</param>
/// <param name="Source">Only sender to receive from; null for all.</param>
/// <param name="Interfaces">Interfaces to join at; empty for the system's choice.</param>
/// <param name="Count">Number of datagrams after which it ends; 0 for no end.</param>
/// <param name="Quiet">True to print no datagrams.</param>
internal sealed record JoinSettings(IPEndPoint Group, IPAddress? Source, string[] Interfaces, long Count, bool Quiet);
