using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// What a connection has when it speaks TLS, and has not when it does not. The way in: cipher text goes to the layer, and what it delivers takes
/// the way that plain bytes take. TlsTransport.Sending.cs has the way out. The handshake comes between the attach and OnConnected, or, in an
/// upgrade, between two callbacks; Connection.Tls.cs has the callbacks of the session. Owner: one connection, for one tenancy.
/// </summary>
/// <remarks>
/// Rules: (1) the layer is called from here only, never from inside itself: what a session does in a callback fills queues.
/// (2) Nothing is decrypted for a session that may not be delivered to (pause, back-pressure, the pool); cipher text waits
/// in the store <c>_held</c>, no more than the engine had taken. (3) All handshakes share 300 us of each turn, after the
/// answers of other connections; the rest waits for the next turn. Long ones are made on the pool. (4) A handshake that fails is
/// OnConnectFailed, or for an upgrade the end.
/// </remarks>
// Safe: a block's memory is this connection's from Take to PutOnWire, and the output never passes its capacity.
internal sealed unsafe partial class TlsTransport(Connection connection, TlsProfile profile, TlsUpgrade? upgrade) : IPlainSink
{
    /// <summary>Input that a handshake may leave waiting.</summary>
    private const int MostHeldInHandshake = 128 * 1024;

    /// <summary>With more than this held, a handshake that waits reads no further.</summary>
    private const int MostReadWhileWaiting = 16 * 1024;

    private const string SymptomPage = "tls-handshake.md";

    private TlsLayer? _layer;
    private TlsErrand? _errand; // a thread of the pool has the layer
    private TlsWire _wire;
    private UnreadStore _held; // cipher text not consumed yet
    private long _timedFrom; // when the handshake began, by the stopwatch, while it runs and a listener of the meter wants its time; or 0

    private bool _isInCall; // the layer runs now, on this thread: nothing else may call it
    private bool _inputEnded; // the peer's FIN was read

    /// <summary>The layer has something to do and waits: in the handshake for its time in the next turn, afterwards for the session, which gets no more now.</summary>
    private bool _waits;

    internal Connection Connection => connection;

    internal TlsPhase Phase { get; private set; } = upgrade is null ? TlsPhase.Greeting : TlsPhase.Asked;

    internal TlsProfile Profile { get; private set; } = profile;

    /// <summary>Client: the host. Server: the name that the peer asked for.</summary>
    private string? Name { get; set; } = profile.IsServer ? null : profile.Options.HostName ?? connection.ConnectedHost;

    /// <summary>The session was connected before, in the clear.</summary>
    internal TlsUpgrade? Upgrade => upgrade;

    // The neighbours in the list of those that have not sent a whole ClientHello, which owns them.
    internal TlsTransport? SilentBefore;
    internal TlsTransport? SilentAfter;

    /// <summary>The handshake is to come, or runs.</summary>
    internal bool IsShaking => Phase < TlsPhase.Open;

    /// <summary>The handshake runs, in its time limit.</summary>
    internal bool IsTimed => Phase is >= TlsPhase.Hello and < TlsPhase.Open;

    /// <summary>Plaintext can be encrypted, and the peer must still be told that this half ends.</summary>
    internal bool CanSend => Phase is TlsPhase.Open or TlsPhase.PeerEnded;

    private bool SaidGoodbye => Phase is TlsPhase.OwnEnded or TlsPhase.BothEnded;

    /// <summary>
    /// The engine may read on. Not while what came in waits for the session; a handshake that waits for its time or for a thread
    /// reads a flight's worth more, which costs less than to stop and begin again.
    /// </summary>
    internal bool WantsInput => !_inputEnded && Phase switch
    {
        < TlsPhase.Hello or > TlsPhase.OwnEnded => false,
        < TlsPhase.Open => (_errand is null && !_waits) || _held.Length <= MostReadWhileWaiting,
        _ => !_waits && _held.Length == 0 && connection.MayDeliver && !connection.HoldsPeersEnd,
    };

    private Loop Loop => connection.Loop;

    private HostShard Shard => connection.Shard;

    private ConnectionState State => connection.State;

    /// <summary>The one place that changes the phase.</summary>
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

    /// <summary>The callback that asked for the upgrade has returned, or does soon.</summary>
    internal void BecomeDue() => Go(TlsPhase.Due);

    /// <summary>OnTlsHandshakeStarting comes now; on the pool <see cref="Begin"/> does when it has returned.</summary>
    internal void Greet()
    {
        if (upgrade is not null) Go(TlsPhase.Greeting);
        Shard.Shaking.Add(connection);
        if (connection.TellsHandshaking()) Begin();
    }

    /// <summary>It came before what is held: in the clear, and was not taken; or a thread of the pool had it. It is empty then.</summary>
    internal void PutInFront(ref UnreadStore bytes)
    {
        bytes.Append(_held.Span);
        _held.Clear();
        _held = bytes;
        bytes = default;
    }

