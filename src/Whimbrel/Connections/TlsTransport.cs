using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// TLS of a connection, and its receiving side: cipher text is passed to the layer, and the plaintext that it returns
/// is delivered like plain data. TlsTransport.Sending.cs has the sending side. The handshake takes place between the
/// attach and OnConnected, or, in an upgrade, between two callbacks; Connection.Tls.cs has the callbacks of the
/// session. Owned by one connection, for one use.
/// </summary>
/// <remarks>
/// Rules: (1) The layer is called only from here, never recursively: callbacks of the session only fill queues. (2)
/// Nothing is decrypted while the session may not get data (pause, back-pressure, the pool). Cipher text then waits in
/// <c>_held</c>, no more than the engine had received. (3) All handshakes share 300 us of each turn, after the replies
/// of other connections; the rest waits for the next turn. Long ones run on the pool. (4) A failed handshake ends with
/// OnConnectFailed, or, in an upgrade, ends the connection.
/// </remarks>
// Safe: a block's memory is this connection's from Take to PutOnWire, and the output never exceeds its capacity.
internal sealed unsafe partial class TlsTransport(Connection connection, TlsProfile profile, TlsUpgrade? upgrade)
    : IPlainSink
{
    /// <summary>Most input that may wait during a handshake.</summary>
    private const int MostHeldInHandshake = 128 * 1024;

    /// <summary>Waiting input above which a waiting handshake does not read more.</summary>
    private const int MostReadWhileWaiting = 16 * 1024;

    private const string SymptomPage = "tls-handshake.md";

    private TlsLayer? _layer;
    private TlsErrand? _errand; // a pool thread has the layer
    private TlsChallenge? _challenge; // a validation by an ACME authority
    private TlsWire _wire;
    private UnreadStore _held; // cipher text not consumed yet
    private long _timedFrom; // stopwatch time of the handshake's start, if a listener measures it; or 0

    private bool _isInCall; // the layer runs now, on this thread: no other code may call it
    private bool _inputEnded; // the peer's FIN was read

    /// <summary>
    /// True if the layer has work and waits: in the handshake for time in the next turn, afterwards for the session to
    /// accept data.
    /// </summary>
    private bool _waits;

    internal Connection Connection => connection;

    internal TlsPhase Phase { get; private set; } = upgrade is null ? TlsPhase.Greeting : TlsPhase.Asked;

    internal TlsProfile Profile { get; private set; } = profile;

    /// <summary>On a client the host; on a server the requested server name.</summary>
    private string? Name { get; set; } = profile.IsServer ? null : profile.Options.HostName ?? connection.ConnectedHost;

    /// <summary>The upgrade, if the session was connected in the clear before; otherwise null.</summary>
    internal TlsUpgrade? Upgrade => upgrade;

    // Neighbours in the list of connections without a complete ClientHello, which owns these fields.
    internal TlsTransport? SilentBefore;
    internal TlsTransport? SilentAfter;

    /// <summary>True before the end of the handshake.</summary>
    internal bool IsShaking => Phase < TlsPhase.Open;

    /// <summary>True while the handshake is in progress, with its time limit.</summary>
    internal bool IsTimed => Phase is >= TlsPhase.Hello and < TlsPhase.Open;

    /// <summary>True if plaintext can be encrypted, and close_notify is still to be sent.</summary>
    internal bool CanSend => Phase is TlsPhase.Open or TlsPhase.PeerEnded;

    private bool SaidGoodbye => Phase is TlsPhase.OwnEnded or TlsPhase.BothEnded;

    /// <summary>
    /// True if the engine may continue to read. False while received data waits for the session. A handshake that waits
    /// for time or for a thread reads another flight's worth, which costs less than to stop and start again.
    /// </summary>
    internal bool WantsInput => !_inputEnded && Phase switch
    {
        < TlsPhase.Hello or > TlsPhase.OwnEnded => false,
        < TlsPhase.Open => (!IsAway && !_waits) || _held.Length <= MostReadWhileWaiting,
        _ => !_waits && _held.Length == 0 && connection.MayDeliver && !connection.HoldsPeersEnd,
    };

    private Loop Loop => connection.Loop;

    private HostShard Shard => connection.Shard;

    private ConnectionState State => connection.State;

    /// <summary>Changes the phase. The only place that does so.</summary>
    private void Go(TlsPhase next)
    {
        if (!IsLegal(Phase, next)) Loop.IllegalStep(Phase, next);
        Phase = next;
    }

    private static bool IsLegal(TlsPhase from, TlsPhase to) => from switch
    {
        TlsPhase.Freed => false,
        _ when to == TlsPhase.Freed => true,
        TlsPhase.Over or TlsPhase.BothEnded => false,
        _ when to == TlsPhase.Over => true,
        TlsPhase.Asked or TlsPhase.Due or TlsPhase.Greeting => to == from + 1,
        TlsPhase.Hello => to is TlsPhase.Heard or TlsPhase.Shaking or TlsPhase.ShakingOnPool,
        TlsPhase.Heard => to is TlsPhase.Shaking or TlsPhase.ShakingOnPool,
        TlsPhase.Shaking or TlsPhase.ShakingOnPool => to == TlsPhase.Open,
        TlsPhase.Open => to is TlsPhase.OwnEnded or TlsPhase.PeerEnded,
        _ => to == TlsPhase.BothEnded,
    };

    // ------------------------------------------------------------------ the beginning

    /// <summary>Called when the callback that requested the upgrade has returned, or returns soon.</summary>
    internal void BecomeDue() => Go(TlsPhase.Due);

    /// <summary>Calls OnTlsHandshakeStarting; on the pool <see cref="Begin"/> follows after it.</summary>
    internal void Greet()
    {
        if (upgrade is not null) Go(TlsPhase.Greeting);
        Shard.Shaking.Add(connection);
        if (connection.TellsHandshaking()) Begin();
    }

    /// <summary>
    /// Inserts data before the held input: unread data in the clear, or input returned by a pool thread. Empties the
    /// argument.
    /// </summary>
    internal void PutInFront(ref UnreadStore bytes)
    {
        bytes.Append(_held.Span);
        _held.Clear();
        _held = bytes;
        bytes = default;
    }

    /// <summary>
    /// Starts to send or read the first bytes, unless the session has ended the connection in OnTlsHandshakeStarting.
    /// </summary>
    internal void Begin()
    {
        if (!IsAlive) return;
        Go(TlsPhase.Hello);
        if (Profile.IsServer) _timedFrom = Shard.Host.HandshakeBegins();
        connection.StartDeadline(Profile.Options.HandshakeTimeout);
        if (!Profile.IsServer) MakeLayer(Profile);
        else if (upgrade is null) StartSilence();
        if (IsAlive && (_held.Length > 0 || _inputEnded)) RunHeld();
        if (IsAlive && connection.TakeBackPeersEnd()) EndInput();
        if (IsAlive) connection.UpdateReceiving();
    }

    /// <summary>
    /// Adds it to the accepted connections without a ClientHello. At their limit the oldest of them is closed.
    /// </summary>
    private void StartSilence()
    {
        Shard.Silent.Add(this);
        int most = Profile.Options.MaxSilent;
        if (Shard.Silent.Count <= most) return;
        Shard.SilentClosed++;
        Shard.Silent.Oldest!.Fail(new TlsFault(TlsFailure.TooMany,
            $"{most} connections without a ClientHello wait already, and this was the oldest (TlsOptions.MaxSilent)"),
            atOnce: true);
    }

    /// <summary>
    /// Takes a place among the handshakes for a complete ClientHello, even if there is no time for it yet. Returns
    /// false if none is free; the connection is then over.
    /// </summary>
    private bool TakePlace()
    {
        if (Phase >= TlsPhase.Heard) return true;
        Shard.Silent.Remove(this);
        if (upgrade is null && Shard.Places >= Profile.Options.MaxHandshakes)
        {
            Fail(new TlsFault(TlsFailure.TooMany,
                $"{Profile.Options.MaxHandshakes} handshakes run already (TlsOptions.MaxHandshakes)"), atOnce: true);
            return false;
        }

        Go(TlsPhase.Heard);
        Shard.Places++;
        return true;
    }

    /// <summary>
    /// Creates the layer: on a server after the complete ClientHello, which selects the options; on a client at once.
    /// Returns false on failure.
    /// </summary>
    private bool MakeLayer(TlsProfile profile)
    {
        TlsStep step;
        CipherBlock output = TakeBlock(Loop.Tls.Outgoing, out Block block);
        try
        {
            TlsCertificate? certificate =
                _challenge is null ? profile.CertificateFor(Name) : _challenge.Certificate;
            certificate?.LookAtFiles(Loop.Engine, Shard.Host);
            TlsKeyPair? keyPair = certificate?.Take();
            if (profile.IsServer && keyPair is null)
            {
                Loop.Blocks.Return(block);
                Fail(new TlsFault(TlsFailure.UnknownName, $"there is no certificate for the name '{Name}'"),
                    TlsAlert.UnrecognizedName);
                return false;
            }

            Profile = profile;
            _layer = profile.CreateLayer(Name, keyPair, Loop.Tls);
            Go(profile.IsSlow(keyPair) ? TlsPhase.ShakingOnPool : TlsPhase.Shaking);
            _isInCall = true;
            step = _layer.Start(output);
        }
        catch (Exception e)
        {
            // An unreadable certificate, or an exception of the user's callback, fails this handshake only.
            Loop.Blocks.Return(block);
            _isInCall = false;
            Fail(new TlsFault(TlsFailure.LocalFault, ErrorText.Of(e)), TlsAlert.InternalError);
            return false;
        }

        _isInCall = false;
        PutOnWire(block, output.Length);
        if (step != TlsStep.Refused) return true;
        Fail(_layer.Fault);
        return false;
    }

    // ------------------------------------------------------------------ receiving cipher text

    /// <summary>Called when the engine has received data.</summary>
    internal void Receive(ReadOnlySpan<byte> data)
    {
        if (!connection.TakesInput)
        {
            connection.DiscardInput(data.Length);
            return;
        }

        // Data after the peer's close_notify is ignored (RFC 8446, 6.1).
        if (Phase >= TlsPhase.PeerEnded) return;
        if (_held.Length > 0 || !MayRun())
        {
            _held.Append(data);
            // A handshake that waits for time no longer counts as silent.
            if (Phase == TlsPhase.Hello && TlsHello.Read(_held.Span, out _) == TlsHello.Outcome.Found && !TakePlace())
                return;
            if (MayRun()) RunHeld();
            // Checked only while it is read: a handshake that waits for time has stopped reading, and the engine limits
            // what it had received by then. A correct client sends its data directly after its last flight.
            if (IsAlive && IsShaking && WantsInput && _held.Length > MostHeldInHandshake)
            {
                Fail(new TlsFault(TlsFailure.BadRecord, "more than 128 KiB came before the handshake was done"));
            }
        }
        else
        {
            int used = RunLayer(data);
            if (IsAlive) _held.Append(data[used..]);
        }

        if (!IsAlive) return;
        connection.UpdateReceiving();
        Loop.FlushIfMany();
    }

    private bool IsAlive => Phase < TlsPhase.Over && connection.TakesInput;

    /// <summary>True while the thread pool works for this handshake, so that the loop has to wait.</summary>
    private bool IsAway => _errand is not null || _challenge is { IsPending: true };

    /// <summary>True if the ClientHello is still to be read.</summary>
    private bool IsHello => Phase is TlsPhase.Hello or TlsPhase.Heard;

    /// <summary>
    /// Returns whether the layer may be called now. A handshake without time in this turn is queued for the next one.
    /// </summary>
    private bool MayRun()
    {
        if (Phase < TlsPhase.Hello || IsAway || _isInCall) return false;
        if (!IsShaking) return connection.MayDeliver;
        if (Loop.Handshakes.HasTime(IsHello)) return true;
        if (_waits) return false;
        _waits = true;
        Loop.Handshakes.Add(this);
        return false;
    }

    /// <summary>
    /// Runs a step of this handshake. Returns false if the loop has no time left; this handshake then comes first in
    /// the next turn.
    /// </summary>
    internal bool RunHandshake()
    {
        if (!IsAlive) return true;
        if (!Loop.Handshakes.HasTime(IsHello)) return false;
        RunHeld();
        if (IsAlive) connection.UpdateReceiving();
        return true;
    }

    /// <summary>Continues with held cipher text: after a resume, in the next turn, or when more has arrived.</summary>
    private void RunHeld()
    {
        if (IsShaking) _waits = false;
        while (IsAlive && (_held.Length > 0 || _waits) && MayRun())
        {
            int before = _held.Length;
            bool hadWaited = _waits;
            int used = RunLayer(_held.Span);
            if (!IsAlive) break;
            _held.Consume(used);
            // An incomplete ClientHello stays; nothing more can be done with it.
            if (_held.Length == before && _waits == hadWaited) break;
        }

        if (IsAlive && _inputEnded && MayRun() && !_waits && (_held.Length == 0 || IsShaking)) TakeEnd();
    }

    /// <summary>
    /// Calls the layer until it needs more input, or may not deliver. Returns the number of bytes consumed.
    /// </summary>
    private int RunLayer(ReadOnlySpan<byte> cipher)
    {
        int used = 0;
        while (true)
        {
            if (IsShaking)
            {
                long began = Loop.Engine.WorkTicks;
                bool isHello = IsHello;
                if (isHello && !ReadHello(cipher)) return 0;
                if (Phase == TlsPhase.ShakingOnPool)
                {
                    SendAway(cipher[used..]);
                    Loop.Handshakes.Count(isHello, Loop.Engine.WorkTicks - began);
                    return cipher.Length;
                }

                TlsStep step = CallLayer(cipher, ref used);
                Loop.Handshakes.Count(isHello, Loop.Engine.WorkTicks - began);
                if (!GoesOn(step)) return used;
            }
            else if (!GoesOn(CallLayer(cipher, ref used)))
            {
                return used;
            }
        }
    }

    private TlsStep CallLayer(ReadOnlySpan<byte> cipher, ref int used)
    {
        CipherBlock output = TakeBlock(Loop.Tls.Answer, out Block block);
        _isInCall = true;
        TlsStep step = _layer!.Receive(cipher[used..], out int consumed, this, output);
        _isInCall = false;
        used += consumed;
        if (IsShaking || step == TlsStep.Refused) PutOnWire(block, output.Length);
        else PutAnswer(block, output.Length);
        return step;
    }

    /// <summary>
    /// Carries out the result of a step of the layer. Returns true if the layer is to be called again.
    /// </summary>
    private bool GoesOn(TlsStep step)
    {
        _waits = false;
        // The session may have ended the connection in a callback.
        if (!IsAlive) return false;
        switch (step)
        {
            case TlsStep.Ready:
                HandshakeDone();
                if (!IsAlive) return false;
                _waits = !connection.MayDeliver;
                return !_waits;
            case TlsStep.OutputFull:
                return true;
            case TlsStep.Stopped:
                _waits = true;
                return false;
            case TlsStep.PeerClosed:
                PeerEnds();
                return false;
            case TlsStep.Truncated or TlsStep.Refused:
                Fail(_layer!.Fault);
                return false;
            default:
                return false;
        }
    }

    /// <summary>Delivers plaintext of the layer. Returns false if the session may not get more now.</summary>
    bool IPlainSink.Take(ReadOnlySpan<byte> plain)
    {
        connection.Deliver(plain);
        // The layer's own memory, which is not read again (contract 13).
        Loop.PoisonLent(MemoryMarshal.CreateSpan(ref MemoryMarshal.GetReference(plain), plain.Length));
        return State == ConnectionState.Open && connection.MayDeliver;
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>Called when the peer's FIN was received. During a pause it waits, like the data before it.</summary>
    internal void EndInput()
    {
        _inputEnded = true;
        if (Phase is < TlsPhase.Hello or >= TlsPhase.PeerEnded || _waits || (_held.Length > 0 && !IsShaking)
            || IsAway)
            return;
        if (IsShaking || MayRun()) TakeEnd();
    }

    private void TakeEnd()
    {
        TlsStep step = TlsStep.Refused;
        TlsFault fault = new(TlsFailure.PeerLeft, "the peer ended the connection in the middle of the handshake");
        if (_layer is { } layer)
        {
            _isInCall = true;
            step = layer.EndOfInput();
            _isInCall = false;
            fault = layer.Fault;
        }

        if (step == TlsStep.PeerClosed)
        {
            PeerEnds();
            return;
        }

        connection.PeerHasLeft();
        Fail(fault);
    }

    /// <summary>Handles close_notify like the FIN of a plain connection.</summary>
    private void PeerEnds()
    {
        Go(Phase == TlsPhase.OwnEnded ? TlsPhase.BothEnded : TlsPhase.PeerEnded);
        connection.PeersEndArrived();
    }

    // ------------------------------------------------------------------ the handshake

    /// <summary>
    /// Reads the ClientHello, which selects options and certificate. Returns false if it is incomplete or failed.
    /// </summary>
    private bool ReadHello(ReadOnlySpan<byte> input)
    {
        switch (TlsHello.Read(input, out TlsHello hello))
        {
            case TlsHello.Outcome.NeedsMore:
                return false;
            case TlsHello.Outcome.NotTls:
                FailNotTls(input);
                return false;
        }

        if (!TakePlace()) return false;
        Name = Loop.Tls.LastName = hello.NameOr(Loop.Tls.LastName);
        if (upgrade is null && Profile.Challenge is { } challenge && Name is not null
            && hello.OffersOnly("acme-tls/1"u8))
            return AnswerChallenge(challenge, Name);
        if (Profile.Select(Name) is not { } profile)
        {
            Fail(new TlsFault(TlsFailure.UnknownName, Name is null
                ? "client names no host, and there is no certificate for that"
                : $"client asks for '{Name}', which this server does not serve"), TlsAlert.UnrecognizedName);
            return false;
        }

        if (profile.Foresee(hello) is not { } fault) return MakeLayer(profile);
        Fail(fault,
            fault.Cause == TlsFailure.NoCommonVersion ? TlsAlert.ProtocolVersion : TlsAlert.NoApplicationProtocol);
        return false;
    }

    /// <summary>
    /// Gets the certificate of a validation from the pool; called again when it is there, with the same ClientHello.
    /// </summary>
    private bool AnswerChallenge(TlsProfile challenge, string name)
    {
        if (_challenge is not null) return MakeLayer(challenge);
        _challenge = new TlsChallenge(this, name);
        _challenge.Start(Profile.Options.ChallengeCertificate!);
        return false;
    }

    /// <summary>Called when the certificate of a validation is there, or is known to be missing.</summary>
    internal void ChallengeFound()
    {
        if (!IsAlive) return;
        RunHeld();
        if (IsAlive) connection.UpdateReceiving();
    }

    private void HandshakeDone()
    {
        if (_challenge is not null)
        {
            Fail(new TlsFault(TlsFailure.Validated, $"an ACME authority has validated '{Name}'"));
            return;
        }

        Go(TlsPhase.Open);
        Shard.Handshakes++;
        TlsInfo info = _layer!.Info;
        if (info.IsResumed) Shard.HandshakesResumed++;
        if (_timedFrom != 0) TellTime(info, null);
        connection.HandshakeDone(this, info);
    }

    internal void LeaveHandshake()
    {
        if (!Shard.Shaking.Remove(connection)) return;
        Shard.Silent.Remove(this);
        if (Profile.IsServer && Phase >= TlsPhase.Heard) Shard.Places--;
    }

    private void SendAway(ReadOnlySpan<byte> cipher)
    {
        _errand = new TlsErrand(this, _layer!, cipher);
        connection.UpdateReceiving();
        _errand.Start();
    }

    /// <summary>Called when a step on the pool has ended. The connection is still the same.</summary>
    internal void ErrandReturned(TlsErrand errand)
    {
        _errand = null;
        PutOnWire(errand.Output.WrittenSpan);
        // Unused input precedes the input that arrived meanwhile.
        UnreadStore rest = default;
        rest.Append(errand.Rest);
        PutInFront(ref rest);
        errand.GiveBack();
        if (!IsAlive) return;
        bool again = GoesOn(errand.Step);
        if (!IsAlive) return;
        // After the handshake, the layer may hold plaintext that arrived with its end.
        if (again || _held.Length > 0 || _inputEnded)
        {
            _waits |= again;
            RunHeld();
        }

        if (IsAlive) connection.UpdateReceiving();
    }

    /// <summary>In the completion phase: continues with cipher text that waited for a resume.</summary>
    internal void RunScheduled()
    {
        if (IsShaking) return;
        if (!WantsInput && MayRun()) RunHeld();
        if (IsAlive) connection.UpdateReceiving();
    }

    // ------------------------------------------------------------------ failure

    private void FailNotTls(ReadOnlySpan<byte> input)
    {
        // Not after an upgrade: the peer has exchanged data with the session before, and would take a reply in the
        // clear for the session's.
        bool isHttp = upgrade is null && input.Length >= 4 && (input.StartsWith("GET "u8) || input.StartsWith("POST"u8)
            || input.StartsWith("HEAD"u8) || input.StartsWith("PUT "u8) || input.StartsWith("OPTI"u8));
        if (isHttp)
            PutOnWire("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: "u8
                + "58\r\n\r\nThis port speaks TLS: use https:// instead of http:// here"u8);
        Fail(new TlsFault(TlsFailure.NotTls, isHttp ? "client speaks plain HTTP on a TLS port" : $"what the client "
            + $"sent is not TLS (it begins with 0x{Convert.ToHexString(input[..Math.Min(input.Length, 4)])})"),
            isHttp ? default : TlsAlert.ProtocolVersion);
    }

    /// <summary>Queues an alert in the clear, because there is no layer yet, and fails.</summary>
    private void Fail(TlsFault fault, TlsAlert alert)
    {
        if (alert != TlsAlert.None) PutOnWire([0x15, 3, 3, 0, 2, 2, (byte)alert]);
        Fail(fault);
    }

    /// <summary>
    /// Ends TLS after a failure. Data already on the wire queue is still sent (possibly an alert); everything else is
    /// discarded. Does not call the session, because this may be inside a flush.
    /// </summary>
    internal void Fail(TlsFault fault, bool atOnce = false)
    {
        if (!connection.TakesInput) return;
        bool isHandshake = IsShaking;
        CloseReason reason = connection.ReasonOf(fault, isHandshake);
        connection.SetReason(reason);
        if (isHandshake) LeaveHandshake();
        Go(TlsPhase.Over);
        if (isHandshake && fault.Cause == TlsFailure.Validated)
        {
            Shard.Handshakes++;
        }
        else if (isHandshake)
        {
            Shard.HandshakesFailed++;
            if (_timedFrom != 0) TellTime(null, fault.Cause.ToString());
            Shard.Host.NoteHandshake(reason, SymptomPage);
        }

        _wire.CountFiles(0);
        connection.TlsFailed(this, isHandshake, atOnce);
    }

    /// <summary>Records the duration of a handshake, once, if a listener of the meter measures it.</summary>
    private void TellTime(TlsInfo? info, string? failure)
    {
        long since = _timedFrom;
        _timedFrom = 0;
        Shard.Host.HandshakeEnded(since, info, failure);
    }

    /// <summary>Called when the connection has ended.</summary>
    internal void Free()
    {
        // The connection ended during the handshake: by a reset of the peer, or by a stop.
        if (_timedFrom != 0) TellTime(null, connection.Reason.Cause.ToString());
        LeaveHandshake();
        _held.Clear();
        DiscardWire();
        if (_errand is null) _layer?.Free();
        Go(TlsPhase.Freed);
    }
}
