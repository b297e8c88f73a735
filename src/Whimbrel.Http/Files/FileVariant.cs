using System.Security.Cryptography;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Files;

/// <summary>
/// One variant of a file, plain or compressed: prepared lines of its head, and its bytes, in memory or as an open file.
/// It counts its users; the last one closes the file. Bytes in memory are left to the garbage collector. Any thread.
/// </summary>
internal sealed class FileVariant
{
    private int _uses = 1;

    private FileVariant(FileSource? source, SharedBytes? bytes, long length, string tag, long modified, string type,
        FileHead head)
    {
        Source = source;
        Bytes = bytes;
        Length = length;
        Tag = Encoding.ASCII.GetBytes(tag);
        ModifiedSeconds = modified;
        Type = Encoding.ASCII.GetBytes(type);
        StringBuilder lines = new();
        if (tag.Length > 0) lines.Append("ETag: ").Append(tag).Append("\r\n");
        if (modified != HttpConditions.NoDate)
            lines.Append("Last-Modified: ").Append(HttpTime.TextOf(modified)).Append("\r\n");
        if (head.CacheControl is { } cacheControl) lines.Append("Cache-Control: ").Append(cacheControl).Append("\r\n");
        if (head.Varies) lines.Append("Vary: Accept-Encoding\r\n");
        Lines = Encoding.ASCII.GetBytes(lines.ToString());
        if (head.Coding != HttpCoding.Identity)
            lines.Append(head.Coding == HttpCoding.Brotli ? "Content-Encoding: br\r\n" : "Content-Encoding: gzip\r\n");
        BodyLines = Encoding.ASCII.GetBytes(lines.Append("Accept-Ranges: bytes\r\n").ToString());
    }

    /// <summary>Settings of a head that differ between sites.</summary>
    internal readonly record struct FileHead(string? CacheControl, bool Varies, HttpCoding Coding);

    /// <summary>Open file; null if the bytes are in memory.</summary>
    internal FileSource? Source { get; }

    internal SharedBytes? Bytes { get; }

    internal long Length { get; }

    /// <summary>Entity tag, with quotes.</summary>
    internal byte[] Tag { get; }

    internal long ModifiedSeconds { get; }

    internal byte[] Type { get; }

    /// <summary>Field lines of responses with and without a body.</summary>
    internal byte[] Lines { get; }

    /// <summary>Field lines of responses with a body; the type is separate.</summary>
    internal byte[] BodyLines { get; }

    /// <summary>Creates a variant in memory. Its tag is a hash of the bytes, so that several servers have the same
    /// one.</summary>
    internal static FileVariant InMemory(ReadOnlySpan<byte> bytes, long modified, string type, FileHead head) =>
        new(null, new SharedBytes(bytes), bytes.Length, TagOf(bytes), modified, type, head);

    /// <summary>Creates a variant of an open file, and takes ownership of the handle, also if this throws.</summary>
    internal static FileVariant Open(SafeFileHandle handle, in FileStamp stamp, string type, FileHead head)
    {
        // Length, modification time and change time: a program that writes to the file cannot preserve the last one.
        string tag = stamp.ChangedTicks == 0
            ? $"\"{stamp.Length:x}-{stamp.ModifiedTicks:x}\""
            : $"\"{stamp.Length:x}-{stamp.ModifiedTicks:x}-{stamp.ChangedTicks & 0xFFFFFFFFFF:x}\"";
        return new FileVariant(new FileSource(handle), null, stamp.Length, tag, stamp.ModifiedSeconds, type, head);
    }

    private static string TagOf(ReadOnlySpan<byte> bytes)
    {
        Span<byte> hash = stackalloc byte[SHA256.HashSizeInBytes];
        SHA256.HashData(bytes, hash);
        return $"\"{Convert.ToHexStringLower(hash[..12])}\"";
    }

    // ------------------------------------------------------------------ users

    /// <summary>Adds a user. Returns false if the variant is being closed: look it up again.</summary>
    internal bool TryUse()
    {
        if (Source is null) return true;
        int uses = Volatile.Read(ref _uses);
        while (uses > 0)
        {
            int before = Interlocked.CompareExchange(ref _uses, uses + 1, uses);
            if (before == uses) return true;
            uses = before;
        }

        return false;
    }

    internal void EndUse()
    {
        if (Source is not null && Interlocked.Decrement(ref _uses) == 0) Source.Dispose();
    }
}
