namespace Whimbrel.Compat.Templates;

/// <summary>The differences between the plain classes and those over TLS.</summary>
internal sealed class Variant
{
    private Variant(string s, string transport, string over, string ready, int port) => (S, Transport, Over, Ready, Port) = (s, transport, over, ready, port);

    internal static Variant Plain { get; } = new("", "Tcp", "", "Connected", 80);

    internal static Variant Tls { get; } = new("s", "Ssl", " over TLS", "Handshaked", 443);

    /// <summary>After Http, and between Ws and its noun: nothing, or an s.</summary>
    internal string S { get; }

    /// <summary>Tcp or Ssl: the base class begins with it.</summary>
    internal string Transport { get; }

    /// <summary>In sentences.</summary>
    internal string Over { get; }

    /// <summary>When bytes may be sent: Connected or Handshaked.</summary>
    internal string Ready { get; }

    /// <summary>The usual port.</summary>
    internal int Port { get; }

    internal bool IsTls => S.Length > 0;
}
