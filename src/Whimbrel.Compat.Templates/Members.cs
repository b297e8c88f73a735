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

    /// <summary>
    /// Returns the five overloads for bytes and text; four of them call the one with a span of bytes. Virtual ones call
    /// the overload that the original calls, because programs override any of them: text the one with an array.
    /// </summary>
    /// <param name="head">Modifiers, result and name.</param>
    /// <param name="summary">Summary sentence.</param>
    /// <param name="returns">Text of the returns element.</param>
    /// <param name="body">Body of the overload with the span <c>buffer</c>.</param>
    /// <param name="before">Parameter before the bytes, such as <c>int status</c>.</param>
    internal static string Forms(string head, string summary, string returns, string body, string before = "")
    {
        string name = head.Split(' ').Last();
        string first = before.Length == 0 ? "" : before + ", ",
            pass = before.Length == 0 ? "" : before.Split(' ').Last() + ", ";
        string firstDoc = before.Length == 0 ? "" : $"    /// <param name=\"{before.Split(' ').Last()}\">1000 to 1003, "
            + $"1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>\n";
        string Checked(string argument, string passed) => $"\n    {{\n        "
            + $"ArgumentNullException.ThrowIfNull({argument});\n        return {name}({pass}{passed});\n    }}";
        bool isVirtual = head.Contains(" virtual ");
        string[] bodies =
        [
            Checked("text", isVirtual ? "System.Text.Encoding.UTF8.GetBytes(text)" : "text.AsSpan()"),
            isVirtual ? $" => {name}({pass}System.Text.Encoding.UTF8.GetBytes(text.ToArray()));"
                : "\n    {\n        using PooledText utf8 = new(text);\n        return "
                    + $"{name}({pass}utf8.Span);\n    }}",
            Checked("buffer", "buffer.AsSpan()"),
            Checked("buffer", "buffer.AsSpan(checked((int)offset), checked((int)size))"),
            body,
        ];
        return string.Join("\n\n", FormsOf("text").Select((form, i) =>
            Doc(summary, firstDoc, form.Doc, returns) + $"    {head}({first}{form.Parameters}){bodies[i]}"));
    }

    /// <summary>Returns the five overloads for bytes and text. Each calls the overload of a virtual method with the
    /// same parameters, as in the original: programs override any of them.</summary>
    /// <param name="head">Modifiers, result and name.</param>
    /// <param name="summary">Summary sentence.</param>
    /// <param name="returns">Text of the returns element.</param>
    /// <param name="body">Body of an overload, for its arguments and the number of bytes.</param>
    internal static string Each(string head, string summary, string returns, Func<string, string, string> body) =>
        string.Join("\n\n", FormsOf("body").Select(form => Doc(summary, "", form.Doc, returns)
            + $"    {head}({form.Parameters}){body(form.Arguments, form.Length)}"));

    private static string Doc(string summary, string before, string parameters, string returns) =>
        $"    /// <summary>{summary}</summary>\n{before}"
        + string.Concat(parameters.Split('~').Select(ParameterLine)) + $"    /// <returns>{returns}</returns>\n";

    private static (string Doc, string Parameters, string Arguments, string Length)[] FormsOf(string text) =>
    [
        ($"{text}|Text to send as UTF-8.", $"string {text}", text, $"System.Text.Encoding.UTF8.GetByteCount({text})"),
        ($"{text}|Text to send as UTF-8.", $"ReadOnlySpan<char> {text}", text,
            $"System.Text.Encoding.UTF8.GetByteCount({text})"),
        ("buffer|Bytes to send. They are copied.", "byte[] buffer", "buffer", "buffer.Length"),
        ("buffer|Array with the bytes, which are copied.~offset|Offset of the first byte in <paramref "
            + "name=\"buffer\"/>.~size|Number of bytes.", "byte[] buffer, long offset, long size",
            "buffer, offset, size", "size"),
        ("buffer|Bytes to send. They are copied.", "ReadOnlySpan<byte> buffer", "buffer", "buffer.Length"),
    ];
}
