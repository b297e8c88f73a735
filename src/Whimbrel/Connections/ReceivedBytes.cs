using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Number of bytes that a connection has received, those of them that it discarded after its end, and whether the
/// session has declared them complete. Loop's thread.
/// </summary>
internal struct ReceivedBytes
{
    /// <summary>Number of bytes discarded after the own FIN before the connection is reset.</summary>
    private const int MostDiscarded = 64 * 1024;

    private long _allAt; // count plus 1 when the session declared that the peer sends no more; otherwise 0
    private int _discarded;

    internal long Count { get; private set; }

    /// <summary>True if the session has declared that the peer sends no more, and nothing was received since.</summary>
    internal readonly bool AreAll => _allAt == Count + 1;

    internal void Add(long count)
    {
        Debug.Assert(count >= 0, "bytes are not taken back");
        Count += count;
    }

    /// <summary>The session knows from its protocol that the peer sends no more.</summary>
    internal void DeclareAll() => _allAt = Count + 1;

    /// <summary>Discards bytes after the own FIN. Returns false if they are too many.</summary>
    internal bool TryDiscard(int count)
    {
        _discarded += count;
        return _discarded <= MostDiscarded;
    }
}
