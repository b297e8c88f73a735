namespace Whimbrel.Http.Compression;

/// <summary>Action of a <see cref="BodyEncoder"/> for its input.</summary>
internal enum EncoderStep
{
    /// <summary>Buffers it as long as that improves the compression.</summary>
    Take,

    /// <summary>Writes it out, so that the reader can decode all bytes so far.</summary>
    Flush,

    /// <summary>Ends the body.</summary>
    Finish,
}
