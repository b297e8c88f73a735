using Whimbrel.Connections;
using Whimbrel.Engines.Epoll;
using Whimbrel.Engines.Portable;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>Selects the engine and gives the reason. The only place that refers to all engines.</summary>
internal static class EngineSelector
{
    internal const string Variable = "WHIMBREL_ENGINE";

    /// <summary>
    /// Returns the engine for a requested kind; never Auto. Throws if the requested engine cannot run here.
    /// </summary>
    internal static EngineChoice Choose(EngineKind asked, string? variable) =>
        Choose(asked, variable, static () => UringProbe.Here);

    /// <summary>The same with a given probe of io_uring.</summary>
    internal static EngineChoice Choose(EngineKind asked, string? variable, Func<UringSupport> probe)
    {
        string source = "asked for by EngineOptions.Kind";
        if (asked == EngineKind.Auto && !string.IsNullOrEmpty(variable))
        {
            // Compared by name only: the parser for enums would also accept numbers, signs, spaces and lists.
            if (!Enum.GetNames<EngineKind>().Contains(variable, StringComparer.OrdinalIgnoreCase)
                || !Enum.TryParse(variable, ignoreCase: true, out asked))
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
                throw new PlatformNotSupportedException(
                    $"The epoll engine, {source}, needs Linux on x64 or arm64. Use portable.");
            case EngineKind.Uring when probe() is { IsOffered: false } support:
                throw new PlatformNotSupportedException($"The io_uring engine, {source}, cannot run: {support.Advice}. "
                    + $"Use epoll, or see docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring.");
            default:
                return new EngineChoice(asked, source);
        }
    }

    /// <summary>Returns the best engine that works, with the reason why better ones do not.</summary>
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
        return new DiagnosticEvent(DiagnosticEventKind.System, $"{support.Reason}. Using the epoll engine: everything "
            + $"works, with many connections at more CPU per message.{remedy} To silence this: {Variable}=epoll.",
            "no-io-uring.md");
    }

    /// <summary>
    /// Returns whether an engine can run here. For Auto: the selected kind and the reason. Does not throw.
    /// </summary>
    internal static EngineSupport SupportFor(EngineKind kind, string? variable)
    {
        switch (kind)
        {
            case EngineKind.Uring:
                UringSupport uring = UringProbe.Here;
                return new EngineSupport(kind, uring.IsOffered, uring.Reason, uring.Remedy);
            case EngineKind.Epoll:
                return KernelProbe.HasEpoll
                    ? new EngineSupport(kind, true, "", "")
                    : new EngineSupport(kind, false, "epoll needs Linux on x64 or arm64", "");
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

/// <summary>Selected engine and reason.</summary>
/// <param name="Kind">Kind of the engine; never Auto.</param>
/// <param name="Reason">Reason, as a clause.</param>
/// <param name="FallBack">Diagnostic event for the operator if a better engine is unavailable.</param>
internal readonly record struct EngineChoice(EngineKind Kind, string Reason, DiagnosticEvent? FallBack = null)
{
    internal void Deconstruct(out EngineKind kind, out string reason) => (kind, reason) = (Kind, Reason);
}
