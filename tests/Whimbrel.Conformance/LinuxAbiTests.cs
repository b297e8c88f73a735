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
    }

    [Fact]
    public void Fields_lie_where_the_kernel_looks_for_them()
    {
        Assert.Equal(4, Marshal.OffsetOf<EpollEventPacked>(nameof(EpollEventPacked.Data)));
        Assert.Equal(8, Marshal.OffsetOf<EpollEventAligned>(nameof(EpollEventAligned.Data)));
        Assert.Equal(8, Marshal.OffsetOf<IoVector>(nameof(IoVector.Length)));
        Assert.Equal(16, Marshal.OffsetOf<MessageHeader>(nameof(MessageHeader.Vectors)));
        Assert.Equal(24, Marshal.OffsetOf<MessageHeader>(nameof(MessageHeader.VectorCount)));
        Assert.Equal(48, Marshal.OffsetOf<MessageHeader>(nameof(MessageHeader.Flags)));
    }

    [Fact]
    public void Events_are_packed_on_x64_only() =>
        Assert.Equal(RuntimeInformation.ProcessArchitecture == Architecture.X64 ? 12 : 16, EpollEvents.Size);
}
