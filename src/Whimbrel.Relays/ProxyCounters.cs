namespace Whimbrel.Relays;

/// <summary>Numbers of connections that were to begin with a PROXY header, by outcome.</summary>
/// <param name="Clients">Connections with the header of a client, with or without its address.</param>
/// <param name="Local">Connections of the proxy itself (LOCAL), for example health checks.</param>
/// <param name="Direct">Connections of untrusted peers that were served without a header.</param>
/// <param name="Refused">Connections that were reset, for any <see cref="ProxyFault"/>.</param>
public readonly record struct ProxyCounters(long Clients, long Local, long Direct, long Refused);
