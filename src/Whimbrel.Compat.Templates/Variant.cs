namespace Whimbrel.Compat.Templates;

/// <summary>Differences between plain and TLS classes.</summary>
internal sealed class Variant
{
    private Variant(string s, string transport, string over, string ready, int port) =>
        (S, Transport, Over, Ready, Port) = (s, transport, over, ready, port);

    internal static Variant Plain { get; } = new("", "Tcp", "", "Connected", 80);

    internal static Variant Tls { get; } = new("s", "Ssl", " over TLS", "Handshaked", 443);

    /// <summary>Suffix after Http and Ws: empty, or s.</summary>
    internal string S { get; }

    /// <summary>Prefix of the base class: Tcp or Ssl.</summary>
    internal string Transport { get; }

    /// <summary>Text for sentences.</summary>
    internal string Over { get; }

    /// <summary>Event after which bytes may be sent: Connected or Handshaked.</summary>
    internal string Ready { get; }

    /// <summary>Default port.</summary>
    internal int Port { get; }

    internal bool IsTls => S.Length > 0;
}
