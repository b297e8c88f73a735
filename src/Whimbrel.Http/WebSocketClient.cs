using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// Dials a WebSocket. What <see cref="Client"/> has is there, reconnecting by policy too: each connection makes a new session, when the server has agreed.
/// </summary>
public sealed class WebSocketClient : Client
{
    private readonly Func<WebSocketSession> _session;
    private readonly string _target;
    private readonly string _authority;

    /// <summary>A client for one address.</summary>
    /// <param name="address"><c>ws://host:port/path?query</c>, or <c>wss://</c> with TLS.</param>
    /// <param name="session">Makes the session of each connection, on its loop, when the server has agreed.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    /// <param name="tls">Rules for <c>wss://</c>; null for the defaults.</param>
    public WebSocketClient(string address, Func<WebSocketSession> session, WebSocketOptions? options = null, TlsOptions? tls = null)
        : this(Parse(address), new ClientOptions { Address = AddressOf(address), Tls = tls }, session, options)
    {
    }

    /// <summary>A client with all options of the core.</summary>
    /// <param name="address">As in the other constructor: host and path for the request.</param>
    /// <param name="client">Where to connect, engine, TLS, reconnecting and the limits of connections.</param>
    /// <param name="session">Makes the session of each connection, on its loop, when the server has agreed.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    public WebSocketClient(string address, ClientOptions client, Func<WebSocketSession> session, WebSocketOptions? options = null)
        : this(Parse(address), client, session, options)
    {
    }

    private WebSocketClient(Uri address, ClientOptions client, Func<WebSocketSession> session, WebSocketOptions? options)
        : base(client, static context => new WebSocketDial((WebSocketClient)context.Client!))
    {
        ArgumentNullException.ThrowIfNull(session);
        _session = session;
        WebSocket = options ?? new WebSocketOptions();
        WebSocket.Check();
        _target = address.PathAndQuery;
        _authority = address.IsDefaultPort ? HostOf(address) : $"{HostOf(address)}:{address.Port}";
        byte[] key = new byte[WebSocketHandshake.KeyLength];
        key.AsSpan().Fill((byte)'A');
        _ = Request(key, WebSocket.Deflate?.AsClient()); // a field that cannot be sent throws here
    }

    /// <summary>Limits and wishes.</summary>
    public WebSocketOptions WebSocket { get; }

    /// <summary>
    /// Dials, and completes when the server has agreed and the session has the connection. Else as <see cref="Client.ConnectAsync"/>: a policy that retries the first dial retries this
    /// as well when the server is not ready (5xx), does not answer or ends the connection before it has.
    /// </summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="WebSocketException">The server did not agree, or not as it should.</exception>
    public new async ValueTask<WebSocketSession> ConnectAsync(CancellationToken cancellationToken = default) =>
        (WebSocketSession)await base.ConnectAsync(cancellationToken).ConfigureAwait(false);

    /// <summary>The last connection ended, or was refused, by what the server or the way to it has done: also where this side did the last step.</summary>
    internal bool EndWasTheirs { get; set; }

    /// <summary>What was wrong with the handshake of the last dial; null when it did not come so far.</summary>
    internal WebSocketException? Failure { get; set; }

    /// <inheritdoc/>
    protected override bool HasOpening => true;

    /// <inheritdoc/>
    protected override Exception FailureOf(NetworkException failure) => Failure ?? (Exception)failure;

    internal void NoteOpened(WebSocketSession session) => base.NoteOpened(session);

    /// <summary>A close frame of the server is answered by this side, and a silent one aborted: neither was asked for here.</summary>
    /// <param name="reason">Why the last connection or dial ended.</param>
    protected override bool IsFinal(CloseReason reason) => !EndWasTheirs && base.IsFinal(reason);

    internal WebSocketSession NewSession() => _session() ?? throw new InvalidOperationException("The factory made no session.");

    /// <summary>The request of one handshake.</summary>
    internal byte[] Request(ReadOnlySpan<byte> key, DeflateTerms? offer)
    {
        byte[] bytes = new byte[HttpReaderLimits.Default.HeadBytes];
        HttpWriter writer = new(bytes);
        writer.RequestLine("GET"u8, Encoding.ASCII.GetBytes(_target));
        writer.Field(HttpField.Host, Encoding.ASCII.GetBytes(_authority));
        writer.CheckedFields("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"u8);
        writer.Field(HttpField.SecWebSocketKey, key);
        if (WebSocket.SubProtocols.Count > 0) writer.Field(HttpField.SecWebSocketProtocol, Encoding.ASCII.GetBytes(string.Join(", ", WebSocket.SubProtocols)));
        if (offer is { } terms) writer.Field(HttpField.SecWebSocketExtensions, Encoding.ASCII.GetBytes(WebSocketRoute.TextOf(terms)));
        foreach ((string name, string value) in WebSocket.Fields) writer.Field(Encoding.UTF8.GetBytes(name), Encoding.UTF8.GetBytes(value));
        writer.EndHead();
        if (writer.IsFull) throw new ArgumentException("The request is too long.");
        return bytes[..writer.Length];
    }

    private static Uri Parse(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        if (!Uri.TryCreate(address, UriKind.Absolute, out Uri? uri) || uri.Scheme is not ("ws" or "wss") || uri.Host.Length == 0) throw new ArgumentException($"An address of a WebSocket is ws://host/path or wss://host/path, not {address}.", nameof(address));
        if (uri.UserInfo.Length > 0 || uri.Fragment.Length > 0) throw new ArgumentException("The address of a WebSocket has no user and no fragment.", nameof(address));
        return uri;
    }

    private static string AddressOf(string address)
    {
        Uri uri = Parse(address);
        return $"{(uri.Scheme == "wss" ? "tls" : "tcp")}://{HostOf(uri)}:{uri.Port}";
    }

    private static string HostOf(Uri address) => address.HostNameType == UriHostNameType.IPv6 ? $"[{address.IdnHost}]" : address.IdnHost;
}
