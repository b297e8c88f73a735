using System.Collections.Concurrent;

namespace Whimbrel.Http.Files;

/// <summary>
/// Cache of a site's files, shared by all loops: read without a lock, and changed under one after disk access. Bounded
/// by bytes and count. The CLOCK algorithm evicts entries without an access since its last sweep. Open files without an
/// access are closed after a while, so that deleted files release their disk space.
/// </summary>
internal sealed class FileCache : IDisposable
{
    private const int SweepMs = 15_000;

    private readonly long _limitBytes;
    private readonly int _limitFiles;
    private readonly ConcurrentDictionary<byte[], FileEntry> _entries = new(Names);
    private readonly ConcurrentDictionary<byte[], FileEntry>.AlternateLookup<ReadOnlySpan<byte>> _bySpan;
    private readonly Queue<FileEntry> _clock = new();
    private readonly Lock _gate = new();
    private readonly Timer _sweep;
    private readonly int _sweepMs;
    private long _bytes;
    private int _count;
    private bool _isSweeping;
    private bool _isClosed;

    internal FileCache(HttpFileOptions options, int sweepMs = SweepMs)
    {
        _sweepMs = sweepMs;
        _limitBytes = options.CacheLimitBytes;
        _limitFiles = options.CacheLimitFiles;
        _bySpan = _entries.GetAlternateLookup<ReadOnlySpan<byte>>();
        _sweep = new Timer(static cache => ((FileCache)cache!).Sweep(), this, Timeout.Infinite, Timeout.Infinite);
    }

    /// <summary>Comparer of names by their bytes.</summary>
    internal static IEqualityComparer<byte[]> Names { get; } = new BytesComparer();

    internal int Count
    {
        get
        {
            lock (_gate) return _count;
        }
    }

    internal long Bytes
    {
        get
        {
            lock (_gate) return _bytes;
        }
    }

    internal bool TryGet(ReadOnlySpan<byte> name,
        [System.Diagnostics.CodeAnalysis.NotNullWhen(true)] out FileEntry? entry)
    {
        if (!_bySpan.TryGetValue(name, out entry)) return false;
        if (!entry.WasUsed) entry.WasUsed = true; // no write to the shared cache line if it is set
        return true;
    }

    /// <summary>Adds an entry, replaces the one with its name, and evicts others until there is room. The newest
    /// stays.</summary>
    internal void Put(FileEntry entry)
    {
        lock (_gate)
        {
            if (_entries.TryGetValue(entry.Name, out FileEntry? old)) Remove(old);
            if (_isClosed)
            {
                entry.Drop();
                return;
            }

            entry.IsKept = true;
            _entries[entry.Name] = entry;
            _clock.Enqueue(entry);
            _bytes += entry.Bytes;
            _count++;
            MakeRoom(entry);
            if (entry.HasOpenFile && !_isSweeping)
            {
                _isSweeping = true;
                _sweep.Change(_sweepMs, Timeout.Infinite);
            }
        }
    }

    /// <summary>Removes the entry of a file that does not exist any more.</summary>
    internal void Forget(ReadOnlySpan<byte> name)
    {
        lock (_gate)
        {
            if (_bySpan.TryGetValue(name, out FileEntry? entry)) Remove(entry);
        }
    }

    internal void Open()
    {
        lock (_gate) _isClosed = false;
    }

    /// <summary>Removes all entries, and accepts none until the cache is opened again.</summary>
    internal void Clear()
    {
        lock (_gate)
        {
            _isClosed = true;
            foreach (FileEntry entry in _entries.Values) Remove(entry);
            _clock.Clear();
        }
    }

    public void Dispose()
    {
        Clear();
        _sweep.Dispose();
    }

    private void MakeRoom(FileEntry newest)
    {
        while ((_bytes > _limitBytes || _count > _limitFiles) && _count > 1 && _clock.TryDequeue(out FileEntry? entry))
        {
            if (!entry.IsKept) continue;
            if (entry == newest || entry.WasUsed)
            {
                entry.WasUsed = false;
                _clock.Enqueue(entry);
                continue;
            }

            Remove(entry);
        }

        // Replaced names leave their old entries in the queue.
        if (_clock.Count <= 2 * _count + 16) return;
        for (int left = _clock.Count; left > 0; left--)
        {
            if (_clock.Dequeue() is { IsKept: true } kept) _clock.Enqueue(kept);
        }
    }

    private void Remove(FileEntry entry)
    {
        if (!entry.IsKept) return;
        entry.IsKept = false;
        _entries.TryRemove(entry.Name, out _);
        _bytes -= entry.Bytes;
        _count--;
        entry.Drop();
    }

    private void Sweep()
    {
        lock (_gate)
        {
            _isSweeping = false;
            foreach (FileEntry entry in _entries.Values)
            {
                if (!entry.HasOpenFile) continue;
                if (!entry.WasUsed)
                {
                    Remove(entry);
                    continue;
                }

                entry.WasUsed = false;
                _isSweeping = true;
            }

            if (_isSweeping && !_isClosed) _sweep.Change(_sweepMs, Timeout.Infinite);
        }
    }

    private sealed class BytesComparer
        : IEqualityComparer<byte[]>, IAlternateEqualityComparer<ReadOnlySpan<byte>, byte[]>
    {
        public bool Equals(byte[]? x, byte[]? y) => x.AsSpan().SequenceEqual(y);

        public int GetHashCode(byte[] name) => GetHashCode(name.AsSpan());

        public byte[] Create(ReadOnlySpan<byte> name) => name.ToArray();

        public bool Equals(ReadOnlySpan<byte> name, byte[] other) => name.SequenceEqual(other);

        public int GetHashCode(ReadOnlySpan<byte> name)
        {
            HashCode hash = default;
            hash.AddBytes(name);
            return hash.ToHashCode();
        }
    }
}
