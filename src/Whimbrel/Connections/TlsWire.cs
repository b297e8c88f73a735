using System.Diagnostics;
using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// The wire queue: what was encrypted (or queued in the clear before an upgrade) and not sent yet, and how much plaintext leaves with it.
/// A field of its transport and never copied. Loop's thread.
/// </summary>
internal struct TlsWire
{
    /// <summary>Answers to what the peer sends without content (changes of keys) that may wait for the peer to read.</summary>
    internal const int MostAnswersWaiting = 16 * 1024;

    internal BlockQueue Blocks;
    private long _total;
    private long _sent;
    private long _plain;
    private long _plainTold;
    private long _ofFiles;
    private int _answers;

    /// <summary>Plaintext in it that was not counted as sent yet.</summary>
    internal readonly long PlainUnsent => _plain - _plainTold;

    internal void Enqueue(Block block, long plain)
    {
        Blocks.Enqueue(block);
        _total += block.Length;
        _plain += plain;
    }

    /// <summary>
    /// Queues an answer behind what waits already: a peer that asks and does not read costs us what it asked for, and not a
    /// block for each. False when it does not fit there.
    /// </summary>
    // Safe: behind End the memory of a pooled block is free, up to Capacity; a send that runs took its length before.
    internal unsafe bool TryJoin(ReadOnlySpan<byte> bytes)
    {
        if (Blocks.Tail is not { Kind: BlockKind.Pooled } tail || tail.Capacity - tail.End < bytes.Length) return false;
        bytes.CopyTo(new Span<byte>(tail.Memory + tail.End, bytes.Length));
        tail.End += bytes.Length;
        _total += bytes.Length;
        return true;
    }

    /// <summary>Counts an answer until the wire queue is empty. False: more wait than may.</summary>
    internal bool CountAnswer(int bytes) => (_answers += bytes) <= MostAnswersWaiting;

    /// <summary>So much plaintext is in the records that were made. What comes from files is not charged to the limit.</summary>
    internal void AddPlain(long count, bool isOfFile)
    {
        _plain += count;
        if (isOfFile) _ofFiles += count;
    }

    /// <summary>So much of the plaintext in it is of files.</summary>
    internal void CountFiles(long bytes)
    {
        Debug.Assert(bytes >= 0 && bytes <= PlainUnsent, "more of files than of all");
        _ofFiles = bytes;
    }

    /// <summary>
    /// The system took so many bytes, whose blocks the caller has taken out. How much plaintext that counts as, and how much of it as a file's: that
    /// first, so that memory is charged a little too long, and not too short.
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
