using Whimbrel.Http.Compression;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>What an answer holds until it is complete: the fields that were added, and of one that leaves piece by piece the buffer, what is to follow, and how far it is. Belongs to <see cref="HttpResponse"/>.</summary>
internal struct AnswerPieces
{
    internal byte[]? Fields; // lines with their ends
    internal HttpResponseStream? Stream;
    internal byte[]? Buffer;
    internal byte[]? Later; // a large body in memory, behind its head
    internal byte[]? Trailers;
    internal BodyEncoder? Encoder;
    internal string? File;
    internal string? FileType;
    internal long Left; // of what was announced
    internal long Announced; // -1: nothing was
    internal long PartStart;
    internal long PartEnd;
    internal int FieldBytes;
    internal int Length; // of what the buffer holds
    internal int Capacity; // most that it holds
    internal int ChunkStart;
    internal int LaterLength;
    internal int TrailerBytes;
    internal HttpFraming Framing;
    internal bool IsCut; // a piece was not taken whole
}
