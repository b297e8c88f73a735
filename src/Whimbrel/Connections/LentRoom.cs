using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// Space at the end of a send queue that Reserve has lent until the running user code returns. Owned by the queue.
/// Loop's thread.
/// </summary>
internal sealed class LentRoom
{
    /// <summary>Block with the space at its end; null if it was invalidated.</summary>
    internal Block? Block;

    /// <summary>Offset of the space in the block.</summary>
    internal int At;

    /// <summary>Number of bytes that may still be committed.</summary>
    internal int Length;

    /// <summary>
    /// Number of reservations of the same call that later sends have invalidated: each keeps a block of its own until
    /// the call returns.
    /// </summary>
    internal int Lost;

    /// <summary>Number of the call of user code (Loop.UserCalls) that reserved it.</summary>
    internal long Call;

    internal void Lend(Block block, int length, long call)
    {
        Block = block;
        At = block.End;
        Length = length;
        Call = call;
    }

    /// <summary>
    /// Invalidates the reservation, because data was sent after it. Its block stays until the user code returns, and so
    /// does the next one's.
    /// </summary>
    internal void Lose()
    {
        Block = null;
        Lost++;
    }
}
