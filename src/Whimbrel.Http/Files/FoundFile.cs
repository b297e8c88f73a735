using Microsoft.Win32.SafeHandles;

namespace Whimbrel.Http.Files;

/// <summary>What a name leads to.</summary>
internal enum FoundKind
{
    /// <summary>Nothing that is served: no such name, a link that leaves the root, a pipe, a device.</summary>
    Nothing,

    File,

    Folder,
}

/// <summary>What the disk says of a name.</summary>
/// <param name="Kind">What it is.</param>
/// <param name="Stamp">Which version of which file.</param>
internal readonly record struct FoundFile(FoundKind Kind, FileStamp Stamp);

/// <summary>A version of a file: while these are the same, so is what is in it.</summary>
/// <param name="Length">Bytes.</param>
/// <param name="ModifiedTicks">When it was written to, in 100 ns of UTC.</param>
/// <param name="ChangedTicks">When anything of it changed, where the system tells.</param>
/// <param name="Id">Which file, where the system tells.</param>
internal readonly record struct FileStamp(long Length, long ModifiedTicks, long ChangedTicks, UInt128 Id)
{
    internal long ModifiedSeconds => (ModifiedTicks - DateTime.UnixEpoch.Ticks) / TimeSpan.TicksPerSecond;

    /// <summary>Of an open file, where only .NET can be asked.</summary>
    internal static FileStamp Of(SafeFileHandle handle) => new(RandomAccess.GetLength(handle), File.GetLastWriteTimeUtc(handle).Ticks, 0, 0);
}
