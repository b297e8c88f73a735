using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>A user's memory that runs an action whenever it is accessed.</summary>
public sealed class TalkingMemory(byte[] bytes, Action onAsked) : MemoryManager<byte>
{
    private readonly byte[] _bytes = [.. bytes];

    public override Span<byte> GetSpan()
    {
        onAsked();
        return _bytes;
    }

    public override MemoryHandle Pin(int elementIndex = 0)
    {
        onAsked();
        return new ReadOnlyMemory<byte>(_bytes)[elementIndex..].Pin();
    }

    public override void Unpin()
    {
        // The handle of the array releases it.
    }

    protected override void Dispose(bool disposing)
    {
        // Nothing to release.
    }
}
