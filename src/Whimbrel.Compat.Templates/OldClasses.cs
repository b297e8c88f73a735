namespace Whimbrel.Compat.Templates;

/// <summary>All classes of the original APIs that are generated from a text.</summary>
internal static class OldClasses
{
    private const string NetCoreServer = "NetCoreServer/", CSharpServer = "CSharpServer/";

    private static readonly Kind[] s_streams = [Kind.Tcp, Kind.Ssl, Kind.Uds];
    private static readonly string[] s_parts = ["Server", "Session", "Client"];

    /// <summary>Returns path and text of each class.</summary>
    /// <param name="template">Returns the text of a file of <c>Templates</c>, by name without folder and
    /// extension.</param>
    internal static IEnumerable<KeyValuePair<string, string>> All(Func<string, string> template)
    {
        foreach (Kind kind in s_streams)
        {
            foreach (string part in s_parts)
            {
                yield return Made(NetCoreServer, kind.Name + part, TextTemplate.Make(template(part), kind, part));
                if (kind.IsUnix) continue;
                string text = template("CSharp" + part).Replace("#STREAM#", template("CSharpStream"));
                yield return Made(CSharpServer, kind.Name + part, TextTemplate.Make(text, kind, part));
            }
        }

        foreach (Kind kind in (Kind[])[Kind.Tcp, Kind.Udp])
        {
            foreach (string part in (string[])["Endpoint", "Resolver"])
                yield return Made(CSharpServer, kind.Name + part,
                    TextTemplate.Make(template("CSharp" + part), kind, part));
        }

        foreach (string part in (string[])["Server", "Client"])
            yield return Made(CSharpServer, "Udp" + part, TextTemplate.Make(template("CSharpUdp"), Kind.Udp, part));

        yield return Made(NetCoreServer, "UdpServer", UdpText.Server);
        yield return Made(NetCoreServer, "UdpClient", UdpText.Client);
        foreach (Variant v in (Variant[])[Variant.Plain, Variant.Tls])
        {
            yield return Made(NetCoreServer, $"Http{v.S}Server", HttpServerText.Text(v));
            yield return Made(NetCoreServer, $"Http{v.S}Session", HttpSessionText.Text(v));
            yield return Made(NetCoreServer, $"Http{v.S}Client", HttpClientText.Text(v));
            yield return Made(NetCoreServer, $"Http{v.S}ClientEx", HttpClientExText.Text(v));
            yield return Made(NetCoreServer, $"Ws{v.S}Server", WsText.Server(v));
            yield return Made(NetCoreServer, $"Ws{v.S}Session", WsText.Session(v));
            yield return Made(NetCoreServer, $"Ws{v.S}Client", WsText.Client(v));
        }
    }

    private static KeyValuePair<string, string> Made(string folder, string name, string text) =>
        new($"{folder}{name}.cs", text);
}