    /// <summary>The first byte may go out, or be looked at, unless the session has ended it in OnTlsHandshakeStarting.</summary>
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

    /// <summary>Adds it to the accepted connections without a ClientHello. At their limit the oldest of them is closed.</summary>
    private void StartSilence()
    {
        Shard.Silent.Add(this);
        int most = Profile.Options.MaxSilent;
        if (Shard.Silent.Count <= most) return;
        Shard.SilentClosed++;
        Shard.Silent.Oldest!.Fail(new TlsFault(TlsFailure.TooMany, $"{most} connections without a ClientHello wait already, and this was the oldest (TlsOptions.MaxSilent)"), atOnce: true);
    }

    /// <summary>Its ClientHello is whole, also if there is no time for it yet: it takes a place among the handshakes. False: there is none, and it is over.</summary>
    private bool TakePlace()
    {
        if (Phase >= TlsPhase.Heard) return true;
        Shard.Silent.Remove(this);
        if (upgrade is null && Shard.Places >= Profile.Options.MaxHandshakes)
        {
            Fail(new TlsFault(TlsFailure.TooMany, $"{Profile.Options.MaxHandshakes} handshakes run already (TlsOptions.MaxHandshakes)"), atOnce: true);
            return false;
        }

        Go(TlsPhase.Heard);
        Shard.Places++;
        return true;
    }

