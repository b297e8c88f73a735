using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
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
/// What a connection has when it speaks TLS, and has not when it does not. The way in: cipher text goes to the layer, and what it delivers takes
/// the way that plain bytes take. TlsTransport.Sending.cs has the way out. The handshake comes between the attach and OnConnected, or, in an
/// upgrade, between two callbacks; what the session hears of it is Connection.Tls.cs. Owner: one connection, for one tenancy.
/// </summary>
/// <remarks>
/// Rules: (1) the layer is called from here only, never from inside itself: what a session does in a callback fills queues.
/// (2) Whoever may not be delivered to (pause, back-pressure, the pool) is not decrypted for; cipher text waits in
/// <see cref="Held"/>, no more than the engine had taken. (3) Handshakes have 300 us of each turn, together, behind the
/// answers of everybody else; who comes later waits for the next. Long ones are made on the pool. (4) A handshake that fails is
/// OnConnectFailed, or for an upgrade the end.
/// </remarks>
// Safe: a block's memory is this connection's from Take to PutOnWire, and the output never passes its capacity.
internal sealed unsafe partial class TlsTransport(Connection connection, TlsProfile profile, string? name, bool isUpgrade) : IPlainSink
{
    /// <summary>Input that a handshake may leave waiting.</summary>
    internal const int MostHeldInHandshake = 128 * 1024;

    /// <summary>With more than this held, a handshake that waits reads no further.</summary>
    internal const int MostReadWhileWaiting = 16 * 1024;

    /// <summary>Answers to what the peer sends without content (changes of keys) that may wait for the peer to read.</summary>
    internal const int MostAnswersWaiting = 16 * 1024;

    private const string SymptomPage = "tls-handshake.md";

    private readonly Connection _connection = connection;

    internal Connection Connection => _connection;

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
    internal TlsTransport? SilentBefore;
    internal TlsTransport? SilentAfter;

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
    internal bool TryJoin(ReadOnlySpan<byte> bytes)
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

    private Loop Loop => _connection.Loop;

    private HostShard Shard => _connection.Shard;

    private ConnectionState State => _connection.State;

    // ------------------------------------------------------------------ the beginning

    /// <summary>The first byte may go out, or be looked at, unless the session has ended it in OnHandshaking.</summary>
    internal void Begin()
    {
        if (!IsAlive()) return;
        HasBegun = true;
        if (Profile.IsServer) TimedFrom = Shard.Host.HandshakeBegins();
        _connection.StartDeadline(Profile.Options.HandshakeTimeout);
        if (!Profile.IsServer) MakeLayer(Profile);
        else if (!IsUpgrade) StartSilence();
        if (IsAlive() && (Held.Length > 0 || InputEnded)) RunHeld();
        if (IsAlive() && _connection.TakeBackPeersEnd()) EndInput();
        if (IsAlive()) _connection.UpdateReceiving();
    }

    /// <summary>Accepted, and nothing has been heard yet. There is room for so many of these; who has been silent for longest makes room for the next.</summary>
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
        if (HasPlace) return true;
        Shard.Silent.Remove(this);
        if (!IsUpgrade && Shard.Places >= Profile.Options.MaxHandshakes)
        {
            Fail(new TlsFault(TlsFailure.TooMany, $"{Profile.Options.MaxHandshakes} handshakes run already (TlsOptions.MaxHandshakes)"), atOnce: true);
            return false;
        }

