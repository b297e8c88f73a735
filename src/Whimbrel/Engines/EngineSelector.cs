using Whimbrel.Engines.Epoll;
using Whimbrel.Engines.Portable;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>Chooses the engine and says why. The one place that knows all of them.</summary>
internal static class EngineSelector
{
    internal const string Variable = "WHIMBREL_ENGINE";

    /// <summary>Which engine to use for what was asked; never Auto. Throws when what was asked for cannot run here.</summary>
    internal static (EngineKind Kind, string Reason) Choose(EngineKind asked, string? variable) => Choose(asked, variable, static () => UringProbe.Here);

    /// <summary>The same with what is known of io_uring.</summary>
    internal static (EngineKind Kind, string Reason) Choose(EngineKind asked, string? variable, Func<UringSupport> probe)
    {
        string source = "asked for by EngineOptions.Kind";
        if (asked == EngineKind.Auto && !string.IsNullOrEmpty(variable))
        {
            // By name only: the parser for enums would also take numbers, signs, spaces and lists.
            if (!Enum.GetNames<EngineKind>().Contains(variable, StringComparer.OrdinalIgnoreCase) || !Enum.TryParse(variable, ignoreCase: true, out asked))
            {
                throw new ArgumentException($"{Variable} = '{variable}', allowed auto, uring, epoll, portable.");
            }

            source = $"asked for by {Variable}";
        }

        switch (asked)
        {
            case EngineKind.Auto:
                return Best(probe);
            case EngineKind.Epoll when !KernelProbe.HasEpoll:
                throw new PlatformNotSupportedException($"The epoll engine, {source}, needs Linux on x64 or arm64. Use portable.");
            case EngineKind.Uring when probe() is { IsOffered: false } support:
                throw new PlatformNotSupportedException($"The io_uring engine, {source}, cannot run: {support.Reason}. Use epoll, or see docs/symptoms/no-io-uring.md.");
            default:
                return (asked, source);
        }
    }

    /// <summary>The first that works, with the reason why those before it do not.</summary>
    private static (EngineKind Kind, string Reason) Best(Func<UringSupport> probe)
    {
        if (!KernelProbe.HasEpoll) return (EngineKind.Portable, "epoll needs Linux on x64 or arm64");
        UringSupport support = probe();
        return support.IsOffered
            ? (EngineKind.Uring, "the best engine on this system")
            : (EngineKind.Epoll, support.Reason);
    }

    internal static Loop Create(EngineKind kind, Engine engine, int index) => kind switch
    {
        EngineKind.Uring => new UringLoop(engine, index, UringLoop.OpenRing),
        EngineKind.Epoll => new EpollLoop(engine, index),
        _ => new PortableLoop(engine, index),
    };
}
