namespace Whimbrel.Connections;

/// <summary>Received data that goes from a loop to a callback on the pool. One owner at a time.</summary>
internal sealed class StrandBlock : IDisposable
{
    internal const int Capacity = 32 * 1024;

    /// <summary>Capacity of a small block: for data that comes when nothing else waits.</summary>
    internal const int SmallCapacity = 1024;

    /// <summary>Capacity of a large block: as much as one receive takes.</summary>
    internal const int LargeCapacity = 64 * 1024;

    /// <summary>
    /// A receive of this size remains in its block. Less is copied to the end of the last block that waits.
    /// </summary>
    internal const int ReceivedFromBytes = 16 * 1024;

    /// <summary>Part of the session's own array that one receive uses.</summary>
    internal const int MostToReceive = 256 * 1024;

    private readonly IStrandBlockHome _home;

    internal StrandBlock(StrandBlocks home, int capacity)
    {
        _home = home;
        // A large one is pinned permanently, because the kernel receives into it.
        Bytes = GC.AllocateUninitializedArray<byte>(capacity, pinned: capacity == LargeCapacity);
    }

    private StrandBlock(IStrandBlockHome home, byte[] memory)
    {
        _home = home;
        Bytes = memory;
        IsSessions = true;
    }

    /// <summary>Creates a block with the session's own array, which returns to its session.</summary>
    internal static StrandBlock OfSession(IStrandBlockHome home, byte[] memory) => new(home, memory);

    /// <summary>True if the memory is the session's own array.</summary>
    internal bool IsSessions { get; }

    internal bool IsSmall => Bytes.Length == SmallCapacity;

    /// <summary>Space for the next receive.</summary>
    internal Span<byte> RoomToReceive => Bytes.AsSpan(0, Math.Min(Bytes.Length, MostToReceive));

    internal byte[] Bytes { get; }

    /// <summary>Number of bytes that are written, from the start of the memory.</summary>
    internal int Length { get; set; }

    internal StrandBlock? Next { get; set; }

    /// <summary>Bytes that are written.</summary>
    internal ReadOnlySpan<byte> Written => Bytes.AsSpan(0, Length);

    internal Span<byte> Room => Bytes.AsSpan(Length);

    /// <summary>Copies as much of the data as fits. Returns the number of copied bytes.</summary>
    internal int Write(ReadOnlySpan<byte> data)
    {
        int count = Math.Min(data.Length, Room.Length);
        data[..count].CopyTo(Room);
        Length += count;
        return count;
    }

    /// <summary>Returns the block. Any thread.</summary>
    public void Dispose() => _home.Return(this);
}
