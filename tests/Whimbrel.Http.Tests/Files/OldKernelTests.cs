using System.Runtime.InteropServices;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Http.Files;
using Whimbrel.Http.Linux;

namespace Whimbrel.Http.Tests.Files;

// If the kernel or a seccomp filter does not provide openat2, names are resolved segment by segment and symbolic links
// are not followed.
public sealed class OldKernelTests
{
    private static FoundKind Look(FileRoot root, string name) => root.Look(Encoding.UTF8.GetBytes(name)).Kind;

    private static string? Read(FileRoot root, string name)
    {
        using SafeFileHandle? handle = root.Open(Encoding.UTF8.GetBytes(name), out FileStamp stamp);
        if (handle is null) return null;
        byte[] bytes = new byte[stamp.Length];
        RandomAccess.Read(handle, bytes, 0);
        return Encoding.UTF8.GetString(bytes);
    }

    private static Folder NewFolder()
    {
        Assert.SkipUnless(KernelProbe.CanStayBelow, "The test does not know the system calls of this platform.");
        Folder folder = new();
        folder.Write("a/b/c.txt", "inside");
        File.CreateSymbolicLink(folder["in"], "a/b/c.txt");
        Directory.CreateSymbolicLink(folder["folder"], "a");
        File.CreateSymbolicLink(folder["out"], "../secret");
        Directory.CreateSymbolicLink(folder["outside"], "../etc");
        return folder;
    }

    [Theory]
    [InlineData(HttpFileLinks.Inside)]
    [InlineData(HttpFileLinks.Refused)]
    public void Without_openat2_files_are_found_and_nothing_leads_out(HttpFileLinks links)
    {
        using Folder folder = NewFolder();
        FileRoot root = new(folder.Root, links);
        Beneath.HasOpen = false;
        try
        {
            Assert.Equal("inside", Read(root, "a/b/c.txt"));
            Assert.Equal([FoundKind.File, FoundKind.Folder, FoundKind.Folder, FoundKind.Folder],
                ((string[])["a/b/c.txt", "a/b", "a/b/", ""]).Select(name => Look(root, name)));
            foreach (string name in (string[])["in", "folder/b/c.txt", "folder/", "out", "outside/passwd", "a/nothing",
                "a/b/c.txt/d", "a/b/c.txt/", "../secret", "a/../../secret"])
            {
                if (name == "a/b/c.txt/") Assert.NotEqual(FoundKind.Folder, Look(root, name));
                else if (!name.Contains("..", StringComparison.Ordinal))
                    Assert.Equal((name, FoundKind.Nothing, null), (name, Look(root, name), Read(root, name)));
            }

            // All attack paths of FilePathTests, mapped to the names they resolve to.
            foreach (var row in FilePathTests.Attacks())
            {
                if (FilePathTests.Read(row.Data, allowsDots: true) is { } name)
                    Assert.NotEqual(Folder.Secret, Read(root, name));
            }

            Assert.Equal(0, folder.OpenFiles());
        }
        finally
        {
            Beneath.HasOpen = true;
        }
    }

    [Theory]
    [InlineData(38)] // ENOSYS: a kernel before 5.6
    [InlineData(1)] // EPERM: the filter of an old container engine
    public void A_system_call_that_is_not_there_is_noticed_once_and_walked_around(int error)
    {
        using Folder folder = NewFolder();
        FileRoot root = new(folder.Root, HttpFileLinks.Inside);
        Assert.Equal("inside", Read(root, "in"));
        bool isFiltered = false;
        string? first = null, link = null;
        // A separate thread, because a seccomp filter stays until its thread ends.
        Thread filtered = new(() =>
        {
            if (!(isFiltered = TryForbidOpenat2(error))) return;
            first = Read(root, "a/b/c.txt");
            link = Read(root, "in");
        });
        try
        {
            filtered.Start();
            filtered.Join();
            Assert.SkipUnless(isFiltered, "No seccomp filter can be set here.");
            Assert.Equal(("inside", null, false), (first, link, Beneath.HasOpen));
        }
        finally
        {
            Beneath.HasOpen = true;
        }
    }

    /// <summary>Makes openat2 fail permanently on this thread.</summary>
    private static bool TryForbidOpenat2(int error)
    {
        const int NoNewPrivileges = 38, Seccomp = 22, Filter = 2;
        // BPF program: load the system call number; 437 (openat2) returns the error, all others are allowed. It is
        // followed by its length and address.
        nint memory = Marshal.AllocHGlobal(6 * sizeof(long));
        try
        {
            long[] program = [0x20, 0x15 | (1L << 24) | (437L << 32), 0x06 | ((0x50000L | (uint)error) << 32),
                0x06 | (0x7FFF0000L << 32), 4, memory];
            Marshal.Copy(program, 0, memory, program.Length);
            return prctl(NoNewPrivileges, 1, 0, 0, 0) == 0
                && prctl(Seccomp, Filter, memory + (4 * sizeof(long)), 0, 0) == 0;
        }
        finally
        {
            Marshal.FreeHGlobal(memory);
        }
    }

    [DllImport("libc")]
    private static extern int prctl(int option, nint second, nint third, nint fourth, nint fifth);
}
