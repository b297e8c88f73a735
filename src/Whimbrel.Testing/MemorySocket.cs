using System.Net;
using Whimbrel.Connections;

namespace Whimbrel.Testing;

/// <summary>
/// One end of a connection in memory: unread bytes, and how the other end was closed. Writing adds bytes to the other
/// end, as far as there is room.
/// </summary>
internal sealed class MemorySocket
{
    private readonly int _capacity;
    private byte[] _inbound = [];
    private int _start;
    private int _count;

    private MemorySocket(int id, int capacity, EndPoint? local, EndPoint? remote)
    {
        Id = id;
        _capacity = capacity;
        LocalEndPoint = local;
        RemoteEndPoint = remote;
    }

    internal int Id { get; }

    internal MemorySocket Other { get; private set; } = null!;

    internal EndPoint? LocalEndPoint { get; }

    internal EndPoint? RemoteEndPoint { get; }

    internal int Available => _count;

    internal int Room => _capacity - _count;

    /// <summary>Whether the other end has sent FIN.</summary>
    internal bool HasFinish { get; private set; }

    /// <summary>Whether the connection was reset, by either side.</summary>
    internal bool IsReset { get; private set; }

    internal bool IsClosed { get; private set; }

    internal bool HasFinishedSending { get; private set; }

    /// <summary>Whether a read would return bytes, the end, or an error.</summary>
    internal bool IsReadable => _count > 0 || HasFinish || IsReset;

    /// <summary>Whether a write would accept bytes or fail.</summary>
    internal bool IsWritable => Other.Room > 0 || IsReset || Other.IsClosed;

    internal static (MemorySocket Connecting, MemorySocket Accepted) Pair(int id, int capacity, EndPoint? connecting,
        EndPoint listening)
    {
        MemorySocket a = new(id, capacity, connecting, listening);
        MemorySocket b = new(id + 1, capacity, listening, connecting);
        a.Other = b;
        b.Other = a;
        return (a, b);
    }

    /// <summary>Writes bytes. Returns the number accepted, or -1 if the connection is broken.</summary>
    internal int Write(ReadOnlySpan<byte> data)
    {
        if (IsReset) return -1;
        if (Other.IsClosed)
        {
            // The other end is closed: as in TCP, the answer is a reset.
            IsReset = true;
            return -1;
        }

        int count = Math.Min(data.Length, Other.Room);
        Other.Append(data[..count]);
        return count;
    }

    private void Append(ReadOnlySpan<byte> data)
    {
        if (_start + _count + data.Length > _inbound.Length)
        {
            byte[] target = _count + data.Length <= _inbound.Length
                ? _inbound
                : new byte[Math.Max(1024, Math.Max(_inbound.Length * 2, _count + data.Length))];
            _inbound.AsSpan(_start, _count).CopyTo(target);
            _inbound = target;
            _start = 0;
        }

        data.CopyTo(_inbound.AsSpan(_start + _count));
        _count += data.Length;
    }

    internal int Read(Span<byte> target)
    {
        int count = Math.Min(target.Length, _count);
        _inbound.AsSpan(_start, count).CopyTo(target);
        _start += count;
        _count -= count;
        return count;
    }

    internal void ShutdownSend()
    {
        if (HasFinishedSending) return;
        HasFinishedSending = true;
        if (!Other.IsClosed) Other.HasFinish = true;
    }

    /// <summary>Resets the connection for both ends. Arrived bytes stay readable, as on Linux.</summary>
    internal void Reset()
    {
        if (!IsClosed) IsReset = true;
        if (!Other.IsClosed) Other.IsReset = true;
    }

    /// <summary>Closes this end. With unread bytes the connection is reset, as in TCP.</summary>
    internal void Close(bool reset)
    {
        if (IsClosed) return;
        bool abortive = reset || _count > 0;
        if (abortive && !IsReset) Reset();
        else ShutdownSend();
        IsClosed = true;
        _inbound = [];
        _count = 0;
    }

    internal PeerAddress RemoteAddress => PeerAddress.Of(RemoteEndPoint);
}
