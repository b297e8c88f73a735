using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>Client of the original API, as <see cref="HttpAsking"/> sees it: plain or TLS.</summary>
internal interface IHttpAsking
{
    /// <summary>True if the bytes belong to another protocol from now on.</summary>
    bool IsUpgraded { get; }

    void TellHeader(HttpResponse response);

    void TellResponse(HttpResponse response);

    /// <summary>Called when the response was reported and the connection may be used again.</summary>
    void Settle();

    void TellError(HttpResponse response, string error);

    void TellUpgraded(byte[] buffer, long offset, long size);

    void End();
}
