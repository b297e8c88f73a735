using System.Globalization;
using System.Text.RegularExpressions;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Parsing;

/// <summary> Reference reader for requests: splits the text at line ends and judges by patterns. Slow and simple.
/// Returns what it read, and "Ok", "Wait" or "Refused". </summary>
internal sealed partial class PlainReader(string text, HttpReaderLimits limits)
{
    private int _at;

    internal List<string> Messages { get; } = [];

    internal string Read()
    {
        try
        {
            do
            {
                ReadMessage();
            }
            while (_at < text.Length);
            return "Ok";
        }
        catch (EndOfStreamException)
        {
            return "Wait";
        }
        catch (FormatException)
        {
            return "Refused";
        }
    }

    private void ReadMessage()
    {
        int head = _at;
        string start = ReadLine(limits.StartLineBytes, head);
        if (start.Length == 0) start = ReadLine(limits.StartLineBytes, head);
        Match request = RequestLine().Match(start);
        Must(request.Success);
        string method = request.Groups["method"].Value, target = request.Groups["target"].Value;
        bool isOld = request.Groups["minor"].Value == "0";
        string? host = HostOf(method, target);

        List<(string Name, string Value)> fields = [];
        for (string line = ReadLine(limits.HeadBytes, head); line.Length > 0; line = ReadLine(limits.HeadBytes, head))
        {
            fields.Add(FieldOf(line));
            Must(fields.Count <= limits.Fields);
            // Reported at this line, because a streaming reader does not wait for the rest.
            Must(IsGood(fields[^1]) && Values(fields, fields[^1].Name).Count(_ => fields[^1].Name.ToLowerInvariant()
                is "host" or "content-length" or "transfer-encoding" or "content-type") < 2);
        }

        List<string> hosts = Values(fields, "host"), lengths = Values(fields, "content-length"),
            codings = Values(fields, "transfer-encoding");
        Must(isOld || hosts.Count == 1);
        Must(!isOld || lengths.Count > 0 || method is not ("POST" or "PUT" or "PATCH"));
        Must(host is null || hosts.Count == 0 || string.Equals(host, hosts[0], StringComparison.OrdinalIgnoreCase));
        Must(codings.Count == 0 || (lengths.Count == 0 && !isOld));
        Must(Values(fields, "expect").All(e => e.Equals("100-continue", StringComparison.OrdinalIgnoreCase)));
        Must(lengths.Count == 0 || long.Parse(lengths[0], CultureInfo.InvariantCulture) <= limits.BodyBytes);
        string message =
            $"{method} {target} 1.{(isOld ? 0 : 1)}{string.Concat(fields.Select(f => $"~{f.Name}={f.Value}"))}";
        Messages.Add(message);
        string trailers = "", body = "";
        if (codings.Count > 0) body = ReadChunks(fields.Count, out trailers);
        else if (lengths.Count > 0) body = ReadBytes(long.Parse(lengths[0], CultureInfo.InvariantCulture), 0);
        Messages[^1] = $"{message}|{body}|{trailers}";
    }

    private string ReadChunks(int fieldCount, out string trailers)
    {
        string body = "";
        int extensions = 0;
        while (true)
        {
            Match chunk = ChunkLine().Match(ReadLine(272, _at));
            Must(chunk.Success && chunk.Groups["ext"].Length <= 256);
            extensions += chunk.Groups["ext"].Length;
            ulong size = ulong.Parse(chunk.Groups["size"].Value, NumberStyles.AllowHexSpecifier,
                CultureInfo.InvariantCulture);
            Must(size <= long.MaxValue && extensions <= 4096);
            if (size == 0) break;
            body += ReadBytes((long)size, body.Length);
            for (int i = 0; i < 2; i++) Must(Next() == "\r\n"[i]);
        }

        int start = _at, end = _at;
        for (string line = ReadLine(limits.HeadBytes, start); line.Length > 0; line = ReadLine(limits.HeadBytes, start))
        {
            string name = FieldOf(line).Name;
            Must(++fieldCount <= limits.Fields
                && HttpBodyReader.MayTrail(KnownFields.Find(System.Text.Encoding.Latin1.GetBytes(name))));
            end = _at;
        }

        trailers = text[start..end];
        return body;
    }

    private char Next() => _at < text.Length ? text[_at++] : throw new EndOfStreamException();

