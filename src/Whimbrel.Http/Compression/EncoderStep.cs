namespace Whimbrel.Http.Compression;

/// <summary>What a <see cref="BodyEncoder"/> does with what it has been given.</summary>
internal enum EncoderStep
{
    /// <summary>Keeps it for as long as that makes the body smaller.</summary>
    Take,

    /// <summary>Writes it out, so that whoever reads the body so far has all of it.</summary>
    Flush,

    /// <summary>Ends the body.</summary>
    Finish,
}
