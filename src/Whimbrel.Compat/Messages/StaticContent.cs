using System.Globalization;
using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>Files as complete responses, ready to send.</summary>
internal static class StaticContent
{
    private static readonly TimeSpan s_usual = TimeSpan.FromHours(1);

    internal static void Add(FileCache cache, string path, string prefix, string filter, TimeSpan? timeout) =>
        cache.InsertPath(path, prefix, filter, timeout ?? s_usual, Insert);

    private static bool Insert(FileCache cache, string key, byte[] value, TimeSpan timeout)
    {
        HttpResponse response = new HttpResponse(200).SetContentType(Path.GetExtension(key))
            .SetHeader("Cache-Control",
                string.Create(CultureInfo.InvariantCulture, $"max-age={(long)timeout.TotalSeconds}")).SetBody(value);
        return cache.Add(key, response.Cache.AsSpan().ToArray(), timeout);
    }
}
