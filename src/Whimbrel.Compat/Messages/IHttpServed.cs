using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>A session of the old API, as <see cref="HttpServing"/> sees it: whom it tells, and what it asks for. Two classes are one: plain and TLS.</summary>
internal interface IHttpServed
{
    /// <summary>The bytes belong to another protocol from now on.</summary>
    bool IsUpgraded { get; }

    FileCache Files { get; }

    void TellHeader(HttpRequest request);

    void TellRequest(HttpRequest request);

    void TellCached(HttpRequest request, byte[] content);

    void TellError(HttpRequest request, string error);

    void TellUpgraded(byte[] buffer, long offset, long size);

    bool Give(ReadOnlySpan<byte> bytes);

    void End();
}
