using System.Collections.Concurrent;

namespace NetCoreServer;

/// <summary>
/// Cache of values by key: added values, and the files of folders, whose changes it tracks. Any thread may use it.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>An array from <see cref="Find"/> is never changed by the cache, and has exactly the bytes of its value.</item>
/// <item>A value is not found after its timeout. A file is read again on request instead.</item>
/// <item>A file's key is its prefix and its path below the folder, with single slashes. Links that lead outside the
/// folder are skipped.</item>
/// <item>Folders are watched with file system events. Changed, created and deleted files are noticed shortly
/// afterwards.</item>
/// <item>The cache holds up to <see cref="MostBytes"/> bytes of values; values that do not fit are rejected.</item>
/// </list>
/// Folders and their files are in <see cref="CachedFolder"/>.
/// </remarks>
public class FileCache : IDisposable
{
    internal const long MostBytes = 1L << 30;

    private readonly ConcurrentDictionary<string, Entry> _entries = new(StringComparer.Ordinal);
    private readonly Dictionary<string, CachedFolder> _folders = new(StringComparer.Ordinal);
    private readonly Lock _gate = new();
    private long _bytes;
    private bool _isDisposed;

    /// <summary>Adds a file to the cache, or rejects it. Called for each file of a folder.</summary>
    /// <param name="cache">Cache to add it to.</param>
    /// <param name="key">Key of the file.</param>
    /// <param name="value">Contents of the file.</param>
    /// <param name="timeout">Timeout of the folder.</param>
    /// <returns>True if the file was added.</returns>
    public delegate bool InsertHandler(FileCache cache, string key, byte[] value, TimeSpan timeout);

    /// <summary>Creates an empty cache.</summary>
    public FileCache()
    {
    }

    /// <summary>True if the cache is empty.</summary>
    public bool Empty => _entries.IsEmpty;

    /// <summary>Number of values.</summary>
    public int Size => _entries.Count;

    /// <summary>Adds a value, or replaces the one with its key.</summary>
    /// <param name="key">Key of the value.</param>
    /// <param name="value">Value. It must not be changed afterwards.</param>
    /// <param name="timeout">Time after which the value is not found. Zero (default): no timeout.</param>
    /// <returns>False if there is no room for it, or the cache is disposed.</returns>
    public bool Add(string key, byte[] value, TimeSpan timeout = default)
    {
        ArgumentNullException.ThrowIfNull(key);
        ArgumentNullException.ThrowIfNull(value);
        lock (_gate)
        {
            long before = _entries.TryGetValue(key, out Entry old) ? old.Value.Length : 0;
            if (_isDisposed || _bytes - before + value.Length > MostBytes) return false;
            _bytes += value.Length - before;
            _entries[key] = new Entry(value, timeout <= TimeSpan.Zero ? long.MaxValue : Environment.TickCount64
                + (long)Math.Min(timeout.TotalMilliseconds, int.MaxValue), CachedFolder.LoadingInto(this));
            return true;
        }
    }

    /// <summary>Finds a value.</summary>
    /// <param name="key">Key of the value.</param>
    /// <returns>True and the value, or false.</returns>
    public (bool, byte[]) Find(string key)
    {
        ArgumentNullException.ThrowIfNull(key);
        if (!_entries.TryGetValue(key, out Entry entry)) return default;
        if (entry.EndsMs > Environment.TickCount64) return (true, entry.Value);
        lock (_gate)
        {
            // Another thread may have been faster.
            if (_entries.TryGetValue(key, out entry) && entry.EndsMs <= Environment.TickCount64) Remove(key);
        }

        if (entry.Folder?.Load(key) is not true || !_entries.TryGetValue(key, out entry)) return default;
        return (true, entry.Value);
    }

    /// <summary>Removes a value.</summary>
    /// <param name="key">Key of the value.</param>
    /// <returns>True if it existed.</returns>
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

    /// <summary>Adds the files of a folder and its subfolders, and watches them.</summary>
    /// <param name="path">Path of the folder.</param>
    /// <param name="prefix">Prefix of the keys, before the path of each file.</param>
    /// <param name="filter">Pattern of file names, with <c>*</c> and <c>?</c>. The default matches all.</param>
    /// <param name="timeout">Time after which a file is read again. Zero (default): only when it changes.</param>
    /// <param name="handler">Adds each file. The default adds it unchanged.</param>
    /// <returns>False if the folder cannot be read, or the cache is disposed.</returns>
    /// <exception cref="ArgumentException">The folder does not exist.</exception>
    public bool InsertPath(string path, string prefix = "/", string filter = "*.*", TimeSpan timeout = default,
        InsertHandler? handler = null)
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

    /// <summary>Checks whether a folder is watched.</summary>
    /// <param name="path">Path, as passed to <see cref="InsertPath"/>.</param>
    public bool FindPath(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        lock (_gate) return _folders.ContainsKey(CachedFolder.Normal(path));
    }

    /// <summary>Stops watching a folder, and removes its files.</summary>
    /// <param name="path">Path, as passed to <see cref="InsertPath"/>.</param>
    /// <returns>True if it was watched.</returns>
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

    /// <summary>Removes all values, and stops watching all folders.</summary>
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

    /// <summary>Clears the cache permanently.</summary>
    public void Dispose()
    {
        Dispose(disposingManagedResources: true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Clears the cache permanently.</summary>
    /// <param name="disposingManagedResources">True, except from a finalizer of a derived class.</param>
    protected virtual void Dispose(bool disposingManagedResources)
    {
        if (!disposingManagedResources) return;
        lock (_gate) _isDisposed = true;
        Clear();
    }

    private static bool AddAsItIs(FileCache cache, string key, byte[] value, TimeSpan timeout) =>
        cache.Add(key, value, timeout);

    /// <param name="Value">Bytes of the value.</param>
    /// <param name="EndsMs">Time at which it expires.</param>
    /// <param name="Folder">Folder that loaded it, and can load it again.</param>
    private readonly record struct Entry(byte[] Value, long EndsMs, CachedFolder? Folder);
}
