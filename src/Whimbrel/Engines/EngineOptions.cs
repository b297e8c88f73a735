namespace Whimbrel;

/// <summary>Which kernel interface an engine uses. The same words stand in the tool and in <c>WHIMBREL_ENGINE</c>.</summary>
public enum EngineKind
{
    /// <summary>The best that works here. The default.</summary>
    Auto,

    /// <summary>Linux io_uring by raw system calls: Linux 6.1 and later, where the system allows it. For now taken only when asked for.</summary>
    Uring,

    /// <summary>Linux epoll by raw system calls.</summary>
    Epoll,

    /// <summary>System.Net.Sockets: every platform that .NET runs on.</summary>
    Portable,
}

/// <summary>What an <see cref="Engine"/> needs to know. Plain data, validated once, when the engine is made, with all mistakes told together.</summary>
public sealed class EngineOptions
{
    /// <summary>Which engine. <see cref="EngineKind.Auto"/> (the default) asks the environment variable <c>WHIMBREL_ENGINE</c>, then takes the best.</summary>
    public EngineKind Kind { get; init; }

    /// <summary>Number of loops, each with a thread. 0 (the default) is one for each core; at most 256.</summary>
    public int Loops { get; init; }

    /// <summary>How many of the loops, from loop 0 on, have no thread of their own, and are run by the caller with <see cref="Loop.Run"/> or <see cref="Loop.Turn"/>. 0 (the default) up to all. Until somebody runs them, what is given to them waits.</summary>
    public int AdoptedLoops { get; init; }

    /// <summary>Prefix of the threads' names; the number of the loop follows. Default "whimbrel". Linux shows the first 15 characters.</summary>
    public string Name { get; init; } = "whimbrel";

    /// <summary>Priority of the engine's threads. Default normal. On Linux it becomes a nice value: 10, 5, untouched, -5, -10; less than 0 needs a right (CAP_SYS_NICE or RLIMIT_NICE), and without it the start fails. Not for adopted loops.</summary>
    public ThreadPriority Priority { get; init; } = ThreadPriority.Normal;

    /// <summary>Null (the default) lets threads run where the system puts them. Else loop n runs on the cpu at place n of this list only, from the start again at its end. Linux; a cpu that the process may not use fails the start. Not for adopted loops.</summary>
    public IReadOnlyList<int>? Cpus { get; init; }

    /// <summary>What a loop does when nothing is there. Default <see cref="IdleStrategy.Block"/>.</summary>
    public IdleStrategy Idle { get; init; }

    /// <summary>How long <see cref="IdleStrategy.SpinThenBlock"/> looks again before it sleeps. 1 microsecond up to 1 second; default 50 microseconds.</summary>
    public TimeSpan SpinTime { get; init; } = TimeSpan.FromMicroseconds(50);

    /// <summary>Called on the loop's thread each time that a spinning loop found nothing to do, very often: the place to poll something else, or to pause. Outside of any session's callback; what is posted there runs next. Must not block. What it throws is a notice, at most once a minute. Only with <see cref="IdleStrategy.Spin"/> or <see cref="IdleStrategy.SpinThenBlock"/>.</summary>
    public Action<Loop>? OnIdle { get; init; }

    /// <summary>Called on the loop's thread before its first turn, at each start. What it throws fails the start (for an adopted loop: the call that ran it).</summary>
    public Action<Loop>? OnLoopStarted { get; init; }

    /// <summary>Called on the loop's thread after its last connection has ended, at each stop. What it posts to this loop still runs; what it throws is a notice. Not called for a loop whose <see cref="OnLoopStarted"/> was not called or threw.</summary>
    public Action<Loop>? OnLoopStopping { get; init; }

    /// <summary>
    /// User code that keeps a loop longer is reported by a notice, once a minute for each callback of each class: when the turn has ended, and from a
    /// second on also while it lasts. What counts is what the callback itself took, computing or waiting. Not counted are the compiler, a wait of the
    /// loop's thread for a cpu (on Linux), and time in which the whole process stood still. The turn in which user code runs for the first time has
    /// 250 ms. 1 ms up to a minute; default 100 ms.
    /// </summary>
    public int BlockedLoopMs { get; init; } = 100;

