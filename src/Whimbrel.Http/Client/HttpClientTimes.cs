namespace Whimbrel.Http;

/// <summary>Durations of the steps of a request up to the first byte of its response; after redirects, of the last
/// request. Reading the response is not included.</summary>
/// <param name="Connect">Connecting, with the name lookup. Zero for a reused connection.</param>
/// <param name="Handshake">TLS handshake. Zero without TLS, and for a reused connection.</param>
/// <param name="FirstByte">Time from the start of sending, body included, to the first byte of the response; interim
/// responses are ignored.</param>
public readonly record struct HttpClientTimes(TimeSpan Connect, TimeSpan Handshake, TimeSpan FirstByte);
