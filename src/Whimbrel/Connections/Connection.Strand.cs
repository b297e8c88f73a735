using Whimbrel.Buffers;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// What comes back from a strand: its session's callbacks run on the pool, everything else here (contract 14). Loop's
/// thread.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>OnConnecting has returned.</summary>
    internal void StrandConnecting(bool hasEnded)
    {
        if (State is not (ConnectionState.Connecting or ConnectionState.Handshaking)) return;
        bool isShaken = State == ConnectionState.Handshaking; // its session was made after the handshake
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (!isShaken) ConnectingReturned();
        else if (State == ConnectionState.Handshaking) Greet();
    }

    /// <summary>OnTlsHandshakeStarting has returned.</summary>
    internal void StrandHandshaking(bool hasEnded)
    {
        if (_tenancy.Tls is not { Phase: TlsPhase.Greeting } tls) return;
        // In an upgrade its Close goes behind what it has sent.
        if (hasEnded && State == ConnectionState.Handshaking) CloseWith(new CloseReason(CloseCause.LocalClose));
        tls.Begin();
    }

    /// <summary>
    /// OnTlsHandshakeCompleted has returned. The session is connected now, unless it rejected the peer.
    /// </summary>
    internal void StrandHandshaked(bool hasEnded)
    {
        if (State != ConnectionState.Open || WasConnected) return;
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (State != ConnectionState.Open) return;
        _tenancy.Tls!.LeaveHandshake();
        Opened();
        // Cipher text has waited.
        Loop.Schedule(this);
    }

    /// <summary>OnEndOfStream has returned, and all bytes before it were delivered.</summary>
    internal void StrandFinished()
    {
        _tenancy.Life.PeersEndWasTold();
        if (State == ConnectionState.Open && _tenancy.Life.Own == OwnHalf.Finished && Outbound.IsEmpty)
            CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>A callback filled the queue: nothing is read until it has drained (contract 9).</summary>
    internal void HoldForStrand(bool untilEmpty)
    {
        if (State != ConnectionState.Open) return;
        HoldBack(untilEmpty);
        // It may have drained already.
        Loop.Schedule(this);
    }

    /// <summary>
    /// The next session takes over; its strand waits for that. When the connection is ending, it ends with the old one.
    /// </summary>
    internal void SwitchForStrand(Session next, uint generation)
    {
        if (generation != Generation || (State != ConnectionState.Open && !IsBeginning)) return;
        ReplaceSession(next);
        Pool!.TellHandedOver(next, WasConnected);
        LookInNextTurn();
        if (_tenancy.Life.Heard == Heard.ServerStopping) Pool.Tell(SessionCallback.ServerStopping);
    }

    /// <summary>
    /// The strand runs here and has nothing left: from now on its session is called at once. False while something is
    /// under way that it takes part in.
    /// </summary>
    internal bool TryLeaveStrand()
    {
        if (Pool is null || State != ConnectionState.Open || !WasConnected) return false;
        if (_tenancy.Tls is { IsShaking: true }) return false;
        // First: somebody who posts looks at both, in the other order.
        Session.StartPosts();
        _tenancy.Pool = null;
        return true;
    }
}
