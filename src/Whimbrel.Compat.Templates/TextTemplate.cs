using System.Text;

namespace Whimbrel.Compat.Templates;

/// <summary>
/// The text of a class out of a file of <c>src/Whimbrel.Compat/Templates</c>. A line that begins with N| is for those that have an address and a port, one with S| for
/// TLS, one with U| for Unix sockets, one with T| for sessions, V| for servers, C| for clients, D| for UDP. @@ is the family, words between # are those of <see cref="Make"/>.
/// </summary>
internal static class TextTemplate
{
    internal static string Make(string template, Kind kind, string part)
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
                'D' => kind.IsUdp,
                _ => kind.IsUnix,
            };
            if (isHere) text.Append(isMarked ? line.Substring(2) : line).Append('\n');
        }

        text.Length--;
        return text.Replace("@@", kind.Name)
            .Replace("#PART#", part)
            .Replace("#WHAT#", part == "Server" ? kind.Server : kind.Client)
            .Replace("#SHAKE#", kind.Shake)
            .Replace("#CTX#", kind.IsTls ? "SslContext context, " : "")
            .Replace("#CTXP#", kind.IsTls ? "context, " : "")
            .Replace("#PORTS#", kind.IsUdp ? "UDP" : "TCP")
            .Replace("#TOOLONG#", part == "Server" ? " with a size of 0" : ", and closes it")
            .Replace("#PROTO#", kind.IsUnix ? "ProtocolType.Unspecified" : "ProtocolType.Tcp")
            .ToString();
    }
}
