namespace Whimbrel;

/// <summary>Kernel interface of an engine. The tool and <c>WHIMBREL_ENGINE</c> use the same words.</summary>
public enum EngineKind
{
    /// <summary>The best kind that works on this system. The default.</summary>
    Auto,

    /// <summary>
    /// Linux io_uring by raw system calls. Linux 6.1 and later, where the system allows it. Currently used only if set
    /// explicitly.
    /// </summary>
    Uring,

    /// <summary>Linux epoll by raw system calls.</summary>
    Epoll,

    /// <summary>System.Net.Sockets: every platform that .NET supports.</summary>
    Portable,
}

/// <summary>
/// Options of an <see cref="Engine"/>. Plain data, validated once, when the engine is created; the exception lists all
/// mistakes.
/// </summary>
public sealed class EngineOptions
{
    /// <summary>
    /// Kind of the engine. Default <see cref="EngineKind.Auto"/>: the environment variable <c>WHIMBREL_ENGINE</c>,
    /// otherwise the best kind.
    /// </summary>
    public EngineKind Kind { get; init; }

    /// <summary>Number of loops, each with a thread. At most 256; default 0, one for each core.</summary>
    public int Loops { get; init; }

    /// <summary>
    /// Number of loops, from loop 0 on, without a thread of their own: the application runs them with
    /// <see cref="Loop.Run"/> or <see cref="Loop.Turn"/>. 0 (the default) to all. Work for such a loop waits until the
    /// application runs it.
    /// </summary>
    public int AdoptedLoops { get; init; }

    /// <summary>
    /// Prefix of the thread names; the number of the loop follows. Default "whimbrel". Linux shows the first 15
    /// characters.
    /// </summary>
    public string Name { get; init; } = "whimbrel";

    /// <summary>
    /// Priority of the engine's threads. Default normal. On Linux it becomes a nice value: 10, 5, unchanged, -5, -10.
    /// Values below 0 need CAP_SYS_NICE or RLIMIT_NICE; without it the start fails. Not applied to adopted loops.
    /// </summary>
    public ThreadPriority Priority { get; init; } = ThreadPriority.Normal;

    /// <summary>
    /// Cpus of the loops: loop n runs only on the cpu at position n of this list, which repeats. Default null: the
    /// system places the threads. Linux; a cpu that the process may not use fails the start. Not applied to adopted
    /// loops.
    /// </summary>
    public IReadOnlyList<int>? Cpus { get; init; }

    /// <summary>Behaviour of a loop without work. Default <see cref="IdleStrategy.Block"/>.</summary>
    public IdleStrategy Idle { get; init; }

    /// <summary>
    /// Time that <see cref="IdleStrategy.SpinThenBlock"/> spins before it sleeps. 1 microsecond to 1 second; default 50
    /// microseconds.
    /// </summary>
    public TimeSpan SpinTime { get; init; } = TimeSpan.FromMicroseconds(50);

    /// <summary>
    /// Callback on the loop's thread each time that a spinning loop found no work, which is very often: a place to poll
    /// other sources, or to pause. Runs outside of session callbacks; posts made there run next. Must not block.
    /// Exceptions are reported as diagnostic events, at most once a minute. Only with <see cref="IdleStrategy.Spin"/>
    /// or <see cref="IdleStrategy.SpinThenBlock"/>.
    /// </summary>
    public Action<Loop>? OnIdle { get; init; }

    /// <summary>
    /// Callback on the loop's thread before its first turn, at each start. An exception fails the start (for an adopted
    /// loop: the call that runs it).
    /// </summary>
    public Action<Loop>? OnLoopStarted { get; init; }

    /// <summary>
    /// Callback on the loop's thread after its last connection has ended, at each stop. Its posts to this loop still
    /// run; exceptions are reported as diagnostic events. Not called if <see cref="OnLoopStarted"/> of the loop was not
    /// called or threw.
    /// </summary>
    public Action<Loop>? OnLoopStopping { get; init; }

    /// <summary>
    /// Duration of a callback on a loop from which it is reported by a diagnostic event, at most once a minute per
    /// callback and class. Reported when the turn has ended and, after one second, also while it lasts. Counts the
    /// callback's own computing and waiting. Excluded are JIT compilation, waits of the loop's thread for a cpu (on
    /// Linux), and pauses of the whole process. The limit is 250 ms for the turn in which user code runs for the first
    /// time. 1 ms to 1 minute; default 100 ms.
    /// </summary>
    public int BlockedLoopMs { get; init; } = 100;

