using System.Diagnostics;
using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// The wire queue: records (or data queued in the clear before an upgrade) that were not sent yet, and the amount of
/// plaintext in them. A field of its transport, never copied. Loop's thread.
/// </summary>
internal struct TlsWire
{
    /// <summary>
    /// Most bytes of replies to messages without content (key updates) that may wait for the peer to read.
    /// </summary>
    internal const int MostAnswersWaiting = 16 * 1024;

    internal BlockQueue Blocks;
    private long _total;
    private long _sent;
    private long _plain;
    private long _plainTold;
    private long _ofFiles;
    private int _answers;

    /// <summary>Plaintext in the queue that was not counted as sent yet.</summary>
    internal readonly long PlainUnsent => _plain - _plainTold;

    internal void Enqueue(Block block, long plain)
    {
        Blocks.Enqueue(block);
        _total += block.Length;
        _plain += plain;
    }

    /// <summary>
    /// Appends a reply to the last block. A peer that requests replies and does not read them then costs the memory of
    /// the replies, and not a block for each. Returns false if it does not fit there.
    /// </summary>
    // Safe: after End the memory of a pooled block is free, up to Capacity; a send in progress has read its length
    // before.
    internal unsafe bool TryJoin(ReadOnlySpan<byte> bytes)
    {
        if (Blocks.Tail is not { Kind: BlockKind.Pooled } tail || tail.Capacity - tail.End < bytes.Length) return false;
        bytes.CopyTo(new Span<byte>(tail.Memory + tail.End, bytes.Length));
        tail.End += bytes.Length;
        _total += bytes.Length;
        return true;
    }

    /// <summary>Counts a reply until the wire queue is empty. Returns false if too many wait.</summary>
    internal bool CountAnswer(int bytes) => (_answers += bytes) <= MostAnswersWaiting;

    /// <summary>Counts plaintext of new records. File data does not count against the limit.</summary>
    internal void AddPlain(long count, bool isOfFile)
    {
        _plain += count;
        if (isOfFile) _ofFiles += count;
    }

    /// <summary>Sets the part of the plaintext that is file data.</summary>
    internal void CountFiles(long bytes)
    {
        Debug.Assert(bytes >= 0 && bytes <= PlainUnsent, "more of files than of all");
        _ofFiles = bytes;
    }

    /// <summary>
    /// Records sent bytes, after the caller has removed their blocks. Returns the number of plaintext bytes in them,
    /// and how many of those are a file's. File bytes are counted first, so that memory stays accounted slightly too
    /// long rather than too short.
    /// </summary>
    internal long Advance(long count, out long ofFiles)
    {
        _sent += count;
        Debug.Assert(_sent <= _total, "more left the wire queue than was in it");
        long told = Blocks.IsEmpty ? _plain : Math.Max(_plainTold, (long)((Int128)_plain * _sent / _total));
        long delta = told - _plainTold;
        _plainTold = told;
        ofFiles = Math.Min(delta, _ofFiles);
        _ofFiles -= ofFiles;
        if (Blocks.IsEmpty) _total = _sent = _plain = _plainTold = _answers = 0;
        return delta;
    }
}
