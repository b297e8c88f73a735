using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Linux;

namespace Whimbrel.Http.Files;

/// <summary>
/// Folder of served files, and no file outside of it. Names come from <see cref="Parsing.FilePath"/>. The folder
/// is looked up again for each name, so a replaced folder, or a link to the next release, takes effect.
/// </summary>
/// <remarks>
/// On Linux the system resolves the name and stays below the root (openat2). So replacing a folder by a link between
/// check and open has no effect. Elsewhere .NET has no such call: links are checked first and the file is opened
/// afterwards. An attacker with write access below the root can win that race.
/// </remarks>
internal sealed class FileRoot(string path, HttpFileLinks links)
{
    private const int MostLinks = 40;

    private readonly string _path = Path.TrimEndingDirectorySeparator(Path.GetFullPath(path));

    /// <summary>Checks the disk without opening the file. Blocks.</summary>
    /// <exception cref="IOException">The system reports an error: no free descriptor, a broken disk.</exception>
    internal FoundFile Look(ReadOnlySpan<byte> name)
    {
        if (KernelProbe.CanStayBelow) return Beneath.Look(_path, name, links);
        if (Resolve(name) is not { } file) return default;
        return Directory.Exists(file) ? new FoundFile(FoundKind.Folder, default)
            : File.Exists(file) ? Report(new FileInfo(file)) : default;
    }

    /// <summary>Opens a file; null if it does not exist. Blocks.</summary>
    /// <exception cref="IOException">As with <see cref="Look"/>.</exception>
    internal SafeFileHandle? Open(ReadOnlySpan<byte> name, out FileStamp stamp)
    {
        stamp = default;
        if (KernelProbe.CanStayBelow) return Beneath.Open(_path, name, links, out stamp);
        if (Resolve(name) is not { } file) return null;
        try
        {
            SafeFileHandle handle = File.OpenHandle(file, FileMode.Open, FileAccess.Read,
                FileShare.ReadWrite | FileShare.Delete);
            stamp = FileStamp.Of(handle);
            return handle;
        }
        catch (Exception e) when (e is FileNotFoundException or DirectoryNotFoundException
            or UnauthorizedAccessException or PathTooLongException)
        {
            return null;
        }
    }

    /// <summary>Opens a regular file by its path; null if there is none, or a folder, a FIFO or a device. Waits for the
    /// disk, but not for the other end of a FIFO.</summary>
    /// <exception cref="IOException">As with <see cref="Look"/>.</exception>
    internal static (SafeFileHandle? Handle, FileStamp Stamp) OpenPath(string path)
    {
        if (KernelProbe.CanStayBelow) return (Beneath.Open(path, out FileStamp found), found);
        try
        {
            // .NET cannot open without waiting, and does not report that a file is a FIFO.
            if ((File.GetAttributes(path) & (FileAttributes.Directory | FileAttributes.Device)) != 0) return default;
            SafeFileHandle handle = File.OpenHandle(path, FileMode.Open, FileAccess.Read,
                FileShare.ReadWrite | FileShare.Delete);
            return (handle, StampOf(handle));
        }
        catch (Exception e) when (e is FileNotFoundException or DirectoryNotFoundException
            or UnauthorizedAccessException or PathTooLongException)
        {
            return default;
        }
    }

    /// <summary>Returns the current stamp of an open file. Blocks.</summary>
    internal static FileStamp StampOf(SafeFileHandle handle) =>
        KernelProbe.CanStayBelow ? Beneath.StampOf(handle) : FileStamp.Of(handle);

    private static FoundFile Report(FileInfo file) =>
        new(FoundKind.File, new FileStamp(file.Length, file.LastWriteTimeUtc.Ticks, 0, 0));

    /// <summary>Resolves a name to a path; null if a link is not allowed.</summary>
    private string? Resolve(ReadOnlySpan<byte> name)
    {
        string root = RealPathOf(_path), at = root;
        foreach (string segment in Encoding.UTF8.GetString(name).Split('/', StringSplitOptions.RemoveEmptyEntries))
        {
            at = Path.Combine(at, segment);
            if (links == HttpFileLinks.Anywhere) continue;
            if (new FileInfo(at).LinkTarget is null) continue;
            if (links == HttpFileLinks.Refused) return null;
            at = RealPathOf(at);
            if (!at.StartsWith(root + Path.DirectorySeparatorChar, StringComparison.Ordinal)) return null;
        }

        return at;
    }

    /// <summary>Resolves all links of a path.</summary>
    private static string RealPathOf(string path)
    {
        string real = Path.GetPathRoot(path)!;
        Stack<string> left = new(path[real.Length..]
            .Split(Path.DirectorySeparatorChar, StringSplitOptions.RemoveEmptyEntries).Reverse());
        for (int followed = 0; left.TryPop(out string? segment);)
        {
            if (segment is "." or "..")
            {
                if (segment == "..") real = Path.GetDirectoryName(real) ?? real;
                continue;
            }

            string next = Path.Combine(real, segment);
            if (new FileInfo(next).LinkTarget is not { } target || ++followed > MostLinks)
            {
                real = next;
                continue;
            }

            if (Path.IsPathRooted(target)) real = Path.GetPathRoot(target)!;
            foreach (string part in target[(Path.GetPathRoot(target)?.Length ?? 0)..]
                .Split(Path.DirectorySeparatorChar, StringSplitOptions.RemoveEmptyEntries).Reverse())
                left.Push(part);
        }

        return real;
    }
}
