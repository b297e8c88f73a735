using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// The session's side of TLS: handshake callbacks, upgrades (contract 16), and the end by a failure.
/// <see cref="TlsTransport"/> encrypts and decrypts; it uses the members in the section "for the transport".
/// </summary>
internal sealed partial class Connection
{
    /// <summary>Time for the peer to read the alert after a failure.</summary>
    private static readonly TimeSpan s_alertTime = TimeSpan.FromSeconds(1);

    /// <summary>
    /// Host name of the connect: the name that a server's certificate must cover if the options name none.
    /// </summary>
    internal string? ConnectedHost { get; set; }

    internal TlsTransport? Tls => _tls;

    /// <summary>True without TLS, as far as another thread sees.</summary>
    internal bool IsPlain => Volatile.Read(ref _tls) is null;

    internal bool HasTls => _tls is not null;

    /// <summary>True from the request for an upgrade to the end of its handshake.</summary>
    private bool IsUpgrading => _tls is { Upgrade: not null, IsShaking: true };

    /// <summary>Starts TLS on an attached socket. The session is notified after the handshake.</summary>
    private void BeginTls(TlsProfile profile)
    {
        Go(ConnectionState.Handshaking);
        TlsTransport tls = new(this, profile, upgrade: null);
        _tls = tls;
        tls.Greet();
    }

    /// <summary>
    /// Calls OnTlsHandshakeStarting. Returns false on the pool, where <see cref="StrandHandshaking"/> continues after
    /// it.
    /// </summary>
    internal bool TellsHandshaking()
    {
        if (State == ConnectionState.Concluding || !_callbacks.Has(SessionHooks.Handshaking)) return true;
        if (!Tell(SessionCallback.Handshaking)) return false;
        AfterCallback();
        return true;
    }

    /// <summary>
    /// Creates the session of a factory that needed the result of the handshake. Returns false if it returned none: the
    /// connection has ended.
    /// </summary>
    private bool MakeSession(TlsInfo info)
    {
        Newcomer newcomer = (Newcomer)Session;
        if (Shard.Host.MakeSession(newcomer, info, out Exception? thrown) is not { } session)
        {
            AbortWith(new CloseReason(CloseCause.UserException, 0, thrown));
            return false;
        }

        newcomer.DetachForHandOver();
        session.AttachByHandOver(this, newcomer);
        _driver.Replace(session);
        ChangeHooks(session);
        GivePool(session);
        Loop.Engine.SessionBegan(session);
        return true;
    }

    /// <summary>Calls OnTlsHandshakeCompleted, then OnConnected, for a connection that begins with TLS.</summary>
    private void Greet()
    {
        TakeSends();
        Tell(SessionCallback.Handshaked, Session.Tls);
        // On the pool, StrandHandshaked continues after the callback; until then nothing is delivered.
        if (Pool is not null) return;
        AfterCallback();
        if (State == ConnectionState.Open) Opened();
    }

    private void UpgradeDone(TlsTransport tls, TlsInfo info)
    {
        if (!Outbound.Queue.Blocks.IsEmpty) Outbound.MarkDirty();
        // A strand completes the awaiter itself, after it has called its session.
        if (Pool is not null) Tell(SessionCallback.Handshaked, info);
        if (State == ConnectionState.Concluding)
        {
            if (Pool is null) tls.Upgrade!.Done(info);
            Drain(tls.Upgrade!.CloseAs);
            return;
        }

        LookInNextTurn();
        if (Pool is null)
        {
            Tell(SessionCallback.Handshaked, info);
            tls.Upgrade!.Done(info);
            AfterCallback();
        }

        if (IsFinishing && State == ConnectionState.Open) Loop.Schedule(this);
    }

