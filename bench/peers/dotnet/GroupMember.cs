using System.IO.Pipelines;

namespace Whimbrel.Bench.Peers;

/// <summary>One connection as its groups see it. Concurrent broadcasts write one after the other.</summary>
internal sealed class GroupMember(PipeWriter output)
{
    private readonly Lock _writing = new();
    private Task _flushing = Task.CompletedTask;
    private bool _flushAgain;

    public List<List<GroupMember>> Groups { get; } = [];

    public void Send(ReadOnlySpan<byte> message)
    {
        lock (_writing)
        {
            message.CopyTo(output.GetSpan(message.Length));
            output.Advance(message.Length);
            // Only one flush of a pipe may run at a time; data written meanwhile is sent by the next flush.
            if (_flushing.IsCompleted)
            {
                _flushing = FlushAsync();
            }
            else
            {
                _flushAgain = true;
            }
        }
    }

    private async Task FlushAsync()
    {
        while (true)
        {
            var flushed = await output.FlushAsync().ConfigureAwait(false);
            lock (_writing)
            {
                if (flushed.IsCompleted || !_flushAgain)
                {
                    // Before the lock is released: otherwise a message written now would wait for a flush that has
                    // ended.
                    _flushing = Task.CompletedTask;
                    return;
                }

                _flushAgain = false;
            }
        }
    }
}
