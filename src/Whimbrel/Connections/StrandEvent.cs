namespace Whimbrel.Connections;

/// <summary>What waits for a strand besides received bytes.</summary>
internal enum StrandEventKind : byte
{
    /// <summary>A <see cref="SessionCallback"/>, with its argument.</summary>
    Callback,
    Upgrading,
    HandedOver,
    Continuation,
    Call,
}

/// <summary>One thing that waits for a strand besides received bytes.</summary>
internal readonly record struct StrandEvent(StrandEventKind Kind, object? First, object? Second);