        HasPlace = true;
        Shard.Places++;
        return true;
    }

    /// <summary>Server: the ClientHello is whole and names the options. Client: at once. False when it failed.</summary>
    private bool MakeLayer(TlsProfile profile)
    {
        TlsStep step;
        Block block = Loop.Blocks.Take();
        CipherBlock output = Loop.Tls.Outgoing;
        output.Use(block.Memory, block.Capacity);
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
            IsSlow = profile.IsSlow(keyPair);
            Layer = profile.CreateLayer(Name, keyPair, Loop.Tls);
            Phase = TlsPhase.Shaking;
            IsInCall = true;
            step = Layer.Start(output);
        }
        catch (Exception e)
        {
            // A certificate that cannot be read any more, or the user's callback: that handshake fails, and nothing else.
            Loop.Blocks.Return(block);
            IsInCall = false;
            Fail(new TlsFault(TlsFailure.LocalFault, ErrorText.Of(e)), TlsAlert.InternalError);
            return false;
        }

        IsInCall = false;
        PutOnWire(block, output.Length);
        if (step != TlsStep.Refused) return true;
        Fail(Layer.Fault);
        return false;
    }

    // ------------------------------------------------------------------ cipher text in

    /// <summary>The engine received this.</summary>
    internal void Receive(ReadOnlySpan<byte> data)
    {
        if (!_connection.TakesInput)
        {
            _connection.DiscardInput(data.Length);
            return;
        }

        // After the peer's end nothing counts (RFC 8446, 6.1).
        if (Phase >= TlsPhase.PeerEnded) return;
        if (Held.Length > 0 || !MayRun())
        {
            Held.Append(data);
            // One that waits for its time is not silent any more.
            if (Phase == TlsPhase.Hello && !HasPlace && HasBegun && TlsHello.Read(Held.Span, out _) == TlsHello.Outcome.Found && !TakePlace()) return;
            if (MayRun()) RunHeld();
            // Only while it is read on: a handshake that waits for its time has stopped that, and what the engine had taken by then is
            // bounded by the engine. An honest client sends its data right behind its last flight.
            if (IsAlive() && IsShaking && WantsInput && Held.Length > MostHeldInHandshake)
            {
                Fail(new TlsFault(TlsFailure.BadRecord, "more than 128 KiB came before the handshake was done"));
            }
        }
        else
        {
            int used = RunLayer(data);
            if (IsAlive()) Held.Append(data[used..]);
        }

        if (!IsAlive()) return;
        _connection.UpdateReceiving();
        Loop.FlushIfMany();
    }

    private bool IsAlive() => ReferenceEquals(_connection.Tls, this) && _connection.TakesInput && Phase <= TlsPhase.PeerEnded;

    /// <summary>Whether the layer may be called now. A handshake that may not since the turn has no time left comes again by itself.</summary>
    private bool MayRun()
    {
        if (!HasBegun || IsAway || IsInCall) return false;
        if (!IsShaking) return _connection.MayDeliver;
        if (Loop.Handshakes.HasTime(Phase == TlsPhase.Hello)) return true;
        if (IsPaced) return false;
        IsPaced = true;
        Loop.Handshakes.Add(this);
        return false;
    }

    /// <summary>The loop has time for a step of this handshake. False: it has none left, and this one comes first in the next turn.</summary>
    internal bool RunHandshake()
    {
        if (!IsAlive()) return true;
        if (!Loop.Handshakes.HasTime(Phase == TlsPhase.Hello)) return false;
        RunHeld();
        if (IsAlive()) _connection.UpdateReceiving();
        return true;
    }

    /// <summary>Goes on with what waits, after a resume, in the next turn, or with more that came.</summary>
    private void RunHeld()
    {
        IsPaced = false;
        while (IsAlive() && (Held.Length > 0 || IsStopped) && MayRun())
        {
            int before = Held.Length;
            bool wasStopped = IsStopped;
            int used = RunLayer(Held.Span);
            if (!IsAlive()) break;
            Held.Consume(used);
            // A part of a hello stays; nothing more can be done with it.
            if (Held.Length == before && IsStopped == wasStopped) break;
        }

        if (IsAlive() && InputEnded && MayRun() && !IsStopped && (Held.Length == 0 || IsShaking)) TakeEnd();
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
                bool isHello = Phase == TlsPhase.Hello;
                if (isHello && !ReadHello(cipher)) return 0;
                if (IsSlow)
                {
                    SendAway(cipher[used..]);
                    Loop.Handshakes.Count(isHello, Loop.Engine.WorkTicks - began);
                    return cipher.Length;
                }

                TlsStep step = CallLayer(cipher, ref used);
                Loop.Handshakes.Count(isHello, Loop.Engine.WorkTicks - began);
                if (!GoesOn(step)) return used;
                // What is left may wait: others shake hands, too.
                if (IsShaking && !MayRun()) return used;
            }
            else if (!GoesOn(CallLayer(cipher, ref used)))
            {
                return used;
            }
        }
    }

    private TlsStep CallLayer(ReadOnlySpan<byte> cipher, ref int used)
    {
        Block block = Loop.Blocks.Take();
        CipherBlock output = Loop.Tls.Answer;
        output.Use(block.Memory, block.Capacity);
        IsInCall = true;
        TlsStep step = Layer!.Receive(cipher[used..], out int consumed, this, output);
        IsInCall = false;
        used += consumed;
        if (IsShaking || step == TlsStep.Refused) PutOnWire(block, output.Length);
        else PutAnswer(block, output.Length);
        return step;
    }

    /// <summary>Does what a step of the layer asks for. True: call it again.</summary>
    private bool GoesOn(TlsStep step)
    {
        IsStopped = false;
        // The session may have ended it in a callback.
        if (!IsAlive()) return false;
        switch (step)
        {
            case TlsStep.Ready:
                HandshakeDone();
                if (!IsAlive()) return false;
                IsStopped = !_connection.MayDeliver;
                return !IsStopped;
            case TlsStep.OutputFull:
                return true;
            case TlsStep.Stopped:
                IsStopped = true;
                return false;
            case TlsStep.PeerClosed:
                Phase = TlsPhase.PeerEnded;
                _connection.PeersEndArrived(); // the proper end: as the FIN of a plain connection
                return false;
            case TlsStep.Truncated or TlsStep.Refused:
                Fail(Layer!.Fault);
                return false;
            default:
                return false;
        }
    }

    /// <summary>Plaintext from the layer. It stops when the session may not get more now.</summary>
    bool IPlainSink.Take(ReadOnlySpan<byte> plain)
    {
        _connection.Deliver(plain);
        // The layer's own memory, which nobody reads again (contract 13).
        Loop.PoisonLent(MemoryMarshal.CreateSpan(ref MemoryMarshal.GetReference(plain), plain.Length));
        return State == ConnectionState.Open && _connection.MayDeliver;
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>The peer's FIN. During a pause it waits, like the bytes before it.</summary>
    internal void EndInput()
    {
        InputEnded = true;
        if (Phase >= TlsPhase.PeerEnded || IsStopped || (Held.Length > 0 && !IsShaking) || IsPaced || IsAway || !HasBegun) return;
        if (IsShaking || MayRun()) TakeEnd();
    }

    private void TakeEnd()
    {
        TlsStep step = TlsStep.Refused;
        TlsFault fault = new(TlsFailure.PeerLeft, "the peer ended the connection in the middle of the handshake");
        if (Layer is { } layer)
        {
            IsInCall = true;
            step = layer.EndOfInput();
            IsInCall = false;
            fault = layer.Fault;
        }

        if (step != TlsStep.PeerClosed)
        {
            _connection.PeerHasLeft();
            Fail(fault);
            return;
        }

        Phase = TlsPhase.PeerEnded;
        _connection.PeersEndArrived(); // the proper end: as the FIN of a plain connection
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
        Phase = TlsPhase.Open;
        Shard.Handshakes++;
        TlsInfo info = Layer!.Info;
        if (info.IsResumed) Shard.HandshakesResumed++;
        if (TimedFrom != 0) TellTime(info, null);
        _connection.HandshakeDone(this, info);
    }

    internal void LeaveHandshake()
    {
        if (!IsCounted) return;
        IsCounted = false;
        Shard.Shaking.Remove(_connection);
        Shard.Silent.Remove(this);
        if (HasPlace) Shard.Places--;
        HasPlace = false;
    }

    private void SendAway(ReadOnlySpan<byte> cipher)
    {
        IsAway = true;
        _connection.UpdateReceiving();
        new TlsErrand(this, cipher).Start();
    }

    /// <summary>The pool has made its step. The same connection as when it left.</summary>
    internal void ErrandReturned(TlsErrand errand)
    {
        IsAway = false;
        for (ReadOnlySpan<byte> output = errand.Output.WrittenSpan; !output.IsEmpty;)
        {
            Block block = Loop.Blocks.Take();
            int part = Math.Min(block.Capacity, output.Length);
            output[..part].CopyTo(new Span<byte>(block.Memory, part));
            output = output[part..];
            PutOnWire(block, part);
        }

        // What came meanwhile stands behind what was not used.
        UnreadStore rest = default;
        rest.Append(errand.Rest);
        rest.Append(Held.Span);
        Held.Clear();
        Held = rest;
        errand.GiveBack();
        if (!IsAlive()) return;
        bool again = GoesOn(errand.Step);
        if (!IsAlive()) return;
        // Once the handshake is done, the layer may hold plaintext that came with its end.
        if (again || Held.Length > 0 || InputEnded)
        {
            IsStopped |= again;
            RunHeld();
        }

        if (IsAlive()) _connection.UpdateReceiving();
    }

    /// <summary>In the completion phase: cipher text that waited for a resume.</summary>
    internal void RunScheduled()
    {
        if (IsShaking) return;
        if (!WantsInput && MayRun()) RunHeld();
        if (IsAlive()) _connection.UpdateReceiving();
    }

    // ------------------------------------------------------------------ failure

    private void FailNotTls(ReadOnlySpan<byte> input)
    {
        // After an upgrade the peer has spoken with the session before: an answer of ours in the clear would be put into its mouth.
        bool isHttp = !IsUpgrade && input.Length >= 4 && (input.StartsWith("GET "u8) || input.StartsWith("POST"u8) || input.StartsWith("HEAD"u8) || input.StartsWith("PUT "u8) || input.StartsWith("OPTI"u8));
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
        if (!_connection.TakesInput) return;
        bool isHandshake = IsShaking;
        Phase = TlsPhase.Over;
        CloseReason reason = _connection.ReasonOf(fault, isHandshake);
        _connection.SetReason(reason);
        if (isHandshake)
        {
            LeaveHandshake();
            Shard.HandshakesFailed++;
            if (TimedFrom != 0) TellTime(null, fault.Cause.ToString());
            Shard.Host.NoteHandshake(reason, SymptomPage);
        }

        _connection.TlsFailed(this, isHandshake, atOnce);
    }

    /// <summary>Once for a handshake that somebody wanted the time of.</summary>
    private void TellTime(TlsInfo? info, string? failure)
    {
        long since = TimedFrom;
        TimedFrom = 0;
        Shard.Host.HandshakeEnded(since, info, failure);
    }

    /// <summary>The connection has ended.</summary>
    internal void Free()
    {
        // Its connection ended in the middle of it: by the peer's reset, by a stop.
        if (TimedFrom != 0) TellTime(null, _connection.Reason.Cause.ToString());
        LeaveHandshake();
        Held.Clear();
        DiscardWire();
        if (IsAway) IsOrphan = true;
        else Layer?.Free();
    }
}
