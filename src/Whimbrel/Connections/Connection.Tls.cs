using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// TLS, the way in: cipher text goes to the layer, and what it delivers takes the way that plain bytes take. The handshake comes
/// between the attach and OnConnected, or, in an upgrade, between two callbacks. Connection.TlsSend.cs has the way out.
/// </summary>
/// <remarks>
/// Rules: (1) the layer is called from here only, never from inside itself: what a session does in a callback fills queues.
/// (2) Whoever may not be delivered to (pause, back-pressure, the pool) is not decrypted for; cipher text waits in
/// <see cref="TlsLink.Held"/>, no more than the engine had taken. (3) Handshakes have 300 us of each turn, together, behind the
/// answers of everybody else; who comes later waits for the next. Long ones are made on the pool. (4) A handshake that fails is
/// OnConnectFailed, or for an upgrade the end.
/// </remarks>
// Safe: a block's memory is this connection's from Take to PutOnWire, and the output never passes its capacity.
internal sealed unsafe partial class Connection : IPlainSink
{
    private const string SymptomPage = "tls-handshake.md";

    /// <summary>After a failure: time for the peer to read the alert.</summary>
    private static readonly TimeSpan s_alertTime = TimeSpan.FromSeconds(1);

    /// <summary>What the dial was for: the name that a server's certificate must cover, when the options name none.</summary>
    internal string? DialledHost
    {
        get => _tenancy.DialledHost;
        set => _tenancy.DialledHost = value;
    }

    internal bool HasTls => _tenancy.Tls is not null || _tenancy.Upgrade is not null;

    /// <summary>What the list of those that have sent no ClientHello has of it (<see cref="SilentConnections"/>); only with TLS it is ever in there.</summary>
    internal TlsLink? Silence => _tenancy.Tls;

    // ------------------------------------------------------------------ the beginning

    /// <summary>The socket is attached; the session hears of it when the handshake is done.</summary>
    private void BeginTls(TlsProfile profile)
    {
        Go(ConnectionState.Handshaking);
        StartShaking(new TlsLink(profile, profile.IsServer ? null : profile.Options.HostName ?? DialledHost, isUpgrade: false));
    }

    private void StartShaking(TlsLink tls)
    {
        _tenancy.Tls = tls;
        tls.IsCounted = true;
        Shard.Shaking.Add(this);
        if ((_tenancy.Hooks & SessionHooks.Handshaking) == 0 || TellHandshaking()) BeginShaking(tls);
    }

    /// <summary>OnHandshaking. False on the pool: <see cref="StrandHandshaking"/> goes on when it has returned.</summary>
    private bool TellHandshaking()
    {
        if (State == ConnectionState.Concluding) return true;
        if (!Tell(SessionCallback.Handshaking)) return false;
        AfterCallback();
        return true;
    }

    /// <summary>The first byte may go out, or be looked at, unless the session has ended it in OnHandshaking.</summary>
    private void BeginShaking(TlsLink tls)
    {
        if (!IsAlive(tls)) return;
        tls.HasBegun = true;
        if (tls.Profile.IsServer) tls.TimedFrom = Shard.Host.HandshakeBegins();
        StartDeadline(tls.Profile.Options.HandshakeTimeout);
        if (!tls.Profile.IsServer) MakeLayer(tls, tls.Profile);
        else if (!tls.IsUpgrade) StartSilence();
        if (IsAlive(tls) && (tls.Held.Length > 0 || tls.InputEnded)) RunHeld(tls);
        if (_tenancy.Life.Peer != PeerHalf.Open && IsAlive(tls))
        {
            _tenancy.Life.DropPeersEnd();
            CipherFinished(tls);
        }

        if (IsAlive(tls)) UpdateReceiving();
    }

    /// <summary>Accepted, and nothing has been heard yet. There is room for so many of these; who has been silent for longest makes room for the next.</summary>
    private void StartSilence()
    {
        Shard.Silent.Add(this);
        int most = _tenancy.Tls!.Profile.Options.MaxSilent;
        if (Shard.Silent.Count <= most) return;
        Shard.SilentClosed++;
        Shard.Silent.Oldest!.FailTls(new TlsFault(TlsFailure.TooMany, $"{most} connections without a ClientHello wait already, and this was the oldest (TlsOptions.MaxSilent)"), atOnce: true);
    }

