using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <c>SentAsync</c>: a position in the data of its connection. In the connection's list until all data before it
/// was sent or discarded. Taken from its loop's pool, and returned by the awaiter.
/// </summary>
internal sealed class SentMark : Completion<bool>, ILinked<SentMark>
{
    private readonly Loop _loop;

    internal SentMark(Loop loop)
        : base(loop.Engine) => _loop = loop;

    public SentMark? Next { get; set; }

    /// <summary>Total number of sent bytes at which it is reached. Unknown while it follows a SendOperation.</summary>
    internal long At { get; set; }

    /// <summary>A waiting SendAsync that comes before this mark.</summary>
    internal SendOperation? Behind { get; set; }

    private protected override void Consumed()
    {
        Behind = null;
        Reset();
        _loop.FreeMarks.Return(_loop, this);
    }
}
