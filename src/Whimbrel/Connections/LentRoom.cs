using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// Memory that Reserve lends to the user code of a loop: a block that is in no queue. A loop lends one at a time: it
/// ends with Commit, with the next Reserve, and when the user code returns. Loop's thread.
/// </summary>
// Safe: a count is at most the length that was lent, which is at most the capacity of a block.
internal unsafe struct LentRoom
{
    private Block? _block;
    private Connection? _owner;
    private long _call; // number of the call of user code (Loop.UserCalls)
    private int _length;

    internal Span<byte> Lend(Connection owner, int length)
    {
        _block ??= owner.Loop.TakeBlock();
        (_owner, _call, _length) = (owner, owner.Loop.UserCalls, length);
        return new Span<byte>(_block.Memory, length);
    }

    /// <summary>Number of bytes that this connection may commit now.</summary>
    internal readonly int LengthOf(Connection owner) =>
        ReferenceEquals(_owner, owner) && _call == owner.Loop.UserCalls ? _length : 0;

    /// <summary>Bytes written from the start of the memory.</summary>
    internal readonly ReadOnlySpan<byte> Written(int count) => new(_block!.Memory, count);

    /// <summary>Returns the block with these bytes, which then belongs to the caller.</summary>
    internal Block Take(int count)
    {
        Block block = _block!;
        block.End = count;
        _block = null;
        return block;
    }

    /// <summary>Ends the reservation.</summary>
    internal void Release(Loop loop)
    {
        if (_block is not null) loop.Blocks.Return(_block);
        this = default;
    }
}
