using System.Net;

namespace Whimbrel.Testing;

/// <summary>A raw peer in the memory network: the other end of a connection, driven by the test step by step.</summary>
public sealed class MemoryPeer
{
    private readonly MemorySocket _socket;

    internal MemoryPeer(MemorySocket socket) => _socket = socket;

    /// <summary>This end's address, null for an unnamed one.</summary>
    public EndPoint? LocalEndPoint => _socket.LocalEndPoint;

    /// <summary>True until either side has reset or closed it.</summary>
    public bool IsConnected => !_socket.IsClosed && !_socket.IsReset;

    /// <summary>Bytes that can be read now.</summary>
    public int Available => _socket.Available;

    /// <summary>Writes what fits now.</summary>
    /// <param name="data">The bytes.</param>
    /// <returns>How many were taken; 0 when the wire is full.</returns>
    /// <exception cref="IOException">The connection is broken.</exception>
    public int Write(ReadOnlySpan<byte> data)
    {
        int count = _socket.Write(data);
        if (count < 0) throw new IOException("The connection was reset.");
        return count;
    }

    /// <summary>Reads what is there.</summary>
    /// <param name="target">Where to.</param>
    /// <returns>Bytes read; 0 at the end of the stream; -1 when there is nothing now.</returns>
    /// <exception cref="IOException">The connection was reset, and everything that had arrived was read.</exception>
    public int Read(Span<byte> target)
    {
        if (_socket.Available > 0) return _socket.Read(target);
        if (_socket.IsReset) throw new IOException("The connection was reset.");
        return _socket.HasFinish ? 0 : -1;
    }

    /// <summary>Sends FIN; reading goes on.</summary>
    public void FinishSending() => _socket.FinishSending();

    /// <summary>Resets the connection.</summary>
    public void Reset() => _socket.Close(reset: true);

    /// <summary>Closes; a reset when there are unread bytes, as in TCP.</summary>
    public void Close() => _socket.Close(reset: false);
}