    /// <summary>Server: the ClientHello is whole and names the options. Client: at once. False when it failed.</summary>
    private bool MakeLayer(TlsProfile profile)
    {
        TlsStep step;
        CipherBlock output = TakeBlock(Loop.Tls.Outgoing, out Block block);
        try
        {
            TlsCertificate? certificate = profile.CertificateFor(Name);
            certificate?.LookAtFiles(Loop.Engine, Shard.Host);
            TlsKeyPair? keyPair = certificate?.Take();
            if (profile.IsServer && keyPair is null)
            {
                Loop.Blocks.Return(block);
                Fail(new TlsFault(TlsFailure.UnknownName, $"there is no certificate for the name '{Name}'"), TlsAlert.UnrecognizedName);
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
            // A certificate that cannot be read any more, or the user's callback: that handshake fails, and nothing else.
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

    // ------------------------------------------------------------------ cipher text in

    /// <summary>The engine received this.</summary>
    internal void Receive(ReadOnlySpan<byte> data)
    {
        if (!connection.TakesInput)
        {
            connection.DiscardInput(data.Length);
            return;
        }

        // After the peer's end nothing counts (RFC 8446, 6.1).
        if (Phase >= TlsPhase.PeerEnded) return;
        if (_held.Length > 0 || !MayRun())
        {
            _held.Append(data);
            // One that waits for its time is not silent any more.
            if (Phase == TlsPhase.Hello && TlsHello.Read(_held.Span, out _) == TlsHello.Outcome.Found && !TakePlace()) return;
            if (MayRun()) RunHeld();
            // Only while it is read on: a handshake that waits for its time has stopped that, and what the engine had taken by then is
            // bounded by the engine. An honest client sends its data right behind its last flight.
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

    /// <summary>The ClientHello is to be looked at.</summary>
    private bool IsHello => Phase is TlsPhase.Hello or TlsPhase.Heard;

    /// <summary>Whether the layer may be called now. A handshake that may not since the turn has no time left comes again by itself.</summary>
    private bool MayRun()
    {
        if (Phase < TlsPhase.Hello || _errand is not null || _isInCall) return false;
        if (!IsShaking) return connection.MayDeliver;
        if (Loop.Handshakes.HasTime(IsHello)) return true;
        if (_waits) return false;
        _waits = true;
        Loop.Handshakes.Add(this);
        return false;
    }

    /// <summary>The loop has time for a step of this handshake. False: it has none left, and this one comes first in the next turn.</summary>
    internal bool RunHandshake()
    {
        if (!IsAlive) return true;
        if (!Loop.Handshakes.HasTime(IsHello)) return false;
        RunHeld();
        if (IsAlive) connection.UpdateReceiving();
        return true;
    }

    /// <summary>Continues with the cipher text that waits: after a resume, in the next turn, or when more has arrived.</summary>
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
            // A part of a hello stays; nothing more can be done with it.
            if (_held.Length == before && _waits == hadWaited) break;
        }

        if (IsAlive && _inputEnded && MayRun() && !_waits && (_held.Length == 0 || IsShaking)) TakeEnd();
    }

    /// <summary>Calls the layer until it wants more, or may not deliver. The bytes used.</summary>
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

    /// <summary>Does what a step of the layer asks for. True: call it again.</summary>
    private bool GoesOn(TlsStep step)
    {
        _waits = false;
        // The session may have ended it in a callback.
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

    /// <summary>Plaintext from the layer. It stops when the session may not get more now.</summary>
    bool IPlainSink.Take(ReadOnlySpan<byte> plain)
    {
        connection.Deliver(plain);
        // The layer's own memory, which is not read again (contract 13).
        Loop.PoisonLent(MemoryMarshal.CreateSpan(ref MemoryMarshal.GetReference(plain), plain.Length));
        return State == ConnectionState.Open && connection.MayDeliver;
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>The peer's FIN. During a pause it waits, like the bytes before it.</summary>
    internal void EndInput()
    {
        _inputEnded = true;
        if (Phase is < TlsPhase.Hello or >= TlsPhase.PeerEnded || _waits || (_held.Length > 0 && !IsShaking) || _errand is not null) return;
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

    /// <summary>The proper end: as the FIN of a plain connection.</summary>
    private void PeerEnds()
    {
        Go(Phase == TlsPhase.OwnEnded ? TlsPhase.BothEnded : TlsPhase.PeerEnded);
        connection.PeersEndArrived();
    }

    // ------------------------------------------------------------------ the handshake

    /// <summary>Reads the ClientHello, which chooses options and certificate. False: not yet, or it failed.</summary>
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
        if (Profile.Select(Name) is not { } profile)
        {
            Fail(new TlsFault(TlsFailure.UnknownName, Name is null ? "client names no host, and there is no certificate for that" : $"client asks for '{Name}', which this server does not serve"), TlsAlert.UnrecognizedName);
            return false;
        }

        if (profile.Foresee(hello) is not { } fault) return MakeLayer(profile);
        Fail(fault, fault.Cause == TlsFailure.NoCommonVersion ? TlsAlert.ProtocolVersion : TlsAlert.NoApplicationProtocol);
        return false;
    }

    private void HandshakeDone()
    {
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

    /// <summary>The pool has made its step. The same connection as when it left.</summary>
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
        // Once the handshake is done, the layer may hold plaintext that came with its end.
        if (again || _held.Length > 0 || _inputEnded)
        {
            _waits |= again;
            RunHeld();
        }

        if (IsAlive) connection.UpdateReceiving();
    }

    /// <summary>In the completion phase: cipher text that waited for a resume.</summary>
    internal void RunScheduled()
    {
        if (IsShaking) return;
        if (!WantsInput && MayRun()) RunHeld();
        if (IsAlive) connection.UpdateReceiving();
    }

    // ------------------------------------------------------------------ failure

    private void FailNotTls(ReadOnlySpan<byte> input)
    {
        // After an upgrade the peer has spoken with the session before: an answer of ours in the clear would be put into its mouth.
        bool isHttp = upgrade is null && input.Length >= 4 && (input.StartsWith("GET "u8) || input.StartsWith("POST"u8) || input.StartsWith("HEAD"u8) || input.StartsWith("PUT "u8) || input.StartsWith("OPTI"u8));
        if (isHttp) PutOnWire("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 58\r\n\r\nThis port speaks TLS: use https:// instead of http:// here"u8);
        Fail(new TlsFault(TlsFailure.NotTls, isHttp ? "client speaks plain HTTP on a TLS port" : $"what the client sent is not TLS (it begins with 0x{Convert.ToHexString(input[..Math.Min(input.Length, 4)])})"), isHttp ? default : TlsAlert.ProtocolVersion);
    }

    /// <summary>An alert of ours in the clear, then as below: before there is a layer.</summary>
    private void Fail(TlsFault fault, TlsAlert alert)
    {
        if (alert != TlsAlert.None) PutOnWire([0x15, 3, 3, 0, 2, 2, (byte)alert]);
        Fail(fault);
    }

    /// <summary>
    /// It is over. What is on the wire already still leaves (an alert, perhaps), everything else is thrown away. No session is
    /// called here: this may be inside a flush.
    /// </summary>
    internal void Fail(TlsFault fault, bool atOnce = false)
    {
        if (!connection.TakesInput) return;
        bool isHandshake = IsShaking;
        CloseReason reason = connection.ReasonOf(fault, isHandshake);
        connection.SetReason(reason);
        if (isHandshake) LeaveHandshake();
        Go(TlsPhase.Over);
        if (isHandshake)
        {
            Shard.HandshakesFailed++;
            if (_timedFrom != 0) TellTime(null, fault.Cause.ToString());
            Shard.Host.NoteHandshake(reason, SymptomPage);
        }

        _wire.CountFiles(0);
        connection.TlsFailed(this, isHandshake, atOnce);
    }

    /// <summary>Records the time of a handshake, once, when a listener of the meter wanted it.</summary>
    private void TellTime(TlsInfo? info, string? failure)
    {
        long since = _timedFrom;
        _timedFrom = 0;
        Shard.Host.HandshakeEnded(since, info, failure);
    }

    /// <summary>The connection has ended.</summary>
    internal void Free()
    {
        // Its connection ended in the middle of it: by the peer's reset, by a stop.
        if (_timedFrom != 0) TellTime(null, connection.Reason.Cause.ToString());
        LeaveHandshake();
        _held.Clear();
        DiscardWire();
        if (_errand is null) _layer?.Free();
        Go(TlsPhase.Freed);
    }
}