    /// <summary>Its ClientHello is whole, also if there is no time for it yet: it takes a place among the handshakes. False: there is none, and it is over.</summary>
    private bool TakePlace(TlsLink tls)
    {
        if (tls.HasPlace) return true;
        Shard.Silent.Remove(this);
        if (!tls.IsUpgrade && Shard.Places >= tls.Profile.Options.MaxHandshakes)
        {
            FailTls(new TlsFault(TlsFailure.TooMany, $"{tls.Profile.Options.MaxHandshakes} handshakes run already (TlsOptions.MaxHandshakes)"), atOnce: true);
            return false;
        }

        tls.HasPlace = true;
        Shard.Places++;
        return true;
    }

    /// <summary>Server: the ClientHello is whole and names the options. Client: at once. False when it failed.</summary>
    private bool MakeLayer(TlsLink tls, TlsProfile profile)
    {
        TlsStep step;
        Block block = Loop.Blocks.Take();
        CipherBlock output = Loop.Tls.Outgoing;
        output.Use(block.Memory, block.Capacity);
        try
        {
            TlsCertificate? certificate = profile.CertificateFor(tls.Name);
            certificate?.LookAtFiles(Loop.Engine, Shard.Host);
            TlsKeyPair? keyPair = certificate?.Take();
            if (profile.IsServer && keyPair is null)
            {
                Loop.Blocks.Return(block);
                FailTls(new TlsFault(TlsFailure.UnknownName, $"there is no certificate for the name '{tls.Name}'"), TlsAlert.UnrecognizedName);
                return false;
            }

            tls.Profile = profile;
            tls.IsSlow = profile.IsSlow(keyPair);
            tls.Layer = profile.CreateLayer(tls.Name, keyPair, Loop.Tls);
            tls.Phase = TlsPhase.Shaking;
            tls.IsInCall = true;
            step = tls.Layer.Start(output);
        }
        catch (Exception e)
        {
            // A certificate that cannot be read any more, or the user's callback: that handshake fails, and nothing else.
            Loop.Blocks.Return(block);
            tls.IsInCall = false;
            FailTls(new TlsFault(TlsFailure.LocalFault, ErrorText.Of(e)), TlsAlert.InternalError);
            return false;
        }

        tls.IsInCall = false;
        PutOnWire(tls, block, output.Length);
        if (step != TlsStep.Refused) return true;
        FailTls(tls.Layer.Fault);
        return false;
    }

    // ------------------------------------------------------------------ cipher text in

    private void ReceiveCipher(ReadOnlySpan<byte> data)
    {
        TlsLink tls = _tenancy.Tls!;
        if (!TakesInput)
        {
            DiscardInput(data.Length);
            return;
        }

        // After the peer's end nothing counts (RFC 8446, 6.1).
        if (tls.Phase >= TlsPhase.PeerEnded) return;
        if (tls.Held.Length > 0 || !MayRun(tls))
        {
            tls.Held.Append(data);
            // One that waits for its time is not silent any more.
            if (tls is { Phase: TlsPhase.Hello, HasPlace: false, HasBegun: true } && TlsHello.Read(tls.Held.Span, out _) == TlsHello.Outcome.Found && !TakePlace(tls)) return;
            if (MayRun(tls)) RunHeld(tls);
            // Only while it is read on: a handshake that waits for its time has stopped that, and what the engine had taken by then is
            // bounded by the engine. An honest client sends its data right behind its last flight.
            if (IsAlive(tls) && tls.IsShaking && tls.WantsInput && tls.Held.Length > TlsLink.MostHeldInHandshake)
            {
                FailTls(new TlsFault(TlsFailure.BadRecord, "more than 128 KiB came before the handshake was done"));
            }
        }
        else
        {
            int used = RunLayer(tls, data);
            if (IsAlive(tls)) tls.Held.Append(data[used..]);
        }

        if (!IsAlive(tls)) return;
        UpdateReceiving();
        Loop.FlushIfMany();
    }

    /// <summary>What arrives still counts, for the session or for a handshake.</summary>
    private bool TakesInput => State is ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Concluding;

    private bool IsAlive(TlsLink tls) => ReferenceEquals(_tenancy.Tls, tls) && TakesInput && tls.Phase <= TlsPhase.PeerEnded;

