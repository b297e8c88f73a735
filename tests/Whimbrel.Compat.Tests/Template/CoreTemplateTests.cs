using System.Text;

namespace Whimbrel.Compat.Tests.Template;

// Servers, sessions and clients of TCP, TLS and Unix sockets are written once each, in the texts beside this file. A line that begins with N| is for those
// that have an address and a port, one with S| for TLS, one with U| for Unix sockets. WHIMBREL_ACCEPT_TEMPLATE=1 writes the classes.
public sealed class CoreTemplateTests
{
    private sealed record Kind(string Name, bool IsTls, bool IsUnix, string Server, string Client, string Shake);

    private static readonly Kind[] s_kinds =
    [
        new("Tcp", false, false, "A TCP server", "A TCP client", ""),
        new("Ssl", true, false, "A server over TLS", "A client over TLS", " and for the handshake"),
        new("Uds", false, true, "A server at a Unix socket", "A client of a Unix socket", ""),
    ];

    [Fact]
    public void The_classes_are_what_their_texts_make()
    {
        string root = Root();
        List<string> different = [];
        foreach (Kind kind in s_kinds)
        {
            foreach (string part in (string[])["Server", "Session", "Client"])
            {
                string text = Make(File.ReadAllText(Path.Combine(root, "tests/Whimbrel.Compat.Tests/Template", part + ".txt")), kind, part);
                string path = Path.Combine(root, "src/Whimbrel.Compat/NetCoreServer", kind.Name + part + ".cs");
                if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_TEMPLATE") == "1") File.WriteAllText(path, text);
                if (!File.Exists(path) || File.ReadAllText(path) != text) different.Add(kind.Name + part);
            }
        }

        Assert.Equal([], different);
    }

    private static string Make(string template, Kind kind, string part)
    {
        StringBuilder text = new();
        foreach (string line in template.Split('\n'))
        {
            bool isMarked = line.Length > 1 && line[1] == '|';
            bool isHere = !isMarked || line[0] switch { 'N' => !kind.IsUnix, 'S' => kind.IsTls, _ => kind.IsUnix };
            if (isHere) text.Append(isMarked ? line[2..] : line).Append('\n');
        }

        text.Length--;
        return text.Replace("@@", kind.Name)
            .Replace("#WHAT#", part == "Server" ? kind.Server : kind.Client)
            .Replace("#SHAKE#", kind.Shake)
            .Replace("#CTX#", kind.IsTls ? "SslContext context, " : "")
            .Replace("#CTXP#", kind.IsTls ? "context, " : "")
            .Replace("#PROTO#", kind.IsUnix ? "ProtocolType.Unspecified" : "ProtocolType.Tcp")
            .ToString();
    }

    private static string Root()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx"))) return folder.FullName;
        }

        throw new InvalidOperationException("The tests run from their place in the repository.");
    }
}
