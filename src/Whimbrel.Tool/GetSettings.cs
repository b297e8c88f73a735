using System.Net;

namespace Whimbrel.Tool;

/// <summary>What <c>whimbrel get</c> was asked for.</summary>
/// <param name="Method">GET, or what was said.</param>
/// <param name="Url">Where to.</param>
/// <param name="Engine">Which engine.</param>
/// <param name="Tls">What the command line says about TLS, or null for none.</param>
internal sealed record GetSettings(string Method, Uri Url, EngineKind Engine, TlsArguments? Tls)
{
    /// <summary>Fields to send, with their values.</summary>
    internal IReadOnlyList<KeyValuePair<string, string>> Fields { get; init; } = [];

    /// <summary>The file that is the body, "-" for stdin, or null for none.</summary>
    internal string? BodyFile { get; init; }

    /// <summary>Where the body of the answer goes, or null for stdout.</summary>
    internal string? OutputFile { get; init; }

    /// <summary>Where to connect to in place of the URL's host, or null.</summary>
    internal EndPoint? Place { get; init; }

    /// <summary>Redirects that are followed at most.</summary>
    internal int Redirects { get; init; }

    /// <summary>Ask for compression, and take it away.</summary>
    internal bool Compressed { get; init; }

    /// <summary>For all of it, or null.</summary>
    internal TimeSpan? Timeout { get; init; }

    /// <summary>Print what it came to as JSON, and the body nowhere but in a file.</summary>
    internal bool AsJson { get; init; }
}
