using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;

namespace Whimbrel.Tool.Tests;

/// <summary>The tool in a process with a seccomp filter that forbids io_uring, as in containers.</summary>
public sealed class ForbiddenUringTests
{
    private const int SetupCall = 425;
    private const int EnterCall = 426;
    private const int RegisterCall = 427;

    // The filter loads the number of the system call; the forbidden one returns the error, all others are allowed.
    private const string Forbid = """
        import ctypes, os, struct, sys
        error, call = int(sys.argv[1]), int(sys.argv[2])
        code = b''.join(struct.pack('HBBI', *i) for i in [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7fff0000)])
        held = ctypes.create_string_buffer(code, len(code))
        class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
        program = Program(4, ctypes.addressof(held))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0: sys.exit(77)
        os.execvp(sys.argv[3], sys.argv[3:])
        """;

    private static Task<(int ExitCode, string Output)> ServeAsync(int errno, string engine, int call = SetupCall) =>
        RunAsync(errno, call, "serve", "echo", "--port", "0", "--for", "1", "--engine", engine);

    private static async Task<(int ExitCode, string Output)> RunAsync(int errno, int call, params string[] arguments)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64
            or Architecture.Arm64, "seccomp needs Linux.");
        string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
        Assert.SkipUnless(folders.Any(static f => File.Exists(Path.Combine(f, "python3"))),
            "Setting the filter needs python3.");
        ProcessStartInfo start = new(
            "python3",
            ["-c", Forbid, errno.ToString(CultureInfo.InvariantCulture), call.ToString(CultureInfo.InvariantCulture),
                "dotnet", BuiltProgram.PathOf("Whimbrel.Tool"), .. arguments])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        using Process process = Process.Start(start)!;
        using CancellationTokenRegistration kill =
            TestContext.Current.CancellationToken.Register(() => process.Kill(entireProcessTree: true));
        Task<string> errors = process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        string output = await process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken)
            + await errors;
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.SkipWhen(process.ExitCode == 77, "No seccomp filter can be set here.");
        return (process.ExitCode, output);
    }

    [Theory]
    [InlineData(1, SetupCall, "io_uring is forbidden here (EPERM)")]
    [InlineData(38, SetupCall, "this kernel has no io_uring, or a sandbox hides it (ENOSYS)")]
    [InlineData(1, EnterCall, "io_uring does not send here")]
    [InlineData(1, RegisterCall, "io_uring is forbidden here (EPERM)")]
    public async Task Requesting_uring_explicitly_reports_why_it_is_unavailable(int errno, int call, string reason)
    {
        (int exitCode, string output) = await ServeAsync(errno, "uring", call);
        Assert.Equal(1, exitCode);
        Assert.Contains($"whimbrel: The io_uring engine, asked for by EngineOptions.Kind, cannot run: {reason}", output,
            StringComparison.Ordinal);
        Assert.Contains("docs/symptoms/no-io-uring.md", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Automatic_choice_falls_back_to_epoll()
    {
        (int exitCode, string output) = await ServeAsync(1, "auto");
        Assert.Equal(0, exitCode);
        Assert.Contains("(engine epoll, ", output, StringComparison.Ordinal);
        // One line with the reason and the cure. It is the only diagnostic event about io_uring.
        string told = Assert.Single(output.Split('\n'),
            static line => line.StartsWith("notice: io_uring is forbidden here (EPERM): ", StringComparison.Ordinal));
        Assert.Contains("Using the epoll engine", told, StringComparison.Ordinal);
        Assert.Contains("To allow it: ", told, StringComparison.Ordinal);
        Assert.EndsWith("To silence this: WHIMBREL_ENGINE=epoll. "
            + "See docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring", told, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1, "io_uring is forbidden here (EPERM): ")]
    [InlineData(38, "this kernel has no io_uring, or a sandbox hides it (ENOSYS)")]
    public async Task The_doctor_shows_the_reason_and_what_would_allow_it(int errno, string reason)
    {
        (int exitCode, string output) = await RunAsync(errno, SetupCall, "doctor");
        Assert.Equal(1, exitCode);
        Assert.Contains($"advice  io_uring         {reason}", output, StringComparison.Ordinal);
        // A real filter, detected by the process itself. If the sysctl forbids io_uring as well, the sysctl is named
        // first.
        Assert.Matches("-> (let the seccomp profile allow io_uring_setup|sysctl -w kernel.io_uring_disabled=0)",
            output);
        Assert.Contains("ok      epoll ", output, StringComparison.Ordinal);
    }
}
