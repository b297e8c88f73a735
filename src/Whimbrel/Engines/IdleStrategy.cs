namespace Whimbrel;

/// <summary>Behaviour of a loop without work.</summary>
public enum IdleStrategy
{
    /// <summary>Sleeps in the kernel until something arrives. The default: an idle loop costs nothing.</summary>
    Block,

    /// <summary>
    /// Polls for <see cref="EngineOptions.SpinTime"/>, then sleeps. Saves the wake-up when answers follow soon.
    /// </summary>
    SpinThenBlock,

    /// <summary>Polls and never sleeps: the lowest latency, at the cost of one whole cpu for each loop.</summary>
    Spin,
}
