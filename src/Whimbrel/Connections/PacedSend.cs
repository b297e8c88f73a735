using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <c>SendAsync</c> with a queued message and a caller that continues later: when the queue is short, and in a turn
/// with time for it (<see cref="SendPace"/>). Taken from its loop's pool, and returned by an awaiter on the loop.
/// </summary>
internal sealed class PacedSend : Completion<SendResult>, ILinked<PacedSend>
{
    private const int MostKept = 256;

    private readonly Loop _loop;
    private CancellationTokenRegistration _registration;
    private bool _isGivenUp; // may still be in a list

    private PacedSend(Loop loop)
        : base(loop.Engine) => _loop = loop;

    public PacedSend? Next { get; set; }

    /// <summary>Size of its message, for the accounting.</summary>
    internal int Bytes { get; private set; }

    /// <summary>True if its caller awaits on the loop; other callers continue on the thread pool.</summary>
    internal bool IsOfLoop { get; private set; }

    internal static PacedSend Take(Loop loop, long bytes)
    {
        if (!loop.IsCurrent || !loop.FreePacedSends.TryPop(out PacedSend? send)) send = new PacedSend(loop);
        send.IsOfLoop = loop.IsCurrent;
        send.Bytes = (int)Math.Min(bytes, SendPace.MostOfTurn);
        return send;
    }

    /// <summary>Completes the send, so that its caller continues. It is in no list any more.</summary>
    internal void Release()
    {
        if (!_isGivenUp) SetResult(SendResult.Queued);
    }

    /// <summary>Ends the wait when the token is cancelled. The message is queued, so the result is Queued.</summary>
    internal void CancelWith(CancellationToken token) =>
        _registration = token.UnsafeRegister(static send => ((PacedSend)send!).CancelRequested(), this);

    private void CancelRequested() =>
        _loop.PostControl(static (_, send, _, version) => ((PacedSend)send!).GiveUp((short)version), this,
            null, Version);

    private void GiveUp(short version)
    {
        if (Version != version || IsCompleted) return;
        _isGivenUp = true;
        SetResult(SendResult.Queued);
    }

    private protected override void Consumed()
    {
        _registration.Dispose();
        _registration = default;
        Reset();
        if (!_isGivenUp && _loop.IsCurrent && _loop.FreePacedSends.Count < MostKept) _loop.FreePacedSends.Push(this);
    }
}
