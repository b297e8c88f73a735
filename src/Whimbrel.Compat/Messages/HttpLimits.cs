using Whimbrel.Http;

namespace Whimbrel.Compat;

/// <summary>Limits of the HTTP classes of the original API: the native defaults, including HttpOptions.BodyLimitBytes
/// for a body in memory.</summary>
internal static class HttpLimits
{
    internal static HttpOptions OfServers { get; } = new();

    internal static HttpClientOptions OfClients { get; } = new();
}
