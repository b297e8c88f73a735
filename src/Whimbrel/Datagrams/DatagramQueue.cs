using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>
/// One queued datagram, or a run: contiguous datagrams of one size to one peer, the last one possibly shorter. Its
/// bytes do not move while it is queued, except at the end of a loan.
/// </summary>
internal unsafe struct QueuedDatagram
{
    internal byte* Data;

    /// <summary>Stored length of the first datagram, and its full length.</summary>
    internal int Length;
    internal int FullLength;

    /// <summary>Number of datagrams, and their total length.</summary>
    internal int Count;
    internal int TotalBytes;
    internal DatagramPeer Peer;
    internal DatagramChunk Chunk;
}

/// <summary>
/// Whole datagrams in order, in native chunks that are filled one after the other, so that datagrams queued together
/// are contiguous (a segmented send of a run uses one stretch of memory). Allocates nothing once it has reached its
/// maximum size. Its owner synchronizes it and checks the limits. While memory is lent to it (<see cref="Lend"/>),
/// datagrams inside that memory are queued in place.
/// </summary>
// Safe: a chunk is freed only when it has no entries left, and entries are removed only when the kernel has accepted
// their bytes. Lent memory is kept by its owner until EndLoan.
internal sealed unsafe class DatagramQueue
{
    internal const int ChunkBytes = 128 * 1024;

    /// <summary>Maximum length of a datagram, as IPv4 can carry it.</summary>
    internal const int MaxDatagramBytes = 65_507;

    private QueuedDatagram[] _entries = [];
    private int _head;
    private DatagramChunk? _first;
    private DatagramChunk? _last;
    private DatagramChunk? _spare;

    // Stands for lent memory; counts the entries there.
    private readonly DatagramChunk _loan = new(0);
    private byte* _lent;
    private nuint _lentBytes;

    /// <summary>
    /// True if runs are kept as one entry, for an engine that sends runs; otherwise each datagram is an entry.
    /// </summary>
    internal bool KeepsRuns { get; set; }

    /// <summary>Number of datagrams.</summary>
    internal int Count { get; private set; }

    internal int EntryCount { get; private set; }

    internal long Bytes { get; private set; }

    /// <summary>Returns an entry; 0 is the oldest.</summary>
    internal ref QueuedDatagram this[int index] => ref _entries[(_head + index) & (_entries.Length - 1)];

    internal void Append(ReadOnlySpan<byte> data, int fullLength, in DatagramPeer peer) =>
        Add(data, 1, data.Length, fullLength, in peer);

    private void Add(ReadOnlySpan<byte> data, int count, int length, int fullLength, in DatagramPeer peer)
    {
        // A managed object is never inside native memory, wherever it is moved.
        byte* source = (byte*)Unsafe.AsPointer(ref MemoryMarshal.GetReference(data));
        bool isLent = (nuint)(source - _lent) < _lentBytes && !data.IsEmpty;
        DatagramChunk chunk = isLent ? _loan : ChunkFor(data.Length);
        if (EntryCount == _entries.Length) Grow();
        ref QueuedDatagram entry = ref _entries[(_head + EntryCount) & (_entries.Length - 1)];
        entry.Data = isLent ? source : Copy(data, chunk);
        entry.Length = length;
        entry.FullLength = fullLength;
        entry.Count = count;
        entry.TotalBytes = data.Length;
        entry.Peer = peer;
        entry.Chunk = chunk;
        chunk.Live++;
        EntryCount++;
        Count += count;
        Bytes += data.Length;
    }

    /// <summary>Appends datagrams of one size, the last one possibly shorter. Not empty.</summary>
    internal void AppendRun(ReadOnlySpan<byte> run, int size, in DatagramPeer peer)
    {
        // As many as one segmented message can contain, in one stretch of memory.
        int most = KeepsRuns ? size * Math.Clamp(MaxDatagramBytes / size, 1, DatagramAbi.MaxSegments) : size;
        for (int start = 0; start < run.Length; start += most)
        {
            ReadOnlySpan<byte> part = run.Slice(start, Math.Min(most, run.Length - start));
            int first = Math.Min(size, part.Length);
            Add(part, ((part.Length - 1) / size) + 1, first, first, in peer);
        }
    }

    private static byte* Copy(ReadOnlySpan<byte> data, DatagramChunk chunk)
    {
        byte* target = chunk.Memory + chunk.Used;
        data.CopyTo(new Span<byte>(target, data.Length));
        chunk.Used += data.Length;
        return target;
    }

    /// <summary>
    /// Lends memory: data inside it is not copied from now on, but must stay there, unchanged, until
    /// <see cref="EndLoan"/>. With 0 bytes, ends that for further data.
    /// </summary>
    internal void Lend(byte* memory, int bytes)
    {
        _lent = memory;
        _lentBytes = (nuint)bytes;
    }

    /// <summary>Ends all loans: data that is still queued is copied.</summary>
    internal void EndLoan()
    {
        for (int i = 0; _loan.Live > 0; i++)
        {
            ref QueuedDatagram entry = ref this[i];
            if (!ReferenceEquals(entry.Chunk, _loan)) continue;
            DatagramChunk chunk = ChunkFor(entry.TotalBytes);
            entry.Data = Copy(new ReadOnlySpan<byte>(entry.Data, entry.TotalBytes), chunk);
            entry.Chunk = chunk;
            chunk.Live++;
            _loan.Live--;
        }
    }

    /// <summary>Removes the oldest datagrams.</summary>
    internal void Remove(int count)
    {
        Count -= count;
        while (count > 0)
        {
            ref QueuedDatagram entry = ref _entries[_head];
            if (count < entry.Count)
            {
                int bytes = count * entry.Length;
                Bytes -= bytes;
                entry.Data += bytes;
                entry.TotalBytes -= bytes;
                entry.Count -= count;
                entry.Length = entry.FullLength = Math.Min(entry.Length, entry.TotalBytes);
                break;
            }

            count -= entry.Count;
            Bytes -= entry.TotalBytes;
            entry.Chunk.Live--;
            entry.Chunk = null!;
            entry.Peer = default;
            _head = (_head + 1) & (_entries.Length - 1);
            EntryCount--;
        }

        Reclaim();
    }

    /// <summary>
    /// Removes the oldest datagram after the first <paramref name="kept"/>, which must stay. Used only where no runs
    /// are kept.
    /// </summary>
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
        _loan.Live = 0;
        _spare?.Free();
        _spare = null;
        _entries = [];
        _head = 0;
        Count = 0;
        EntryCount = 0;
        Bytes = 0;
    }

    private void Reclaim()
    {
        while (_first is { Live: 0 } chunk)
        {
            chunk.Used = 0;
            // The last chunk is refilled from its beginning, because it is in the cache.
            if (ReferenceEquals(chunk, _last)) return;
            _first = chunk.Next;
            chunk.Next = null;
            if (_spare is null) _spare = chunk;
            else chunk.Free();
        }
    }

    private DatagramChunk ChunkFor(int length) =>
        _last is { } chunk && chunk.Capacity - chunk.Used >= length ? chunk : AddChunk(length);

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
        for (int i = 0; i < EntryCount; i++) larger[i] = this[i];
        _entries = larger;
        _head = 0;
    }
}
