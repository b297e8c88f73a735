using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;

namespace Whimbrel.Tool.Tests;

/// <summary>The tool in a process to which a seccomp filter, like those of containers, forbids io_uring.</summary>
public sealed class ForbiddenUringTests
{
    // The filter: load the number of the system call; io_uring_setup (425) gives the error, all others are allowed.
    private const string Forbid = """
        import ctypes, os, struct, sys
        error = int(sys.argv[1])
        code = b''.join(struct.pack('HBBI', *i) for i in [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7fff0000)])
        held = ctypes.create_string_buffer(code, len(code))
        class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
        program = Program(4, ctypes.addressof(held))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0: sys.exit(77)
        os.execvp(sys.argv[2], sys.argv[2:])
        """;

    private static Task<(int ExitCode, string Output)> ServeAsync(int errno, string engine) => RunAsync(errno, "serve", "echo", "--port", "0", "--for", "1", "--engine", engine);

    private static async Task<(int ExitCode, string Output)> RunAsync(int errno, params string[] arguments)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64 or Architecture.Arm64, "seccomp is Linux's");
        string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
        Assert.SkipUnless(folders.Any(static f => File.Exists(Path.Combine(f, "python3"))), "setting the filter needs python3");
        ProcessStartInfo start = new(
            "python3",
            ["-c", Forbid, errno.ToString(CultureInfo.InvariantCulture), "dotnet", Path.Combine(AppContext.BaseDirectory, "Whimbrel.Tool.dll"), .. arguments])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        using Process process = Process.Start(start)!;
        using CancellationTokenRegistration kill = TestContext.Current.CancellationToken.Register(() => process.Kill(entireProcessTree: true));
        Task<string> errors = process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        string output = await process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken) + await errors;
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.SkipWhen(process.ExitCode == 77, "no seccomp filter can be set here");
        return (process.ExitCode, output);
    }

    [Theory]
    [InlineData(1, "io_uring is forbidden here (EPERM)")]
    [InlineData(38, "this kernel has no io_uring, or a sandbox hides it (ENOSYS)")]
    public async Task Asked_for_it_says_why_it_cannot_run(int errno, string reason)
    {
        (int exitCode, string output) = await ServeAsync(errno, "uring");
        Assert.Equal(1, exitCode);
        Assert.Contains($"whimbrel: The io_uring engine, asked for by EngineOptions.Kind, cannot run: {reason}", output, StringComparison.Ordinal);
        Assert.Contains("docs/symptoms/no-io-uring.md", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Left_to_choose_it_serves_on_epoll()
    {
        (int exitCode, string output) = await ServeAsync(1, "auto");
        Assert.Equal(0, exitCode);
        Assert.Contains("(engine epoll, ", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1, "io_uring is forbidden here (EPERM): ")]
    [InlineData(38, "this kernel has no io_uring, or a sandbox hides it (ENOSYS)")]
    public async Task The_doctor_shows_the_reason_and_what_would_allow_it(int errno, string reason)
    {
        (int exitCode, string output) = await RunAsync(errno, "doctor");
        Assert.Equal(1, exitCode);
        Assert.Contains($"advice  io_uring         {reason}", output, StringComparison.Ordinal);
        // A real filter, seen by the process itself; where the setting forbids it too, the setting is named first.
        Assert.Matches("-> (let the seccomp profile allow io_uring_setup|sysctl -w kernel.io_uring_disabled=0)", output);
        Assert.Contains("ok      epoll ", output, StringComparison.Ordinal);
    }
}
