namespace Whimbrel;

/// <summary>
/// Options that servers and clients have for each of their connections. Plain data, validated once, at start.
/// </summary>
public abstract class ConnectionOptions
{
    private protected ConnectionOptions()
    {
    }

    /// <summary>
    /// The engine that serves the connections. Default null: <see cref="Whimbrel.Engine.Default"/>, which is shared and
    /// never disposed.
    /// </summary>
    public Engine? Engine { get; init; }

    /// <summary>
    /// Threads that run the sessions' callbacks. Default <see cref="Whimbrel.Scheduling.Inline"/>: on their loop, where
    /// they must not block.
    /// </summary>
    public Scheduling Scheduling { get; init; }

    /// <summary>
    /// With <see cref="Whimbrel.Scheduling.ThreadPool"/>: replaces the thread pool for callbacks, so that they do not
    /// wait while all its threads are busy. It gets an item each time a session has work, and must call
    /// <see cref="IThreadPoolWorkItem.Execute"/> later, once, on any thread that is not a loop's. Called on loops and
    /// other threads; must not block. Items of different sessions may run at the same time; those of one session never
    /// overlap. If it throws, or runs the item inside the call, the pool runs the item and a diagnostic event is
    /// reported. If an item is dropped, its session stops working, and a stop waits for it up to its deadline. Stream
    /// handlers are always started on the pool. Default null: the pool.
    /// </summary>
    public Action<IThreadPoolWorkItem>? Dispatcher { get; init; }

    /// <summary>
    /// Whether sends are counted in <see cref="ServerCounters.MessagesSent"/>. Costs about ten nanoseconds per send in
    /// a callback. Default false.
    /// </summary>
    public bool CountSends { get; init; }

    /// <summary>
    /// Service provider passed to factories as <see cref="SessionContext.Services"/>. The library does not use it.
    /// </summary>
    public IServiceProvider? Services { get; init; }

    /// <summary>
    /// Callback for diagnostic events that concern this server or client. Any thread; must not block. Default null: the
    /// engine's.
    /// </summary>
    public Action<DiagnosticEvent>? OnDiagnosticEvent { get; init; }

    /// <summary>Returns a copy, so that later changes of shared objects have no effect.</summary>
    internal ConnectionOptions Clone() => (ConnectionOptions)MemberwiseClone();

    // The groups as the connections of servers and clients need them.

    internal abstract ConnectionLimits CommonLimits { get; }

    internal abstract ConnectionTimeouts CommonTimeouts { get; }

    internal abstract ConnectionSocketOptions CommonSocket { get; }

    private protected void ValidateCommon(OptionErrors errors)
    {
        CommonLimits.Check(errors);
        CommonTimeouts.Check(errors);
        SocketOptionRules.CheckRanges(errors, CommonSocket);
        errors.Defined(nameof(Scheduling), Scheduling);
        if (Dispatcher is not null && Scheduling != Scheduling.ThreadPool)
            errors.Add("Dispatcher is set, but without Scheduling = ThreadPool the callbacks run on the loops");
    }
}
