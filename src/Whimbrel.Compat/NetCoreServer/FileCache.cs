using System.Collections.Concurrent;

namespace NetCoreServer;

/// <summary>
/// Values by their key in memory: what was added, and the files of folders, which it follows. Any thread.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>What <see cref="Find"/> gives is never changed afterwards, and has exactly the bytes of its value.</item>
/// <item>A value with a timeout is not found after it; a file's is read anew instead, when it is asked for.</item>
/// <item>A file's key is its prefix and its path below the folder, with slashes, each once. What a link leads to outside of the folder is not taken in.</item>
/// <item>A folder is followed by the system's events. A file that was changed, made or taken away in it is seen shortly after.</item>
/// <item>It keeps up to <see cref="MostBytes"/> bytes of values; what does not fit is not taken in.</item>
/// </list>
/// Folders and their files are <see cref="CachedFolder"/>.
/// </remarks>
public class FileCache : IDisposable
{
    internal const long MostBytes = 1L << 30;

    private readonly ConcurrentDictionary<string, Entry> _entries = new(StringComparer.Ordinal);
    private readonly Dictionary<string, CachedFolder> _folders = new(StringComparer.Ordinal);
    private readonly Lock _gate = new();
    private long _bytes;
    private bool _isDisposed;

    /// <summary>Takes a file in, or refuses it. Called for each file of a folder, with its key.</summary>
    /// <param name="cache">Where to add it.</param>
    /// <param name="key">The key of the file.</param>
    /// <param name="value">Its bytes.</param>
    /// <param name="timeout">That of the folder.</param>
    /// <returns>Whether it was taken in.</returns>
    public delegate bool InsertHandler(FileCache cache, string key, byte[] value, TimeSpan timeout);

    /// <summary>Makes an empty one.</summary>
    public FileCache()
    {
    }

    /// <summary>Whether nothing is in it.</summary>
    public bool Empty => _entries.IsEmpty;

    /// <summary>How many values are in it.</summary>
    public int Size => _entries.Count;

    /// <summary>Adds a value, or replaces the one with its key.</summary>
    /// <param name="key">The key.</param>
    /// <param name="value">Not to be changed any more.</param>
    /// <param name="timeout">After it the value is not found. Zero, the default, for none.</param>
    /// <returns>False: there is no room for it.</returns>
    public bool Add(string key, byte[] value, TimeSpan timeout = default)
    {
        ArgumentNullException.ThrowIfNull(key);
        ArgumentNullException.ThrowIfNull(value);
        lock (_gate)
        {
            long before = _entries.TryGetValue(key, out Entry old) ? old.Value.Length : 0;
            if (_isDisposed || _bytes - before + value.Length > MostBytes) return false;
            _bytes += value.Length - before;
            _entries[key] = new Entry(value, timeout <= TimeSpan.Zero ? long.MaxValue : Environment.TickCount64 + (long)Math.Min(timeout.TotalMilliseconds, int.MaxValue), CachedFolder.LoadingInto(this));
            return true;
        }
    }

    /// <summary>Finds a value.</summary>
    /// <param name="key">Its key.</param>
    /// <returns>True and the value, or false.</returns>
    public (bool, byte[]) Find(string key)
    {
        ArgumentNullException.ThrowIfNull(key);
        if (!_entries.TryGetValue(key, out Entry entry)) return default;
        if (entry.EndsMs > Environment.TickCount64) return (true, entry.Value);
        lock (_gate)
        {
            // Another may have been faster.
            if (_entries.TryGetValue(key, out entry) && entry.EndsMs <= Environment.TickCount64) Remove(key);
        }

        if (entry.Folder?.Load(key) is not true || !_entries.TryGetValue(key, out entry)) return default;
        return (true, entry.Value);
    }

    /// <summary>Takes a value out.</summary>
    /// <param name="key">Its key.</param>
    /// <returns>Whether it was there.</returns>
    public bool Remove(string key)
    {
        ArgumentNullException.ThrowIfNull(key);
        lock (_gate)
        {
            if (!_entries.TryRemove(key, out Entry entry)) return false;
            _bytes -= entry.Value.Length;
            return true;
        }
    }

    /// <summary>Takes in the files of a folder, and of those in it, and follows them.</summary>
    /// <param name="path">The folder.</param>
    /// <param name="prefix">Before the path of each file in its key.</param>
    /// <param name="filter">Names of the files, with <c>*</c> and <c>?</c>. The default takes all.</param>
    /// <param name="timeout">How long a file is believed before it is read again. Zero, the default: until it is changed.</param>
    /// <param name="handler">Takes each file in; the default adds it as it is.</param>
    /// <returns>False: it cannot be read.</returns>
    /// <exception cref="ArgumentException">There is no such folder.</exception>
    public bool InsertPath(string path, string prefix = "/", string filter = "*.*", TimeSpan timeout = default, InsertHandler? handler = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        ArgumentNullException.ThrowIfNull(prefix);
        ArgumentException.ThrowIfNullOrEmpty(filter);
        if (!Directory.Exists(path)) throw new ArgumentException($"The folder {path} does not exist.", nameof(path));
        CachedFolder folder = new(this, Path.GetFullPath(path), prefix, filter, timeout, handler ?? AddAsItIs);
        CachedFolder? before;
        lock (_gate)
        {
            if (_isDisposed) return false;
            _folders.Remove(folder.Root, out before);
            _folders.Add(folder.Root, folder);
        }

        before?.Dispose();
        if (folder.Open()) return true;
        RemovePath(path);
        return false;
    }

    /// <summary>Whether a folder is followed.</summary>
    /// <param name="path">The folder, as it was given to <see cref="InsertPath"/>.</param>
    public bool FindPath(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        lock (_gate) return _folders.ContainsKey(CachedFolder.Normal(path));
    }

    /// <summary>Follows a folder no more, and takes its files out.</summary>
    /// <param name="path">The folder, as it was given to <see cref="InsertPath"/>.</param>
    /// <returns>Whether it was followed.</returns>
    public bool RemovePath(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        CachedFolder? folder;
        lock (_gate)
        {
            if (!_folders.Remove(CachedFolder.Normal(path), out folder)) return false;
        }

        folder.Dispose();
        return true;
    }

    /// <summary>Takes everything out, and follows no folder any more.</summary>
    public void Clear()
    {
        CachedFolder[] folders;
        lock (_gate)
        {
            folders = [.. _folders.Values];
            _folders.Clear();
            _entries.Clear();
            _bytes = 0;
        }

        foreach (CachedFolder folder in folders) folder.Dispose();
    }

    /// <summary>Clears it for good.</summary>
    public void Dispose()
    {
        Dispose(disposingManagedResources: true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Clears it for good.</summary>
    /// <param name="disposingManagedResources">True, unless a finalizer of a derived class calls.</param>
    protected virtual void Dispose(bool disposingManagedResources)
    {
        if (!disposingManagedResources) return;
        lock (_gate) _isDisposed = true;
        Clear();
    }

    private static bool AddAsItIs(FileCache cache, string key, byte[] value, TimeSpan timeout) => cache.Add(key, value, timeout);

    /// <param name="Value">The bytes.</param>
    /// <param name="EndsMs">When it is no longer believed.</param>
    /// <param name="Folder">What has loaded it, and can again.</param>
    private readonly record struct Entry(byte[] Value, long EndsMs, CachedFolder? Folder);
}
