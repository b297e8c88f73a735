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

/// <summary>What an <see cref="Engine"/> needs to know. Plain data, validated once, when the engine is made.</summary>
public sealed class EngineOptions
{
    /// <summary>Which engine. <see cref="EngineKind.Auto"/> (the default) asks the environment variable <c>WHIMBREL_ENGINE</c>, then takes the best.</summary>
    public EngineKind Kind { get; init; }

    /// <summary>Number of loops, each with a thread. 0 (the default) is one for each core; at most 256.</summary>
    public int Loops { get; init; }

    /// <summary>Prefix of the threads' names. Default "whimbrel".</summary>
    public string Name { get; init; } = "whimbrel";

    /// <summary>A turn of a loop that takes longer is reported by a notice. 1 ms up to a minute; default 10 ms.</summary>
    public int BlockedLoopMs { get; init; } = 10;

    /// <summary>Called for every notice of this engine and of the servers and clients on it. Any thread; must not block; what it throws is dropped.</summary>
    public Action<Notice>? OnNotice { get; init; }
}
