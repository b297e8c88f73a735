using System.Text;

namespace Whimbrel.Compat.Tests.Template;

// Servers, sessions and clients of TCP, TLS and Unix sockets are written once each, in the texts beside this file. A line that begins with N| is for those
// that have an address and a port, one with S| for TLS, one with U| for Unix sockets, one with T| for sessions, V| for servers, C| for clients,
// D| for UDP. WHIMBREL_ACCEPT_TEMPLATE=1 writes the classes.
public sealed class CoreTemplateTests
{
    private sealed record Kind(string Name, bool IsTls, bool IsUnix, string Server, string Client, string Shake);

    private static readonly Kind[] s_kinds =
    [
        new("Tcp", false, false, "A TCP server", "A TCP client", ""),
        new("Ssl", true, false, "A server over TLS", "A client over TLS", " and for the handshake"),
        new("Uds", false, true, "A server at a Unix socket", "A client of a Unix socket", ""),
    ];

    private static readonly Kind s_udp = new("Udp", false, false, "A UDP socket that answers", "A UDP socket that sends to one end point", "");

    [Fact]
    public void The_classes_are_what_their_texts_make()
    {
        IEnumerable<(string, string)> files =
            from kind in s_kinds
            from part in (string[])["Server", "Session", "Client"]
            let template = File.ReadAllText(Path.Combine(Made.Root, "tests/Whimbrel.Compat.Tests/Template", part + ".txt"))
            select (Path.Combine(Made.Root, "src/Whimbrel.Compat/NetCoreServer", kind.Name + part + ".cs"), Make(template, kind, part));
        Made.Check(files);
    }

    [Fact]
    public void The_classes_of_CSharpServer_are_what_their_texts_make()
    {
        string folder = Path.Combine(Made.Root, "tests/Whimbrel.Compat.Tests/Template");
        string stream = File.ReadAllText(Path.Combine(folder, "CSharpStream.txt"));
        Made.Check(
            from kind in s_kinds
            where !kind.IsUnix
            from part in (string[])["Server", "Session", "Client"]
            let template = File.ReadAllText(Path.Combine(folder, $"CSharp{part}.txt")).Replace("#STREAM#", stream, StringComparison.Ordinal)
            select (FileOf(kind, part), Make(template, kind, part)));
        Made.Check(
            from each in ((Kind, string, string)[])
            [
                (s_udp, "Server", "Udp"), (s_udp, "Client", "Udp"),
                (s_kinds[0], "Endpoint", "Endpoint"), (s_udp, "Endpoint", "Endpoint"), (s_kinds[0], "Resolver", "Resolver"), (s_udp, "Resolver", "Resolver"),
            ]
            let template = File.ReadAllText(Path.Combine(folder, $"CSharp{each.Item3}.txt"))
            select (FileOf(each.Item1, each.Item2), Make(template, each.Item1, each.Item2)));
    }

    private static string FileOf(Kind kind, string part) => Path.Combine(Made.Root, "src/Whimbrel.Compat/CSharpServer", kind.Name + part + ".cs");

    private static string Make(string template, Kind kind, string part)
    {
        StringBuilder text = new();
        foreach (string line in template.Split('\n'))
        {
            bool isMarked = line.Length > 1 && line[1] == '|';
            bool isHere = !isMarked || line[0] switch
            {
                'N' => !kind.IsUnix,
                'S' => kind.IsTls,
                'T' => part == "Session",
                'V' => part == "Server",
                'C' => part == "Client",
                'D' => kind == s_udp,
                _ => kind.IsUnix,
            };
            if (isHere) text.Append(isMarked ? line[2..] : line).Append('\n');
        }

        text.Length--;
        return text.Replace("@@", kind.Name)
            .Replace("#PART#", part)
            .Replace("#WHAT#", part == "Server" ? kind.Server : kind.Client)
            .Replace("#SHAKE#", kind.Shake)
            .Replace("#CTX#", kind.IsTls ? "SslContext context, " : "")
            .Replace("#CTXP#", kind.IsTls ? "context, " : "")
            .Replace("#PORTS#", kind == s_udp ? "UDP" : "TCP")
            .Replace("#TOOLONG#", part == "Server" ? " with a size of 0" : ", and closes it")
            .Replace("#PROTO#", kind.IsUnix ? "ProtocolType.Unspecified" : "ProtocolType.Tcp")
            .ToString();
    }
}
