using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Limits and wishes of WebSocket sessions. Plain data, checked when it is first used. One object serves all sessions of a kind.</summary>
public sealed class WebSocketOptions
{
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(1);

    private bool _isChecked;

    /// <summary>A message, without its compression, that is put together: the connection is closed with 1009 above it. 125 up to 1 GiB; default 1 MiB.</summary>
    public int MessageLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// Messages are given in pieces, as they come (<see cref="WebSocketSession.OnPiece"/>), and never put together: for those that are larger than memory
    /// should be. No limit then. Not with compression. Default false.
    /// </summary>
    public bool InPieces { get; init; }

    /// <summary>A peer that was silent so long gets a ping, and when two of them were answered by nothing the connection is aborted. 100 ms up to a day, or <see cref="Timeout.InfiniteTimeSpan"/> for none; default 30 s.</summary>
    public TimeSpan Heartbeat { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>How long the peer may take to answer a close frame. 10 ms up to a day; default 5 s. For the answer to a client's request there is <see cref="ClientOptions.ConnectTimeout"/>.</summary>
    public TimeSpan CloseTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>Sub-protocols: of a server those it speaks, of a client those it offers, the dearest first. A server never chooses one that was not offered. Empty, the default: none.</summary>
    public IReadOnlyList<string> SubProtocols { get; init; } = [];

    /// <summary>From whose pages a browser may connect. Default: those of the same host.</summary>
    public WebSocketOrigins Origins { get; init; } = WebSocketOrigins.SameHost;

    /// <summary>
    /// permessage-deflate (RFC 7692). Null, the default: none. Compression costs memory and time for each connection, and where a secret and
    /// what an attacker chose stand in one message its length tells of the secret.
    /// </summary>
    public WebSocketDeflate? Deflate { get; init; }

    /// <summary>
    /// Fields that a client adds to its request: Cookie, Authorization, Origin and the like. Not those that the handshake
    /// itself writes: Host, Connection, Upgrade and Sec-WebSocket-*, nor those of a body. Empty, the default: none.
    /// </summary>
    public IReadOnlyList<KeyValuePair<string, string>> Fields { get; init; } = [];

    internal void Check()
    {
        if (_isChecked) return;
        List<string> mistakes = [];
        if (MessageLimitBytes is < WebSocketReader.MostControlBytes or > 1 << 30) mistakes.Add($"{nameof(MessageLimitBytes)} is {MessageLimitBytes}: 125 up to 1 GiB.");
        if (Heartbeat != Timeout.InfiniteTimeSpan && (Heartbeat < TimeSpan.FromMilliseconds(100) || Heartbeat > s_longest)) mistakes.Add($"{nameof(Heartbeat)} is {Heartbeat}: 100 ms up to a day, or none.");
        if (CloseTimeout < TimeSpan.FromMilliseconds(10) || CloseTimeout > s_longest) mistakes.Add($"{nameof(CloseTimeout)} is {CloseTimeout}: 10 ms up to a day.");
        if (SubProtocols.Any(name => !HttpBytes.IsToken(name)) || SubProtocols.Distinct(StringComparer.Ordinal).Count() < SubProtocols.Count) mistakes.Add($"{nameof(SubProtocols)} are tokens, each once.");
        if (InPieces && Deflate is not null) mistakes.Add($"{nameof(InPieces)} and {nameof(Deflate)} do not go together.");
        foreach ((string name, _) in Fields)
        {
            if (InsteadOf(name) is { } cure) mistakes.Add($"{nameof(Fields)} has {name}: {cure}.");
        }

        Deflate?.Check(mistakes);
        if (mistakes.Count > 0) throw new ArgumentException(string.Join(' ', mistakes));
        _isChecked = true;
    }

    /// <summary>What to do instead of giving a field that the handshake writes; null for another field.</summary>
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
