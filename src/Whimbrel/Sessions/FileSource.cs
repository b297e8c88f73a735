using Microsoft.Win32.SafeHandles;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// An open file whose parts many sessions, on many loops, may have queued at the same time. Reference-counted like
/// <see cref="SharedBytes"/>: the creator has one reference, <see cref="AddReference"/> adds one, <see cref="Dispose"/>
/// releases one. A queued send holds its own, so the object may be disposed right after the last send: the file is
/// closed when the last connection has sent it or has ended. Any thread.
/// </summary>
/// <remarks>
/// Queued parts must not change until they are sent. If the file has become shorter or cannot be read, connections that
/// announced more end with <see cref="CloseCause.FileFailed"/>. If the file is written to in the meantime, peers
/// receive old and new bytes mixed.
/// </remarks>
public sealed class FileSource : IDisposable
{
    /// <summary>Opens a file for reading. Other processes may write to it, rename it and delete it.</summary>
    /// <param name="path">Path of the file.</param>
    /// <exception cref="IOException">The file cannot be opened; other exceptions of <see cref="File.OpenHandle"/> are
    /// possible.</exception>
    /// <exception cref="NotSupportedException">The file is not seekable: a pipe, a terminal.</exception>
    public FileSource(string path)
        : this(File.OpenHandle(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete))
    {
    }

    /// <summary>
    /// Takes ownership of a handle, which is disposed, on any thread, when the last reference is released and nothing
    /// of the file is queued; also if this constructor throws.
    /// </summary>
    /// <param name="handle">Handle open for reading.</param>
    /// <exception cref="NotSupportedException">The file is not seekable: a pipe, a terminal.</exception>
    public FileSource(SafeFileHandle handle)
    {
        ArgumentNullException.ThrowIfNull(handle);
        try
        {
            Length = RandomAccess.GetLength(handle);
        }
        catch
        {
            handle.Dispose();
            throw;
        }

        OpenFile = new OpenFile(handle);
    }

    /// <summary>Length of the file in bytes when it was opened.</summary>
    public long Length { get; }

    internal OpenFile OpenFile { get; }

    /// <summary>Adds a reference for another owner, which must be disposed once.</summary>
    /// <exception cref="ObjectDisposedException">All references were released.</exception>
    public FileSource AddReference()
    {
        if (!OpenFile.TryAddReference()) Throw.Disposed(nameof(FileSource));
        return this;
    }

    /// <summary>Releases one reference. Queued parts are still sent.</summary>
    /// <exception cref="ObjectDisposedException">More references were released than taken.</exception>
    public void Dispose()
    {
        if (!OpenFile.TryRelease()) Throw.Disposed(nameof(FileSource));
    }

    /// <summary>Lends a part of the file; the caller must end the loan.</summary>
    internal FileRange Lend(long offset, long length)
    {
        if (!OpenFile.TryLend()) Throw.Disposed(nameof(FileSource));
        try
        {
            if (offset < 0) Throw.OutOfRange(nameof(offset), offset, "0 or more");
            if (length < 0) Throw.OutOfRange(nameof(length), length, "0 or more");
            // The file may have grown since it was opened.
            if (length > Length - offset && RandomAccess.GetLength(OpenFile.Handle) is var now && length > now - offset)
                Throw.OutOfRange(nameof(length), length,
                    $"between 0 and {Math.Max(0, now - offset)}: the file has {now} bytes");
        }
        catch
        {
            OpenFile.EndLoan();
            throw;
        }

        return new FileRange(OpenFile, offset, length);
    }
}
