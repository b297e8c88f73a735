using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Why TLS ended a connection or its handshake: in <see cref="CloseReason.Exception"/>. Never thrown by itself.</summary>
public sealed class TlsException : IOException
{
    /// <summary>Makes one.</summary>
    /// <param name="failure">Its kind.</param>
    /// <param name="message">What happened and why. Control characters are escaped: certificates are foreign values.</param>
    public TlsException(TlsFailure failure, string message)
        : base(Escaped.Of(message)) => Failure = failure;

    /// <summary>Its kind.</summary>
    public TlsFailure Failure { get; }
}
