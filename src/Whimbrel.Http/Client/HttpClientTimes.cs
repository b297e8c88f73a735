namespace Whimbrel.Http;

/// <summary>How long the steps of a request took, up to the first byte of its answer: behind redirects, of the last request. What comes behind is the caller's reading.</summary>
/// <param name="Dial">The connection, with the look-up of the name. Zero for one that was kept.</param>
/// <param name="Handshake">TLS. Zero without it, and for one that was kept.</param>
/// <param name="FirstByte">From the moment at which the connection took the request, its body included, to the first byte of the answer; interim answers are none.</param>
public readonly record struct HttpClientTimes(TimeSpan Dial, TimeSpan Handshake, TimeSpan FirstByte);
