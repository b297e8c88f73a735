using System.Net;

namespace Whimbrel.Http;

/// <summary>Scheme, host and port, and a pool's connections to it. The pool's gate guards all members except the
/// connector and OpenBodies.</summary>
internal sealed class HttpOrigin
{
    private int _openBodies;

    internal HttpOrigin(HttpPool pool, Uri uri)
    {
        Text = HttpClientRequest.HostOf(uri);
        HttpClientOptions options = pool.Options;
        string host = uri.IdnHost;
        EndPoint target = options.EndPoint ?? (IPAddress.TryParse(host, out IPAddress? address)
            ? new IPEndPoint(address, uri.Port) : new DnsEndPoint(host, uri.Port));
        TlsOptions? tls = uri.Scheme == Uri.UriSchemeHttps
            ? options.SpokenTls ?? new TlsOptions
            {
                ApplicationProtocols = [HttpServer.ApplicationProtocol],
                HostName = options.EndPoint is null ? null : host
            }
            : null;
        Connector = new Connector(new ClientOptions
        {
            Engine = options.Engine,
            EndPoint = target,
            Tls = tls,
            Timeouts = new() { Connect = options.ConnectTimeout, Send = options.SendTimeout }
        });
    }

    internal Connector Connector { get; }

    /// <summary>Host and port, for messages.</summary>
    internal string Text { get; }

    /// <summary>Idle connections, the most recently used on top.</summary>
    internal List<PooledSession> Idle { get; } = [];

    /// <summary>Requests that wait for a connection, or, with null, for the right to connect.</summary>
    internal LinkedList<TaskCompletionSource<PooledSession?>> Waiters { get; } = [];

    /// <summary>Number of connections, including connect attempts.</summary>
    internal int Connections { get; set; }

    /// <summary>Number of connections with a response that is neither read to its end nor disposed. Any
    /// thread.</summary>
    internal int OpenBodies => Volatile.Read(ref _openBodies);

    internal void CountOpenBody(bool isNew) => Interlocked.Add(ref _openBodies, isNew ? 1 : -1);

    /// <summary>Reason why a request has no connection, and what to do.</summary>
    internal string BusyText
    {
        get
        {
            int open = OpenBodies;
            string cure = open == 0 ? "." : $", {open} of them with a response that is neither disposed nor read to "
                + $"its end. Dispose each response, also unread: using HttpClientResponse response = await ...";
            return $"All {Connections} connections to {Text} are busy (ConnectionLimit){cure}";
        }
    }

    internal bool IsEmpty => Connections == 0 && Waiters.Count == 0;
}
