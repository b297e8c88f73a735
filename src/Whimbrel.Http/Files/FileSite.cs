using System.Buffers;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Compression;
using Whimbrel.Http.Linux;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Files;

/// <summary>
/// Folder that is served. Fresh cached files are sent on the session's thread, without a wait or an allocation.
/// Otherwise the thread pool reads the disk, so that a slow disk blocks no loop. Concurrent requests for the same name
/// share one disk check.
/// </summary>
/// <remarks><see cref="FileRoot"/> resolves names, <see cref="FileCache"/> caches files, <c>ServerAnswer.Files.cs</c>
/// responds.</remarks>
internal sealed class FileSite : IDisposable
{
    private const int NameOnStack = 512;
    private const int MostTries = 16;
    private const int MostReads = 3;

    private readonly HttpFileOptions _options;
    private readonly HttpCompression? _compression;
    private readonly FileRoot _root;
    private readonly ContentTypes _types;
    private readonly long _freshMs;
    private readonly Dictionary<byte[], Task<Lookup>>.AlternateLookup<ReadOnlySpan<byte>> _looking;
    private readonly Lock _gate = new();

    internal FileSite(string folder, HttpFileOptions options, HttpCompression? compression = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(folder);
        options.Check();
        _options = options;
        _compression = compression;
        _root = new FileRoot(folder, options.Links);
        _types = new ContentTypes(options.ContentTypes);
        _freshMs = (long)options.Freshness.TotalMilliseconds;
        Cache = new FileCache(options);
        _looking = new Dictionary<byte[], Task<Lookup>>(FileCache.Names).GetAlternateLookup<ReadOnlySpan<byte>>();
    }

    /// <summary>Result of a disk check.</summary>
    private readonly record struct Lookup(FoundKind Kind, FileEntry? Entry);

    internal FileCache Cache { get; }

    /// <summary>Number of disk checks, for tests.</summary>
    internal int Looks;

    /// <summary>Responds at once, or returns false if the disk must be checked. On the session's thread.</summary>
    internal bool TryAnswer(HttpRequest request, HttpResponse response)
    {
        ReadOnlySpan<byte> path = request.RouteRest;
        byte[]? rented = null;
        Span<byte> room = path.Length <= NameOnStack
            ? stackalloc byte[NameOnStack]
            : rented = ArrayPool<byte>.Shared.Rent(path.Length);
        try
        {
            // A cached name was validated before: the same bytes are the same name.
            scoped ReadOnlySpan<byte> name = path;
            if (path.Contains((byte)'%') || !Cache.TryGet(path, out FileEntry? entry))
            {
                if (!TryName(path, room, out int length))
                {
                    response.Fail(404);
                    return true;
                }

                name = room[..length];
                if (!Cache.TryGet(name, out entry)) return false;
            }

            if (!entry.IsFresh(Environment.TickCount64, _freshMs)) return false;
            return TrySend(request, response, entry);
        }
        finally
        {
            if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        }
    }

    /// <summary>Checks the disk, and responds.</summary>
    internal async ValueTask AnswerAsync(HttpRequest request, HttpResponse response)
    {
        byte[] name = NameOf(request);
        for (int attempt = 0; attempt < MostTries; attempt++)
        {
            Lookup found = await LookAsync(name).ConfigureAwait(false);
            switch (found.Kind)
            {
                case FoundKind.File when TrySend(request, response, found.Entry!):
                    return;
                case FoundKind.Folder:
                    Redirect(request, response);
                    return;
                case FoundKind.Nothing:
                    response.Fail(404);
                    return;
            }
        }

        response.Fail(503, "The file changes too fast to be sent");
    }

    public void Dispose() => Cache.Dispose();

    private bool TryName(ReadOnlySpan<byte> path, Span<byte> room, out int length) =>
        FilePath.TryRead(path, room, _options.ServesDotFiles, KernelProbe.IsWindows, out length);

    private byte[] NameOf(HttpRequest request)
    {
        ReadOnlySpan<byte> path = request.RouteRest;
        byte[] room = new byte[path.Length];
        TryName(path, room, out int length); // TryAnswer has validated it before
        return room[..length];
    }

    private static bool TrySend(HttpRequest request, HttpResponse response, FileEntry entry)
    {
        FileVariant variant = entry.VariantFor(request);
        if (!variant.TryUse()) return false;
        try
        {
            response.SendVariant(variant);
        }
        finally
        {
            variant.EndUse();
        }

        return true;
    }

    internal static void Redirect(HttpRequest request, HttpResponse response)
    {
        string query = request.Query.IsEmpty ? "" : $"?{Encoding.ASCII.GetString(request.Query)}";
        response.Add("Location", $"{Encoding.ASCII.GetString(request.Path)}/{query}");
        response.Fail(301);
    }

    // ------------------------------------------------------------------ the disk, on the pool

    private Task<Lookup> LookAsync(byte[] name)
    {
        lock (_gate)
        {
            if (_looking.TryGetValue(name, out Task<Lookup>? looking)) return looking;
            looking = Task.Run(() => Look(name));
            _looking[name] = looking;
            return looking;
        }
    }

    private Lookup Look(byte[] name)
    {
        try
        {
            Interlocked.Increment(ref Looks);
            Lookup found = Refresh(name);
            if (found.Kind != FoundKind.File) Cache.Forget(name);
            return found;
        }
        finally
        {
            lock (_gate) _looking.Remove(name);
        }
    }

