using System.Globalization;
using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// Store in a folder, of one machine or on a network file system that several nodes mount. Files are readable by their
/// owner only (mode 0600, folders 0700). A file is written under another name, flushed to the disk and renamed. Leases
/// compare wall clocks, so those of the nodes must agree to some seconds.
/// </summary>
public sealed class FolderAcmeStore : IAcmeStore
{
    private const int MostBytes = 256 * 1024;
    private const int GuardTries = 50;
    private static readonly TimeSpan s_guardPause = TimeSpan.FromMilliseconds(20);

    /// <summary>Creates the store. The folder is created at the first write.</summary>
    /// <param name="path">Path of the folder. A private one: it has the private keys.</param>
    public FolderAcmeStore(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        Path = System.IO.Path.GetFullPath(path);
    }

    /// <summary>Full path of the folder.</summary>
    public string Path { get; }

    /// <inheritdoc/>
    public async ValueTask<byte[]?> ReadAsync(string name, CancellationToken stop)
    {
        string path = PathOf(name);
        try
        {
            await using FileStream file =
                new(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
            if (file.Length > MostBytes)
                throw new IOException($"{path} has {file.Length:n0} bytes, more than the {MostBytes:n0} of a value.");
            byte[] value = new byte[file.Length];
            await file.ReadExactlyAsync(value, stop).ConfigureAwait(false);
            return value;
        }
        catch (Exception e) when (e is FileNotFoundException or DirectoryNotFoundException)
        {
            return null;
        }
    }

    /// <inheritdoc/>
    public async ValueTask WriteAsync(string name, ReadOnlyMemory<byte> value, CancellationToken stop)
    {
        string path = PathOf(name), temporary = $"{path}.{Guid.NewGuid():n}.tmp";
        MakeFolder(System.IO.Path.GetDirectoryName(path)!);
        try
        {
            await using (FileStream file = new(temporary, Private(FileMode.CreateNew)))
            {
                await file.WriteAsync(value, stop).ConfigureAwait(false);
                file.Flush(flushToDisk: true);
            }

            File.Move(temporary, path, overwrite: true);
        }
        catch (Exception)
        {
            File.Delete(temporary);
            throw;
        }
    }

    /// <inheritdoc/>
    public ValueTask DeleteAsync(string name, CancellationToken stop)
    {
        try
        {
            File.Delete(PathOf(name));
        }
        catch (DirectoryNotFoundException)
        {
            // There is no such value.
        }

        return default;
    }

    /// <inheritdoc/>
    public async ValueTask<bool> TryLeaseAsync(string name, string owner, TimeSpan duration, CancellationToken stop)
    {
        using FileStream? guard = await GuardAsync(name, stop).ConfigureAwait(false);
        if (guard is null) return false;
        (string? holder, DateTimeOffset until) = await HolderAsync(name, stop).ConfigureAwait(false);
        if (holder is not null && holder != owner && until > AcmeTime.Now) return false;
        string lease = $"{owner} {(AcmeTime.Now + duration).ToString("O", CultureInfo.InvariantCulture)}";
        await WriteAsync(name, Encoding.ASCII.GetBytes(lease), stop).ConfigureAwait(false);
        return true;
    }

    /// <inheritdoc/>
    public async ValueTask EndLeaseAsync(string name, string owner, CancellationToken stop)
    {
        using FileStream? guard = await GuardAsync(name, stop).ConfigureAwait(false);
        if (guard is null) return;
        (string? holder, _) = await HolderAsync(name, stop).ConfigureAwait(false);
        if (holder == owner) await DeleteAsync(name, stop).ConfigureAwait(false);
    }

    /// <summary>Returns the holder of a lease. A lease that cannot be read has no holder.</summary>
    private async ValueTask<(string? Owner, DateTimeOffset Until)> HolderAsync(string name, CancellationToken stop)
    {
        byte[]? lease = await ReadAsync(name, stop).ConfigureAwait(false);
        return Encoding.ASCII.GetString(lease ?? []).Split(' ') is [var owner, var time]
            && DateTimeOffset.TryParse(time, CultureInfo.InvariantCulture, out DateTimeOffset until)
            ? (owner, until)
            : default;
    }

    /// <summary>
    /// Locks the file beside a lease for the moment of comparing and writing it, also against other processes. The
    /// system releases it when a process dies. Returns null if others had it for a second.
    /// </summary>
    private async ValueTask<FileStream?> GuardAsync(string name, CancellationToken stop)
    {
        string path = $"{PathOf(name)}.guard";
        MakeFolder(System.IO.Path.GetDirectoryName(path)!);
        for (int i = 0; i < GuardTries; i++)
        {
            try
            {
                return new FileStream(path, Private(FileMode.OpenOrCreate));
            }
            catch (IOException e) when (e.GetType() == typeof(IOException) && i < GuardTries - 1 && !IsFull(e))
            {
                await Task.Delay(s_guardPause, stop).ConfigureAwait(false);
            }
        }

        return null;
    }

    private static bool IsFull(IOException e) =>
        e.HResult is 28 or unchecked((int)0x80070070) || e.Message.StartsWith("No space", StringComparison.Ordinal);

    private static FileStreamOptions Private(FileMode mode)
    {
        FileStreamOptions options = new()
        {
            Mode = mode,
            Access = FileAccess.ReadWrite,
            Share = FileShare.None,
            Options = FileOptions.Asynchronous,
        };
        if (!OperatingSystem.IsWindows()) options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite;
        return options;
    }

    private static void MakeFolder(string path)
    {
        if (OperatingSystem.IsWindows()) Directory.CreateDirectory(path);
        else Directory.CreateDirectory(path, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
    }

    private string PathOf(string name)
    {
        foreach (string part in name.Split('/'))
        {
            if (part.Length is 0 or > 200 || part[0] == '.' || !part.All(static c => char.IsAsciiLetterLower(c)
                || char.IsAsciiDigit(c) || c is '.' or '_' or '-'))
                throw new ArgumentException($"'{name}' is no name of a value.", nameof(name));
        }

        return System.IO.Path.Combine(Path, name.Replace('/', System.IO.Path.DirectorySeparatorChar));
    }
}