    /// <summary>
    /// Number of file descriptors that this engine keeps free: further connections, connects, listeners and datagram
    /// sockets are rejected as if none were left. The runtime needs descriptors for threads and two for each loaded
    /// assembly, and terminates the process if there are none. 16 to 1,000,000; default 0: a quarter of the process's
    /// limit, from 16 to 64. Linux.
    /// </summary>
    public int DescriptorMargin { get; init; }

    /// <summary>
    /// Maximum number of bytes of cross-thread sends that the loops have not processed, over all loops, plus 64 bytes
    /// for each send. Each session's own limit applies first, so this limit matters only when loops are delayed. Then
    /// <c>Send</c> returns <see cref="SendResult.Full"/> with a diagnostic event, and <c>SendAsync</c> waits without a
    /// copy. Sessions with rejected sends get <c>OnDrained</c> when half of it is free. 4,096 to 1 TiB; default 0: an
    /// eighth of the memory available to the process, at least 64 MiB and at most 1 GiB.
    /// </summary>
    public long MailboxLimitBytes { get; init; }

    /// <summary>
    /// Time that <see cref="Engine.StopAsync"/> and <see cref="Engine.DisposeAsync"/> wait for callbacks that do not
    /// return, plus one second; then they throw an exception that names them. Zero to 1 hour; default 5 s.
    /// </summary>
    public TimeSpan StopTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Callback for every diagnostic event of this engine and of its servers and clients. Any thread; must not block;
    /// its exceptions are dropped. Default null: diagnostic events are written to standard error, at most 100 in a
    /// minute.
    /// </summary>
    public Action<DiagnosticEvent>? OnDiagnosticEvent { get; init; }

    internal int LoopCount => Loops == 0 ? Environment.ProcessorCount : Loops;

    /// <summary>
    /// Returns all mistakes for which <see cref="Engine"/> would reject these options; empty if there are none. See
    /// <see cref="ServerOptions.FindMistakes"/>.
    /// </summary>
    public IReadOnlyList<string> FindMistakes() => Judge().Mistakes;

    /// <summary>Throws an exception with all mistakes.</summary>
    internal void Validate() => Judge().ThrowIfAny();

    private OptionErrors Judge()
    {
        OptionErrors errors = new(nameof(EngineOptions));
        errors.Defined(nameof(Kind), Kind);
        errors.Range(nameof(Loops), Loops, 0, 256);
        errors.Range(nameof(BlockedLoopMs), BlockedLoopMs, 1, 60_000);
        errors.RangeOrZero(nameof(DescriptorMargin), DescriptorMargin, Linux.DescriptorMargin.Least, 1_000_000);
        errors.Range(nameof(StopTimeout), StopTimeout, TimeSpan.Zero, TimeSpan.FromHours(1));
        errors.RangeOrZero(nameof(MailboxLimitBytes), MailboxLimitBytes, 4096, 1L << 40);
        errors.Range(nameof(AdoptedLoops), AdoptedLoops, 0, Math.Clamp(LoopCount, 0, 256));
        errors.Defined(nameof(Priority), Priority);
        errors.Defined(nameof(Idle), Idle);
        errors.Range(nameof(SpinTime), SpinTime, TimeSpan.FromMicroseconds(1), TimeSpan.FromSeconds(1));
        if (Name is null) errors.Add("Name is null");
        if (OnIdle is not null && Idle == IdleStrategy.Block)
            errors.Add("OnIdle is never called with Idle = Block, take Spin or SpinThenBlock");
        if (Priority != ThreadPriority.Normal && !Linux.KernelProbe.HasThreadPriority)
            errors.Add($"Priority = {Priority}, and this system gives threads no priority of their own");
        if (Cpus is not null) ValidateCpus(errors);
        return errors;
    }

    private void ValidateCpus(OptionErrors errors)
    {
        if (!Linux.KernelProbe.HasThreadAffinity)
            errors.Add("Cpus is given, and this library can bind threads to cpus on Linux only");
        if (Cpus!.Count == 0) errors.Add("Cpus is empty, leave it null for no binding");
        foreach (int cpu in Cpus) errors.Range(nameof(Cpus), cpu, 0, Linux.CurrentThread.MaxCpus - 1);
    }
}
