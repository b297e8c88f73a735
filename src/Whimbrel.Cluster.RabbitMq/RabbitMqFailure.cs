using System.Net.Sockets;
using System.Security.Authentication;
using RabbitMQ.Client.Exceptions;

namespace Whimbrel.Clusters;

/// <summary>
/// Explains in one sentence why a server cannot be used, because the client's exceptions contain the cause as inner
/// exceptions.
/// </summary>
internal static class RabbitMqFailure
{
    internal static NetworkException Explain(Exception failure, string description)
    {
        (ErrorCategory category, string text) = Judged(failure);
        return new NetworkException(new NetworkError(0, category, $"{description}: {text}"), failure);
    }

    /// <summary>Returns the first known cause, or the message of the base exception.</summary>
    internal static (ErrorCategory Category, string Text) Judged(Exception failure) =>
        Causes(failure).Select(Judge).FirstOrDefault(static j => j.Text is not null) is { Text: { } found } judged
            ? (judged.Category, found)
            : (ErrorCategory.Unreachable, Short(failure.GetBaseException().Message));

    /// <summary>Returns all causes, the outermost first.</summary>
    private static IEnumerable<Exception> Causes(Exception failure)
    {
        yield return failure;
        IEnumerable<Exception> inner = failure is AggregateException several ? several.InnerExceptions
            : failure.InnerException is { } one ? [one] : [];
        foreach (Exception cause in inner.SelectMany(Causes)) yield return cause;
    }

    private static (ErrorCategory Category, string? Text) Judge(Exception cause) => cause switch
    {
        AuthenticationFailureException e => (ErrorCategory.Refused, $"it does not take these credentials "
            + $"({Short(e.Message)}): see User and Password in RabbitMqOptions and in the address."),
        PossibleAuthenticationFailureException => (ErrorCategory.Refused,
            "it ended the connection at the login: see User and Password in RabbitMqOptions and in the address."),
        OperationInterruptedException { ShutdownReason: { } reason } =>
            (ErrorCategory.Refused, $"it refuses: {Short(reason.ReplyText)}.{Hint(reason.ReplyCode)}"),
        AuthenticationException e =>
            (ErrorCategory.Tls, $"TLS failed: {Short(e.Message)} Trusted authorities are set by RabbitMqOptions.Tls."),
        SocketException { SocketErrorCode: SocketError.ConnectionRefused } =>
            (ErrorCategory.Refused, "connection refused. Does the server run there?"),
        SocketException { SocketErrorCode: SocketError.HostNotFound or SocketError.TryAgain or SocketError.NoData } =>
            (ErrorCategory.UnknownHost, "the name of its host is unknown. See the address."),
        TimeoutException or OperationCanceledException => (ErrorCategory.Timeout,
            "it did not answer in time. Is it a RabbitMQ server, and does it want TLS (amqps://)?"),
        PacketNotRecognizedException or ProtocolVersionMismatchException or MalformedFrameException =>
            (ErrorCategory.Unreachable, "what answers there speaks no AMQP 0-9-1."),
        _ => default,
    };

    private static string Hint(ushort code) => code switch
    {
        403 => " The user has to configure, write and read ^whimbrel (the exchange, and queues of that name).",
        406 => " Another exchange has that name: see Exchange in RabbitMqOptions.",
        530 => " See the virtual host at the end of the address.",
        _ => "",
    };

    private static string Short(string text)
    {
        string line = text.ReplaceLineEndings(" ");
        return line.Length > 200 ? line[..200] : line;
    }
}
