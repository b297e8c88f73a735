using System.Net;

namespace Whimbrel.Testing;

/// <summary>
/// A raw peer in the memory network: the other end of a connection, controlled by the test step by step.
/// </summary>
public sealed class MemoryPeer
{
    private readonly MemorySocket _socket;

    internal MemoryPeer(MemorySocket socket) => _socket = socket;

    /// <summary>Address of this end; null if it has none.</summary>
    public EndPoint? LocalEndPoint => _socket.LocalEndPoint;

    /// <summary>Whether the connection is open: not reset by either side, and not closed by this one.</summary>
    public bool IsConnected => !_socket.IsClosed && !_socket.IsReset;

    /// <summary>Number of bytes that can be read now.</summary>
    public int Available => _socket.Available;

    /// <summary>Writes as many bytes as fit.</summary>
    /// <param name="data">Bytes to write.</param>
    /// <returns>Number of bytes written; 0 if the connection's capacity is used up.</returns>
    /// <exception cref="IOException">The connection is broken.</exception>
    public int Write(ReadOnlySpan<byte> data)
    {
        int count = _socket.Write(data);
        if (count < 0) throw new IOException("The connection was reset.");
        return count;
    }

    /// <summary>Reads available bytes.</summary>
    /// <param name="target">Buffer for the bytes.</param>
    /// <returns>Number of bytes read; 0 at the end of the stream; -1 if none are available.</returns>
    /// <exception cref="IOException">The connection was reset, and all arrived bytes were read.</exception>
    public int Read(Span<byte> target)
    {
        if (_socket.Available > 0) return _socket.Read(target);
        if (_socket.IsReset) throw new IOException("The connection was reset.");
        return _socket.HasFinish ? 0 : -1;
    }

    /// <summary>Sends FIN; reading continues.</summary>
    public void ShutdownSend() => _socket.ShutdownSend();

    /// <summary>Resets the connection.</summary>
    public void Reset() => _socket.Close(reset: true);

    /// <summary>Closes the connection; resets it if there are unread bytes, as TCP does.</summary>
    public void Close() => _socket.Close(reset: false);
}
