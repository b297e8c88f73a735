using System.Runtime.InteropServices;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Files;

namespace Whimbrel.Http.Linux;

/// <summary>
/// Finds and opens files below a folder, in one system call each. If a kernel before 5.6 or a system call filter has no
/// openat2, the name is resolved part by part, and links are rejected.
/// </summary>
/// <remarks>
/// The pointers are safe: each is to a local buffer or a pinned array that outlives its call. Names end with a NUL, and
/// the kernel writes no more than the given size.
/// </remarks>
internal static unsafe class Beneath
{
    private const int ReadOnly = 0;
    private const int PathOnly = 0x200000;
    private const int NonBlocking = 0x800; // opening a pipe does not wait for a writer
    private const int NoTerminal = 0x100;
    private const int CloseOnExec = 0x80000;
    private const int EmptyPath = 0x1000;
    private const uint BasicStats = 0x7FF;
    private const int OpenCall = 437;
    private const ulong NoMagicLinks = 0x02, NoLinks = 0x04, StayBelow = 0x08;
    private const int Again = 11, NoSuchEntry = 2, NoAccess = 13, NoFolder = 20, TooManyLinks = 40, NameTooLong = 36,
        OtherDevice = 18, NotPermitted = 1, NoSuchCall = 38, NoDevice = 19, NoAddress = 6;
    private const int Attempts = 8;

    // Two flags differ between architectures.
    private static readonly int s_folder =
        RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? 0x4000 : 0x10000;
    private static readonly int s_noFollow =
        RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? 0x8000 : 0x20000;

    private static volatile bool s_hasOpen = true;

    /// <summary>Whether openat2 is available, as far as is known. Tests set it.</summary>
    internal static bool HasOpen
    {
        get => s_hasOpen;
        set => s_hasOpen = value;
    }

    [StructLayout(LayoutKind.Sequential)]
    private struct OpenHow
    {
        internal ulong Flags;
        internal ulong Mode;
        internal ulong Resolve;
    }

    [StructLayout(LayoutKind.Explicit, Size = 256)]
    private struct Stats
    {
        [FieldOffset(28)] internal ushort Mode;
        [FieldOffset(32)] internal ulong Inode;
        [FieldOffset(40)] internal long Size;
        [FieldOffset(96)] internal long ChangedSeconds;
        [FieldOffset(104)] internal uint ChangedNanoseconds;
        [FieldOffset(112)] internal long ModifiedSeconds;
        [FieldOffset(120)] internal uint ModifiedNanoseconds;
        [FieldOffset(136)] internal uint DeviceMajor;
        [FieldOffset(140)] internal uint DeviceMinor;
    }

    [DllImport("libc", EntryPoint = "open", SetLastError = true)]
    private static extern int OpenPath(byte* path, int flags, int mode);

    [DllImport("libc", EntryPoint = "openat", SetLastError = true)]
    private static extern int OpenAt(int folder, byte* name, int flags, int mode);

    // syscall is variadic; on x64 and arm64 Linux its arguments are passed like ordinary ones.
    [DllImport("libc", EntryPoint = "syscall", SetLastError = true)]
    private static extern nint Call(nint number, nint folder, byte* name, OpenHow* how, nint size);

    [DllImport("libc", EntryPoint = "statx", SetLastError = true)]
    private static extern int Stat(int folder, byte* name, int flags, uint mask, Stats* stats);

    [DllImport("libc", EntryPoint = "close")]
    private static extern int Close(int descriptor);

    internal static FoundFile Look(string root, ReadOnlySpan<byte> name, HttpFileLinks links)
    {
        int descriptor = Open(root, name, links, PathOnly | CloseOnExec);
        if (descriptor < 0) return default;
        try
        {
            Stats stats = StatsOf(descriptor);
            return (stats.Mode & 0xF000) switch
            {
                0x8000 => new FoundFile(FoundKind.File, StampOf(stats)),
                0x4000 => new FoundFile(FoundKind.Folder, default),
                _ => default,
            };
        }
        finally
        {
            _ = Close(descriptor);
        }
    }

    internal static SafeFileHandle? Open(string root, ReadOnlySpan<byte> name, HttpFileLinks links, out FileStamp stamp)
    {
        stamp = default;
        int descriptor = Open(root, name, links, ReadOnly | NonBlocking | NoTerminal | CloseOnExec);
        return descriptor < 0 ? null : RegularFile(descriptor, out stamp);
    }

    /// <summary>Opens a path without checks if it is a regular file; never waits for the other end of a FIFO.</summary>
    internal static SafeFileHandle? Open(string path, out FileStamp stamp)
    {
        stamp = default;
        fixed (byte* name = Encoding.UTF8.GetBytes(path + '\0'))
        {
            int descriptor = OpenPath(name, ReadOnly | NonBlocking | NoTerminal | CloseOnExec, 0);
            return (descriptor < 0 ? NothingOrThrow("opened") : descriptor) < 0
                ? null
                : RegularFile(descriptor, out stamp);
        }
    }

