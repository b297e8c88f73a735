namespace Whimbrel.Connections;

/// <summary>What comes back from a strand: its session's callbacks run on the pool, everything else here (contract 14). Loop's thread.</summary>
internal sealed partial class Connection
{
    /// <summary>OnConnecting has returned.</summary>
    internal void StrandConnecting(uint generation, bool hasEnded)
    {
        if (generation != Generation || _state is not (ConnectionState.Connecting or ConnectionState.Handshaking)) return;
        bool isShaken = _state == ConnectionState.Handshaking; // its session was made after the handshake
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (!isShaken) ConnectingReturned();
        else if (_state == ConnectionState.Handshaking) Greet();
    }

    /// <summary>OnHandshaking has returned.</summary>
    internal void StrandHandshaking(uint generation, bool hasEnded)
    {
        if (generation != Generation || _tls is not { IsCounted: true, HasBegun: false } tls) return;
        // In an upgrade its Close goes behind what it has sent.
        if (hasEnded && _state == ConnectionState.Handshaking) CloseWith(new CloseReason(CloseCause.LocalClose));
        BeginShaking(tls);
    }

    /// <summary>OnHandshaked has returned. Unless the session did not like whom it met, it is connected now.</summary>
    internal void StrandHandshaked(uint generation, bool hasEnded)
    {
        if (generation != Generation || _state != ConnectionState.Open || _wasConnected) return;
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (_state != ConnectionState.Open) return;
        LeaveHandshake(_tls!);
        Opened();
        // Cipher text has waited.
        Loop.Schedule(this);
    }

    /// <summary>OnPeerFinished has returned, and all bytes before it were delivered.</summary>
    internal void StrandFinished(uint generation)
    {
        if (generation != Generation) return;
        _finishWasTold = true;
        if (_state == ConnectionState.Open && _finishSent && SendQueueIsEmpty) CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>A callback filled the queue: nothing is read until it has drained (contract 9).</summary>
    internal void HoldForStrand(uint generation, bool untilEmpty)
    {
        if (generation != Generation || _state != ConnectionState.Open) return;
        HoldBack(untilEmpty);
        // It may have drained already.
        Loop.Schedule(this);
    }

    /// <summary>So little waits for the pool that reading goes on.</summary>
    internal void ReleaseStrandHold(uint generation)
    {
        if (generation == Generation) Open(ReceiveGate.Pool);
    }

    /// <summary>The next session takes over; its strand waits for that. When the connection is ending, it ends with the old one.</summary>
    internal void SwitchForStrand(Session next, uint generation)
    {
        if (generation != Generation || (_state != ConnectionState.Open && !IsBeginning)) return;
        Session old = _session;
        CancelSessionTimers();
        old.DetachForHandOver();
        next.AttachByHandOver(this, old);
        _session = next;
        ChangeHooks(next);
        _shard.Host.SessionReplaced(old, next);
        _strand!.PostHandedOver(next, _wasConnected);
        LookInNextTurn();
        if (_saidServerStopping) _strand.PostServerStopping();
    }

    internal void DrainBroadcastGate(uint generation, BroadcastGate gate)
    {
        if (generation == Generation) BroadcastGate = gate;
    }
}
