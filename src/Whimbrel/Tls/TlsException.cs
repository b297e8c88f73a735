using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Reason why TLS ended a connection or its handshake, in <see cref="CloseReason.Exception"/>. Never thrown by itself.
/// </summary>
public sealed class TlsException : IOException
{
    /// <summary>Creates an exception.</summary>
    /// <param name="failure">Kind of the failure.</param>
    /// <param name="message">Event and reason. Control characters are escaped, because certificates contain external
    /// values.</param>
    public TlsException(TlsFailure failure, string message)
        : base(Escaped.Of(message)) => Failure = failure;

    /// <summary>Kind of the failure.</summary>
    public TlsFailure Failure { get; }
}