    /// <summary>Whether the layer may be called now. A handshake that may not since the turn has no time left comes again by itself.</summary>
    private bool MayRun(TlsLink tls)
    {
        if (!tls.HasBegun || tls.IsAway || tls.IsInCall) return false;
        if (!tls.IsShaking) return _tenancy.Gate == ReceiveGate.None && !_tenancy.OfferPending;
        if (Loop.Handshakes.HasTime(tls.Phase == TlsPhase.Hello)) return true;
        if (tls.IsPaced) return false;
        tls.IsPaced = true;
        Loop.Handshakes.Add(this, tls);
        return false;
    }

    /// <summary>The loop has time for a step of this handshake. False: it has none left, and this one comes first in the next turn.</summary>
    internal bool RunHandshake(TlsLink tls)
    {
        if (!IsAlive(tls)) return true;
        if (!Loop.Handshakes.HasTime(tls.Phase == TlsPhase.Hello)) return false;
        RunHeld(tls);
        if (IsAlive(tls)) UpdateReceiving();
        return true;
    }

    /// <summary>Goes on with what waits, after a resume, in the next turn, or with more that came.</summary>
    private void RunHeld(TlsLink tls)
    {
        tls.IsPaced = false;
        while (IsAlive(tls) && (tls.Held.Length > 0 || tls.IsStopped) && MayRun(tls))
        {
            int before = tls.Held.Length;
            bool wasStopped = tls.IsStopped;
            int used = RunLayer(tls, tls.Held.Span);
            if (!IsAlive(tls)) break;
            tls.Held.Consume(used);
            // A part of a hello stays; nothing more can be done with it.
            if (tls.Held.Length == before && tls.IsStopped == wasStopped) break;
        }

        if (IsAlive(tls) && tls.InputEnded && MayRun(tls) && !tls.IsStopped && (tls.Held.Length == 0 || tls.IsShaking)) EndCipher(tls);
    }

    /// <summary>Calls the layer until it wants more, or may not deliver. The bytes used.</summary>
    private int RunLayer(TlsLink tls, ReadOnlySpan<byte> cipher)
    {
        int used = 0;
        while (true)
        {
            if (tls.IsShaking)
            {
                long began = Loop.Engine.WorkTicks;
                bool isHello = tls.Phase == TlsPhase.Hello;
                if (isHello && !ReadHello(tls, cipher)) return 0;
                if (tls.IsSlow)
                {
                    SendAway(tls, cipher[used..]);
                    Loop.Handshakes.Count(isHello, Loop.Engine.WorkTicks - began);
                    return cipher.Length;
                }

                TlsStep step = CallLayer(tls, cipher, ref used);
                Loop.Handshakes.Count(isHello, Loop.Engine.WorkTicks - began);
                if (!GoesOn(tls, step)) return used;
                // What is left may wait: others shake hands, too.
                if (tls.IsShaking && !MayRun(tls)) return used;
            }
            else if (!GoesOn(tls, CallLayer(tls, cipher, ref used)))
            {
                return used;
            }
        }
    }

    private TlsStep CallLayer(TlsLink tls, ReadOnlySpan<byte> cipher, ref int used)
    {
        Block block = Loop.Blocks.Take();
        CipherBlock output = Loop.Tls.Answer;
        output.Use(block.Memory, block.Capacity);
        tls.IsInCall = true;
        TlsStep step = tls.Layer!.Receive(cipher[used..], out int consumed, this, output);
        tls.IsInCall = false;
        used += consumed;
        if (tls.IsShaking || step == TlsStep.Refused) PutOnWire(tls, block, output.Length);
        else PutAnswer(tls, block, output.Length);
        return step;
    }

    /// <summary>Does what a step of the layer asks for. True: call it again.</summary>
    private bool GoesOn(TlsLink tls, TlsStep step)
    {
        tls.IsStopped = false;
        // The session may have ended it in a callback.
        if (!IsAlive(tls)) return false;
        switch (step)
        {
            case TlsStep.Ready:
                HandshakeDone(tls);
                if (!IsAlive(tls)) return false;
                tls.IsStopped = _tenancy.Gate != ReceiveGate.None || _tenancy.OfferPending;
                return !tls.IsStopped;
            case TlsStep.OutputFull:
                return true;
            case TlsStep.Stopped:
                tls.IsStopped = true;
                return false;
            case TlsStep.PeerClosed:
                tls.Phase = TlsPhase.PeerEnded;
                PeersEndArrived(); // the proper end: as the FIN of a plain connection
                return false;
            case TlsStep.Truncated or TlsStep.Refused:
                FailTls(tls.Layer!.Fault);
                return false;
            default:
                return false;
        }
    }

