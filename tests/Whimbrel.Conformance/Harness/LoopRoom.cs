using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Conformance;

/// <summary> Isolates the only loop of an engine from the machine: with its own network namespace, or with fewer
/// privileges. On Linux both belong to a thread, sockets belong to the namespace of the thread that creates them, and
/// the thread ends with the engine. Needs root. </summary>
internal static unsafe class LoopRoom
{
    private const int CLONE_NEWNET = 0x40000000;
    private const nuint SIOCSIFFLAGS = 0x8914;
    private const uint CapabilityVersion3 = 0x20080522;

    internal static bool IsRoot => OperatingSystem.IsLinux() && geteuid() == 0;

    internal static void SkipUnlessRoot() =>
        Assert.SkipUnless(IsRoot, "A network of its own, or a privilege to give up, needs root on Linux.");

    /// <summary>Moves the loop into an empty network namespace with 127.0.0.1. It has its own net sysctls, see <see
    /// cref="SetSysctl"/>.</summary>
    internal static void EnterNetwork(Rig rig)
    {
        SkipUnlessRoot();
        rig.Engine.Start();
        int error = 0;
        rig.OnLoop(rig.Engine.GetLoop(0),
            () => error = unshare(CLONE_NEWNET) == 0 ? RaiseLoopback() : Marshal.GetLastSystemError());
        Assert.SkipWhen(error != 0, $"No network namespace can be created here (error {error}).");
    }

    /// <summary>Moves the loop into a named network namespace, created by the command ip: to the loop this is another
    /// host.</summary>
    internal static void EnterNetwork(Rig rig, string name)
    {
        SkipUnlessRoot();
        rig.Engine.Start();
        rig.OnLoop(rig.Engine.GetLoop(0), () =>
        {
            // Only the handle is used, because this file has no position.
            using Microsoft.Win32.SafeHandles.SafeFileHandle network = File.OpenHandle($"/var/run/netns/{name}");
            Assert.Equal(0, setns((int)network.DangerousGetHandle(), CLONE_NEWNET));
        });
    }

    internal static void SetSysctl(Rig rig, string name, string value) =>
        rig.OnLoop(rig.Engine.GetLoop(0), () => File.WriteAllText("/proc/sys/net/ipv4/" + name, value));

    /// <summary>Runs an action on the loop, so that system settings it reads are those of the loop's
    /// namespace.</summary>
    internal static T On<T>(Rig rig, Func<T> function)
    {
        T? result = default;
        rig.OnLoop(rig.Engine.GetLoop(0), () => result = function());
        return result!;
    }

    /// <summary>From now on the loop has no capabilities.</summary>
    // Safe: two structures on the stack in the kernel's layout: version and pid, then two sets of three masks.
    internal static void DropCapabilities(Rig rig)
    {
        SkipUnlessRoot();
        rig.Engine.Start();
        rig.OnLoop(rig.Engine.GetLoop(0), static () =>
        {
            uint* header = stackalloc uint[2] { CapabilityVersion3, 0 };
            uint* none = stackalloc uint[6];
            new Span<uint>(none, 6).Clear();
            Assert.Equal(0, capset(header, none));
        });
    }

    /// <summary>From now on this system call fails on the loop with this error, as if the system had no memory.
    /// Permanent: the filter ends with the thread.</summary>
    // Safe: a program of four instructions on the stack, which the kernel copies.
    internal static void Forbid(Rig rig, (int OnX64, int OnArm64) call, int error)
    {
        const int PR_SET_NO_NEW_PRIVS = 38;
        const int PR_SET_SECCOMP = 22;
        Assert.SkipUnless(OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64
            or Architecture.Arm64, "The test filters Linux system calls by number.");
        uint number = (uint)(RuntimeInformation.ProcessArchitecture == Architecture.X64 ? call.OnX64 : call.OnArm64);
        int refused = 0;
        rig.OnLoop(rig.Engine.GetLoop(0), () =>
        {
            // The program loads the number of the call; this one returns the error, all others are allowed.
            ulong* program = stackalloc ulong[4]
            {
                0x20,
                0x15 | (1UL << 24) | ((ulong)number << 32),
                0x06 | ((0x50000UL | (uint)error) << 32),
                0x06 | (0x7fff0000UL << 32)
            };
            ulong* filter = stackalloc ulong[2] { 4, (ulong)program };
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, null, 0, 0) != 0 || prctl(PR_SET_SECCOMP, 2, filter, 0, 0) != 0)
                refused = Marshal.GetLastSystemError();
        });
        Assert.SkipWhen(refused != 0, $"No seccomp filter can be set here (error {refused}).");
    }

    // Safe: struct ifreq of 40 bytes, name first, flags at 16.
    private static int RaiseLoopback()
    {
        const short upAndRunning = 0x41;
        byte* request = stackalloc byte[40];
        new Span<byte>(request, 40).Clear();
        Encoding.ASCII.GetBytes("lo", new Span<byte>(request, 16));
        *(short*)(request + 16) = upAndRunning;
        int fd = Whimbrel.Linux.Syscall.Socket(2, 2, 0);
        int error = ioctl(fd, SIOCSIFFLAGS, request) == 0 ? 0 : Marshal.GetLastSystemError();
        Whimbrel.Linux.Syscall.Close(fd);
        return error;
    }

    [DllImport("libc")]
    private static extern int prctl(int option, nuint second, void* third, nuint fourth, nuint fifth);

    [DllImport("libc")]
    private static extern uint geteuid();

    [DllImport("libc")]
    private static extern int unshare(int flags);

    [DllImport("libc")]
    private static extern int setns(int fd, int kind);

    [DllImport("libc")]
    private static extern int ioctl(int fd, nuint request, void* argument);

    [DllImport("libc")]
    private static extern int capset(void* header, void* data);
}
