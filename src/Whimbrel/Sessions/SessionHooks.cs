namespace Whimbrel;

/// <summary>The optional hooks that a session class overrides. Determined once for each class.</summary>
[Flags]
internal enum SessionHooks : byte
{
    None = 0,

    Sent = 1,

    Drained = 2,

    Sending = 4,

    Handshaking = 8,

    ReceivedAsync = 16,

    /// <summary>An override is <c>async void</c>: its exceptions must not terminate the process.</summary>
    AsyncVoid = 32,
}