    /// <summary>Plaintext from the layer. It stops when the session may not get more now.</summary>
    bool IPlainSink.Take(ReadOnlySpan<byte> plain)
    {
        Deliver(plain);
        // The layer's own memory, which nobody reads again (contract 13).
        Loop.PoisonLent(MemoryMarshal.CreateSpan(ref MemoryMarshal.GetReference(plain), plain.Length));
        return State == ConnectionState.Open && _tenancy.Gate == ReceiveGate.None && !_tenancy.OfferPending;
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>The peer's FIN. During a pause it waits, like the bytes before it.</summary>
    private void CipherFinished(TlsLink tls)
    {
        tls.InputEnded = true;
        if (tls.Phase >= TlsPhase.PeerEnded || tls.IsStopped || (tls.Held.Length > 0 && !tls.IsShaking) || tls.IsPaced || tls.IsAway || !tls.HasBegun) return;
        if (tls.IsShaking || MayRun(tls)) EndCipher(tls);
    }

    private void EndCipher(TlsLink tls)
    {
        TlsStep step = TlsStep.Refused;
        TlsFault fault = new(TlsFailure.PeerLeft, "the peer ended the connection in the middle of the handshake");
        if (tls.Layer is { } layer)
        {
            tls.IsInCall = true;
            step = layer.EndOfInput();
            tls.IsInCall = false;
            fault = layer.Fault;
        }

        if (step != TlsStep.PeerClosed)
        {
            _tenancy.Life.PeerFinishes();
            FailTls(fault);
            return;
        }

        tls.Phase = TlsPhase.PeerEnded;
        PeersEndArrived(); // the proper end: as the FIN of a plain connection
    }

    // ------------------------------------------------------------------ the handshake

    /// <summary>Reads the ClientHello, which chooses options and certificate. False: not yet, or it failed.</summary>
    private bool ReadHello(TlsLink tls, ReadOnlySpan<byte> input)
    {
        switch (TlsHello.Read(input, out TlsHello hello))
        {
            case TlsHello.Outcome.NeedsMore:
                return false;
            case TlsHello.Outcome.NotTls:
                FailNotTls(input);
                return false;
        }

        if (!TakePlace(tls)) return false;
        tls.Name = Loop.Tls.LastName = hello.NameOr(Loop.Tls.LastName);
        if (tls.Profile.Select(tls.Name) is not { } profile)
        {
            FailTls(new TlsFault(TlsFailure.UnknownName, tls.Name is null ? "client names no host, and there is no certificate for that" : $"client asks for '{tls.Name}', which this server does not serve"), TlsAlert.UnrecognizedName);
            return false;
        }

        if (profile.Foresee(hello) is not { } fault) return MakeLayer(tls, profile);
        FailTls(fault, fault.Cause == TlsFailure.NoCommonVersion ? TlsAlert.ProtocolVersion : TlsAlert.NoApplicationProtocol);
        return false;
    }

    private void HandshakeDone(TlsLink tls)
    {
        tls.Phase = TlsPhase.Open;
        Shard.Handshakes++;
        TlsInfo info = tls.Layer!.Info;
        if (info.IsResumed) Shard.HandshakesResumed++;
        if (tls.TimedFrom != 0) TellTime(tls, info, null);
        Session.SetTls(info);
        if (_deadline is not null) Loop.Timers.Remove(_deadline);
        bool isNew = IsNewcomer;
        if (isNew && !MakeSession(info)) return;
        // On the pool a handshake counts until OnHandshaked has returned: whoever ends all of them must find it.
        if (tls.IsUpgrade || Strand is null) LeaveHandshake(tls);
        if (tls.IsUpgrade) UpgradeDone(info);
        else if (!isNew) Greet();
        else if (SayConnecting() && State == ConnectionState.Handshaking) Greet();
    }

    /// <summary>The factory wanted to see what was agreed on. False when it gave no session: the connection has ended.</summary>
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
        _tenancy.Session = session;
        ChangeHooks(session);
        GiveStrand(session);
        Loop.Engine.SessionBegan(session);
        return true;
    }

