using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>Client of the original API with awaited requests, as <see cref="OneRequest"/> sees it: plain or
/// TLS.</summary>
internal interface IOneRequest
{
    HttpAsking Http { get; }

    bool IsReady { get; }

    /// <summary>True if there is a connection, or a connect is in progress: a callback will report its end, or that it
    /// is ready.</summary>
    bool IsBusy { get; }

    /// <summary>The server, and the reason for the end of its connection.</summary>
    string Failure { get; }

    bool Connect();

    bool Send(HttpRequest request);

    void End();
}
