namespace Whimbrel.Datagrams;

/// <summary>One queued datagram. Its bytes do not move while it is queued.</summary>
internal unsafe struct QueuedDatagram
{
    internal byte* Data;

    /// <summary>Bytes that are here, and bytes that the datagram had.</summary>
    internal int Length;
    internal int FullLength;
    internal DatagramPeer Peer;
    internal DatagramChunk Chunk;
}

/// <summary>
/// Whole datagrams in order, in native chunks that are filled one after the other, so that datagrams which were queued together lie
/// together (one segmented send of a run is one stretch of memory). Never moves bytes; allocates nothing once it is as large as it
/// gets. Its owner guards it and knows the limits.
/// </summary>
// Safe: a chunk is given up only when no entry of it is left, and entries are removed only when the system has taken their bytes.
internal sealed unsafe class DatagramQueue
{
    internal const int ChunkBytes = 128 * 1024;

    private QueuedDatagram[] _entries = [];
    private int _head;
    private DatagramChunk? _first;
    private DatagramChunk? _last;
    private DatagramChunk? _spare;

    internal int Count { get; private set; }

    internal long Bytes { get; private set; }

    internal ref QueuedDatagram this[int index] => ref _entries[(_head + index) & (_entries.Length - 1)];

    internal void Append(ReadOnlySpan<byte> data, int fullLength, in DatagramPeer peer)
    {
        DatagramChunk? chunk = _last;
        if (chunk is null || chunk.Capacity - chunk.Used < data.Length) chunk = AddChunk(data.Length);
        if (Count == _entries.Length) Grow();
        byte* target = chunk.Memory + chunk.Used;
        data.CopyTo(new Span<byte>(target, data.Length));
        chunk.Used += data.Length;
        chunk.Live++;
        ref QueuedDatagram entry = ref _entries[(_head + Count) & (_entries.Length - 1)];
        entry.Data = target;
        entry.Length = data.Length;
        entry.FullLength = fullLength;
        entry.Peer = peer;
        entry.Chunk = chunk;
        Count++;
        Bytes += data.Length;
    }

    /// <summary>The oldest ones are done with.</summary>
    internal void Remove(int count)
    {
        for (int i = 0; i < count; i++)
        {
            ref QueuedDatagram entry = ref _entries[_head];
            Bytes -= entry.Length;
            entry.Chunk.Live--;
            entry.Chunk = null!;
            entry.Peer = default;
            _head = (_head + 1) & (_entries.Length - 1);
        }

        Count -= count;
        Reclaim();
    }

    /// <summary>Removes the oldest one behind <paramref name="kept"/> that must stay.</summary>
    internal void RemoveBehind(int kept)
    {
        for (int i = kept; i > 0; i--) (this[i], this[i - 1]) = (this[i - 1], this[i]);
        Remove(1);
    }

    internal void Free()
    {
        while (_first is { } chunk)
        {
            _first = chunk.Next;
            chunk.Free();
        }

        _last = null;
        _spare?.Free();
        _spare = null;
        _entries = [];
        _head = 0;
        Count = 0;
        Bytes = 0;
    }

    private void Reclaim()
    {
        while (_first is { Live: 0 } chunk)
        {
            chunk.Used = 0;
            // The last one is filled from its beginning again: it is the one in the cache.
            if (ReferenceEquals(chunk, _last)) return;
            _first = chunk.Next;
            chunk.Next = null;
            if (_spare is null) _spare = chunk;
            else chunk.Free();
        }
    }

    private DatagramChunk AddChunk(int length)
    {
        DatagramChunk chunk;
        if (_spare is { } spare && spare.Capacity >= length)
        {
            chunk = spare;
            _spare = null;
        }
        else
        {
            chunk = new DatagramChunk(Math.Max(ChunkBytes, length));
        }

        if (_last is null) _first = chunk;
        else _last.Next = chunk;
        _last = chunk;
        return chunk;
    }

    private void Grow()
    {
        QueuedDatagram[] larger = new QueuedDatagram[Math.Max(64, _entries.Length * 2)];
        for (int i = 0; i < Count; i++) larger[i] = this[i];
        _entries = larger;
        _head = 0;
    }
}