    /// <summary>After the handshake of a connection that begins with TLS: the session hears of it, then that it is connected.</summary>
    private void Greet()
    {
        TakeSends();
        Tell(SessionCallback.Handshaked, Session.Tls);
        // On the pool the answer comes later (StrandHandshaked): until then nothing is delivered.
        if (Strand is not null) return;
        AfterCallback();
        if (State == ConnectionState.Open) Opened();
    }

    private void UpgradeDone(TlsInfo info)
    {
        TlsUpgrade? upgrade = _tenancy.Upgrade;
        _tenancy.Upgrade = null;
        if (!_queue.Blocks.IsEmpty) MarkDirty();
        // A strand tells whoever waits by itself, when its session has heard of it.
        if (Strand is not null) Tell(SessionCallback.Handshaked, info);
        if (State == ConnectionState.Concluding)
        {
            if (Strand is null) upgrade?.Done(info);
            Drain(_tenancy.Tls!.CloseAs);
            return;
        }

        LookInNextTurn();
        if (Strand is null)
        {
            Tell(SessionCallback.Handshaked, info);
            upgrade?.Done(info);
            AfterCallback();
        }

        if (IsFinishing && State == ConnectionState.Open) Loop.Schedule(this);
    }

    private void LeaveHandshake(TlsLink tls)
    {
        if (!tls.IsCounted) return;
        tls.IsCounted = false;
        Shard.Shaking.Remove(this);
        Shard.Silent.Remove(this);
        if (tls.HasPlace) Shard.Places--;
        tls.HasPlace = false;
    }

    private void SendAway(TlsLink tls, ReadOnlySpan<byte> cipher)
    {
        tls.IsAway = true;
        UpdateReceiving();
        new TlsErrand(this, tls, cipher).Start();
    }

    /// <summary>The pool has made its step. The same connection as when it left.</summary>
    internal void ErrandReturned(TlsErrand errand)
    {
        TlsLink tls = errand.Link;
        tls.IsAway = false;
        for (ReadOnlySpan<byte> output = errand.Output.WrittenSpan; !output.IsEmpty;)
        {
            Block block = Loop.Blocks.Take();
            int part = Math.Min(block.Capacity, output.Length);
            output[..part].CopyTo(new Span<byte>(block.Memory, part));
            output = output[part..];
            PutOnWire(tls, block, part);
        }

        // What came meanwhile stands behind what was not used.
        UnreadStore rest = default;
        rest.Append(errand.Rest);
        rest.Append(tls.Held.Span);
        tls.Held.Clear();
        tls.Held = rest;
        errand.GiveBack();
        if (!IsAlive(tls)) return;
        bool again = GoesOn(tls, errand.Step);
        if (!IsAlive(tls)) return;
        // Once the handshake is done, the layer may hold plaintext that came with its end.
        if (again || tls.Held.Length > 0 || tls.InputEnded)
        {
            tls.IsStopped |= again;
            RunHeld(tls);
        }

        if (IsAlive(tls)) UpdateReceiving();
    }

    /// <summary>In the completion phase: cipher text that waited for a resume.</summary>
    private void RunScheduledTls(TlsLink tls)
    {
        if (tls.IsShaking) return;
        if (!tls.WantsInput && MayRun(tls)) RunHeld(tls);
        if (IsAlive(tls)) UpdateReceiving();
    }

    // ------------------------------------------------------------------ upgrade (contract 16)

    internal static void UpgradeWhileEnding() => Throw.State("The connection is ending: it cannot be upgraded to TLS any more.");

    internal static void UpgradeTwice() => Throw.State("The connection speaks TLS already.");

    internal static void UpgradeInsideSend() => Throw.State("A SendAsync waits for room: await it before the upgrade, or its end would be encrypted and its beginning not.");

    /// <summary>Asked for in a callback on the loop, or outside of any: takes effect when that has returned.</summary>
    internal void UpgradeToTls(TlsUpgrade upgrade)
    {
        if (State != ConnectionState.Open || IsFinishing || _tenancy.SendError != 0) UpgradeWhileEnding();
        if (HasTls) UpgradeTwice();
        if (_operationCount > 0) UpgradeInsideSend();
        SettleForeign();
        SplitForUpgrade(upgrade);
        upgrade.IsReady = true;
        if (!ReferenceEquals(Loop.ActiveConnection, this)) Loop.Schedule(this);
    }

