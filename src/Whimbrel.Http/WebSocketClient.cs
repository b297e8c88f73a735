using System.Net;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// Client that connects a WebSocket, with all features of <see cref="Client"/>, including reconnecting. Each successful
/// handshake creates a new session.
/// </summary>
public sealed class WebSocketClient : Client
{
    private readonly Func<WebSocketSession> _session;
    private readonly string _target;
    private readonly string _authority;

    /// <summary>Creates a client for one address.</summary>
    /// <param name="address"><c>ws://host:port/path?query</c>, or <c>wss://</c> with TLS.</param>
    /// <param name="session">Factory of the session of each connection; called on its loop after the handshake.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <param name="tls">TLS settings for <c>wss://</c>; null for the defaults.</param>
    /// <exception cref="ArgumentException">The address is malformed, TLS settings are given for <c>ws://</c>, or an
    /// option is out of range.</exception>
    public WebSocketClient(string address, Func<WebSocketSession> session, WebSocketOptions? options = null,
        TlsOptions? tls = null)
        : this(Parse(address), new ClientOptions { Tls = tls }, session, options)
    {
    }

    /// <summary>
    /// Creates a client with all options of the core. Host, port, path and TLS follow from the address; options that
    /// contradict it throw here.
    /// </summary>
    /// <param name="address">Address, as in the other constructor.</param>
    /// <param name="client">
    /// Engine, TLS settings, reconnecting and connection limits. <see cref="ClientOptions.EndPoint"/>,
    /// <see cref="ClientOptions.EndPoints"/> and <see cref="ClientOptions.Address"/> are omitted, or name a route to
    /// that host: one of its IP addresses with the port of the address, or a Unix path.
    /// </param>
    /// <param name="session">Factory of the session of each connection; called on its loop after the handshake.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <exception cref="ArgumentException">
    /// The address is malformed, <paramref name="client"/> contradicts it (another host or port, TLS for <c>ws://</c>),
    /// or an option is out of range.
    /// </exception>
    public WebSocketClient(string address, ClientOptions client, Func<WebSocketSession> session,
        WebSocketOptions? options = null)
        : this(Parse(address), client, session, options)
    {
    }

    private WebSocketClient(Uri address, ClientOptions client, Func<WebSocketSession> session,
        WebSocketOptions? options)
        : base(OptionsFor(address, client), static context => new WebSocketConnect((WebSocketClient)context.Client!))
    {
        ArgumentNullException.ThrowIfNull(session);
        _session = session;
        WebSocket = options ?? new WebSocketOptions();
        WebSocket.Check();
        if (!ReferenceEquals(WebSocket.Origins, WebSocketOrigins.SameHost))
            throw new ArgumentException($"{nameof(WebSocketOptions)}.{nameof(WebSocketOptions.Origins)} is for "
                + $"routes. A client says from where it comes by Origin in {nameof(WebSocketOptions.Fields)}.",
                nameof(options));
        IsSecure = address.Scheme == "wss";
        _target = address.PathAndQuery;
        _authority = address.IsDefaultPort ? HostOf(address) : $"{HostOf(address)}:{address.Port}";
        byte[] key = new byte[WebSocketHandshake.KeyLength];
        key.AsSpan().Fill((byte)'A');
        _ = Request(key, WebSocket.Deflate?.AsClient()); // throws here for a field that cannot be sent
    }

    /// <summary>Limits and settings.</summary>
    public WebSocketOptions WebSocket { get; }

    /// <summary>
    /// Connects, and completes when the handshake is done and the session has the connection. Otherwise as
    /// <see cref="Client.ConnectAsync"/>. A policy that retries the first attempt also retries when the server is not
    /// ready (5xx), does not respond or closes the connection.
    /// </summary>
    /// <param name="cancellationToken">Cancels the attempt.</param>
    /// <exception cref="WebSocketException">The server rejected the handshake, or its response is not
    /// valid.</exception>
    public new async ValueTask<WebSocketSession> ConnectAsync(CancellationToken cancellationToken = default) =>
        (WebSocketSession)await base.ConnectAsync(cancellationToken).ConfigureAwait(false);

    /// <summary>Whether the server or the network caused the end or failure of the last connection, even if this side
    /// closed it last.</summary>
    internal bool EndWasTheirs { get; set; }

    /// <summary>Whether the server rejected the last handshake with a response that a retry would get again.</summary>
    internal bool AnswerIsFinal { get; set; }

    /// <summary>Whether the scheme is wss.</summary>
    internal bool IsSecure { get; }

    /// <summary>Error of the last handshake; null if there was none.</summary>
    internal WebSocketException? Failure { get; set; }

    /// <inheritdoc/>
    protected override bool HasOpening => true;

    /// <inheritdoc/>
    protected override Exception FailureOf(NetworkException failure)
    {
        if (Failure is not null) return Failure;
        // The response of a server without TLS to a ClientHello is not a TLS record, and many such servers send
        // nothing.
        bool isMaybePlain = IsSecure && failure.InnerException is TlsException
        {
            Failure: TlsFailure.NotTls or TlsFailure.BadRecord or TlsFailure.PeerLeft or TlsFailure.TimedOut
        };
        return isMaybePlain
            ? new NetworkException(
                failure.Error with { Message = $"{failure.Message} The port may be without TLS: then write ws://." },
                failure.InnerException)
            : failure;
    }

    internal void ReportOpened(WebSocketSession session) => base.ReportOpened(session);

