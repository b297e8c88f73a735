using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Notifications that the session has received. Transitions go downwards; after a hand-over the next session continues
/// from the same value.
/// </summary>
internal enum Heard : byte
{
    Nothing,

    /// <summary>OnConnected is the next callback, or was called.</summary>
    Connected,

    /// <summary>OnServerStopping was called; it is also called for a session that takes the connection over.</summary>
    ServerStopping,

    /// <summary>OnDisconnecting was called.</summary>
    Disconnecting,
}

/// <summary>The sending half. Transitions go downwards.</summary>
internal enum OwnHalf : byte
{
    Open,

    /// <summary>The session sends nothing more; queued data is sent first.</summary>
    Finishing,

    /// <summary>FIN is sent.</summary>
    Finished,
}

/// <summary>The peer's half: received data.</summary>
internal enum PeerHalf : byte
{
    Open,

    /// <summary>The peer's FIN was read, and waits like the data before it.</summary>
    Held,

    /// <summary>
    /// The session was about to be notified, and paused when it got the last data: the FIN waits again.
    /// </summary>
    HeldAgain,

    /// <summary>OnEndOfStream is called now, or is queued for the pool, or will not be called any more.</summary>
    Finished,

    /// <summary>OnEndOfStream has returned.</summary>
    Told,
}

/// <summary>
/// Lifecycle of one use of a connection, from its first callback to the closed descriptor: its state, its two halves,
/// the notifications of its session, and the reason of its end. Has no effects of its own: it defines the legal
/// transitions and keeps the first cause. docs/design/0006 has the table.
/// </summary>
internal struct Life
{
    /// <summary>Legal next states of each state, one bit for each.</summary>
    private static readonly ushort[] s_next = Table();

    private CloseReason _reason;

    internal ConnectionState State { get; private set; }

    internal Heard Heard { get; private set; }

    internal OwnHalf Own { get; private set; }

    internal PeerHalf Peer { get; private set; }

    /// <summary>True if the peer ended its half before the own half was ended.</summary>
    internal bool PeerWasFirst { get; private set; }

    /// <summary>The first cause, which is kept. Cause None if there is none.</summary>
    internal readonly CloseReason Reason => _reason;

    internal readonly bool WasConnected => Heard >= Heard.Connected;

    /// <summary>True if the peer's FIN was read, and the session is to be notified later.</summary>
    internal readonly bool HoldsPeersEnd => Peer is PeerHalf.Held or PeerHalf.HeldAgain;

    /// <summary>True if the session is or was notified of the peer's end: nothing more is received.</summary>
    internal readonly bool PeerHasFinished => Peer >= PeerHalf.Finished;

    internal static bool IsLegal(ConnectionState from, ConnectionState to) => (s_next[(int)from] >> (int)to & 1) != 0;

    /// <summary>
    /// Changes the state. Returns false for an illegal transition, which takes effect nevertheless, because stopping
    /// would be worse.
    /// </summary>
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

    /// <summary>Counts bytes that were accepted and dropped.</summary>
    internal void Loses(long bytes) => _reason = _reason with { BytesLost = _reason.BytesLost + bytes };

    /// <summary>Records whether the descriptor was closed by a reset before the end of the own half was sent.</summary>
    internal void IsReset(bool beforeTheEnd) => _reason = _reason with { WasReset = beforeTheEnd };

    internal void Hears(Heard next)
    {
        Debug.Assert(next > Heard, "the session is notified of everything once, in order");
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
        Debug.Assert(Peer is PeerHalf.Open or PeerHalf.Held or PeerHalf.Finished,
            "the session has heard of the peer's end already");
        Peer = Peer == PeerHalf.Finished ? PeerHalf.HeldAgain : PeerHalf.Held;
    }

    /// <summary>Drops a FIN that waits, because the session is not notified of it any more.</summary>
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
        Debug.Assert(Peer is PeerHalf.Finished or PeerHalf.Told, "the session is notified of an end that has come");
        Peer = PeerHalf.Told;
    }

    private static ushort[] Table()
    {
        ushort[] table = new ushort[(int)ConnectionState.Closed + 1];
        Allow(ConnectionState.Free, ConnectionState.Connecting);
        Allow(ConnectionState.Connecting, ConnectionState.Handshaking, ConnectionState.Open, ConnectionState.Detaching,
            ConnectionState.Closed);
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