    /// <summary>Asked for in a callback on the pool. When the connection is ending, its end tells whoever waits.</summary>
    internal void DrainUpgrade(uint generation, TlsUpgrade upgrade)
    {
        if (generation != Generation || State != ConnectionState.Open || _tenancy.SendError != 0) return;
        // Other threads may have come in between; on the loop both would have been refused at the call.
        string? obstacle = IsFinishing ? "this half was ended (FinishSending) before the upgrade"
            : _tenancy.FirstOperation is { HasStarted: true } ? "a SendAsync of another thread was in the middle of its bytes"
            : null;
        if (obstacle is not null)
        {
            AbortWith(ReasonOf(new TlsFault(TlsFailure.LocalFault, obstacle), isHandshake: true));
            return;
        }

        SplitForUpgrade(upgrade);
        UpdateReceiving();
        Strand!.PostUpgrading(upgrade);
    }

    /// <summary>The callback on the pool that asked has returned: the strand brings what was left unread, in front of what it never got.</summary>
    internal void StrandUpgrading(uint generation, TlsUpgrade upgrade)
    {
        if (generation != Generation || !ReferenceEquals(_tenancy.Upgrade, upgrade))
        {
            upgrade.Rest.Clear();
            return;
        }

        UnreadStore all = upgrade.Rest;
        upgrade.Rest = default;
        all.Append(_tenancy.Unread.Span);
        _tenancy.Unread.Clear();
        _tenancy.Unread = all;
        upgrade.IsReady = true;
        StartUpgrade();
    }

    /// <summary>What was queued goes out plain: it becomes the wire queue. What follows waits for the handshake. What arrives is cipher text.</summary>
    private void SplitForUpgrade(TlsUpgrade upgrade)
    {
        _queue.CloseFill();
        TlsLink tls = new(upgrade.Profile, upgrade.Profile.IsServer ? null : upgrade.Profile.Options.HostName ?? DialledHost, isUpgrade: true);
        while (!_queue.Blocks.IsEmpty)
        {
            Block block = _queue.Blocks.Dequeue();
            // Room that is lent stays as well: the flush drops it.
            if (block.Length > 0 || _tenancy.SendInFlight || _queue.IsLent(Loop.UserCalls)) tls.Enqueue(block, block.Length);
            else Loop.Blocks.Return(block);
        }

        tls.FilePlain = _queue.InFiles;
        _tenancy.Upgrade = upgrade;
        upgrade.Link = tls;
        _tenancy.Tls = tls;
    }

    /// <summary>The callback that asked has returned, and took what it wanted of what was unread.</summary>
    private void StartUpgrade()
    {
        TlsUpgrade upgrade = _tenancy.Upgrade!;
        TlsLink tls = upgrade.Link!;
        if (tls.IsCounted || tls.HasBegun || State is not (ConnectionState.Open or ConnectionState.Concluding)) return;
        _tenancy.OfferPending = false;
        if (_tenancy.Unread.Length > 0 && upgrade.Unread == UnreadBytes.Refuse)
        {
            FailTls(new TlsFault(TlsFailure.UnreadBeforeUpgrade, $"{_tenancy.Unread.Length} bytes that came in the clear were left unread before the upgrade to TLS; an attacker may have put them there (UnreadBytes.PassToTls takes them as the beginning of the handshake)"));
            return;
        }

        // In front of what has arrived since.
        _tenancy.Unread.Append(tls.Held.Span);
        tls.Held.Clear();
        tls.Held = _tenancy.Unread;
        _tenancy.Unread = default;
        StartShaking(tls);
    }

    // ------------------------------------------------------------------ failure

