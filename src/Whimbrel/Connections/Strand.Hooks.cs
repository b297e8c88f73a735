namespace Whimbrel.Connections;

/// <summary>What a session on the pool is told about its sends. When the pool is slower than the loop, several news become one.</summary>
internal sealed partial class Strand
{
    private long _sentUntold;
    private int _drainUntold;

    /// <summary>Loop's thread.</summary>
    internal void PostSent(long count)
    {
        if (Interlocked.Add(ref _sentUntold, count) == count) Post(new StrandEvent(StrandEventKind.Sent, null, null));
    }

    /// <summary>Loop's thread.</summary>
    internal void PostDrained()
    {
        if (Interlocked.Exchange(ref _drainUntold, 1) == 0) Post(new StrandEvent(StrandEventKind.Drained, null, null));
    }

    private void RunSent()
    {
        long sent = Interlocked.Exchange(ref _sentUntold, 0);
        if (_isEnded || sent == 0) return;
        try
        {
            _session.CallSent(sent, _session.BytesPending);
        }
        catch (Exception e)
        {
            FailWith(e);
            return;
        }

        CallReturned();
    }

    private void RunDrained()
    {
        Volatile.Write(ref _drainUntold, 0);
        // What was sent meanwhile, above the mark, is drained later, and told then.
        if (!_isEnded && _session.BytesPending <= _session.DrainMarkBytes) Call(static (s, _) => s.CallDrained());
    }
}
