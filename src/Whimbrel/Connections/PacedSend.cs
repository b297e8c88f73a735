using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <c>SendAsync</c> whose message is queued, and whose caller goes on later: when the queue is short, and in a turn that has a part for it
/// (<see cref="SendPace"/>). Taken from its loop's pool and put back by the awaiter when that runs on the loop.
/// </summary>
internal sealed class PacedSend : Completion<SendResult>
{
    private const int MostKept = 256;

    private readonly Loop _loop;
    private CancellationTokenRegistration _registration;
    private bool _isGivenUp; // and perhaps still in a list

    private PacedSend(Loop loop)
        : base(loop.Engine) => _loop = loop;

    internal PacedSend? Next { get; set; }

    /// <summary>Of its message, for the reckoning.</summary>
    internal int Bytes { get; private set; }

    /// <summary>Its caller awaits on the loop; others go on on the thread pool.</summary>
    internal bool IsOfLoop { get; private set; }

    internal static PacedSend Take(Loop loop, long bytes)
    {
        if (!loop.IsCurrent || !loop.FreePacedSends.TryPop(out PacedSend? send)) send = new PacedSend(loop);
        send.IsOfLoop = loop.IsCurrent;
        send.Bytes = (int)Math.Min(bytes, SendPace.MostOfTurn);
        return send;
    }

    /// <summary>Its caller goes on. It is in no list any more.</summary>
    internal void Release()
    {
        if (!_isGivenUp) SetResult(SendResult.Queued);
    }

    /// <summary>A token that is cancelled ends the wait. The message is queued, and that is the result.</summary>
    internal void CancelWith(CancellationToken token) =>
        _registration = token.UnsafeRegister(static send => ((PacedSend)send!).CancelRequested(), this);

    private void CancelRequested() =>
        _loop.PostControl(static (_, send, _, version) => ((PacedSend)send!).GiveUp((short)version), this, null, Version);

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
