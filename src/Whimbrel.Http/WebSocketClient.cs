using System.Net;
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
    /// <exception cref="ArgumentException">The address is malformed, TLS rules are given for <c>ws://</c>, or an option has a value that cannot be.</exception>
    public WebSocketClient(string address, Func<WebSocketSession> session, WebSocketOptions? options = null, TlsOptions? tls = null)
        : this(Parse(address), new ClientOptions { Tls = tls }, session, options)
    {
    }

    /// <summary>
    /// A client with all options of the core. Host, port, path and TLS follow from the address; options that contradict it
    /// throw here.
    /// </summary>
    /// <param name="address">As in the other constructor.</param>
    /// <param name="client">
    /// Engine, rules for TLS, reconnecting and the limits of connections. <see cref="ClientOptions.EndPoint"/>,
    /// <see cref="ClientOptions.EndPoints"/> and <see cref="ClientOptions.Address"/> are left out, or say by which way
    /// that host is reached: one of its IP addresses, with the port of the address, or a Unix path.
    /// </param>
    /// <param name="session">Makes the session of each connection, on its loop, when the server has agreed.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    /// <exception cref="ArgumentException">
    /// The address is malformed, <paramref name="client"/> contradicts it (another host or port, TLS for <c>ws://</c>), or
    /// an option has a value that cannot be.
    /// </exception>
    public WebSocketClient(string address, ClientOptions client, Func<WebSocketSession> session, WebSocketOptions? options = null)
        : this(Parse(address), client, session, options)
    {
    }

    private WebSocketClient(Uri address, ClientOptions client, Func<WebSocketSession> session, WebSocketOptions? options)
        : base(OptionsFor(address, client), static context => new WebSocketDial((WebSocketClient)context.Client!))
    {
        ArgumentNullException.ThrowIfNull(session);
        _session = session;
        WebSocket = options ?? new WebSocketOptions();
        WebSocket.Check();
        if (!ReferenceEquals(WebSocket.Origins, WebSocketOrigins.SameHost)) throw new ArgumentException($"{nameof(WebSocketOptions)}.{nameof(WebSocketOptions.Origins)} is for routes. A client says from where it comes by Origin in {nameof(WebSocketOptions.Fields)}.", nameof(options));
        IsSecure = address.Scheme == "wss";
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

    /// <summary>The server's answer to the last dial was not the one that opens a WebSocket, and it would give the same answer again.</summary>
    internal bool AnswerIsFinal { get; set; }

    /// <summary>The address begins with wss.</summary>
    internal bool IsSecure { get; }

    /// <summary>What was wrong with the handshake of the last dial; null when it did not come so far.</summary>
    internal WebSocketException? Failure { get; set; }

    /// <inheritdoc/>
    protected override bool HasOpening => true;

    /// <inheritdoc/>
    protected override Exception FailureOf(NetworkException failure)
    {
        if (Failure is not null) return Failure;
        // What a server without TLS answers to a handshake is no record of TLS, and many answer nothing at all.
        bool isMaybePlain = IsSecure && failure.InnerException is TlsException { Failure: TlsFailure.NotTls or TlsFailure.BadRecord or TlsFailure.PeerLeft or TlsFailure.TimedOut };
        return isMaybePlain ? new NetworkException(failure.Error with { Message = $"{failure.Message} The port may be without TLS: then write ws://." }, failure.InnerException) : failure;
    }

    internal void NoteOpened(WebSocketSession session) => base.NoteOpened(session);

    /// <summary>A close frame of the server is answered by this side, and a silent one aborted: neither was asked for here.</summary>
    /// <param name="reason">Why the last connection or dial ended.</param>
    protected override bool IsFinal(CloseReason reason) => AnswerIsFinal || (!EndWasTheirs && base.IsFinal(reason));

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

    private static ClientOptions OptionsFor(Uri address, ClientOptions client)
    {
        ArgumentNullException.ThrowIfNull(client);
        bool isSecure = address.Scheme == "wss";
        if (!isSecure && client.Tls is not null) throw Contradiction(address, "is without TLS, and Tls is given: write wss://, or leave Tls out");
        if (client.EndPoint is null && client.Address is null && client.EndPoints.Count == 0) return client.With($"{(isSecure ? "tls" : "tcp")}://{HostOf(address)}:{address.Port}");
        bool isByName = true;
        if (client.EndPoint is { } endPoint) isByName &= IsByName(address, endPoint);
        foreach (EndPoint each in client.EndPoints) isByName &= IsByName(address, each);
        if (client.Address is { } text) isByName &= IsByName(address, text, isSecure);
        if (!isSecure || isByName) return isSecure && client.Tls is null ? client.With(tls: new TlsOptions()) : client;
        if (client.Tls is { HostName: null, ChecksHostName: true, Verify: null, PinnedKeys.Count: 0 })
            throw Contradiction(address, $"is reached by an address without its name, which the certificate must cover: set Tls.HostName to {address.IdnHost}, or leave the end point out");
        return client.Tls is null ? client.With(tls: new TlsOptions { HostName = address.IdnHost }) : client;
    }

    /// <summary>Throws unless the end point may be the host and port of the address. True: TLS finds the host's name in it.</summary>
    private static bool IsByName(Uri address, EndPoint endPoint)
    {
        bool isLiteral = IPAddress.TryParse(address.IdnHost, out IPAddress? literal);
        (bool fits, bool isByName) = endPoint switch
        {
            IPEndPoint ip => (ip.Port == address.Port && (!isLiteral || ip.Address.MapToIPv6().Equals(literal!.MapToIPv6())), isLiteral),
            DnsEndPoint dns => (dns.Port == address.Port && dns.Host.Equals(address.IdnHost, StringComparison.OrdinalIgnoreCase), true),
            _ => (true, false), // a path has neither: it is the way to the host
        };
        if (!fits) throw Contradiction(address, $"says where to connect, and {endPoint} is another place: leave the end point out, or change the address");
        return isByName;
    }

    private static bool IsByName(Uri address, string text, bool isSecure)
    {
        if (!NetworkAddress.TryParse(text, out NetworkAddress? parsed, out string? mistake)) throw new ArgumentException($"{nameof(ClientOptions)}.Address: {mistake}", nameof(address));
        if (parsed.Scheme is not ("tcp" or "tls")) return false;
        if (parsed.Scheme == "tls" && !isSecure) throw Contradiction(address, $"is without TLS, and Address is {text}: write wss://, or leave Address out");
        if (parsed.Service is not null) throw Contradiction(address, $"has a port, and Address is {text}: leave Address out");
        return IsByName(address, IPAddress.TryParse(parsed.Host, out IPAddress? ip) ? new IPEndPoint(ip, parsed.Port) : new DnsEndPoint(parsed.Host, parsed.Port));
    }

    private static ArgumentException Contradiction(Uri address, string what) => new($"{address.OriginalString} {what}.", nameof(address));

    private static string HostOf(Uri address) => address.HostNameType == UriHostNameType.IPv6 ? $"[{address.IdnHost}]" : address.IdnHost;
}
