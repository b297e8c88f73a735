using System.IO.Pipelines;

namespace Whimbrel.Bench.Peers;

/// <summary>One connection as its groups see it. Several broadcasts may write at once: one after the other.</summary>
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
            // A pipe may be flushed by one at a time; what comes meanwhile goes with the next flush.
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
                    // Before the lock is left, or a message that comes now would wait for a flush that has ended.
                    _flushing = Task.CompletedTask;
                    return;
                }

                _flushAgain = false;
            }
        }
    }
}
