using Whimbrel.Connections;
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
    internal static EngineChoice Choose(EngineKind asked, string? variable) => Choose(asked, variable, static () => UringProbe.Here);

    /// <summary>The same with what is known of io_uring.</summary>
    internal static EngineChoice Choose(EngineKind asked, string? variable, Func<UringSupport> probe)
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
                throw new PlatformNotSupportedException($"The io_uring engine, {source}, cannot run: {support.Advice}. Use epoll, or see docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring.");
            default:
                return new EngineChoice(asked, source);
        }
    }

    /// <summary>The first that works, with the reason why those before it do not.</summary>
    private static EngineChoice Best(Func<UringSupport> probe)
    {
        if (!KernelProbe.HasEpoll) return new EngineChoice(EngineKind.Portable, "epoll needs Linux on x64 or arm64");
        UringSupport support = probe();
        return support.IsOffered
            ? new EngineChoice(EngineKind.Uring, "the best engine on this system")
            : new EngineChoice(EngineKind.Epoll, support.Advice, FallBack(support));
    }

    private static DiagnosticEvent FallBack(in UringSupport support)
    {
        string remedy = support.Remedy.Length == 0 ? "" : $" To allow it: {support.Remedy}.";
        return new DiagnosticEvent(DiagnosticEventKind.System, $"{support.Reason}. Using the epoll engine: everything works, with many connections at more CPU per message.{remedy} To silence this: {Variable}=epoll.", "no-io-uring.md");
    }

    /// <summary>Whether an engine can run here. Of Auto: which one it takes, and why. Throws nothing.</summary>
    internal static EngineSupport SupportFor(EngineKind kind, string? variable)
    {
        switch (kind)
        {
            case EngineKind.Uring:
                UringSupport uring = UringProbe.Here;
                return new EngineSupport(kind, uring.IsOffered, uring.Reason, uring.Remedy);
            case EngineKind.Epoll:
                return KernelProbe.HasEpoll ? new EngineSupport(kind, true, "", "") : new EngineSupport(kind, false, "epoll needs Linux on x64 or arm64", "");
            case EngineKind.Portable:
                return new EngineSupport(kind, true, "", "");
        }

        try
        {
            EngineChoice choice = Choose(EngineKind.Auto, variable);
            return new EngineSupport(choice.Kind, true, choice.Reason, "");
        }
        catch (Exception e) when (e is ArgumentException or PlatformNotSupportedException)
        {
            return new EngineSupport(EngineKind.Auto, false, e.Message, $"unset {Variable}");
        }
    }

    internal static Loop Create(EngineKind kind, Engine engine, int index) => kind switch
    {
        EngineKind.Uring => new UringLoop(engine, index, UringLoop.OpenRing, SocketCalls.System),
        EngineKind.Epoll => new EpollLoop(engine, index, EpollCalls.System, SocketCalls.System),
        _ => new PortableLoop(engine, index),
    };
}

/// <summary>Which engine, and why.</summary>
/// <param name="Kind">Never Auto.</param>
/// <param name="Reason">One piece of a sentence.</param>
/// <param name="FallBack">What the operator should know when a better engine was refused.</param>
internal readonly record struct EngineChoice(EngineKind Kind, string Reason, DiagnosticEvent? FallBack = null)
{
    internal void Deconstruct(out EngineKind kind, out string reason) => (kind, reason) = (Kind, Reason);
}
