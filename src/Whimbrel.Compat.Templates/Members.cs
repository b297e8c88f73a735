namespace Whimbrel.Compat.Templates;

/// <summary>Groups of members that several classes share.</summary>
internal static class Members
{
    /// <summary>The four constructors of servers and clients.</summary>
    internal static string Constructors(Variant v, string name, string body = "\n    {\n    }")
    {
        (string type, string parameter, string words)[] forms =
        [
            ("IPAddress address, int port", "address, port", "IP address.|Port number."),
            ("string address, int port", "address, port", "IP address.|Port number."),
            ("DnsEndPoint endpoint", "endpoint", "Host name and port."),
            ("IPEndPoint endpoint", "endpoint", "Address and port."),
        ];
        return string.Join("\n\n", forms.Select(form =>
        {
            string[] names = form.parameter.Replace(" ", "").Split(',');
            string[] words = form.words.Split('|');
            string context =
                v.IsTls ? "    /// <param name=\"context\">Certificates and settings of TLS.</param>\n" : "";
            string parameters =
                string.Concat(names.Select((n, i) => $"    /// <param name=\"{n}\">{words[i]}</param>\n"));
            return $"    /// <summary>Creates an object.</summary>\n{context}{parameters}    "
                + $"public {name}({(v.IsTls ? "SslContext context, " : "")}{form.type})\n        : "
                + $"base({(v.IsTls ? "context, " : "")}{form.parameter}){body}";
        })) + "\n";
    }

    /// <summary>Members with a blocking form and one that only queues.</summary>
    internal static string Twice(Func<string, string, string, string, string> make) =>
        make("", "long", ", and waits until the system has it", "Number of bytes sent; 0 if there is no connection.")
        + "\n\n"
        + make("Async", "bool", "", "False if there is no connection, or no room.") + "\n";

    /// <summary>The documentation of a parameter that is written as "name|text".</summary>
    internal static string ParameterLine(string parameter)
    {
        string[] parts = parameter.Split('|');
        return $"    /// <param name=\"{parts[0]}\">{parts[1]}</param>\n";
    }

    /// <summary>Returns the five overloads for bytes and text; four of them call the one with a span of
    /// bytes.</summary>
    /// <param name="head">Modifiers, result and name.</param>
    /// <param name="summary">Summary sentence.</param>
    /// <param name="returns">Text of the returns element.</param>
    /// <param name="body">Body of the overload with the span <c>buffer</c>.</param>
    /// <param name="before">Parameter before the bytes, such as <c>int status</c>.</param>
    /// <param name="text">Parameter name in the overloads for text.</param>
    internal static string Forms(string head, string summary, string returns, string body, string before = "",
        string text = "text")
    {
        string name = head.Split(' ').Last();
        string first = before.Length == 0 ? "" : before + ", ",
            pass = before.Length == 0 ? "" : before.Split(' ').Last() + ", ";
        string firstDoc = before.Length == 0 ? "" : $"    /// <param name=\"{before.Split(' ').Last()}\">1000 to 1003, "
            + $"1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>\n";
        string result = $"    /// <returns>{returns}</returns>\n";
        string Doc(params string[] parameters) =>
            $"    /// <summary>{summary}</summary>\n{firstDoc}"
            + string.Concat(parameters.Select(ParameterLine)) + result;
        return string.Join("\n\n",
            Doc($"{text}|Text to send as UTF-8.") + $"    {head}({first}string {text})\n    {{\n        "
            + $"ArgumentNullException.ThrowIfNull({text});\n        return {name}({pass}{text}.AsSpan());\n    }}",
            Doc($"{text}|Text to send as UTF-8.") + $"    {head}({first}ReadOnlySpan<char> {text})\n    {{\n        "
            + $"using PooledText utf8 = new({text});\n        return {name}({pass}utf8.Span);\n    }}",
            Doc("buffer|Bytes to send. They are copied.") + $"    {head}({first}byte[] buffer)\n    {{\n        "
            + $"ArgumentNullException.ThrowIfNull(buffer);\n        return {name}({pass}buffer.AsSpan());\n    }}",
            Doc("buffer|Array with the bytes, which are copied.",
                "offset|Offset of the first byte in <paramref name=\"buffer\"/>.", "size|Number of bytes.")
            + $"    {head}({first}byte[] buffer, long offset, long size)\n    "
            + $"{{\n        ArgumentNullException.ThrowIfNull(buffer);\n        return "
            + $"{name}({pass}buffer.AsSpan(checked((int)offset), checked((int)size)));\n    }}",
            Doc("buffer|Bytes to send. They are copied.") + $"    {head}({first}ReadOnlySpan<byte> buffer){body}");
    }
}
