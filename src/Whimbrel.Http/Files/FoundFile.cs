using Microsoft.Win32.SafeHandles;

namespace Whimbrel.Http.Files;

/// <summary>Kind of file that a name leads to.</summary>
internal enum FoundKind
{
    /// <summary>No file that is served: no such name, a link that leaves the root, a pipe, a device.</summary>
    Nothing,

    File,

    Folder,
}

/// <summary>State of a name on disk.</summary>
/// <param name="Kind">Kind of file.</param>
/// <param name="Stamp">Version of the file.</param>
internal readonly record struct FoundFile(FoundKind Kind, FileStamp Stamp);

/// <summary>Version of a file: while it is equal, the content is unchanged.</summary>
/// <param name="Length">Length in bytes.</param>
/// <param name="ModifiedTicks">Modification time, in 100 ns of UTC.</param>
/// <param name="ChangedTicks">Change time of data or metadata, if the system reports it.</param>
/// <param name="Id">Identity of the file, if the system reports it.</param>
internal readonly record struct FileStamp(long Length, long ModifiedTicks, long ChangedTicks, UInt128 Id)
{
    internal long ModifiedSeconds => (ModifiedTicks - DateTime.UnixEpoch.Ticks) / TimeSpan.TicksPerSecond;

    /// <summary>Returns the stamp of an open file on systems without statx.</summary>
    internal static FileStamp Of(SafeFileHandle handle) =>
        new(RandomAccess.GetLength(handle), File.GetLastWriteTimeUtc(handle).Ticks, 0, 0);
}
