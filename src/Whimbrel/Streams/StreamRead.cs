using System.IO.Pipelines;
using System.Threading.Tasks.Sources;

namespace Whimbrel.Streams;

/// <summary>
/// The pending read of a <see cref="ConnectionStream"/>, over a read of its <see cref="ReceivingPipe"/>: the awaiting
/// code copies the data when it takes the result. Reused for the next read. Owner: the reading half.
/// </summary>
internal sealed class StreamRead(ReceivingPipe pipe) : IValueTaskSource<int>
{
    private PipeWait<ReadResult> _wait = null!;
    private Memory<byte> _into;

    internal ValueTask<int> Begin(PipeWait<ReadResult> wait, Memory<byte> into)
    {
        (_wait, _into) = (wait, into);
        return new ValueTask<int>(this, wait.Version);
    }

    public ValueTaskSourceStatus GetStatus(short token) => _wait.GetStatus(token);

    public void OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags) => _wait.OnCompleted(continuation, state, token, flags);

    public int GetResult(short token)
    {
        Memory<byte> into = _into;
        ReadResult result = _wait.GetResult(token);
        _into = default;
        return pipe.Take(into);
    }
}
