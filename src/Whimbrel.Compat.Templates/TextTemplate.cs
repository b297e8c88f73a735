using System.Text;

namespace Whimbrel.Compat.Templates;

/// <summary>
/// Creates the text of a class from a file of <c>src/Whimbrel.Compat/Templates</c>. A line prefix selects classes: N|
/// with address and port, S| TLS, U| Unix sockets, T| sessions, V| servers, C| clients, D| UDP. @@ is the family; words
/// between # are replaced by <see cref="Make"/>.
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
