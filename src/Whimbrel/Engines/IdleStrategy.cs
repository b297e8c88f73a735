namespace Whimbrel;

/// <summary>What a loop does when nothing is there.</summary>
public enum IdleStrategy
{
    /// <summary>Sleeps in the kernel until something arrives. The default: an idle loop costs nothing.</summary>
    Block,

    /// <summary>Looks again for <see cref="EngineOptions.SpinTime"/>, then sleeps. Saves the wake-up where answers follow soon.</summary>
    SpinThenBlock,

    /// <summary>Looks again and never sleeps: the least latency for a whole cpu for each loop.</summary>
    Spin,
}
