using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>What the session has heard of its connection's life. Steps go downwards; the next session of a hand-over goes on where the last one was.</summary>
internal enum Heard : byte
{
    Nothing,

    /// <summary>OnConnected is its next callback, or was called.</summary>
    Connected,

    /// <summary>Its server stops; who takes over hears of it as well.</summary>
    ServerStopping,

    /// <summary>OnDisconnecting.</summary>
    Disconnecting,
}

/// <summary>Our half: what we send. Steps go downwards.</summary>
internal enum OwnHalf : byte
{
    Open,

    /// <summary>The session sends nothing more; what is queued leaves first.</summary>
    Finishing,

    /// <summary>FIN is sent.</summary>
    Finished,
}

/// <summary>The peer's half: what is received.</summary>
internal enum PeerHalf : byte
{
    Open,

    /// <summary>Its FIN was read, and waits like the bytes before it.</summary>
    Held,

    /// <summary>The session was about to hear of it, and paused when it got the last bytes: it waits again.</summary>
    HeldAgain,

    /// <summary>The session hears of it, on the pool in its turn; or nobody does any more.</summary>
    Finished,

    /// <summary>OnEndOfStream has returned.</summary>
    Told,
}

/// <summary>
/// The one life of a tenant, from its first callback to the closed descriptor: where it is, how far its two halves are, what its
/// session has heard, and why it ends. Knows no loop and does nothing: it says which steps there are, and the first cause is kept.
/// docs/design/0006 has the table.
/// </summary>
internal struct Life
{
    /// <summary>For each state those that may follow, a bit for each.</summary>
    private static readonly ushort[] s_next = Table();

    private CloseReason _reason;

    internal ConnectionState State { get; private set; }

    internal Heard Heard { get; private set; }

    internal OwnHalf Own { get; private set; }

    internal PeerHalf Peer { get; private set; }

    /// <summary>The peer ended its half before we ended ours.</summary>
    internal bool PeerWasFirst { get; private set; }

    /// <summary>The first cause, which wins. Cause None while there is none.</summary>
    internal readonly CloseReason Reason => _reason;

    internal readonly bool WasConnected => Heard >= Heard.Connected;

    /// <summary>The peer's FIN was read, and its session is to hear of it later.</summary>
    internal readonly bool HoldsPeersEnd => Peer is PeerHalf.Held or PeerHalf.HeldAgain;

    /// <summary>The peer's end is the session's matter now, or is over: nothing more comes.</summary>
    internal readonly bool PeerHasFinished => Peer >= PeerHalf.Finished;

    internal static bool IsLegal(ConnectionState from, ConnectionState to) => (s_next[(int)from] >> (int)to & 1) != 0;

    /// <summary>False: there is no such step. It is made all the same, since going on is better than to stand still.</summary>
    internal bool TryGo(ConnectionState next)
    {
        bool isLegal = IsLegal(State, next);
        State = next;
        return isLegal;
    }

    internal void Because(CloseReason reason)
    {
        if (_reason.Cause == CloseCause.None) _reason = reason with { BytesLost = _reason.BytesLost };
    }

    /// <summary>Bytes that were accepted, and dropped.</summary>
    internal void Loses(long bytes) => _reason = _reason with { BytesLost = _reason.BytesLost + bytes };

    /// <summary>The descriptor is given back, by a reset or not, before this side's end was sent or behind it.</summary>
    internal void IsReset(bool beforeTheEnd) => _reason = _reason with { WasReset = beforeTheEnd };

    internal void Hears(Heard next)
    {
        Debug.Assert(next > Heard, "the session hears everything once, in order");
        Heard = next;
    }

    // ------------------------------------------------------------------ halves

    internal void BeginShutdown()
    {
        Debug.Assert(Own == OwnHalf.Open, "a half ends once");
        Own = OwnHalf.Finishing;
    }

    internal void Finish()
    {
        Debug.Assert(Own != OwnHalf.Finished, "a half ends once");
        Own = OwnHalf.Finished;
    }

    internal void HoldPeersEnd()
    {
        Debug.Assert(Peer is PeerHalf.Open or PeerHalf.Held or PeerHalf.Finished, "the session has heard of the peer's end already");
        Peer = Peer == PeerHalf.Finished ? PeerHalf.HeldAgain : PeerHalf.Held;
    }

    /// <summary>Nobody waits to hear of it: what was read of the peer's end is the layer's matter, or nobody's.</summary>
    internal void DropPeersEnd()
    {
        if (Peer == PeerHalf.Held) Peer = PeerHalf.Open;
        else if (Peer == PeerHalf.HeldAgain) Peer = PeerHalf.Finished;
    }

    internal void PeerFinishes()
    {
        if (Peer == PeerHalf.Told) return;
        if (Peer is PeerHalf.Open or PeerHalf.Held && Own == OwnHalf.Open) PeerWasFirst = true;
        Peer = PeerHalf.Finished;
    }

    internal void PeersEndWasTold()
    {
        Debug.Assert(Peer is PeerHalf.Finished or PeerHalf.Told, "the session hears of an end that has come");
        Peer = PeerHalf.Told;
    }

    private static ushort[] Table()
    {
        ushort[] table = new ushort[(int)ConnectionState.Closed + 1];
        Allow(ConnectionState.Free, ConnectionState.Connecting);
        Allow(ConnectionState.Connecting, ConnectionState.Handshaking, ConnectionState.Open, ConnectionState.Detaching, ConnectionState.Closed);
        Allow(ConnectionState.Handshaking, ConnectionState.Open, ConnectionState.Draining, ConnectionState.Detaching);
        Allow(ConnectionState.Open, ConnectionState.Concluding, ConnectionState.Draining, ConnectionState.Detaching);
        Allow(ConnectionState.Concluding, ConnectionState.Draining, ConnectionState.Detaching);
        Allow(ConnectionState.Draining, ConnectionState.Lingering, ConnectionState.Detaching);
        Allow(ConnectionState.Lingering, ConnectionState.Detaching);
        Allow(ConnectionState.Detaching, ConnectionState.Closed);
        Allow(ConnectionState.Closed, ConnectionState.Free);
        return table;

        void Allow(ConnectionState from, params ReadOnlySpan<ConnectionState> next)
        {
            foreach (ConnectionState state in next) table[(int)from] |= (ushort)(1 << (int)state);
        }
    }
}