    /// <summary>Returns whether the end is final. A close frame of the server, or the abort of a silent one, is not,
    /// because this side did not ask for it.</summary>
    /// <param name="reason">Reason why the last connection or attempt ended.</param>
    protected override bool IsFinal(CloseReason reason) => AnswerIsFinal || (!EndWasTheirs && base.IsFinal(reason));

    internal WebSocketSession NewSession() =>
        _session() ?? throw new InvalidOperationException("The factory made no session.");

    /// <summary>Writes the request of one handshake.</summary>
    internal byte[] Request(ReadOnlySpan<byte> key, DeflateTerms? offer)
    {
        byte[] bytes = new byte[HttpReaderLimits.Default.HeadBytes];
        HttpWriter writer = new(bytes);
        writer.RequestLine("GET"u8, Encoding.ASCII.GetBytes(_target));
        writer.Field(HttpField.Host, Encoding.ASCII.GetBytes(_authority));
        writer.CheckedFields("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"u8);
        writer.Field(HttpField.SecWebSocketKey, key);
        if (WebSocket.SubProtocols.Count > 0)
            writer.Field(HttpField.SecWebSocketProtocol,
                Encoding.ASCII.GetBytes(string.Join(", ", WebSocket.SubProtocols)));
        if (offer is { } terms)
            writer.Field(HttpField.SecWebSocketExtensions, Encoding.ASCII.GetBytes(WebSocketRoute.TextOf(terms)));
        foreach ((string name, string value) in WebSocket.Fields)
            writer.Field(Encoding.UTF8.GetBytes(name), Encoding.UTF8.GetBytes(value));
        writer.EndHead();
        if (writer.IsFull) throw new ArgumentException("The request is too long.");
        return bytes[..writer.Length];
    }

    private static Uri Parse(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        if (!Uri.TryCreate(address, UriKind.Absolute, out Uri? uri) || uri.Scheme is not ("ws" or "wss")
            || uri.Host.Length == 0)
            throw new ArgumentException(
                $"An address of a WebSocket is ws://host/path or wss://host/path, not {address}.", nameof(address));
        if (uri.UserInfo.Length > 0 || uri.Fragment.Length > 0)
            throw new ArgumentException("The address of a WebSocket has no user and no fragment.", nameof(address));
        return uri;
    }

    private static ClientOptions OptionsFor(Uri address, ClientOptions client)
    {
        ArgumentNullException.ThrowIfNull(client);
        bool isSecure = address.Scheme == "wss";
        if (!isSecure && client.Tls is not null)
            throw Contradiction(address, "is without TLS, and Tls is given: write wss://, or leave Tls out");
        if (client.EndPoint is null && client.Address is null && client.EndPoints.Count == 0)
            return client.With($"{(isSecure ? "tls" : "tcp")}://{HostOf(address)}:{address.Port}");
        bool isByName = true;
        if (client.EndPoint is { } endPoint) isByName &= IsByName(address, endPoint);
        foreach (EndPoint each in client.EndPoints) isByName &= IsByName(address, each);
        if (client.Address is { } text) isByName &= IsByName(address, text, isSecure);
        if (!isSecure || isByName) return isSecure && client.Tls is null ? client.With(tls: new TlsOptions()) : client;
        if (client.Tls is { HostName: null, ChecksHostName: true, Verify: null, PinnedKeys.Count: 0 })
            throw Contradiction(address, $"is reached by an address without its name, which the certificate must "
                + $"cover: set Tls.HostName to {address.IdnHost}, or leave the end point out");
        return client.Tls is null ? client.With(tls: new TlsOptions { HostName = address.IdnHost }) : client;
    }

    /// <summary>Throws unless the end point matches host and port of the address. Returns true if TLS finds the host's
    /// name in it.</summary>
    private static bool IsByName(Uri address, EndPoint endPoint)
    {
        bool isLiteral = IPAddress.TryParse(address.IdnHost, out IPAddress? literal);
        (bool fits, bool isByName) = endPoint switch
        {
            IPEndPoint ip => (ip.Port == address.Port
                && (!isLiteral || ip.Address.MapToIPv6().Equals(literal!.MapToIPv6())), isLiteral),
            DnsEndPoint dns => (
                dns.Port == address.Port && dns.Host.Equals(address.IdnHost, StringComparison.OrdinalIgnoreCase), true),
            _ => (true, false), // a Unix path has neither: it is a route to the host
        };
        if (!fits) throw Contradiction(address,
            $"says where to connect, and {endPoint} is another place: leave the end point out, or change the address");
        return isByName;
    }

    private static bool IsByName(Uri address, string text, bool isSecure)
    {
        if (!NetworkAddress.TryParse(text, out NetworkAddress? parsed, out string? mistake))
            throw new ArgumentException($"{nameof(ClientOptions)}.Address: {mistake}", nameof(address));
        if (parsed.Scheme is not ("tcp" or "tls")) return false;
        if (parsed.Scheme == "tls" && !isSecure)
            throw Contradiction(address, $"is without TLS, and Address is {text}: write wss://, or leave Address out");
        if (parsed.Service is not null)
            throw Contradiction(address, $"has a port, and Address is {text}: leave Address out");
        return IsByName(address, IPAddress.TryParse(parsed.Host, out IPAddress? ip)
            ? new IPEndPoint(ip, parsed.Port)
            : new DnsEndPoint(parsed.Host, parsed.Port));
    }

    private static ArgumentException Contradiction(Uri address, string what) =>
        new($"{address.OriginalString} {what}.", nameof(address));

    private static string HostOf(Uri address) =>
        address.HostNameType == UriHostNameType.IPv6 ? $"[{address.IdnHost}]" : address.IdnHost;
}
