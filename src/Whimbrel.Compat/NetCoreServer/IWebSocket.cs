using System.Net.Sockets;

namespace NetCoreServer;

/// <summary>Callbacks of a WebSocket. The defaults do nothing, unless a member says otherwise. Called in the owner's
/// callbacks.</summary>
public interface IWebSocket
{
    /// <summary>Called on a client when it is connected, to complete its upgrade request.</summary>
    /// <param name="request">Request to complete.</param>
    void OnWsConnecting(HttpRequest request)
    {
    }

    /// <summary>Called on a client when its upgrade was accepted. Messages may be sent.</summary>
    /// <param name="response">Response of the server.</param>
    void OnWsConnected(HttpResponse response)
    {
    }

    /// <summary>Called on a server for an upgrade request. The default accepts it.</summary>
    /// <param name="request">Request of the client.</param>
    /// <param name="response">Response, to which headers may be added.</param>
    /// <returns>False rejects the upgrade; the owner then answers the request.</returns>
    bool OnWsConnecting(HttpRequest request, HttpResponse response) => true;

    /// <summary>Called on a server when it has accepted an upgrade. Messages may be sent.</summary>
    /// <param name="request">Request of the client.</param>
    void OnWsConnected(HttpRequest request)
    {
    }

    /// <summary>Called when the connection is about to end.</summary>
    void OnWsDisconnecting()
    {
    }

    /// <summary>Called when the connection has ended.</summary>
    void OnWsDisconnected()
    {
    }

    /// <summary>Called for each message. The bytes are valid during the call.</summary>
    /// <param name="buffer">Array with the message.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="size">Number of bytes.</param>
    void OnWsReceived(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>Called when the peer closes.</summary>
    /// <param name="buffer">Array with the reason.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="size">Number of bytes.</param>
    /// <param name="status">Status of the close frame; 1000 if it has none.</param>
    void OnWsClose(byte[] buffer, long offset, long size, int status = 1000)
    {
    }

    /// <summary>Called for each ping.</summary>
    /// <param name="buffer">Array with the payload.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="size">Number of bytes.</param>
    void OnWsPing(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>Called for each pong.</summary>
    /// <param name="buffer">Array with the payload.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="size">Number of bytes.</param>
    void OnWsPong(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>Called when the peer broke a rule.</summary>
    /// <param name="error">Description of the error.</param>
    void OnWsError(string error)
    {
    }

    /// <summary>Called when the connection failed.</summary>
    /// <param name="error">Error of the connection.</param>
    void OnWsError(SocketError error)
    {
    }

    /// <summary>Sends the response to an upgrade request.</summary>
    /// <param name="response">Response to send.</param>
    void SendUpgrade(HttpResponse response)
    {
    }
}