    /// <summary>Called when the handshake is done; notifies the session.</summary>
    internal void HandshakeDone(TlsTransport tls, TlsInfo info)
    {
        Session.SetTls(info);
        _deadline.Stop(Loop);
        bool isNew = IsNewcomer;
        if (isNew && !MakeSession(info)) return;
        // On the pool a handshake counts until OnTlsHandshakeCompleted has returned, so that a stop that ends all
        // handshakes finds it.
        if (tls.Upgrade is not null || Pool is null) tls.LeaveHandshake();
        if (tls.Upgrade is not null) UpgradeDone(tls, info);
        else if (!isNew) Greet();
        else if (SayConnecting() && State == ConnectionState.Handshaking) Greet();
    }

    /// <summary>
    /// Ends TLS after a failure. Data that is already on the wire queue is still sent (possibly an alert); everything
    /// else is discarded. Does not call the session, because this may be inside a flush.
    /// </summary>
    internal void TlsFailed(TlsTransport tls, bool isHandshake, bool atOnce)
    {
        Outbound.DiscardPlain(tls.PlainUnsent);
        _timers.CancelAll();
        if (isHandshake) Pool?.EndInput();
        // Data received before is delivered, as before a reset. After it, the strand calls OnDisconnecting and
        // OnDisconnected.
        else if (Pool is not null && WasConnected) _life.Hears(Heard.Disconnecting);
        _driver.ForgetOffer();
        _life.DropPeersEnd();
        if (atOnce || Outbound.Error != 0)
        {
            ResetOnClose = true;
            Detach();
            return;
        }

        if (!ReferenceEquals(Loop.Active, this)) _driver.ClearUnread();
        Go(ConnectionState.Draining);
        StartDeadline(s_alertTime);
        UpdateReceiving();
        Loop.Schedule(this);
    }

    internal CloseReason ReasonOf(TlsFault fault, bool isHandshake)
    {
        CloseCause cause = isHandshake ? CloseCause.TlsHandshake
            : fault.Cause == TlsFailure.Truncated ? CloseCause.TlsTruncated : CloseCause.TlsBroken;
        string peer = Session.RemoteEndPoint?.ToString() is { Length: > 0 } text ? text : "the peer";
        string message = fault.Cause == TlsFailure.Validated ? $"{fault.Message}, from {peer}" : isHandshake
            ? $"TLS handshake failed with {peer}: {fault.Message}"
            : $"TLS with {peer} ended: {fault.Message}";
        return new CloseReason(cause, 0, new TlsException(fault.Cause, message));
    }

    private void FreeTls()
    {
        if (_tls is not { } tls) return;
        tls.Free();
        _tls = null;
        if (Pool is null) tls.Upgrade?.Failed(Reason);
    }

    // ------------------------------------------------------------------ upgrade (contract 16)

    internal static void UpgradeWhileEnding() =>
        Throw.State("The connection is ending: it cannot be upgraded to TLS any more.");

    internal static void UpgradeTwice() => Throw.State("The connection speaks TLS already.");

    internal static void UpgradeInsideSend() => Throw.State("A SendAsync waits for room: await it before the upgrade, "
        + "or its end would be encrypted and its beginning not.");

    /// <summary>
    /// Requests an upgrade in a callback on the loop, or outside of callbacks. It takes effect when the callback has
    /// returned.
    /// </summary>
    internal void UpgradeToTls(TlsUpgrade upgrade)
    {
        if (State != ConnectionState.Open || IsFinishing || Outbound.Error != 0) UpgradeWhileEnding();
        if (HasTls) UpgradeTwice();
        if (Outbound.HasCallers) UpgradeInsideSend();
        Outbound.SettleForeign();
        SplitForUpgrade(upgrade).BecomeDue();
        if (!ReferenceEquals(Loop.Active, this)) Loop.Schedule(this);
    }

