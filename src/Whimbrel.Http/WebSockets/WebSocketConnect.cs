using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>Client side of the opening handshake (RFC 6455, 4.1): sends the request, checks the response, and hands the
/// connection over to the user's session.</summary>
internal sealed class WebSocketConnect(WebSocketClient client) : Session
{
    private static readonly TimeSpan s_least = TimeSpan.FromMilliseconds(1);

    private readonly HttpReader _reader = new();
    private readonly byte[] _accept = new byte[WebSocketHandshake.AcceptLength];
    private readonly DeflateTerms? _offer = client.WebSocket.Deflate?.AsClient();
    private LoopTimer? _timer;
    private long _begunMs;
    private WebSocketSession? _next;

    /// <summary>Description of the failure; null for none.</summary>
    internal string? Failure { get; private set; }

    /// <summary>Whether the session has the connection, or the handshake has failed.</summary>
    internal bool IsOver { get; private set; }

    /// <summary>Clears the results of the previous attempt.</summary>
    protected override void OnConnecting()
    {
        client.Failure = null;
        client.AnswerIsFinal = false;
        _begunMs = Loop.TimeMs;
    }

    protected override void OnConnected()
    {
        client.EndWasTheirs = false;
        _reader.BeginResponse(HttpReaderLimits.Default with { IsLenient = true }, answersHead: false);
        Span<byte> key = stackalloc byte[WebSocketHandshake.KeyLength];
        WebSocketHandshake.NewKey(key);
        WebSocketHandshake.WriteAccept(key, _accept);
        Send(client.Request(key, _offer));
        // One timeout covers connecting and the response: the time for connecting is subtracted.
        TimeSpan left = client.Options.Timeouts.Connect - TimeSpan.FromMilliseconds(Loop.TimeMs - _begunMs);
        _timer = StartTimer(left > s_least ? left : s_least);
    }

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        switch (_reader.Read(unread))
        {
            case HttpReading.NeedMore:
                return 0;
            case HttpReading.Broken:
                Fail($"The answer is no HTTP: {HttpRules.TextOf(_reader.Rule)}.");
                return unread.Length;
        }

        if (Judge(unread, out DeflateTerms? terms, out string? subProtocol) is { } mistake)
        {
            Fail(mistake);
            return unread.Length;
        }

        _timer?.Cancel();
        WebSocketSession next = client.NewSession();
        next.ConnectedBy = client;
        next.Begin(WebSocketRole.Client, client.WebSocket, terms, subProtocol, Loop, client.Options.Scheduling);
        _next = next;
        HandOver(next);
        return _reader.HeadLength;
    }

    protected override void OnTimer(LoopTimer timer) =>
        Fail($"The server has not answered the request within {client.Options.Timeouts.Connect.TotalSeconds} s of the "
            + $"connect ({nameof(ClientOptions)}.Timeouts.Connect).", isLate: true);

    protected override void OnDisconnected(CloseReason reason)
    {
        IsOver = true;
        if (_next is { } next && reason.Cause == CloseCause.HandedOver)
        {
            client.ReportOpened(next);
            return;
        }

        Failure ??= $"The connection ended before the server had answered: {reason}.";
        client.Failure = new WebSocketException(Failure);
    }

    private void Fail(string text, bool isLate = false)
    {
        Failure = text;
        // A server that is not ready may be ready soon. Any other response would be the same next time.
        client.EndWasTheirs = isLate || _reader.Status >= 500;
        client.AnswerIsFinal = !client.EndWasTheirs;
        ReportProtocolError(new WebSocketException(text));
        Abort();
    }

    private string? Judge(ReadOnlySpan<byte> head, out DeflateTerms? terms, out string? subProtocol)
    {
        terms = null;
        subProtocol = null;
        if (_reader.Status != 101)
            return $"The server answered {_reader.Status}{Reason(head)} and no WebSocket." + _reader.Status switch
            {
                >= 300 and < 400 => " Redirects are not followed.",
                400 when !client.IsSecure => " A port with TLS answers so, too: if it is one, write wss://.",
                _ => "",
            };
        if (!_reader.WantsUpgrade || !Ascii.EqualsIgnoreCase(Value(head, HttpField.Upgrade), "websocket"u8))
            return "The server switched to another protocol.";
        if (_reader.IndexOfOnly(HttpField.SecWebSocketAccept) < 0
            || !Value(head, HttpField.SecWebSocketAccept).SequenceEqual(_accept))
            return "Sec-WebSocket-Accept does not fit the key that was sent.";
        if (_reader.IndexOf(HttpField.SecWebSocketProtocol) >= 0)
        {
            string chosen = Encoding.Latin1.GetString(Value(head, HttpField.SecWebSocketProtocol));
            if (_reader.IndexOfOnly(HttpField.SecWebSocketProtocol) < 0
                || !client.WebSocket.SubProtocols.Contains(chosen))
                return "The server chose a sub-protocol that was not offered.";
            subProtocol = chosen;
        }

        if (_reader.IndexOf(HttpField.SecWebSocketExtensions) < 0) return null;
        if (_offer is not { } offer || _reader.IndexOfOnly(HttpField.SecWebSocketExtensions) < 0
            || !DeflateTerms.TryAccept(Value(head, HttpField.SecWebSocketExtensions), offer, out terms))
            return "The server agreed to an extension that was not offered.";
        return null;
    }

    private ReadOnlySpan<byte> Value(ReadOnlySpan<byte> head, HttpField field)
    {
        int index = _reader.IndexOf(field);
        return index < 0 ? default : head.Slice(_reader[index].ValueStart, _reader[index].ValueLength);
    }

    private string Reason(ReadOnlySpan<byte> head)
    {
        ReadOnlySpan<byte> reason = head[_reader.Reason];
        return reason.IsEmpty ? "" : $" ({Encoding.Latin1.GetString(reason)})";
    }
}