    private static SafeFileHandle? RegularFile(int descriptor, out FileStamp stamp)
    {
        stamp = default;
        SafeFileHandle handle = new(descriptor, ownsHandle: true);
        Stats stats = StatsOf(descriptor);
        if ((stats.Mode & 0xF000) == 0x8000)
        {
            stamp = StampOf(stats);
            return handle;
        }

        handle.Dispose();
        return null;
    }

    internal static FileStamp StampOf(SafeFileHandle handle)
    {
        bool isHeld = false;
        try
        {
            handle.DangerousAddRef(ref isHeld);
            return StampOf(StatsOf((int)handle.DangerousGetHandle()));
        }
        finally
        {
            if (isHeld) handle.DangerousRelease();
        }
    }

    private static Stats StatsOf(int descriptor)
    {
        Stats stats = default;
        byte nothing = 0;
        if (Stat(descriptor, &nothing, EmptyPath, BasicStats, &stats) != 0) throw Unexpected("looked at");
        return stats;
    }

    private static FileStamp StampOf(in Stats stats) => new(
        stats.Size,
        TicksOf(stats.ModifiedSeconds, stats.ModifiedNanoseconds),
        TicksOf(stats.ChangedSeconds, stats.ChangedNanoseconds),
        new UInt128(((ulong)stats.DeviceMajor << 32) | stats.DeviceMinor, stats.Inode));

    private static long TicksOf(long seconds, uint nanoseconds) =>
        DateTime.UnixEpoch.Ticks + seconds * TimeSpan.TicksPerSecond + nanoseconds / 100;

    // ------------------------------------------------------------------ the walk

    /// <summary>Returns a descriptor; -1 if there is no such file.</summary>
    private static int Open(string root, ReadOnlySpan<byte> name, HttpFileLinks links, int flags)
    {
        fixed (byte* path = Encoding.UTF8.GetBytes(root + '\0'))
        {
            int folder = OpenPath(path, PathOnly | s_folder | CloseOnExec, 0);
            if (folder < 0) return NothingOrThrow("opened");
            try
            {
                // An empty name is the root; a trailing slash requires a folder, which the caller checks.
                byte[] terminated = new byte[Math.Max(1, name.Length) + 1];
                terminated[0] = (byte)'.';
                name.CopyTo(terminated);
                return s_hasOpen ? OpenBelow(folder, terminated, links, flags) : Walk(folder, terminated, flags);
            }
            finally
            {
                _ = Close(folder);
            }
        }
    }

    private static int OpenBelow(int folder, byte[] name, HttpFileLinks links, int flags)
    {
        OpenHow how = new()
        {
            Flags = (ulong)flags,
            Resolve = links switch
            {
                HttpFileLinks.Inside => StayBelow | NoMagicLinks,
                HttpFileLinks.Refused => StayBelow | NoMagicLinks | NoLinks,
                _ => 0,
            },
        };
        fixed (byte* bytes = name)
        {
            for (int attempt = 0; attempt < Attempts; attempt++)
            {
                nint descriptor = Call(OpenCall, folder, bytes, &how, sizeof(OpenHow));
                if (descriptor >= 0) return (int)descriptor;
                int error = Marshal.GetLastPInvokeError();
                // A concurrent rename: the system cannot decide whether the path would stay below.
                if (error == Again) continue;
                if (error is not (NoSuchCall or NotPermitted)) return NothingOrThrow("opened");
                s_hasOpen = false;
                return Walk(folder, name, flags);
            }
        }

        return -1;
    }

    private static int Walk(int folder, byte[] name, int flags)
    {
        int at = folder;
        fixed (byte* bytes = name)
        {
            int start = 0;
            while (true)
            {
                int slash = Array.IndexOf(name, (byte)'/', start);
                bool isLast = slash < 0 || name[slash + 1] == 0;
                if (slash >= 0) name[slash] = 0;
                int next = OpenAt(at, bytes + start,
                    (isLast ? flags : PathOnly | s_folder | CloseOnExec) | s_noFollow, 0);
                int error = Marshal.GetLastPInvokeError();
                if (at != folder) _ = Close(at);
                Marshal.SetLastPInvokeError(error);
                if (next < 0) return NothingOrThrow("opened");
                if (isLast) return next;
                at = next;
                start = slash + 1;
            }
        }
    }

    private static int NothingOrThrow(string what)
    {
        if (Marshal.GetLastPInvokeError() is NoSuchEntry or NoAccess or NoFolder or TooManyLinks
            or NameTooLong or OtherDevice or NotPermitted or NoDevice or NoAddress)
            return -1;
        throw Unexpected(what);
    }

    private static IOException Unexpected(string what) =>
        new($"A file could not be {what}: {Marshal.GetLastPInvokeErrorMessage()}.");
}
