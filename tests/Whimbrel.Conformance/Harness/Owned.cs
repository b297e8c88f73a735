using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Memory with an owner that overwrites it when disposed: a later send would show at the other end.</summary>
public sealed class Owned(byte[] bytes) : IMemoryOwner<byte>
{
    public Memory<byte> Memory => bytes;

    public void Dispose() => bytes.AsSpan().Fill(0xEE);
}
