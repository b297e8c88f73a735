using System.Net;

namespace Whimbrel.Tool;

/// <summary>Settings of <c>whimbrel get</c>.</summary>
/// <param name="Method">Method of the request.</param>
/// <param name="Url">URL of the request.</param>
/// <param name="Engine">Kind of the engine.</param>
/// <param name="Tls">TLS arguments, or null.</param>
internal sealed record GetSettings(string Method, Uri Url, EngineKind Engine, TlsArguments? Tls)
{
    /// <summary>Header fields to send.</summary>
    internal IReadOnlyList<KeyValuePair<string, string>> Fields { get; init; } = [];

    /// <summary>File with the body, "-" for stdin, or null.</summary>
    internal string? BodyFile { get; init; }

    /// <summary>File for the body of the answer, or null for stdout.</summary>
    internal string? OutputFile { get; init; }

    /// <summary>Address to connect to instead of the URL's host, or null.</summary>
    internal EndPoint? Place { get; init; }

    /// <summary>Largest number of redirects to follow.</summary>
    internal int Redirects { get; init; }

    /// <summary>True to request compression and decompress the answer.</summary>
    internal bool Compressed { get; init; }

    /// <summary>Time limit of the whole request, or null.</summary>
    internal TimeSpan? Timeout { get; init; }

    /// <summary>True to print the result as JSON, and the body only to a file.</summary>
    internal bool AsJson { get; init; }
}