    private string ReadBytes(long count, int before)
    {
        Must(count <= limits.BodyBytes - before);
        if (count > text.Length - _at) throw new EndOfStreamException();
        _at += (int)count;
        return text.Substring(_at - (int)count, (int)count);
    }

    // One line has a length limit, and so has the sum of all lines since the beginning.
    private string ReadLine(int longest, int begin)
    {
        int start = _at;
        while (true)
        {
            if (_at - start > longest || _at - begin > limits.HeadBytes - 2) throw new FormatException();
            char c = Next();
            if (c == '\r')
            {
                Must(Next() == '\n');
                return text[start..(_at - 2)];
            }

            Must(c is '\t' or >= ' ' and not '\x7F');
        }
    }

    private static (string Name, string Value) FieldOf(string line)
    {
        Match field = Field().Match(line);
        Must(field.Success);
        return (field.Groups["name"].Value, field.Groups["value"].Value.Trim(' ', '\t'));
    }

    private static bool IsGood((string Name, string Value) field) => field.Name.ToLowerInvariant() switch
    {
        "host" => IsHost(field.Value),
        "content-length" =>
            Digits().IsMatch(field.Value) && UInt128.Parse(field.Value, CultureInfo.InvariantCulture) <= long.MaxValue,
        "transfer-encoding" => field.Value.Equals("chunked", StringComparison.OrdinalIgnoreCase),
        _ => true,
    };

    private static string? HostOf(string method, string target)
    {
        if (method == "CONNECT")
        {
            Must(IsHost(target) && Regex.IsMatch(target, @":\d{1,5}$") && !Regex.IsMatch(target, @"^\[[^\]]*$"));
            return target;
        }

        Must(Target().IsMatch(target));
        if (target == "*")
        {
            Must(method == "OPTIONS");
            return null;
        }

        string path = target, host = "";
        if (target[0] != '/')
        {
            Match absolute = Absolute().Match(target);
            Must(absolute.Success && IsHost(absolute.Groups["host"].Value));
            host = absolute.Groups["host"].Value;
            path = absolute.Groups["rest"].Value;
        }

        Must(Path().IsMatch(path));
        return host.Length > 0 ? host : null;
    }

    private static bool IsHost(string host)
    {
        Match match = Host().Match(host);
        return match.Success
            && (match.Groups["ip"].Length == 0 || System.Net.IPAddress.TryParse(match.Groups["ip"].Value, out _))
            && (match.Groups["port"].Length == 0
                || int.Parse(match.Groups["port"].Value, CultureInfo.InvariantCulture) <= 65535);
    }

    private static List<string> Values(List<(string Name, string Value)> fields, string name) =>
        [.. fields.Where(f => f.Name.Equals(name, StringComparison.OrdinalIgnoreCase)).Select(f => f.Value)];

    private static void Must(bool isSo)
    {
        if (!isSo) throw new FormatException();
    }

    private const string Tchar = @"[!#$%&'*+\-.^_`|~0-9A-Za-z]";

    [GeneratedRegex($@"\A(?<method>{Tchar}+) (?<target>[^ ]+) HTTP/1\.(?<minor>[0-9])\z")]
    private static partial Regex RequestLine();
    [GeneratedRegex($@"\A(?<name>{Tchar}+):(?<value>.*)\z", RegexOptions.Singleline)]
    private static partial Regex Field();
    [GeneratedRegex(@"\A[0-9]{1,19}\z")] private static partial Regex Digits();
    [GeneratedRegex("\\A[!$-;=?-~]+\\z")] private static partial Regex Target();
    [GeneratedRegex(@"\Ahttps?://(?<host>[^/?]*)(?<rest>.*)\z",
        RegexOptions.IgnoreCase | RegexOptions.CultureInvariant)]
    private static partial Regex Absolute();
    [GeneratedRegex(@"\A(?:[^%?]|%(?!00)[0-9A-Fa-f]{2})*(?:\?.*)?\z")] private static partial Regex Path();
    [GeneratedRegex(@"\A(?:[0-9A-Za-z._~-]+|\[(?<ip>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\])(?::(?<port>[0-9]{1,5}))?\z")]
    private static partial Regex Host();
    [GeneratedRegex($@"\A(?<size>[0-9A-Fa-f]{{1,16}})(?<ext>(?:;{Tchar}+(?:=(?:{Tchar}+|""(?:[^""\\]|\\.)*""))?)*)\z",
        RegexOptions.Singleline)]
    private static partial Regex ChunkLine();
}
