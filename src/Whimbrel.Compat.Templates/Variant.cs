namespace Whimbrel.Compat.Tests.Template;

/// <summary>In what the plain classes and those over TLS differ.</summary>
/// <param name="S">Behind Http, and between Ws and its noun: nothing, or an s.</param>
/// <param name="Transport">Tcp or Ssl: what the class stands on.</param>
/// <param name="Over">In sentences.</param>
/// <param name="Ready">When bytes may be sent: Connected or Handshaked.</param>
/// <param name="Port">The usual port.</param>
internal sealed record Variant(string S, string Transport, string Over, string Ready, int Port)
{
    internal static Variant Plain { get; } = new("", "Tcp", "", "Connected", 80);

    internal static Variant Tls { get; } = new("s", "Ssl", " over TLS", "Handshaked", 443);

    internal bool IsTls => S.Length > 0;
}
