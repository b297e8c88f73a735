using Microsoft.Win32.SafeHandles;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// An open file whose parts many sessions, on many loops, may have queued at the same time. Counts references as <see cref="SharedBytes"/>
/// does: whoever makes it has one, <see cref="AddReference"/> takes another, <see cref="Dispose"/> gives one back. A queued send counts for
/// itself, so it may be disposed right after the last send: the file is closed when the last connection has sent it, or has ended. Any thread.
/// </summary>
/// <remarks>
/// What is queued must stay as it is until it was sent. A file that got shorter, or cannot be read, ends the connections that were promised more,
/// with <see cref="CloseCause.FileFailed"/>; of one that is written to meanwhile, peers get old and new bytes.
/// </remarks>
public sealed class FileSource : IDisposable
{
    /// <summary>Opens a file for reading. Others may go on writing to it, rename it and delete it.</summary>
    /// <param name="path">The file.</param>
    /// <exception cref="IOException">And what else <see cref="File.OpenHandle"/> throws when a file cannot be opened.</exception>
    /// <exception cref="NotSupportedException">It has no places to read at: a pipe, a terminal.</exception>
    public FileSource(string path)
        : this(File.OpenHandle(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete))
    {
    }

    /// <summary>Takes over a handle: it is disposed when the last reference is back and nothing of the file is queued, on any thread; also when this throws.</summary>
    /// <param name="handle">Open for reading.</param>
    /// <exception cref="NotSupportedException">It has no places to read at: a pipe, a terminal.</exception>
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

    /// <summary>How many bytes it had when it was opened.</summary>
    public long Length { get; }

    internal OpenFile OpenFile { get; }

    /// <summary>One more owner, who disposes it once.</summary>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
    public FileSource AddReference()
    {
        if (!OpenFile.TryAddReference()) Throw.Disposed(nameof(FileSource));
        return this;
    }

    /// <summary>Gives one reference back. What is queued is sent nevertheless.</summary>
    /// <exception cref="ObjectDisposedException">More were given back than taken.</exception>
    public void Dispose()
    {
        if (!OpenFile.TryRelease()) Throw.Disposed(nameof(FileSource));
    }

    /// <summary>A part of it, on loan to the caller, who gives it back.</summary>
    internal FileRange Lend(long offset, long length)
    {
        if (!OpenFile.TryLend()) Throw.Disposed(nameof(FileSource));
        try
        {
            if (offset < 0) Throw.OutOfRange(nameof(offset), offset, "0 or more");
            if (length < 0) Throw.OutOfRange(nameof(length), length, "0 or more");
            // It may have grown since.
            if (length > Length - offset && RandomAccess.GetLength(OpenFile.Handle) is var now && length > now - offset) Throw.OutOfRange(nameof(length), length, $"between 0 and {Math.Max(0, now - offset)}: the file has {now} bytes");
        }
        catch
        {
            OpenFile.EndLoan();
            throw;
        }

        return new FileRange(OpenFile, offset, length);
    }
}
