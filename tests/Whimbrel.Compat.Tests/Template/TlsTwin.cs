using System.Text.RegularExpressions;

namespace Whimbrel.Compat.Tests.Template;

/// <summary>Derives a program over TLS from the one without: replaces type names, and uncomments lines that begin with
/// <c>tls:</c>.</summary>
internal static partial class TlsTwin
{
    internal static string Of(string text)
    {
        text = Marked().Replace(text, "$1");
        text = Name().Replace(text, static m => m.Value switch
        {
            "TcpSession" => "SslSession",
            _ => m.Value.StartsWith("Ws", StringComparison.Ordinal) ? "Wss" + m.Value[2..] : "Https" + m.Value[4..],
        });
        return Ready().Replace(text, "protected override void OnHandshaked()");
    }

    [GeneratedRegex(@"/\*tls: ?(.*?)\*/")] private static partial Regex Marked();

    [GeneratedRegex(@"\b(TcpSession|Http(Server|Session|ClientEx|Client|TraceServer|TraceClient)|Ws(Server|"
        + @"Session|Client|ChatServer|ChatClient|EchoServer|EchoClient|MulticastServer|MulticastClient))\b")]
    private static partial Regex Name();

    [GeneratedRegex(@"protected override void OnConnected\(\)")] private static partial Regex Ready();
}
