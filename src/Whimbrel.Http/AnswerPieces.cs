using Whimbrel.Http.Compression;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Data of a response until it is complete: added fields, and for one sent in pieces the buffer, pending data
/// and progress. Part of <see cref="HttpResponse"/>.</summary>
internal struct AnswerPieces
{
    internal byte[]? Fields; // lines with their line ends
    internal HttpResponseStream? Stream;
    internal byte[]? Buffer;
    internal byte[]? Later; // a large body in memory, after its head
    internal byte[]? Trailers;
    internal BodyEncoder? Encoder;
    internal string? File;
    internal string? FileType;
    internal long Left; // of the announced length
    internal long Announced; // -1: not announced
    internal long PartStart;
    internal long PartEnd;
    internal int FieldBytes;
    internal int Length; // bytes in the buffer
    internal int Capacity; // largest number of bytes in the buffer
    internal int ChunkStart;
    internal int LaterLength;
    internal int TrailerBytes;
    internal HttpFraming Framing;
    internal bool IsCut; // a piece was not consumed completely
}
