namespace Whimbrel;

/// <summary>Which of the hooks that are nothing by default a class of sessions overrides. Found once for each class.</summary>
[Flags]
internal enum SessionHooks : byte
{
    None = 0,

    /// <summary><c>OnSent</c>.</summary>
    Sent = 1,

    /// <summary><c>OnDrained</c>.</summary>
    Drained = 2,

    /// <summary><c>OnSending</c>.</summary>
    Sending = 4,

    /// <summary><c>OnTlsHandshakeStarting</c>.</summary>
    Handshaking = 8,

    /// <summary><c>OnReceivedAsync</c>.</summary>
    ReceivedAsync = 16,

    /// <summary>Any override that is <c>async void</c>: its exceptions must not end the process.</summary>
    AsyncVoid = 32,
}
