namespace Whimbrel;

/// <summary>Whether an engine can run here, and if not, why and what would allow it. Plain data, from <see cref="Engine.SupportFor"/>.</summary>
/// <param name="Kind">The engine; where <see cref="EngineKind.Auto"/> was asked about, the one that it takes.</param>
/// <param name="IsAvailable">It works here: for io_uring, that everything the engine does was done on a small ring.</param>
/// <param name="Reason">Why it cannot run; for <see cref="EngineKind.Auto"/> why this one is taken; else empty.</param>
/// <param name="Remedy">What would allow it, as commands or settings where there are some; empty when it works or nothing helps.</param>
public readonly record struct EngineSupport(EngineKind Kind, bool IsAvailable, string Reason, string Remedy);
