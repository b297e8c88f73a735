using Whimbrel.Http;

namespace Whimbrel.Compat;

/// <summary>Limits of the HTTP classes of the original API, which has none: heads as large as the native reader allows,
/// and bodies in memory up to <see cref="CompatOptions.HttpBodyLimitBytes"/>.</summary>
internal static class HttpLimits
{
    internal const int DefaultBodyBytes = 30_000_000;
    internal const int MostBodyBytes = 1 << 30; // a body is one array, with its head

    private const int HeadBytes = 64 * 1024;
    private const int Fields = 1000;

    private static volatile HttpOptions s_ofServers = ForServers(DefaultBodyBytes);

    internal static HttpOptions OfServers => s_ofServers;

    internal static HttpClientOptions OfClients { get; } = new() { HeadLimitBytes = HeadBytes, FieldLimit = Fields };

    internal static void SetBodyBytes(int bytes) => s_ofServers = ForServers(bytes);

    private static HttpOptions ForServers(int bodyBytes) => new()
    {
        RequestLineLimitBytes = HeadBytes,
        HeadLimitBytes = HeadBytes,
        FieldLimit = Fields,
        BodyLimitBytes = bodyBytes,
    };
}
