namespace Whimbrel.Compat.Templates;

/// <summary>Groups of members that many classes have in the same way.</summary>
internal static class Members
{
    /// <summary>The four constructors of servers and clients.</summary>
    internal static string Constructors(Variant v, string name, string body = "\n    {\n    }")
    {
        (string type, string parameter, string words)[] forms =
        [
            ("IPAddress address, int port", "address, port", "The address.|The port."),
            ("string address, int port", "address, port", "The address, or a name.|The port."),
            ("DnsEndPoint endpoint", "endpoint", "A name and a port."),
            ("IPEndPoint endpoint", "endpoint", "An address and a port."),
        ];
        return string.Join("\n\n", forms.Select(form =>
        {
            string[] names = form.parameter.Replace(" ", "").Split(',');
            string[] words = form.words.Split('|');
            string context = v.IsTls ? "    /// <param name=\"context\">Certificates and rules of TLS.</param>\n" : "";
            string parameters = string.Concat(names.Select((n, i) => $"    /// <param name=\"{n}\">{words[i]}</param>\n"));
            return $"    /// <summary>Makes one.</summary>\n{context}{parameters}    public {name}({(v.IsTls ? "SslContext context, " : "")}{form.type})\n        : base({(v.IsTls ? "context, " : "")}{form.parameter}){body}";
        })) + "\n";
    }

    /// <summary>Members that there are blocking, and as those that only queue.</summary>
    internal static string Twice(Func<string, string, string, string, string> make) =>
        make("", "long", ", and waits until the system has it", "Bytes that were sent; 0: there is no connection.") + "\n\n"
        + make("Async", "bool", "", "False: there is no connection, or no room.") + "\n";

    /// <summary>The five forms of bytes and text: four of them lead to the one with a span of bytes.</summary>
    /// <param name="head">Modifiers, result and name.</param>
    /// <param name="summary">A sentence.</param>
    /// <param name="returns">What is returned.</param>
    /// <param name="body">Of the form with the span, which is <c>buffer</c>.</param>
    /// <param name="before">Parameters before the bytes, as <c>int status</c>.</param>
    /// <param name="text">What the forms of text call it.</param>
    internal static string Forms(string head, string summary, string returns, string body, string before = "", string text = "text")
    {
        string name = head.Split(' ').Last();
        string first = before.Length == 0 ? "" : before + ", ", pass = before.Length == 0 ? "" : before.Split(' ').Last() + ", ";
        string firstDoc = before.Length == 0 ? "" : $"    /// <param name=\"{before.Split(' ').Last()}\">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>\n";
        string result = $"    /// <returns>{returns}</returns>\n";
        string Doc(params string[] parameters) => $"    /// <summary>{summary}</summary>\n{firstDoc}{string.Concat(parameters.Select(static p => $"    /// <param name=\"{p.Split('|')[0]}\">{p.Split('|')[1]}</param>\n"))}{result}";
        return string.Join("\n\n",
            Doc($"{text}|Sent as UTF-8.") + $"    {head}({first}string {text})\n    {{\n        ArgumentNullException.ThrowIfNull({text});\n        return {name}({pass}{text}.AsSpan());\n    }}",
            Doc($"{text}|Sent as UTF-8.") + $"    {head}({first}ReadOnlySpan<char> {text})\n    {{\n        using PooledText utf8 = new({text});\n        return {name}({pass}utf8.Span);\n    }}",
            Doc("buffer|The bytes. Copied.") + $"    {head}({first}byte[] buffer)\n    {{\n        ArgumentNullException.ThrowIfNull(buffer);\n        return {name}({pass}buffer.AsSpan());\n    }}",
            Doc("buffer|Where the bytes lie. Copied.", "offset|Where they begin.", "size|How many they are.") + $"    {head}({first}byte[] buffer, long offset, long size)\n    {{\n        ArgumentNullException.ThrowIfNull(buffer);\n        return {name}({pass}buffer.AsSpan(checked((int)offset), checked((int)size)));\n    }}",
            Doc("buffer|The bytes. Copied.") + $"    {head}({first}ReadOnlySpan<byte> buffer){body}");
    }
}
