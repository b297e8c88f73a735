using System.Buffers;
using System.Runtime.InteropServices;

namespace Whimbrel.Connections;

/// <summary>Bytes between a loop and the pool: received ones on their way to a callback, or the sends of one callback on their way back. One owner at a time; disposing gives it back.</summary>
internal sealed class StrandBlock : IMemoryOwner<byte>
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
        // Pinned from birth: pinning it for a send costs nothing then.
        Bytes = GC.AllocateUninitializedArray<byte>(capacity, pinned: true);
    }

    private StrandBlock(IStrandBlockHome home, byte[] memory)
    {
        _home = home;
        Bytes = memory;
        IsSessions = true;
    }

    /// <summary>Memory of a session's own, on its way to that session; it goes back to who has lent it. Not for sends: it is not pinned.</summary>
    internal static StrandBlock OfSession(IStrandBlockHome home, byte[] memory) => new(home, memory);

    /// <summary>Its memory is the session's own.</summary>
    internal bool IsSessions { get; }

    /// <summary>Where the next receive goes.</summary>
    internal Span<byte> RoomToReceive => Bytes.AsSpan(0, Math.Min(Bytes.Length, MostToReceive));

    /// <summary>All of its memory.</summary>
    public Memory<byte> Memory => MemoryMarshal.CreateFromPinnedArray(Bytes, 0, Bytes.Length);

    internal byte[] Bytes { get; }

    /// <summary>Of what is sent: so much has left, and the rest lies behind room that somebody may write into.</summary>
    internal int Start { get; set; }

    /// <summary>How many bytes are written, from the beginning of the memory.</summary>
    internal int Length { get; set; }

    /// <summary>How many sends lie in it.</summary>
    internal int Messages { get; set; }

    internal StrandBlock? Next { get; set; }

    /// <summary>Written, and not left yet.</summary>
    internal ReadOnlySpan<byte> Written => Bytes.AsSpan(Start, Length - Start);

    internal Span<byte> Room => Bytes.AsSpan(Length);

    /// <summary>Gives it back. Any thread.</summary>
    public void Dispose() => _home.Return(this);
}
