using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Linux;

namespace Whimbrel.Http.Files;

/// <summary>
/// A folder of which files are served, and nothing that lies elsewhere. Names come from <see cref="Parsing.FilePath"/>. The folder is looked up
/// anew for each name, so one that is replaced, also by a link to the next release, is followed.
/// </summary>
/// <remarks>
/// On Linux the system itself walks the name and stays below the root (openat2), so nobody gains by exchanging a folder for a link between
/// a look and an opening. Elsewhere .NET has no such call: links are looked at first and the file is opened then, and who can write
/// below the root can win that race.
/// </remarks>
internal sealed class FileRoot(string path, HttpFileLinks links)
{
    private const int MostLinks = 40;

    private readonly string _path = Path.TrimEndingDirectorySeparator(Path.GetFullPath(path));

    /// <summary>Asks the disk without opening anything. Blocks.</summary>
    /// <exception cref="IOException">The system could not say: no descriptor left, a broken disk.</exception>
    internal FoundFile Look(ReadOnlySpan<byte> name)
    {
        if (KernelProbe.CanStayBelow) return Beneath.Look(_path, name, links);
        if (Resolve(name) is not { } file) return default;
        return Directory.Exists(file) ? new FoundFile(FoundKind.Folder, default) : File.Exists(file) ? Note(new FileInfo(file)) : default;
    }

    /// <summary>Opens a file, or null when there is none now. Blocks.</summary>
    /// <exception cref="IOException">As with <see cref="Look"/>.</exception>
    internal SafeFileHandle? Open(ReadOnlySpan<byte> name, out FileStamp stamp)
    {
        stamp = default;
        if (KernelProbe.CanStayBelow) return Beneath.Open(_path, name, links, out stamp);
        if (Resolve(name) is not { } file) return null;
        try
        {
            SafeFileHandle handle = File.OpenHandle(file, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
            stamp = FileStamp.Of(handle);
            return handle;
        }
        catch (Exception e) when (e is FileNotFoundException or DirectoryNotFoundException or UnauthorizedAccessException or PathTooLongException)
        {
            return null;
        }
    }

    /// <summary>Opens a regular file by its path; null when there is none: nothing, a folder, a FIFO or a device. Does not wait for the other end of a FIFO, but for the disk.</summary>
    /// <exception cref="IOException">As with <see cref="Look"/>.</exception>
    internal static (SafeFileHandle? Handle, FileStamp Stamp) OpenPath(string path)
    {
        if (KernelProbe.CanStayBelow) return (Beneath.Open(path, out FileStamp found), found);
        try
        {
            // .NET cannot open without a wait, and does not say of a FIFO what it is.
            if ((File.GetAttributes(path) & (FileAttributes.Directory | FileAttributes.Device)) != 0) return default;
            SafeFileHandle handle = File.OpenHandle(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
            return (handle, StampOf(handle));
        }
        catch (Exception e) when (e is FileNotFoundException or DirectoryNotFoundException or UnauthorizedAccessException or PathTooLongException)
        {
            return default;
        }
    }

    /// <summary>What the file that is open is now. Blocks.</summary>
    internal static FileStamp StampOf(SafeFileHandle handle) => KernelProbe.CanStayBelow ? Beneath.StampOf(handle) : FileStamp.Of(handle);

    private static FoundFile Note(FileInfo file) => new(FoundKind.File, new FileStamp(file.Length, file.LastWriteTimeUtc.Ticks, 0, 0));

    /// <summary>The path of a name whose links do what they may, or null.</summary>
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

    /// <summary>A path without links, from its first folder on.</summary>
    private static string RealPathOf(string path)
    {
        string real = Path.GetPathRoot(path)!;
        Stack<string> left = new(path[real.Length..].Split(Path.DirectorySeparatorChar, StringSplitOptions.RemoveEmptyEntries).Reverse());
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
            foreach (string part in target[(Path.GetPathRoot(target)?.Length ?? 0)..].Split(Path.DirectorySeparatorChar, StringSplitOptions.RemoveEmptyEntries).Reverse()) left.Push(part);
        }

        return real;
    }
}
