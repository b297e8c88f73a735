using System.Globalization;
using System.Text;

namespace Whimbrel.Http.Tests.Parsing;

/// <summary>The vectors of vectors.txt: a rule, and a message that complies with it or violates it.</summary>
internal static class Vectors
{
    internal sealed record Vector(string Section, string Outcome, string Text)
    {
        internal bool IsResponse => Section is "status" or "response" || IsLenient;

        /// <summary>True if the vector is read by a client without StrictAnswers.</summary>
        internal bool IsLenient => Section.StartsWith("lenient", StringComparison.Ordinal);

        internal byte[] Bytes => Encoding.Latin1.GetBytes(Around(Section, Unescape(Text)));

        public override string ToString() => $"{Section}: {Outcome} {Text}";
    }

    internal static IReadOnlyList<Vector> All { get; } = Read();

    private static List<Vector> Read()
    {
        using StreamReader reader = new(typeof(Vectors).Assembly.GetManifestResourceStream("vectors.txt")!);
        List<Vector> all = [];
        string section = "";
        while (reader.ReadLine() is { } line)
        {
            if (line.StartsWith('[')) section = line.Trim('[', ']');
            else if (line.Length > 0 && !line.StartsWith('#'))
            {
                int space = line.IndexOf(' ', StringComparison.Ordinal);
                all.Add(new Vector(section, line[..space], line[(space + 1)..]));
            }
        }

        return all;
    }

    private static string Around(string section, string text) => section switch
    {
        "line" => $"{text}\r\nHost: a\r\n\r\n",
        "field" => $"GET / HTTP/1.1\r\nHost: a\r\n{text}\r\n\r\n",
        "chunks" => $"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{text}",
        "status" or "lenient status" => $"{text}\r\nContent-Length: 0\r\n\r\n",
        _ => text,
    };

    internal static string Unescape(string text)
    {
        if (text.StartsWith("\\{", StringComparison.Ordinal))
        {
            int brace = text.IndexOf('}', StringComparison.Ordinal);
            return string.Concat(Enumerable.Repeat(Unescape(text[(brace + 1)..]),
                int.Parse(text[2..brace], CultureInfo.InvariantCulture)));
        }

        StringBuilder plain = new();
        for (int i = 0; i < text.Length; i++)
        {
            if (text[i] != '\\')
            {
                plain.Append(text[i]);
                continue;
            }

            switch (text[++i])
            {
                case 'x':
                    plain.Append((char)Convert.ToByte(text.Substring(i + 1, 2), 16));
                    i += 2;
                    break;
                case '(':
                    int end = text.IndexOf(')', i), star = text.LastIndexOf('*', end);
                    plain.Append(string.Concat(Enumerable.Repeat(Unescape(text[(i + 1)..star]),
                        int.Parse(text[(star + 1)..end], CultureInfo.InvariantCulture))));
                    i = end;
                    break;
                default:
                    plain.Append(text[i] switch { 'r' => '\r', 'n' => '\n', 't' => '\t', '0' => '\0', _ => text[i] });
                    break;
            }
        }

        return plain.ToString();
    }
}
