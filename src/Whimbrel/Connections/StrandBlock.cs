namespace Whimbrel.Connections;

/// <summary>Received bytes on their way from a loop to a callback on the pool. One owner at a time.</summary>
internal sealed class StrandBlock : IDisposable
{
    internal const int Capacity = 32 * 1024;

    /// <summary>Of the large ones: as much as one receive takes.</summary>
    internal const int LargeCapacity = 64 * 1024;

    /// <summary>A receive of so much at a time stays in the block that it came in; less is copied behind what waits.</summary>
    internal const int ReceivedFromBytes = 16 * 1024;

    /// <summary>Of a longer array of a session's own so much is received into at a time.</summary>
    internal const int MostToReceive = 256 * 1024;

    private readonly IStrandBlockHome _home;

    internal StrandBlock(StrandBlocks home, int capacity)
    {
        _home = home;
        // Pinned permanently, because the kernel receives into it.
        Bytes = GC.AllocateUninitializedArray<byte>(capacity, pinned: true);
    }

    private StrandBlock(IStrandBlockHome home, byte[] memory)
    {
        _home = home;
        Bytes = memory;
        IsSessions = true;
    }

    /// <summary>Memory of a session's own, on its way to that session. It returns to the strand that lent it.</summary>
    internal static StrandBlock OfSession(IStrandBlockHome home, byte[] memory) => new(home, memory);

    /// <summary>Its memory is the session's own.</summary>
    internal bool IsSessions { get; }

    /// <summary>Where the next receive goes.</summary>
    internal Span<byte> RoomToReceive => Bytes.AsSpan(0, Math.Min(Bytes.Length, MostToReceive));

    internal byte[] Bytes { get; }

    /// <summary>How many bytes are written, from the beginning of the memory.</summary>
    internal int Length { get; set; }

    internal StrandBlock? Next { get; set; }

    /// <summary>The bytes that are written.</summary>
    internal ReadOnlySpan<byte> Written => Bytes.AsSpan(0, Length);

    internal Span<byte> Room => Bytes.AsSpan(Length);

    /// <summary>Gives it back. Any thread.</summary>
    public void Dispose() => _home.Return(this);
}
