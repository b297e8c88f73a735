namespace Whimbrel.Engines;

/// <summary>Owner of timers that end with it: a session. Loop's thread.</summary>
internal interface ITimerOwner
{
    /// <summary>Adds a timer that is started. Returns false if the owner has ended.</summary>
    bool Add(LoopTimer timer);

    /// <summary>Removes a timer that was cancelled.</summary>
    void Remove(LoopTimer timer);

    /// <summary>Called when a timer is due.</summary>
    void Fire(LoopTimer timer);
}
