namespace Whimbrel.Relays;

/// <summary>What became of connections that were to begin with a PROXY header.</summary>
/// <param name="Clients">Whose header stood for a client, known or not.</param>
/// <param name="Local">Whose header said that they are the proxy's own.</param>
/// <param name="Direct">Of peers that are not trusted and were served without a header.</param>
/// <param name="Refused">Refused, whatever the rule.</param>
public readonly record struct ProxyCounters(long Clients, long Local, long Direct, long Refused);
