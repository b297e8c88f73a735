using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <c>SentAsync</c>: a place in what its connection sends. In the list of the connection until all before it has left, or never will.
/// Taken from its loop's pool and put back by the awaiter.
/// </summary>
internal sealed class SentMark : Completion<bool>
{
    private readonly Loop _loop;

    internal SentMark(Loop loop)
        : base(loop.Engine) => _loop = loop;

    internal SentMark? Next { get; set; }

    /// <summary>It is passed when the connection has sent so many bytes in all. Not known while it is behind an operation.</summary>
    internal long At { get; set; }

    /// <summary>A SendAsync that waits for room, and comes first.</summary>
    internal SendOperation? Behind { get; set; }

    private protected override void Consumed()
    {
        Reset();
        _loop.FreeMarks.Return(_loop, this);
    }
}
