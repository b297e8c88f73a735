namespace Whimbrel.Connections;

/// <summary>What a session on the pool is told about its sends. When the pool is slower than the loop, several news become one.</summary>
internal sealed partial class Strand
{
    private long _sentUntold;

    /// <summary>Loop's thread.</summary>
    internal void PostSent(long count)
    {
        if (Interlocked.Add(ref _sentUntold, count) == count) Tell(SessionCallback.Sent);
    }

    /// <summary>Returns the number of sent bytes that OnSent has not reported yet, and resets it.</summary>
    internal long TakeSent() => Interlocked.Exchange(ref _sentUntold, 0);
}
