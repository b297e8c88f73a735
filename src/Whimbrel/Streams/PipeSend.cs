using System.Runtime.CompilerServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Streams;

/// <summary>
/// A flush that could not be queued at once: keeps the segments while a <see cref="SendOperation"/> waits for space,
/// and then returns them.
/// </summary>
internal sealed class PipeSend
{
    private readonly SendingPipe _writer;
    private readonly Action _ended;
    private PipeSegment? _first;
    private ConfiguredValueTaskAwaitable<SendResult>.ConfiguredValueTaskAwaiter _awaiter;

    internal PipeSend(SendingPipe writer)
    {
        _writer = writer;
        _ended = Ended;
    }

    internal void Begin(PipeSegment first, SendOperation operation)
    {
        _first = first;
        _awaiter = operation.Task.ConfigureAwait(false).GetAwaiter();
        if (_awaiter.IsCompleted) Ended();
        else _awaiter.UnsafeOnCompleted(_ended);
    }

    private void Ended()
    {
        PipeSegment first = _first!;
        SendResult result = _awaiter.GetResult();
        _first = null;
        _awaiter = default;
        _writer.Ended(this, first, result != SendResult.Queued);
    }
}
