using System.Diagnostics;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Structures that the kernel reads have the size that it expects, on every machine.</summary>
public sealed class LinuxAbiTests
{
    [Fact]
    public void Structures_have_the_kernels_sizes()
    {
        Assert.Equal(12, Unsafe.SizeOf<EpollEventPacked>());
        Assert.Equal(16, Unsafe.SizeOf<EpollEventAligned>());
        Assert.Equal(56, Unsafe.SizeOf<MessageHeader>());
        Assert.Equal(16, Unsafe.SizeOf<IoVector>());
        Assert.Equal(8, Unsafe.SizeOf<LingerOption>());
        Assert.Equal(64, Unsafe.SizeOf<SubmissionEntry>());
        Assert.Equal(16, Unsafe.SizeOf<CompletionEntry>());
        Assert.Equal(120, Unsafe.SizeOf<UringParameters>());
        Assert.Equal(24, Unsafe.SizeOf<WaitArgument>());
        Assert.Equal(16, Unsafe.SizeOf<KernelTime>());
        Assert.Equal(16, Unsafe.SizeOf<ProvidedBuffer>());
        Assert.Equal(40, Unsafe.SizeOf<BufferRingRegistration>());
        Assert.Equal(16, Unsafe.SizeOf<RingDescriptorUpdate>());
        Assert.Equal(64, Unsafe.SizeOf<CancelRegistration>());
        Assert.Equal(8, Unsafe.SizeOf<ProbedOpcode>());
        Assert.Equal(64, Unsafe.SizeOf<MultiMessage>());
        Assert.Equal(16, Unsafe.SizeOf<ControlHeader>());
        Assert.Equal(16, Unsafe.SizeOf<ExtendedError>());
    }

    [Fact]
    public void Fields_have_the_offsets_of_the_kernel()
    {
        Assert.Equal(4, Marshal.OffsetOf<EpollEventPacked>(nameof(EpollEventPacked.Data)));
        Assert.Equal(8, Marshal.OffsetOf<EpollEventAligned>(nameof(EpollEventAligned.Data)));
        Assert.Equal(8, Marshal.OffsetOf<IoVector>(nameof(IoVector.Length)));
        Assert.Equal(16, Marshal.OffsetOf<MessageHeader>(nameof(MessageHeader.Vectors)));
        Assert.Equal(24, Marshal.OffsetOf<MessageHeader>(nameof(MessageHeader.VectorCount)));
        Assert.Equal(48, Marshal.OffsetOf<MessageHeader>(nameof(MessageHeader.Flags)));
        Assert.Equal(56, Marshal.OffsetOf<MultiMessage>(nameof(MultiMessage.Length)));
        Assert.Equal(8, Marshal.OffsetOf<ControlHeader>(nameof(ControlHeader.Level)));
        Assert.Equal(4, Marshal.OffsetOf<ExtendedError>(nameof(ExtendedError.Origin)));
        Assert.Equal(8, Marshal.OffsetOf<ExtendedError>(nameof(ExtendedError.Details)));
    }

    [Fact]
    public void Fields_of_io_uring_have_the_offsets_of_the_kernel()
    {
        Assert.Equal(2, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.Priority)));
        Assert.Equal(4, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.Descriptor)));
        Assert.Equal(8, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.Offset)));
        Assert.Equal(16, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.Address)));
        Assert.Equal(24, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.Length)));
        Assert.Equal(28, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.OperationFlags)));
        Assert.Equal(32, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.UserData)));
        Assert.Equal(40, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.BufferGroup)));
        Assert.Equal(44, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.TotalLength)));
        Assert.Equal(48, Marshal.OffsetOf<SubmissionEntry>(nameof(SubmissionEntry.Address3)));
        Assert.Equal(8, Marshal.OffsetOf<CompletionEntry>(nameof(CompletionEntry.Result)));
        Assert.Equal(12, Marshal.OffsetOf<CompletionEntry>(nameof(CompletionEntry.Flags)));
        Assert.Equal(8, Marshal.OffsetOf<UringParameters>(nameof(UringParameters.Flags)));
        Assert.Equal(20, Marshal.OffsetOf<UringParameters>(nameof(UringParameters.Features)));
        Assert.Equal(40, Marshal.OffsetOf<UringParameters>(nameof(UringParameters.Submission)));
        Assert.Equal(80, Marshal.OffsetOf<UringParameters>(nameof(UringParameters.Completion)));
        Assert.Equal(24, Marshal.OffsetOf<SubmissionOffsets>(nameof(SubmissionOffsets.Array)));
        Assert.Equal(20, Marshal.OffsetOf<CompletionOffsets>(nameof(CompletionOffsets.Entries)));
        Assert.Equal(16, Marshal.OffsetOf<WaitArgument>(nameof(WaitArgument.Timeout)));
        Assert.Equal(12, Marshal.OffsetOf<ProvidedBuffer>(nameof(ProvidedBuffer.Id)));
        Assert.Equal(UringAbi.BufferRingTailOffset, Marshal.OffsetOf<ProvidedBuffer>(nameof(ProvidedBuffer.Reserved)));
        Assert.Equal(12, Marshal.OffsetOf<BufferRingRegistration>(nameof(BufferRingRegistration.Group)));
        Assert.Equal(8, Marshal.OffsetOf<RingDescriptorUpdate>(nameof(RingDescriptorUpdate.Data)));
    }

    [Fact]
    public void Events_are_packed_on_x64_only() =>
        Assert.Equal(RuntimeInformation.ProcessArchitecture == Architecture.X64 ? 12 : 16, EpollEvents.Size);

    /// <summary>Our constants have the names of the C library's, so its headers are the reference for each.</summary>
    [Fact]
    public async Task Constants_are_those_of_the_systems_headers()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && File.Exists("/usr/bin/cc"),
            "Needs Linux with a C compiler (cc).");
        (string Name, int Value)[] constants = [.. new[] { typeof(SocketAbi), typeof(Errno) }
            .SelectMany(static type => type.GetFields(BindingFlags.Static | BindingFlags.NonPublic))
            .Where(static field => field.IsLiteral && !field.Name.Any(char.IsLower))
            .Select(static field => (field.Name, (int)field.GetRawConstantValue()!))];
        Assert.True(constants.Length > 60, $"only {constants.Length} constants found");

        string folder = Directory.CreateTempSubdirectory("whimbrel-abi").FullName;
        try
        {
            string source = Path.Combine(folder, "abi.c");
            string program = Path.Combine(folder, "abi");
            string[] headers = ["stdio.h", "errno.h", "sys/socket.h", "netinet/in.h", "netinet/tcp.h"];
            await File.WriteAllTextAsync(
                source,
                $"#define _GNU_SOURCE\n{string.Concat(headers.Select(static h => $"#include <{h}>\n"))}int main(void) "
                + "{\n" + string.Concat(constants.Select(static c => $"printf(\"{c.Name} %d\\n\", (int){c.Name});\n"))
                + "return 0; }\n",
                TestContext.Current.CancellationToken);
            await RunAsync("/usr/bin/cc", "-o", program, source);
            Assert.Equal(constants.Select(static c => $"{c.Name} {c.Value}"),
                (await RunAsync(program)).Split('\n', StringSplitOptions.RemoveEmptyEntries));
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    private static async Task<string> RunAsync(string program, params string[] arguments)
    {
        using Process process = Process.Start(
            new ProcessStartInfo(program, arguments) { RedirectStandardOutput = true, RedirectStandardError = true })!;
        Task<string> output = process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken);
        string errors = await process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.True(process.ExitCode == 0, errors);
        return await output;
    }
}
