using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>An error of CSharpServer: asio's category, number and text.</summary>
internal readonly record struct AsioError(int Code, string Category, string Message)
{
    private const int CertificateVerifyFailed = 0x0A000086; // OpenSSL's library 20, reason 134

    internal static AsioError Of(SocketError error) => error switch
    {
        SocketError.HostNotFound => new(1, "asio.netdb", "Host not found (authoritative)"),
        SocketError.TryAgain => new(2, "asio.netdb", "Host not found (non-authoritative), try again later"),
        SocketError.NoRecovery => new(3, "asio.netdb", "A non-recoverable error occurred during database lookup"),
        SocketError.NoData => new(4, "asio.netdb", "The query is valid, but it does not have associated data"),
        SocketError.TypeNotFound => new(-8, "asio.addrinfo", "Service not found"),
        SocketError.Disconnecting => new(2, "asio.misc", "End of file"),
        SocketError.SocketError => Thrown("A callback threw"),
        _ => System(error),
    };

    internal static AsioError Thrown(string message) => new((int)SocketError.SocketError, "whimbrel.callback", message);

    /// <summary>Returns the error of a closed connection; null if none is reported.</summary>
    internal static AsioError? Of(CloseReason reason)
    {
        if (reason.Cause == CloseCause.TlsHandshake) return OfTls(reason.TlsFailure);
        SocketError error = ErrorMap.Of(reason);
        return error == SocketError.Success ? null : Of(error);
    }

    // A handshake that failed.
    private static AsioError OfTls(TlsFailure failure) => failure == TlsFailure.CertificateRejected
        ? new(CertificateVerifyFailed, "asio.ssl", "certificate verify failed (SSL routines)")
        : new(3, "asio.ssl.stream", "unexpected result");

    private static AsioError System(SocketError error) =>
        new(NetworkError.CodeOf(error), "system", new SocketException((int)error).Message);
}
