using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Limits and settings of WebSocket sessions. Immutable data, checked at its first use. Use one object for all
/// sessions of a kind.</summary>
public sealed class WebSocketOptions
{
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(1);

    private bool _isChecked;

    /// <summary>Largest message in bytes, after decompression; then the connection is closed with 1009. Without effect
    /// with <see cref="InPieces"/>. 125 to 1 GiB; default 1 MiB.</summary>
    public int MessageLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// Whether messages are delivered in pieces, as they arrive (<see cref="WebSocketSession.OnPiece"/>), for messages
    /// too large for memory. They have no size limit, and no compression. Default false.
    /// </summary>
    public bool InPieces { get; init; }

    /// <summary>Time without data from a peer before it gets a ping. After two unanswered pings the connection is
    /// aborted. 100 ms to a day, or <see cref="Timeout.InfiniteTimeSpan"/> for none; default 30 s.</summary>
    public TimeSpan Heartbeat { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Longest wait for the peer's close frame. 10 ms to a day; default 5 s. The handshake of a client is
    /// limited by <see cref="ClientTimeouts.Connect"/>.</summary>
    public TimeSpan CloseTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>Sub-protocols: supported ones of a server, offered ones of a client, in order of preference. A server
    /// never chooses one that was not offered. With none in common the connection is opened without one
    /// (<see cref="WebSocketSession.SubProtocol"/> is null). Default empty: none.</summary>
    public IReadOnlyList<string> SubProtocols { get; init; } = [];

    /// <summary>Origins of web pages from which browsers may connect. Default: the same host.</summary>
    public WebSocketOrigins Origins { get; init; } = WebSocketOrigins.SameHost;

    /// <summary>
    /// permessage-deflate (RFC 7692). Default null: none. Compression costs memory and time for each connection. In a
    /// message with a secret and data chosen by an attacker, the compressed length reveals the secret.
    /// </summary>
    public WebSocketDeflate? Deflate { get; init; }

    /// <summary>
    /// Additional fields of a client's request: Cookie, Authorization, Origin and the like. Not allowed are fields of
    /// the handshake (Host, Connection, Upgrade and Sec-WebSocket-*) and fields of a body. Default empty: none.
    /// </summary>
    public IReadOnlyList<KeyValuePair<string, string>> Fields { get; init; } = [];

    internal void Check()
    {
        if (_isChecked) return;
        List<string> mistakes = [];
        if (MessageLimitBytes is < WebSocketReader.MostControlBytes or > 1 << 30)
            mistakes.Add($"{nameof(MessageLimitBytes)} is {MessageLimitBytes}: 125 up to 1 GiB.");
        if (Heartbeat != Timeout.InfiniteTimeSpan
            && (Heartbeat < TimeSpan.FromMilliseconds(100) || Heartbeat > s_longest))
            mistakes.Add($"{nameof(Heartbeat)} is {Heartbeat}: 100 ms up to a day, or none.");
        if (CloseTimeout < TimeSpan.FromMilliseconds(10) || CloseTimeout > s_longest)
            mistakes.Add($"{nameof(CloseTimeout)} is {CloseTimeout}: 10 ms up to a day.");
        if (SubProtocols.Any(name => !HttpBytes.IsToken(name))
            || SubProtocols.Distinct(StringComparer.Ordinal).Count() < SubProtocols.Count)
            mistakes.Add($"{nameof(SubProtocols)} are tokens, each once.");
        if (InPieces && Deflate is not null)
            mistakes.Add($"{nameof(InPieces)} and {nameof(Deflate)} do not go together.");
        foreach ((string name, _) in Fields)
        {
            if (InsteadOf(name) is { } cure) mistakes.Add($"{nameof(Fields)} has {name}: {cure}.");
        }

        Deflate?.Check(mistakes);
        if (mistakes.Count > 0) throw new ArgumentException(string.Join(' ', mistakes));
        _isChecked = true;
    }

    /// <summary>Returns the alternative for a field written by the handshake; null for other fields.</summary>
    private static string? InsteadOf(string? name) => name?.ToUpperInvariant() switch
    {
        "HOST" => "it follows from the address of the client",
        "SEC-WEBSOCKET-PROTOCOL" => $"give {nameof(SubProtocols)}",
        "SEC-WEBSOCKET-EXTENSIONS" => $"give {nameof(Deflate)}",
        "CONNECTION" or "UPGRADE" => "the handshake writes it",
        "CONTENT-LENGTH" or "TRANSFER-ENCODING" => "the request has no body",
        { } other when other.StartsWith("SEC-WEBSOCKET-", StringComparison.Ordinal) => "the handshake writes it",
        _ => null,
    };
}
