using Whimbrel.Engines.Epoll;
using Whimbrel.Engines.Portable;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>Chooses the engine and says why. The one place that knows all of them.</summary>
internal static class EngineSelector
{
    internal const string Variable = "WHIMBREL_ENGINE";

    /// <summary>Which engine to use for what was asked; never Auto. Throws when what was asked for cannot run here.</summary>
    internal static (EngineKind Kind, string Reason) Choose(EngineKind asked, string? variable)
    {
        string source = "asked for by EngineOptions.Kind";
        if (asked == EngineKind.Auto && !string.IsNullOrEmpty(variable))
        {
            // By name only: the parser for enums would also take numbers, signs, spaces and lists.
            if (!Enum.GetNames<EngineKind>().Contains(variable, StringComparer.OrdinalIgnoreCase) || !Enum.TryParse(variable, ignoreCase: true, out asked))
            {
                throw new ArgumentException($"{Variable} = '{variable}', allowed auto, epoll, portable.");
            }

            source = $"asked for by {Variable}";
        }

        if (asked == EngineKind.Auto)
        {
            return KernelProbe.HasEpoll
                ? (EngineKind.Epoll, "the best engine on this system")
                : (EngineKind.Portable, "epoll needs Linux on x64 or arm64");
        }

        if (asked == EngineKind.Epoll && !KernelProbe.HasEpoll)
        {
            throw new PlatformNotSupportedException($"The epoll engine, {source}, needs Linux on x64 or arm64. Use portable.");
        }

        return (asked, source);
    }

    internal static Loop Create(EngineKind kind, Engine engine, int index) => kind switch
    {
        EngineKind.Epoll => new EpollLoop(engine, index),
        _ => new PortableLoop(engine, index),
    };
}
