using System.Net;
using Whimbrel.Compat;

namespace NetCoreServer;

/// <summary>
/// A client of HTTP/1.1 whose requests are awaited, one at a time. It connects itself. A response stays with who awaits it; the task fails when
/// the response breaks a rule, the connection ends before it, or the timeout passes (<see cref="OneRequest"/>).
/// </summary>
public class HttpClientEx : HttpClient, IOneRequest
{
    private readonly OneRequest _one;

    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public HttpClientEx(IPAddress address, int port)
        : base(address, port) => _one = new OneRequest(this);

    /// <summary>Makes one.</summary>
    /// <param name="address">The address, or a name.</param>
    /// <param name="port">The port.</param>
    public HttpClientEx(string address, int port)
        : base(address, port) => _one = new OneRequest(this);

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">A name and a port.</param>
    public HttpClientEx(DnsEndPoint endpoint)
        : base(endpoint) => _one = new OneRequest(this);

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">An address and a port.</param>
    public HttpClientEx(IPEndPoint endpoint)
        : base(endpoint) => _one = new OneRequest(this);

    HttpAsking IOneRequest.Http => Asking;

    bool IOneRequest.IsReady => IsConnected;

    bool IOneRequest.IsBusy => IsConnected || IsConnecting;

    string IOneRequest.Failure => Failure;

    /// <summary>Sends <see cref="HttpClient.Request"/>, and gives its response.</summary>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendRequest(TimeSpan? timeout = null) => SendRequest(Request, timeout);

    /// <summary>Sends a request, and gives its response.</summary>
    /// <param name="request">The request.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendRequest(HttpRequest request, TimeSpan? timeout = null) => _one.Begin(request, timeout);

    /// <summary>Sends HEAD, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendHeadRequest(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.MakeHeadRequest(url), timeout);

    /// <summary>Sends GET, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendGetRequest(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.MakeGetRequest(url), timeout);

    /// <summary>Sends POST, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendPostRequest(string url, string content, TimeSpan? timeout = null) => _one.Begin(() => Request.MakePostRequest(url, content), timeout);

    /// <summary>Sends PUT, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendPutRequest(string url, string content, TimeSpan? timeout = null) => _one.Begin(() => Request.MakePutRequest(url, content), timeout);

    /// <summary>Sends DELETE, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendDeleteRequest(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.MakeDeleteRequest(url), timeout);

    /// <summary>Sends OPTIONS, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendOptionsRequest(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.MakeOptionsRequest(url), timeout);

    /// <summary>Sends TRACE, and gives its response.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="timeout">Null for a minute.</param>
    public Task<HttpResponse> SendTraceRequest(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.MakeTraceRequest(url), timeout);

    /// <summary>Sends the request that waits for the connection.</summary>
    protected override void OnConnected() => _one.Connected();

    /// <summary>The connection has ended; a request without a response fails.</summary>
    protected override void OnDisconnected()
    {
        base.OnDisconnected();
        _one.Ended();
    }

    /// <summary>The response is there.</summary>
    /// <param name="response">The response.</param>
    protected override void OnReceivedResponse(HttpResponse response) => _one.Answered();

    /// <summary>The response broke a rule.</summary>
    /// <param name="response">What there is of it.</param>
    /// <param name="error">Which rule.</param>
    protected override void OnReceivedResponseError(HttpResponse response, string error) => _one.Broken(error);

    /// <inheritdoc/>
    protected override void Dispose(bool disposingManagedResources)
    {
        base.Dispose(disposingManagedResources);
        if (disposingManagedResources) _one.Dispose();
    }

    private protected override void Settle() => _one.Settle();

    private protected override void Dialling() => _one.Dialling();

    bool IOneRequest.Connect() => ConnectAsync();

    bool IOneRequest.Send(HttpRequest request) => SendRequestAsync(request);

    void IOneRequest.End() => DisconnectAsync();
}