    /// <summary>
    /// File descriptors that this engine leaves free: connections, dials, listeners and datagram sockets beyond are refused as if there were no
    /// more. The runtime takes some to start a thread, keeps two for each assembly that it loads, and ends the process when it gets none. 16
    /// up to 1,000,000; 0 (the default) is a quarter of the process's limit, from 16 to 64. Linux.
    /// </summary>
    public int DescriptorMargin { get; init; }

    /// <summary>
    /// How many bytes of sends of other threads may be on their way to the loops, over all of them, 64 more for each send; 4,096 up to 1 TiB. 0 (the default) is
    /// an eighth of the memory that the process may use, at least 64 MiB and at most 1 GiB. Each session has its own limit before; this one is met only when loops do not get to
    /// what they are sent. Then <c>Send</c> gives <see cref="SendResult.Full"/> with a notice, <c>SendAsync</c> waits without a copy, and who was refused gets <c>OnDrained</c> when half of it is free.
    /// </summary>
    public long MailboxLimitBytes { get; init; }

    /// <summary>
    /// How long <see cref="Engine.StopAsync"/> and <see cref="Engine.DisposeAsync"/> wait for callbacks that do not return, and a second more;
    /// then they throw, and name them. Zero up to an hour; default 5 s.
    /// </summary>
    public TimeSpan StopTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Called for every notice of this engine and of the servers and clients on it. Any thread; must not block; what it throws is dropped.
    /// Null (the default) writes them to standard error, at most 100 in a minute.
    /// </summary>
    public Action<DiagnosticEvent>? OnDiagnosticEvent { get; init; }

    internal int LoopCount => Loops == 0 ? Environment.ProcessorCount : Loops;

    /// <summary>What <see cref="Engine"/> would refuse these options for, all of it; empty when nothing is wrong. As <see cref="ServerOptions.FindMistakes"/>.</summary>
    public IReadOnlyList<string> FindMistakes() => Judge().Mistakes;

    /// <summary>Throws with all mistakes.</summary>
    internal void Validate() => Judge().ThrowIfAny();

    private OptionErrors Judge()
    {
        OptionErrors errors = new(nameof(EngineOptions));
        errors.Defined(nameof(Kind), Kind);
        errors.Range(nameof(Loops), Loops, 0, 256);
        errors.Range(nameof(BlockedLoopMs), BlockedLoopMs, 1, 60_000);
        if (DescriptorMargin != 0) errors.Range(nameof(DescriptorMargin), DescriptorMargin, Linux.DescriptorMargin.Least, 1_000_000);
        errors.Range(nameof(StopTimeout), StopTimeout, TimeSpan.Zero, TimeSpan.FromHours(1));
        if (MailboxLimitBytes != 0) errors.Range(nameof(MailboxLimitBytes), MailboxLimitBytes, 4096, 1L << 40);
        errors.Range(nameof(AdoptedLoops), AdoptedLoops, 0, Math.Clamp(LoopCount, 0, 256));
        errors.Defined(nameof(Priority), Priority);
        errors.Defined(nameof(Idle), Idle);
        errors.Range(nameof(SpinTime), SpinTime, TimeSpan.FromMicroseconds(1), TimeSpan.FromSeconds(1));
        if (Name is null) errors.Add("Name is null");
        if (OnIdle is not null && Idle == IdleStrategy.Block) errors.Add("OnIdle is never called with Idle = Block, take Spin or SpinThenBlock");
        if (Priority != ThreadPriority.Normal && !Linux.KernelProbe.HasThreadPriority) errors.Add($"Priority = {Priority}, and this system gives threads no priority of their own");
        if (Cpus is not null) ValidateCpus(errors);
        return errors;
    }

    private void ValidateCpus(OptionErrors errors)
    {
        if (!Linux.KernelProbe.HasThreadAffinity) errors.Add("Cpus is given, and this library can bind threads to cpus on Linux only");
        if (Cpus!.Count == 0) errors.Add("Cpus is empty, leave it null for no binding");
        foreach (int cpu in Cpus) errors.Range(nameof(Cpus), cpu, 0, Linux.CurrentThread.MaxCpus - 1);
    }
}
