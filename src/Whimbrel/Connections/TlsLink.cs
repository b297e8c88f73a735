using Whimbrel.Buffers;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>How far the TLS of a connection is. Steps go downwards.</summary>
internal enum TlsPhase : byte
{
    /// <summary>A server waits for the whole ClientHello; there is no layer yet.</summary>
    Hello,

    /// <summary>The handshake runs.</summary>
    Shaking,

    /// <summary>Both halves are open.</summary>
    Open,

    /// <summary>The peer has ended its half properly; ours still sends.</summary>
    PeerEnded,

    /// <summary>It failed: nothing is encrypted or decrypted any more.</summary>
    Over,
}

/// <summary>
/// What a connection has when it speaks TLS, and has not when it does not: the layer, cipher text that waits on its way in, and
/// the wire queue, which is what engines send. Connection.Tls.cs has the rules. Owner: one connection, for one tenancy.
/// </summary>
internal sealed class TlsLink(TlsProfile profile, string? name, bool isUpgrade)
{
    /// <summary>Input that a handshake may leave waiting.</summary>
    internal const int MostHeldInHandshake = 128 * 1024;

    /// <summary>With more than this held, a handshake that waits reads no further.</summary>
    internal const int MostReadWhileWaiting = 16 * 1024;

    /// <summary>Answers to what the peer sends without content (changes of keys) that may wait for the peer to read.</summary>
    internal const int MostAnswersWaiting = 16 * 1024;

    internal TlsProfile Profile = profile;
    internal TlsLayer? Layer;
    internal TlsPhase Phase;

    /// <summary>Client: the host. Server: the name that the peer asked for.</summary>
    internal string? Name = name;

    /// <summary>The session was connected before, in the clear.</summary>
    internal readonly bool IsUpgrade = isUpgrade;

    /// <summary>Cipher text not consumed yet.</summary>
    internal UnreadStore Held;

    /// <summary>While the connection is Concluding: the reason of the close, unless the handshake fails.</summary>
    internal CloseReason CloseAs;

    /// <summary>The connection is in the list of those that have not sent a whole ClientHello, which owns these three (<see cref="SilentConnections"/>).</summary>
    internal bool IsSilent;
    internal Connection? SilentBefore;
    internal Connection? SilentAfter;

    /// <summary>The handshake may run: an upgrade waits for the end of the callback that asked for it, and OnHandshaking has returned.</summary>
    internal bool HasBegun;

    /// <summary>When the handshake began, by the stopwatch, while it runs and a listener of the meter wants its time; zero otherwise.</summary>
    internal long TimedFrom;

    /// <summary>The layer runs now, on this thread: nothing else may call it.</summary>
    internal bool IsInCall;

    /// <summary>A thread of the pool has the layer.</summary>
    internal bool IsAway;

    /// <summary>The connection ended meanwhile: whoever has the layer frees it.</summary>
    internal bool IsOrphan;

    /// <summary>Steps of this handshake are made on the pool.</summary>
    internal bool IsSlow;

    /// <summary>It waits for the next turn, since this one has spent its time for handshakes.</summary>
    internal bool IsPaced;

    /// <summary>The sink said stop: the layer may hold plaintext.</summary>
    internal bool IsStopped;

    /// <summary>The peer's FIN was read.</summary>
    internal bool InputEnded;

    internal bool SaidGoodbye;

    /// <summary>Counted among the handshakes of its shard.</summary>
    internal bool IsCounted;

    /// <summary>Its ClientHello has come, and it has one of the places that <see cref="TlsOptions.MaxHandshakes"/> counts.</summary>
    internal bool HasPlace;

    /// <summary>The wire queue: what was encrypted (or queued in the clear before an upgrade) and not sent yet.</summary>
    internal BlockQueue Wire;

    /// <summary>How much of the plaintext in the wire queue came from files, and is not charged to the limit.</summary>
    internal long FilePlain;
    private long _total;
    private long _sent;
    private long _plain;
    private long _plainTold;
    private int _answers;

    internal bool IsShaking => Phase <= TlsPhase.Shaking;

    /// <summary>Plaintext can be encrypted.</summary>
    internal bool CanSend => Phase is TlsPhase.Open or TlsPhase.PeerEnded;

    /// <summary>
    /// The engine may read on. Not while what came in waits for the session; a handshake that waits for its time or for a thread
    /// reads a flight's worth more, which costs less than to stop and begin again.
    /// </summary>
    internal bool WantsInput => Phase switch
    {
        TlsPhase.Hello or TlsPhase.Shaking => HasBegun && !InputEnded && ((!IsAway && !IsPaced) || Held.Length <= MostReadWhileWaiting),
        TlsPhase.Open => !IsStopped && !InputEnded && Held.Length == 0,
        _ => false,
    };

    /// <summary>The peer must still be told that this half ends.</summary>
    internal bool OwesGoodbye => CanSend && !SaidGoodbye;

    /// <summary>Plaintext in the wire queue that was not counted as sent yet.</summary>
    internal long PlainUnsent => _plain - _plainTold;

    internal void Enqueue(Block block, long plain)
    {
        Wire.Enqueue(block);
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
        if (Wire.Tail is not { Kind: BlockKind.Pooled } tail || tail.Capacity - tail.End < bytes.Length) return false;
        bytes.CopyTo(new Span<byte>(tail.Memory + tail.End, bytes.Length));
        tail.End += bytes.Length;
        _total += bytes.Length;
        return true;
    }

    /// <summary>Counts an answer until the wire queue is empty. False: more wait than may.</summary>
    internal bool CountAnswer(int bytes) => (_answers += bytes) <= MostAnswersWaiting;

    internal void AddPlain(long count) => _plain += count;

    /// <summary>The system took so many bytes of the wire queue, whose blocks the caller has taken out. How much plaintext that counts as.</summary>
    internal long Advance(long count)
    {
        _sent += count;
        long told = Wire.IsEmpty ? _plain : Math.Max(_plainTold, (long)((Int128)_plain * _sent / _total));
        long delta = told - _plainTold;
        _plainTold = told;
        if (Wire.IsEmpty) _total = _sent = _plain = _plainTold = _answers = 0;
        return delta;
    }

    /// <summary>How much of plaintext that was sent counts as a file's: that first, so that memory is charged a little too long, and not too short.</summary>
    internal long TakeFilePlain(long plain)
    {
        long ofFiles = Math.Min(plain, FilePlain);
        FilePlain -= ofFiles;
        return ofFiles;
    }

    /// <summary>The caller has taken all blocks out of the wire queue: nothing of it counts any more.</summary>
    internal void Discarded() => _total = _sent = _plain = _plainTold = FilePlain = 0;
}
