namespace Whimbrel.Http.Parsing;

/// <summary>Result of <see cref="MultipartReader.Read"/>.</summary>
internal enum MultipartReading
{
    /// <summary>More bytes are needed; after the last boundary, the end.</summary>
    NeedMore,

    /// <summary>Head of a part.</summary>
    Part,

    /// <summary>Data of the part.</summary>
    Data,

    /// <summary>End of the part.</summary>
    PartEnd,

    /// <summary>A rule was broken. No more can be read.</summary>
    Broken,
}
