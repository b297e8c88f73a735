namespace Whimbrel;

/// <summary>Forms of <see cref="Outgoing"/>.</summary>
internal enum OutgoingForm : byte
{
    /// <summary>The default of the type: not created by a factory.</summary>
    None,

    TwoSpans,
    Pieces,
    Sequence,
    Text,
    Written,

    // The following forms take a head.
    Owned,
    Shared,
    File,
}
