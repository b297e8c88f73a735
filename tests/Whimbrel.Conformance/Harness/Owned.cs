using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Memory with an owner that overwrites it when it is given back: what is sent after this would be seen at the other end.</summary>
public sealed class Owned(byte[] bytes) : IMemoryOwner<byte>
{
    public Memory<byte> Memory => bytes;

    public void Dispose() => bytes.AsSpan().Fill(0xEE);
}
