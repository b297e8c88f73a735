using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>A client of the old API whose requests are awaited, as <see cref="OneRequest"/> sees it. Two classes are one: plain and TLS.</summary>
internal interface IOneRequest
{
    HttpAsking Http { get; }

    bool IsReady { get; }

    /// <summary>There is a connection, or one is dialled: its end, or that it is ready, will be told.</summary>
    bool IsBusy { get; }

    /// <summary>The server, and why its connection has ended.</summary>
    string Failure { get; }

    bool Connect();

    bool Send(HttpRequest request);

    void End();
}
