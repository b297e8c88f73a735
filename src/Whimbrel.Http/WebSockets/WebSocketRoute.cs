using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>Server side of the opening handshake (RFC 6455, 4.2): checks a request, responds, and hands the connection
/// over to a new session.</summary>
internal sealed class WebSocketRoute(Func<HttpRequest, WebSocketSession?> factory, WebSocketOptions options,
    Action<HttpRequest, HttpResponse>? visitors)
{
    private const string Protocol = "websocket";
    private const string Version = "13";

    internal void Answer(HttpRequest request, HttpResponse response)
    {
        if (request.Verb != HttpVerb.Get || !request.AsksFor("websocket"u8))
        {
            if (visitors is not null)
            {
                visitors(request, response);
                return;
            }

            response.Add("Upgrade", Protocol);
            response.Fail(426, "Only WebSocket is spoken here");
            return;
        }

        if (Judge(request) is { } mistake)
        {
            if (mistake.Status == 426) response.Add("Sec-WebSocket-Version", Version);
            response.Fail(mistake.Status, mistake.Text);
            return;
        }

        DeflateTerms? terms = null;
        if (options.Deflate is { } deflate && !TryAgree(request, deflate.AsServer(), out terms))
        {
            response.Fail(400, "Sec-WebSocket-Extensions is malformed");
            return;
        }

        if (!TryChoose(request, out string? subProtocol))
        {
            response.Fail(400, "Sec-WebSocket-Protocol is no list of different tokens");
            return;
        }

        if (factory(request) is not { } session)
        {
            if (!response.HasBegun) response.Fail(403);
            return;
        }

        Span<byte> accept = stackalloc byte[WebSocketHandshake.AcceptLength];
        WebSocketHandshake.WriteAccept(request[HttpField.SecWebSocketKey], accept);
        response.Add("Sec-WebSocket-Accept", Encoding.ASCII.GetString(accept));
        if (subProtocol is not null) response.Add("Sec-WebSocket-Protocol", subProtocol);
        if (terms is { } agreed) response.Add("Sec-WebSocket-Extensions", TextOf(agreed));
        session.Begin(WebSocketRole.Server, options, terms, subProtocol, request.Session.Loop,
            request.Session.Server?.Options.Scheduling);
        response.SwitchProtocol(Protocol, session);
    }

    private (int Status, string Text)? Judge(HttpRequest request)
    {
        using HttpRequest.RequestUse use = request.Enter();
        if (use.Reader.IndexOfOnly(HttpField.SecWebSocketVersion) < 0
            || !request[HttpField.SecWebSocketVersion].SequenceEqual("13"u8))
            return (426, "Sec-WebSocket-Version is 13 here");
        if (use.Reader.IndexOfOnly(HttpField.SecWebSocketKey) < 0
            || !WebSocketHandshake.IsKey(request[HttpField.SecWebSocketKey]))
            return (400, "Sec-WebSocket-Key is no 16 bytes in base64");
        if (request.MinorVersion == 0) return (400, "WebSocket needs HTTP/1.1");
        if (request.HasBody) return (400, "The request has a body");
        return options.Origins.Judge(request);
    }

    // First offer of all fields.
    private static bool TryAgree(HttpRequest request, in DeflateTerms wishes, out DeflateTerms? terms)
    {
        using HttpRequest.RequestUse use = request.Enter();
        terms = null;
        for (int index = use.Reader.IndexOf(HttpField.SecWebSocketExtensions); index >= 0;
            index = use.Reader.IndexOf(HttpField.SecWebSocketExtensions, index + 1))
        {
            if (!DeflateTerms.TryAgree(request.ValueAt(index), wishes, out DeflateTerms? agreed)) return false;
            terms ??= agreed;
        }

        return true;
    }

    // Preferred protocol of the server among the offered ones; none if there is no match.
    private bool TryChoose(HttpRequest request, out string? chosen)
    {
        using HttpRequest.RequestUse use = request.Enter();
        chosen = null;
        int best = int.MaxValue;
        HashSet<string> seen = [];
        for (int index = use.Reader.IndexOf(HttpField.SecWebSocketProtocol); index >= 0;
            index = use.Reader.IndexOf(HttpField.SecWebSocketProtocol, index + 1))
        {
            ReadOnlySpan<byte> list = request.ValueAt(index);
            while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> name))
            {
                if (!HttpBytes.IsToken(name)) return false;
                string text = Encoding.ASCII.GetString(name);
                if (!seen.Add(text)) return false;
                for (int i = 0; i < options.SubProtocols.Count && i < best; i++)
                {
                    if (options.SubProtocols[i] != text) continue;
                    best = i;
                    chosen = text;
                }
            }
        }

        return true;
    }

    internal static string TextOf(in DeflateTerms terms)
    {
        Span<byte> text = stackalloc byte[DeflateTerms.MostText];
        return Encoding.ASCII.GetString(text[..terms.Write(text)]);
    }
}
