using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>Room at the end of a send queue that Reserve has lent, until the user's code that ran then returns. Owner: the queue. Loop's thread.</summary>
internal sealed class LentRoom
{
    /// <summary>At whose end it is; null when it is not there any more.</summary>
    internal Block? Block;

    /// <summary>Where in the block it begins.</summary>
    internal int At;

    /// <summary>Bytes that may still be committed.</summary>
    internal int Length;

    /// <summary>Rooms of the same call that were sent past: each holds a block of its own until that returns.</summary>
    internal int Lost;

    /// <summary>The call of user code (Loop.UserCalls) that it was lent in.</summary>
    internal long Call;

    internal void Lend(Block block, int length, long call)
    {
        Block = block;
        At = block.End;
        Length = length;
        Call = call;
    }

    /// <summary>Something was sent behind the room. Its block stays until the user's code returns, and so does the next one's.</summary>
    internal void Lose()
    {
        Block = null;
        Lost++;
    }
}
