using Whimbrel.Http;

namespace Whimbrel.Compat;

/// <summary>Limits of the old HTTP classes: those of the native ones, where a body of up to HttpOptions.BodyLimitBytes is kept.</summary>
internal static class HttpLimits
{
    internal static HttpOptions OfServers { get; } = new();

    internal static HttpClientOptions OfClients { get; } = new();
}