    private Lookup Refresh(byte[] name)
    {
        bool isFolder = name.Length == 0 || name[^1] == '/';
        long nowMs = Environment.TickCount64;
        foreach (byte[] file in isFolder ? IndexPagesOf(name) : [name])
        {
            FoundFile[] seen = LookAround(file);
            if (seen[0].Kind == FoundKind.Folder && !isFolder) return new Lookup(FoundKind.Folder, null);
            if (seen[0].Kind != FoundKind.File) continue;
            if (Cache.TryGet(name, out FileEntry? known) && known.Seen.AsSpan().SequenceEqual(seen))
            {
                known.SetChecked(nowMs);
                return new Lookup(FoundKind.File, known);
            }

            if (Load(name, file, seen) is not { } entry) continue;
            entry.SetChecked(nowMs);
            Cache.Put(entry);
            return new Lookup(FoundKind.File, entry);
        }

        return default;
    }

    private IEnumerable<byte[]> IndexPagesOf(byte[] folder)
    {
        foreach (string page in _options.IndexPages) yield return [.. folder, .. Encoding.UTF8.GetBytes(page)];
    }

    /// <summary>Returns the current state of the file and its compressed neighbours.</summary>
    private FoundFile[] LookAround(byte[] file)
    {
        FoundFile found = _root.Look(file);
        if (found.Kind != FoundKind.File || !_options.UsesNeighbours) return [found];
        return [found, _root.Look([.. file, .. ".gz"u8]), _root.Look([.. file, .. ".br"u8])];
    }

    private FileEntry? Load(byte[] name, byte[] file, FoundFile[] seen)
    {
        string type = _types.Of(Encoding.UTF8.GetString(file));
        bool hasGzip = seen is [_, { Kind: FoundKind.File }, _], hasBrotli = seen is [_, _, { Kind: FoundKind.File }];
        bool isCompressed = _compression is { } wish && seen[0].Stamp.Length >= wish.MinimumBytes
            && IsSmall(seen[0].Stamp.Length) && CompressibleTypes.Has(Encoding.ASCII.GetBytes(type));
        bool varies = hasGzip || hasBrotli || isCompressed;
        FileVariant? plain = null, gzip = null, brotli = null;
        try
        {
            plain = LoadVariant(file, type,
                new FileVariant.FileHead(_options.CacheControl, varies, HttpCoding.Identity));
            if (plain is null) return null;
            if (hasGzip)
                gzip = LoadVariant([.. file, .. ".gz"u8], type,
                    new FileVariant.FileHead(_options.CacheControl, varies, HttpCoding.Gzip));
            if (hasBrotli)
                brotli = LoadVariant([.. file, .. ".br"u8], type,
                    new FileVariant.FileHead(_options.CacheControl, varies, HttpCoding.Brotli));
            if (isCompressed) gzip ??= Compress(plain, type, HttpCoding.Gzip);
            if (isCompressed) brotli ??= Compress(plain, type, HttpCoding.Brotli);
            return new FileEntry(name, plain, gzip, brotli, seen);
        }
        catch
        {
            plain?.EndUse();
            gzip?.EndUse();
            brotli?.EndUse();
            throw;
        }
    }

    /// <summary>Compresses a small file, once for all clients; null if it does not get smaller. Its tag is strong, and
    /// ranges are those of the compressed bytes, as for a neighbour.</summary>
    private FileVariant? Compress(FileVariant plain, string type, HttpCoding coding)
    {
        if (plain.Bytes is not { } bytes) return null;
        byte[] room = new byte[BodyEncoder.RoomFor(bytes.Length)];
        int length = BodyEncoder.Encode(coding, _compression!, bytes.Memory.Span, room);
        return length > 0 && length < bytes.Length ? FileVariant.InMemory(room.AsSpan(0, length), plain.ModifiedSeconds,
            type, new FileVariant.FileHead(_options.CacheControl, true, coding)) : null;
    }

    private bool IsSmall(long length) => length <= Math.Min(_options.SmallFileBytes, _options.CacheLimitBytes);

    private FileVariant? LoadVariant(byte[] file, string type, FileVariant.FileHead head)
    {
        SafeFileHandle? handle = _root.Open(file, out FileStamp stamp);
        if (handle is null) return null;
        if (!IsSmall(stamp.Length)) return FileVariant.Open(handle, stamp, type, head);
        using (handle)
        {
            byte[] bytes = Read(handle, ref stamp);
            return FileVariant.InMemory(bytes, stamp.ModifiedSeconds, type, head);
        }
    }

    /// <summary>Reads a small file. A file that changes meanwhile is read again, a few times.</summary>
    private byte[] Read(SafeFileHandle handle, ref FileStamp stamp)
    {
        byte[] bytes = [];
        for (int attempt = 0; attempt < MostReads; attempt++)
        {
            bytes = new byte[Math.Min(stamp.Length, _options.SmallFileBytes)];
            int length = 0, count;
            while (length < bytes.Length && (count = RandomAccess.Read(handle, bytes.AsSpan(length), length)) > 0)
                length += count;
            if (length < bytes.Length) bytes = bytes[..length];
            FileStamp now = FileRoot.StampOf(handle);
            if (now == stamp) break;
            stamp = now;
        }

        return bytes;
    }
}