    private void FailNotTls(ReadOnlySpan<byte> input)
    {
        // After an upgrade the peer has spoken with the session before: an answer of ours in the clear would be put into its mouth.
        bool isHttp = !_tenancy.Tls!.IsUpgrade && input.Length >= 4 && (input.StartsWith("GET "u8) || input.StartsWith("POST"u8) || input.StartsWith("HEAD"u8) || input.StartsWith("PUT "u8) || input.StartsWith("OPTI"u8));
        if (isHttp) PutOnWire(_tenancy.Tls, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 58\r\n\r\nThis port speaks TLS: use https:// instead of http:// here"u8);
        FailTls(new TlsFault(TlsFailure.NotTls, isHttp ? "client speaks plain HTTP on a TLS port" : $"what the client sent is not TLS (it begins with 0x{Convert.ToHexString(input[..Math.Min(input.Length, 4)])})"), isHttp ? default : TlsAlert.ProtocolVersion);
    }

    /// <summary>An alert of ours in the clear, then as below: before there is a layer.</summary>
    private void FailTls(TlsFault fault, TlsAlert alert)
    {
        if (alert != TlsAlert.None) PutOnWire(_tenancy.Tls!, [0x15, 3, 3, 0, 2, 2, (byte)alert]);
        FailTls(fault);
    }

    /// <summary>
    /// It is over. What is on the wire already still leaves (an alert, perhaps), everything else is thrown away. No session is
    /// called here: this may be inside a flush.
    /// </summary>
    private void FailTls(TlsFault fault, bool atOnce = false)
    {
        TlsLink tls = _tenancy.Tls!;
        if (!TakesInput) return;
        bool isHandshake = tls.IsShaking;
        tls.Phase = TlsPhase.Over;
        CloseReason reason = ReasonOf(fault, isHandshake);
        SetReason(reason);
        if (isHandshake)
        {
            LeaveHandshake(tls);
            Shard.HandshakesFailed++;
            if (tls.TimedFrom != 0) TellTime(tls, null, fault.Cause.ToString());
            Shard.Host.NoteHandshake(reason, SymptomPage);
        }

        RefuseForeign();
        _queue.CloseFill();
        _tenancy.Life.Loses(_queue.Queued - tls.PlainUnsent);
        while (!_queue.Blocks.IsEmpty) Return(_queue.Blocks.Dequeue());
        DropHeldRuns();
        _tenancy.FileRead = null;
        tls.FilePlain = 0;
        _queue.CountOnly(tls.PlainUnsent);
        EndOperations();
        CancelSessionTimers();
        if (isHandshake) Strand?.EndInput();
        // What was received before is delivered, as before a reset; the strand says both, the beginning of the end and the end, after it.
        else if (Strand is not null && WasConnected) _tenancy.Life.Hears(Heard.Disconnecting);
        _tenancy.OfferPending = false;
        _tenancy.Life.DropPeersEnd();
        if (atOnce || _tenancy.SendError != 0)
        {
            ResetOnClose = true;
            Detach();
            return;
        }

        if (!ReferenceEquals(Loop.ActiveConnection, this)) _tenancy.Unread.Clear();
        Go(ConnectionState.Draining);
        StartDeadline(s_alertTime);
        UpdateReceiving();
        Loop.Schedule(this);
    }

    /// <summary>Once for a handshake that somebody wanted the time of.</summary>
    private void TellTime(TlsLink tls, TlsInfo? info, string? failure)
    {
        long since = tls.TimedFrom;
        tls.TimedFrom = 0;
        Shard.Host.HandshakeEnded(since, info, failure);
    }

    private CloseReason ReasonOf(TlsFault fault, bool isHandshake)
    {
        CloseCause cause = isHandshake ? CloseCause.TlsHandshake : fault.Cause == TlsFailure.Truncated ? CloseCause.TlsTruncated : CloseCause.TlsBroken;
        string peer = Session.RemoteEndPoint?.ToString() is { Length: > 0 } text ? text : "the peer";
        string message = isHandshake ? $"TLS handshake failed with {peer}: {fault.Message}" : $"TLS with {peer} ended: {fault.Message}";
        return new CloseReason(cause, 0, new TlsException(fault.Cause, message));
    }

    private void FreeTls()
    {
        if (_tenancy.Tls is not { } tls) return;
        // Its connection ended in the middle of it: by the peer's reset, by a stop.
        if (tls.TimedFrom != 0) TellTime(tls, null, Reason.Cause.ToString());
        LeaveHandshake(tls);
        tls.Held.Clear();
        DiscardWire(tls);
        if (tls.IsAway) tls.IsOrphan = true;
        else tls.Layer?.Free();
        TlsUpgrade? upgrade = _tenancy.Upgrade;
        _tenancy.Tls = null;
        _tenancy.Upgrade = null;
        if (Strand is null) upgrade?.Failed(Reason);
    }
}