    /// <summary>
    /// Requests an upgrade in a callback on the pool. If the connection is ending, its end completes the awaiter.
    /// </summary>
    internal void DrainUpgrade(uint generation, TlsUpgrade upgrade)
    {
        if (generation != Generation || State != ConnectionState.Open || Outbound.Error != 0) return;
        // Other threads may have acted in between; on the loop, both cases throw at the call.
        string? obstacle = IsFinishing ? "this half was ended (ShutdownSend) before the upgrade"
            : Outbound.IsInPieces
            ? "a SendAsync of another thread was in the middle of its bytes"
            : null;
        if (obstacle is not null)
        {
            AbortWith(ReasonOf(new TlsFault(TlsFailure.LocalFault, obstacle), isHandshake: true));
            return;
        }

        SplitForUpgrade(upgrade);
        UpdateReceiving();
        Pool!.TellUpgrading();
    }

    /// <summary>
    /// Called when the requesting callback on the pool has returned. The strand passes back unread data, which precedes
    /// data that it never received.
    /// </summary>
    internal void StrandUpgrading(uint generation, TlsUpgrade upgrade)
    {
        if (generation != Generation || _tls is not { Phase: TlsPhase.Asked } tls
            || !ReferenceEquals(tls.Upgrade, upgrade))
        {
            upgrade.Rest.Clear();
            return;
        }

        tls.BecomeDue();
        StartUpgrade(tls);
    }

    /// <summary>
    /// Moves queued data to the wire queue, so that it is sent in the clear. Later sends wait for the handshake, and
    /// received data is cipher text.
    /// </summary>
    private TlsTransport SplitForUpgrade(TlsUpgrade upgrade)
    {
        Outbound.Queue.CloseFill();
        TlsTransport tls = new(this, upgrade.Profile, upgrade);
        tls.TakePlain(ref Outbound.Queue);
        _tls = tls;
        return tls;
    }

    /// <summary>
    /// Starts the upgrade after the requesting callback has returned and consumed its part of the unread data.
    /// </summary>
    private void StartUpgrade(TlsTransport tls)
    {
        TlsUpgrade upgrade = tls.Upgrade!;
        if (State is not (ConnectionState.Open or ConnectionState.Concluding))
        {
            upgrade.Rest.Clear();
            return;
        }

        _driver.ForgetOffer();
        if (Pool is null) upgrade.Rest = _driver.TakeUnread();
        if (upgrade.Rest.Length > 0 && upgrade.Unread == UnreadBytes.Refuse)
        {
            int count = upgrade.Rest.Length;
            upgrade.Rest.Clear();
            tls.Fail(new TlsFault(TlsFailure.UnreadBeforeUpgrade, $"{count} bytes that came in "
                + $"the clear were left unread before the upgrade to TLS; an attacker may have put them there "
                + $"(UnreadBytes.PassToTls takes them as the beginning of the handshake)"));
            return;
        }

        tls.PutInFront(ref upgrade.Rest);
        tls.Greet();
    }

    // ------------------------------------------------------------------ for the transport

    /// <summary>True if received data is still needed, by the session or by a handshake.</summary>
    internal bool TakesInput =>
        State is ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Concluding;

    /// <summary>True if more data may be delivered to the session now.</summary>
    internal bool MayDeliver => IsReading && !_driver.OffersAgain;

    private bool MayOffer => _driver.Gate is ReceiveGate.None or ReceiveGate.Finished;

    /// <summary>Queues a close_notify for the peer. Returns true if it has to be sent first.</summary>
    private bool SaysGoodbye() => _tls is { } tls && tls.SayGoodbye();

    /// <summary>Passes a FIN that was read back to the layer. Returns false if there was none.</summary>
    internal bool TakeBackPeersEnd()
    {
        bool hasCome = _life.Peer != PeerHalf.Open;
        _life.DropPeersEnd();
        return hasCome;
    }

    /// <summary>Records the peer's end without a callback: the connection ends.</summary>
    internal void PeerHasLeft() => _life.PeerFinishes();

    /// <summary>True if the peer's FIN has not been passed to the session yet.</summary>
    internal bool HoldsPeersEnd => _life.HoldsPeersEnd;
}
