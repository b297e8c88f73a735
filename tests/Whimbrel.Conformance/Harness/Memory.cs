using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Memory with an owner that counts its disposals.</summary>
public sealed class Memory(byte[] bytes) : IMemoryOwner<byte>
{
    private int _disposals;

    public Memory(string text)
        : this(System.Text.Encoding.ASCII.GetBytes(text))
    {
    }

    public int Disposals => Volatile.Read(ref _disposals);

    Memory<byte> IMemoryOwner<byte>.Memory => bytes;

    public void Dispose() => Interlocked.Increment(ref _disposals);
}
