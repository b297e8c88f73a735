using System.Net;

namespace CSharpServer;

/// <summary>An address and a port of TCP.</summary>
public class TcpEndpoint : IDisposable
{
    /// <summary>All addresses of this machine.</summary>
    /// <param name="port">The port.</param>
    /// <param name="protocol">Which family.</param>
    public TcpEndpoint(int port, InternetProtocol protocol) => Value = new IPEndPoint(protocol == InternetProtocol.IPv6 ? IPAddress.IPv6Any : IPAddress.Any, port);

    /// <summary>One address.</summary>
    /// <param name="address">The address, in digits.</param>
    /// <param name="port">The port.</param>
    /// <exception cref="FormatException">It is none.</exception>
    public TcpEndpoint(string address, int port) => Value = new IPEndPoint(IPAddress.Parse(address), port);

    /// <summary>The same as another.</summary>
    /// <param name="endpoint">The other.</param>
    public TcpEndpoint(TcpEndpoint endpoint)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        Value = endpoint.Value;
    }

    internal IPEndPoint Value { get; set; }

    /// <summary>The address and the port: <c>127.0.0.1:1111</c>. The old ones could not be asked.</summary>
    public override string ToString() => Value.ToString();

    /// <summary>There is nothing to be done.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>There is nothing to be done.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
    }
}
