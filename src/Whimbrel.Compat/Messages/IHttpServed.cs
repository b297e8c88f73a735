using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>Session of the original API, as <see cref="HttpServing"/> sees it: plain or TLS.</summary>
internal interface IHttpServed
{
    /// <summary>True if the bytes belong to another protocol from now on.</summary>
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
