using System.Net;
using Whimbrel.Compat;

namespace NetCoreServer;

/// <summary>
/// A client of HTTP/1.1: send requests, and override <see cref="OnReceivedResponse"/>. Responses are read strictly, within limits, and told in the order of the
/// requests (<see cref="HttpAsking"/>). Host is added where a request has none.
/// </summary>
public class HttpClient : TcpClient, IHttpAsking
{
    private const int UsualPort = 80;

    private readonly HttpAsking _http;

    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public HttpClient(IPAddress address, int port)
        : base(address, port) => _http = new HttpAsking(this);

    /// <summary>Makes one.</summary>
    /// <param name="address">The address, or a name.</param>
    /// <param name="port">The port.</param>
    public HttpClient(string address, int port)
        : base(address, port) => _http = new HttpAsking(this);

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">A name and a port.</param>
    public HttpClient(DnsEndPoint endpoint)
        : base(endpoint) => _http = new HttpAsking(this);

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">An address and a port.</param>
    public HttpClient(IPEndPoint endpoint)
        : base(endpoint) => _http = new HttpAsking(this);

    /// <summary>For the request: compose it and send it.</summary>
    public HttpRequest Request
    {
        get => _http.Request;
        protected set => _http.Request = value;
    }

    /// <summary>The response that is being read.</summary>
    protected HttpResponse Response
    {
        get => _http.Response;
        set => _http.Response = value;
    }

    bool IHttpAsking.IsUpgraded => IsUpgraded;

    private protected virtual bool IsUpgraded => false;

    private protected HttpAsking Asking => _http;

    /// <summary>Sends <see cref="Request"/>, and waits until the system has it.</summary>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequest() => SendRequest(Request);

    /// <summary>Sends a request, and waits until the system has it.</summary>
    /// <param name="request">The request. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequest(HttpRequest request) => _http.Note(request, Address, Port, UsualPort) ? Send(request.Cache.AsSpan()) : default;

    /// <summary>Sends a part of the body of a request, and waits until the system has it.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequestBody(string body)
    {
        ArgumentNullException.ThrowIfNull(body);
        return SendRequestBody(body.AsSpan());
    }

    /// <summary>Sends a part of the body of a request, and waits until the system has it.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequestBody(ReadOnlySpan<char> body)
    {
        using PooledText utf8 = new(body);
        return SendRequestBody(utf8.Span);
    }

    /// <summary>Sends a part of the body of a request, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequestBody(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendRequestBody(buffer.AsSpan());
    }

    /// <summary>Sends a part of the body of a request, and waits until the system has it.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequestBody(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendRequestBody(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a part of the body of a request, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendRequestBody(ReadOnlySpan<byte> buffer) => Send(buffer);

    /// <summary>Sends <see cref="Request"/>.</summary>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestAsync() => SendRequestAsync(Request);

    /// <summary>Sends a request.</summary>
    /// <param name="request">The request. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestAsync(HttpRequest request) => _http.Note(request, Address, Port, UsualPort) ? SendAsync(request.Cache.AsSpan()) : default;

    /// <summary>Sends a part of the body of a request.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestBodyAsync(string body)
    {
        ArgumentNullException.ThrowIfNull(body);
        return SendRequestBodyAsync(body.AsSpan());
    }

    /// <summary>Sends a part of the body of a request.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestBodyAsync(ReadOnlySpan<char> body)
    {
        using PooledText utf8 = new(body);
        return SendRequestBodyAsync(utf8.Span);
    }

    /// <summary>Sends a part of the body of a request.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestBodyAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendRequestBodyAsync(buffer.AsSpan());
    }

    /// <summary>Sends a part of the body of a request.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestBodyAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendRequestBodyAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a part of the body of a request.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendRequestBodyAsync(ReadOnlySpan<byte> buffer) => SendAsync(buffer);

    /// <summary>Reads responses.</summary>
    /// <param name="buffer">Where their bytes lie.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    protected override void OnReceived(byte[] buffer, long offset, long size) => _http.Receive(buffer, offset, size);

    /// <summary>The connection has ended. A response that ends with it is told.</summary>
    protected override void OnDisconnected()
    {
        _http.Ended();
        _http.Begin();
    }

    /// <summary>The header of a response was read; its body comes.</summary>
    /// <param name="response">The response, without its body.</param>
    protected virtual void OnReceivedResponseHeader(HttpResponse response)
    {
    }

    /// <summary>A response is there.</summary>
    /// <param name="response">The response. Cleared when this has returned.</param>
    protected virtual void OnReceivedResponse(HttpResponse response)
    {
    }

    /// <summary>A response broke a rule, or was not finished. The connection ends.</summary>
    /// <param name="response">What there is of it.</param>
    /// <param name="error">Which rule.</param>
    protected virtual void OnReceivedResponseError(HttpResponse response, string error)
    {
    }

    void IHttpAsking.TellHeader(HttpResponse response) => OnReceivedResponseHeader(response);

    void IHttpAsking.TellResponse(HttpResponse response) => OnReceivedResponse(response);

    void IHttpAsking.TellError(HttpResponse response, string error) => OnReceivedResponseError(response, error);

    void IHttpAsking.TellUpgraded(byte[] buffer, long offset, long size) => OnReceived(buffer, offset, size);

    void IHttpAsking.Settle() => Settle();

    void IHttpAsking.End() => DisconnectAsync();

    private protected virtual void Settle()
    {
    }
}
