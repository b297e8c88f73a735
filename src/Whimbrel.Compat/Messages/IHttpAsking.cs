using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>A client of the old API, as <see cref="HttpAsking"/> sees it. Two classes are one: plain and TLS.</summary>
internal interface IHttpAsking
{
    /// <summary>The bytes belong to another protocol from now on.</summary>
    bool IsUpgraded { get; }

    void TellHeader(HttpResponse response);

    void TellResponse(HttpResponse response);

    /// <summary>The response was told, and the connection may be used again.</summary>
    void Settle();

    void TellError(HttpResponse response, string error);

    void TellUpgraded(byte[] buffer, long offset, long size);

    void End();
}
