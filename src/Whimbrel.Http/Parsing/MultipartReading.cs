namespace Whimbrel.Http.Parsing;

/// <summary>What a <see cref="MultipartReader"/> has found.</summary>
internal enum MultipartReading
{
    /// <summary>More bytes are needed, or, behind the last boundary, the end.</summary>
    NeedMore,

    /// <summary>The head of a part.</summary>
    Part,

    /// <summary>Bytes of the part.</summary>
    Data,

    /// <summary>The part is over.</summary>
    PartEnd,

    /// <summary>A rule was broken: nothing can be read any more.</summary>
    Broken,
}
