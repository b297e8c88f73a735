using System.Net.Sockets;

namespace NetCoreServer;

/// <summary>What a WebSocket tells its owner. Every member has a default that does nothing, but for what its words say. On the owner's callbacks.</summary>
public interface IWebSocket
{
    /// <summary>A client is connected, and fills its request to upgrade.</summary>
    /// <param name="request">To be filled.</param>
    void OnWsConnecting(HttpRequest request)
    {
    }

    /// <summary>A client's upgrade was answered: messages may be sent.</summary>
    /// <param name="response">The answer.</param>
    void OnWsConnected(HttpResponse response)
    {
    }

    /// <summary>A client asks a server to upgrade.</summary>
    /// <param name="request">Its request.</param>
    /// <param name="response">The answer, to which fields may be added.</param>
    /// <returns>False: it is not upgraded, and what is answered is the owner's.</returns>
    bool OnWsConnecting(HttpRequest request, HttpResponse response) => true;

    /// <summary>A server has upgraded: messages may be sent.</summary>
    /// <param name="request">The client's request.</param>
    void OnWsConnected(HttpRequest request)
    {
    }

    /// <summary>The connection is about to end.</summary>
    void OnWsDisconnecting()
    {
    }

    /// <summary>The connection has ended.</summary>
    void OnWsDisconnected()
    {
    }

    /// <summary>A message. The bytes are valid during the call.</summary>
    /// <param name="buffer">Where it lies.</param>
    /// <param name="offset">Where it begins.</param>
    /// <param name="size">How many bytes it has.</param>
    void OnWsReceived(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>The peer closes.</summary>
    /// <param name="buffer">Where its reason lies.</param>
    /// <param name="offset">Where that begins.</param>
    /// <param name="size">How many bytes it has.</param>
    /// <param name="status">Its status; 1000 when it said none.</param>
    void OnWsClose(byte[] buffer, long offset, long size, int status = 1000)
    {
    }

    /// <summary>A ping.</summary>
    /// <param name="buffer">Where its payload lies.</param>
    /// <param name="offset">Where that begins.</param>
    /// <param name="size">How many bytes it has.</param>
    void OnWsPing(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>A pong.</summary>
    /// <param name="buffer">Where its payload lies.</param>
    /// <param name="offset">Where that begins.</param>
    /// <param name="size">How many bytes it has.</param>
    void OnWsPong(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>The peer broke a rule.</summary>
    /// <param name="error">Which.</param>
    void OnWsError(string error)
    {
    }

    /// <summary>The connection failed.</summary>
    /// <param name="error">How.</param>
    void OnWsError(SocketError error)
    {
    }

    /// <summary>Sends the answer to a request to upgrade.</summary>
    /// <param name="response">The answer.</param>
    void SendUpgrade(HttpResponse response)
    {
    }
}
