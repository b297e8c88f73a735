namespace Whimbrel;

/// <summary>
/// Whether an engine can run on this system, and if not, the reason and the remedy. Plain data, returned by
/// <see cref="Engine.SupportFor"/>.
/// </summary>
/// <param name="Kind">Kind of the engine; for <see cref="EngineKind.Auto"/>, the kind that would be used.</param>
/// <param name="IsAvailable">True if the engine works here. For io_uring: every operation of the engine was tried on a
/// small ring.</param>
/// <param name="Reason">Reason why it cannot run; for <see cref="EngineKind.Auto"/>, reason of the choice; otherwise
/// empty.</param>
/// <param name="Remedy">Commands or settings that would allow it; empty if it works or nothing helps.</param>
public readonly record struct EngineSupport(EngineKind Kind, bool IsAvailable, string Reason, string Remedy);
