using System.IO.Enumeration;

namespace NetCoreServer;

/// <summary>
/// A folder whose files are in a <see cref="FileCache"/>, each under its key. It loads them, and reloads them after
/// file system events. The user's handler runs under the folder's lock, and may use the cache.
/// </summary>
internal sealed class CachedFolder(FileCache cache, string root, string prefix, string filter, TimeSpan timeout,
    FileCache.InsertHandler handler) : IDisposable
{
    private const int EventBytes = 64 * 1024;

    private static readonly EnumerationOptions s_everything =
        new() { RecurseSubdirectories = true, IgnoreInaccessible = true, AttributesToSkip = 0 };

    [ThreadStatic]
    private static CachedFolder? t_loading;

    // Held while a file is read and its value is stored, so that the last change wins. Reentrant, because a handler may
    // call Find.
    private readonly Lock _reading = new();
    private readonly HashSet<string> _keys = new(StringComparer.Ordinal);
    private FileSystemWatcher? _watcher;
    private string _realRoot = root;
    private bool _isOver;

    /// <summary>Returns the folder that is loading a file into this cache on this thread, or null.</summary>
    internal static CachedFolder? LoadingInto(FileCache target) =>
        t_loading is { } folder && folder.Cache == target ? folder : null;

    private FileCache Cache => cache;

    internal string Root { get; } = Normal(root);

    internal static string Normal(string path) => Path.TrimEndingDirectorySeparator(Path.GetFullPath(path));

    /// <summary>Loads all files. Changes are tracked from before that.</summary>
    internal bool Open()
    {
        try
        {
            if (!Directory.Exists(Root)) return false;
            _realRoot = Normal(RealPath(Root));
            _watcher = new FileSystemWatcher(Root)
            {
                IncludeSubdirectories = true,
                InternalBufferSize = EventBytes,
                NotifyFilter = NotifyFilters.FileName | NotifyFilters.DirectoryName | NotifyFilters.LastWrite
                    | NotifyFilters.Size
            };
            _watcher.Created += (_, e) => Happened(e.FullPath);
            _watcher.Changed += (_, e) => Happened(e.FullPath);
            _watcher.Deleted += (_, e) => Happened(e.FullPath);
            _watcher.Renamed += (_, e) =>
            {
                Happened(e.OldFullPath);
                Happened(e.FullPath);
            };
            // Events were lost, so everything is loaded again.
            _watcher.Error += (_, _) => Reload();
            _watcher.EnableRaisingEvents = true;
            LoadBelow(Root);
            return true;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or ArgumentException)
        {
            return false;
        }
    }

    public void Dispose()
    {
        _watcher?.Dispose();
        lock (_reading)
        {
            _isOver = true;
            foreach (string key in _keys) cache.Remove(key);
            _keys.Clear();
        }
    }

    /// <summary>Loads the file of a key. False if it does not exist or was rejected.</summary>
    internal bool Load(string key)
    {
        string folder = KeyPrefix;
        return key.StartsWith(folder, StringComparison.Ordinal)
            && LoadFile(Path.Combine(Root, key[folder.Length..].Replace('/', Path.DirectorySeparatorChar)));
    }

    private string KeyPrefix => prefix.EndsWith('/') ? prefix : prefix + "/";

    private string KeyOf(string path) =>
        KeyPrefix + Path.GetRelativePath(Root, path).Replace(Path.DirectorySeparatorChar, '/');

    private void Happened(string path)
    {
        try
        {
            if (Directory.Exists(path)) LoadBelow(path);
            else if (!LoadFile(path)) DropBelow(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // It was deleted between two checks, and its own event follows.
        }
    }

    private void Reload()
    {
        string[] keys;
        lock (_reading) keys = [.. _keys];
        foreach (string key in keys) Load(key);
        Happened(Root);
    }

    private void LoadBelow(string folder)
    {
        foreach (string path in Directory.EnumerateFiles(folder, "*", s_everything)) LoadFile(path);
    }

    // Deleting a folder also deletes its files, for which there is no event.
    private void DropBelow(string path)
    {
        string below = KeyOf(path) + "/";
        lock (_reading)
        {
            foreach (string key in _keys.Where(k => k.StartsWith(below, StringComparison.Ordinal)).ToArray()) Drop(key);
        }
    }

    private bool LoadFile(string path)
    {
        string key = KeyOf(path);
        lock (_reading)
        {
            if (_isOver) return false;
            if (!IsWanted(path) || ReadAll(path) is not { } value)
            {
                Drop(key);
                return false;
            }

            CachedFolder? outer = t_loading;
            t_loading = this;
            try
            {
                _keys.Add(key);
                if (handler(cache, key, value, timeout)) return true;
                Drop(key);
                return false;
            }
            finally
            {
                t_loading = outer;
            }
        }
    }

    private void Drop(string key)
    {
        if (_keys.Remove(key)) cache.Remove(key);
    }

    private bool IsWanted(string path)
    {
        if (filter is not "*.*"
            && !FileSystemName.MatchesSimpleExpression(filter, Path.GetFileName(path.AsSpan()), ignoreCase: false))
            return false;
        if (!File.Exists(path)) return false;
        string real = RealPath(path);
        return real.StartsWith(_realRoot + Path.DirectorySeparatorChar, StringComparison.Ordinal)
            || _realRoot == Path.GetPathRoot(real);
    }

    private static byte[]? ReadAll(string path)
    {
        try
        {
            // A pipe has no length, and opening it would block.
            long length = new FileInfo(path).Length;
            return length > FileCache.MostBytes ? null : length == 0 ? [] : File.ReadAllBytes(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>Resolves all links of a path.</summary>
    private static string RealPath(string path)
    {
        string root = Path.GetPathRoot(path)!, real = root;
        foreach (string part in path[root.Length..].Split(Path.DirectorySeparatorChar,
            StringSplitOptions.RemoveEmptyEntries))
        {
            real = Path.Combine(real, part);
            if (File.ResolveLinkTarget(real, returnFinalTarget: true) is { } target) real = RealPath(target.FullName);
        }

        return real;
    }
}
