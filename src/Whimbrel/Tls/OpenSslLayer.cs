using System.Net;
using System.Net.Security;
using System.Runtime.InteropServices;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Diagnostics;

namespace Whimbrel.Tls;

/// <summary>
/// TLS with OpenSSL 3, called directly, with input and output through a window (<see cref="OpenSslWindow"/>) instead of
/// memory BIOs. OpenSSL reads received bytes in place, and writes into the block that is sent. So the output is bounded
/// by the block, unread input stays with the connection, and an idle connection needs only OpenSSL's own memory. The
/// contract is in TlsLayer.cs; docs/design/0017-openssl-layer.md has the reasons.
/// </summary>
// Safe: _ssl and _window are valid from the constructor to Free, after which nothing is called (contract 9). The
// window's pointers are set from pinned input and the owner's output for the duration of one call, and never exceed
// their lengths.
internal sealed unsafe class OpenSslLayer : TlsLayer
{
    private const int MostRecordBytes = 16 * 1024;

    /// <summary>
    /// Upper bound of the overhead of a record, in any version and suite: header 5, IV 16, MAC 48, padding 16 and its
    /// type 1.
    /// </summary>
    private const int MostOverhead = 96;

    /// <summary>Minimum size of a record: smaller ones are not started because the block is nearly full.</summary>
    private const int LeastRecordBytes = 512;

    /// <summary>
    /// Maximum number of steps of one message after the handshake (a key update with its answer takes five).
    /// </summary>
    private const int StepsPerMessage = 5;

    /// <summary>
    /// Steps for 16 messages that a peer may send at once; each received block allows one more message.
    /// </summary>
    private const int MostCredit = 16 * StepsPerMessage;

    private readonly OpenSslProfile _profile;
    private readonly TlsScratch _scratch;
    private readonly string? _name;
    private nint _ssl;
    private OpenSslWindow* _window;
    private State _state;
    private OpenSslVerdict _verdict;
    private string? _problem;
    private X509Certificate2? _peer;
    private TlsInfo? _info;
    private nuint _unfinishedBytes;
    private uint _seenPostSteps;
    private bool _isBroken;

    internal OpenSslLayer(OpenSslProfile profile, OpenSslSetup setup, string? name, TlsScratch scratch)
    {
        _profile = profile;
        _scratch = scratch;
        _name = name;
        OpenSslApi.ClearErrors();
        _ssl = OpenSslApi.New(setup.Handle);
        GC.KeepAlive(setup);
        if (_ssl == 0) throw new CryptographicException($"OpenSSL made no connection: {OpenSslErrors.Take()}");
        _ = Interlocked.Increment(ref scratch.NativeLayers);
        _window = (OpenSslWindow*)NativeMemory.AllocZeroed((nuint)sizeof(OpenSslWindow));
        if (!OpenSslCallbacks.Connect(_ssl, _window))
        {
            Release();
            throw new CryptographicException($"OpenSSL made no BIO: {OpenSslErrors.Take()}");
        }

        if (profile.IsServer) OpenSslApi.SetAcceptState(_ssl);
        else BeClient();
    }

    private enum State : byte
    {
        Handshake,
        Open,
        PeerClosed,
        Ended,
        Freed,
    }

    /// <summary>The SSL, for tests with a misbehaving peer.</summary>
    internal nint Native => _ssl;

    // ------------------------------------------------------------------ implementation of TlsLayer

    internal override TlsStep Start(CipherBlock output)
    {
        if (_profile.IsServer) return TlsStep.NeedInput;
        Lend(null, 0, output);
        TlsStep step = Handshake();
        Return(output);
        return step;
    }

    internal override TlsStep Receive(ReadOnlySpan<byte> cipher, out int consumed, IPlainSink sink, CipherBlock output)
    {
        fixed (byte* input = cipher)
        {
            Lend(input, cipher.Length, output);
            TlsStep step = _state switch
            {
                State.Handshake => Handshake(),
                State.Open => Read(sink, output),
                // Data after a close_notify or an error is ignored.
                _ => SkipInput(),
            };
            // After an end, all input counts as consumed, because further data of the peer has no meaning.
            consumed = _state is State.PeerClosed or State.Ended ? cipher.Length : cipher.Length - _window->InputLength;
            Return(output);
            return step;
        }
    }

    internal override TlsStep Send(ReadOnlySpan<byte> plain, out int accepted, CipherBlock output)
    {
        accepted = 0;
        if (_isBroken) return TlsStep.Refused;
        // Saves the window of the running Receive, if its sink sends.
        OpenSslWindow outer = *_window;
        fixed (byte* bytes = plain)
        {
            Lend(null, 0, output);
            TlsStep step = TlsStep.NeedInput;
            while (accepted < plain.Length && step == TlsStep.NeedInput)
                step = Write(bytes + accepted, plain.Length - accepted, ref accepted);
            Return(output);
            Resume(in outer);
            return step;
        }
    }

    internal override TlsStep EndOfInput()
    {
        switch (_state)
        {
            case State.PeerClosed:
                return TlsStep.PeerClosed;
            case State.Handshake:
                return Refuse(new TlsFault(TlsFailure.PeerLeft,
                    "the peer ended the connection in the middle of the handshake"));
            default:
                _state = State.Ended;
                Fault = new TlsFault(TlsFailure.Truncated,
                    "the peer's bytes ended without close_notify: what it sent may not be all");
                return TlsStep.Truncated;
        }
    }

    internal override void CloseNotify(CipherBlock output)
    {
        // During a handshake OpenSSL has no keys for it, and after an error it has already sent its alert.
        if (_isBroken || !_window->IsHandshakeDone) return;
        Lend(null, 0, output);
        OpenSslApi.ClearErrors();
        _ = OpenSslApi.Shutdown(_ssl);
        OpenSslApi.ClearErrors();
        Return(output);
    }

    internal override TlsInfo Info => _info ??= ReadInfo();

    internal override void Free()
    {
        // Otherwise SSL_free would mark the session as not resumable, which is right after an error only.
        if (!_isBroken) OpenSslApi.SetShutdown(_ssl, OpenSslApi.ShutdownSent | OpenSslApi.ShutdownReceived);
        // No other code has it. Disposed here, because the finalizer does not know how much native memory is pending.
        if (_info is null) _peer?.Dispose();
        Release();
        _state = State.Freed;
    }

    // ------------------------------------------------------------------ the window

    private void Lend(byte* input, int length, CipherBlock output)
    {
        _window->Input = input;
        _window->InputLength = length;
        _window->Output = output.Memory + output.Length;
        _window->OutputRoom = output.Room;
    }

    private void Return(CipherBlock output)
    {
        output.Length = output.Capacity - _window->OutputRoom;
        _window->Input = null;
        _window->Output = null;
        _window->InputLength = _window->OutputRoom = 0;
    }

    private void Resume(in OpenSslWindow outer)
    {
        _window->Input = outer.Input;
        _window->InputLength = outer.InputLength;
        _window->Output = outer.Output;
        _window->OutputRoom = outer.OutputRoom;
    }

    private TlsStep SkipInput()
    {
        _window->InputLength = 0;
        return _state == State.PeerClosed ? TlsStep.PeerClosed : TlsStep.Refused;
    }

    // ------------------------------------------------------------------ the handshake

    private void BeClient()
    {
        OpenSslApi.SetConnectState(_ssl);
        if (_name is null) return;
        // Server names are not sent for IP addresses (RFC 6066, 3).
        if (!IPAddress.TryParse(_name, out _))
        {
            fixed (byte* text = Encoding.ASCII.GetBytes(_name.TrimEnd('.') + "\0"))
                _ = OpenSslApi.Control(_ssl, OpenSslApi.CtrlHostName, 0, text);
        }

        if (!_profile.Options.AllowResumption) return;
        nint session = _profile.Sessions.Take(_name);
        if (session == 0) return;
        // SSL takes its own reference. A session that this connection cannot use is not an error.
        _ = OpenSslApi.SetSession(_ssl, session);
        OpenSslApi.SessionFree(session);
    }

    private TlsStep Handshake()
    {
        while (true)
        {
            OpenSslApi.ClearErrors();
            OpenSslCallbacks.Running = this;
            int result = OpenSslApi.DoHandshake(_ssl);
            OpenSslCallbacks.Running = null;
            if (result == 1) return Complete();
            switch (OpenSslApi.GetError(_ssl, result))
            {
                case OpenSslApi.ErrorWantRead:
                    return TlsStep.NeedInput;
                case OpenSslApi.ErrorWantWrite:
                    return TlsStep.OutputFull;
                case OpenSslApi.ErrorWantRetryVerify:
                    // Outside of the callback, because the decision may take long and throw.
                    Judge(OpenSslApi.PeerChain(_ssl));
                    continue;
                case OpenSslApi.ErrorZeroReturn:
                    return Refuse(new TlsFault(TlsFailure.PeerLeft,
                        "the peer ended the connection in the middle of the handshake"));
                default:
                    return Refuse(FaultOf(OpenSslErrors.TakeFirst()));
            }
        }
    }

    /// <summary>
    /// Returns the decision about the peer's certificate. Called by the verify callback, inside the handshake. Never
    /// throws.
    /// </summary>
    internal OpenSslVerdict GiveVerdict(nint store, out int error)
    {
        if (_verdict == OpenSslVerdict.Open && _profile.IsServer) Judge(OpenSslApi.StoreUntrusted(store));
        error = _verdict == OpenSslVerdict.Refused ? OpenSslPeer.AlertErrorOf(_peer) : 0;
        return _verdict;
    }

    /// <summary>Decides about the peer's certificate. Never throws.</summary>
    /// <param name="stack">Certificates sent by the peer.</param>
    private void Judge(nint stack)
    {
        X509Certificate2Collection? others = null;
        try
        {
            _peer ??= OpenSslPeer.Certificate(_ssl) ?? OpenSslPeer.First(stack);
            others = OpenSslPeer.Others(stack, _peer);
            _problem = _profile.Trust.Judge(_peer, others, _profile.IsServer ? null : _name);
        }
        catch (Exception e)
        {
            _problem = $"it could not be judged: {ErrorText.Of(e)}";
        }

        _verdict = _problem is null ? OpenSslVerdict.Accepted : OpenSslVerdict.Refused;
        if (others is null) return;
        foreach (X509Certificate2 other in others) other.Dispose();
    }

    private TlsStep Complete()
    {
        // A resumed session contains the certificate of its first handshake, and no callback was called for it.
        if (_profile.IsServer && _profile.Options.ClientCertificates != TlsClientCertificates.Off
            && _verdict != OpenSslVerdict.Accepted)
        {
            Judge(OpenSslApi.PeerChain(_ssl));
            if (_verdict == OpenSslVerdict.Refused) return Refuse(Rejected());
        }

        _window->IsHandshakeDone = true;
        _window->Credit = MostCredit;
        _state = State.Open;
        if (!_profile.IsServer) KeepSession();
        return TlsStep.Ready;
    }

    private TlsStep Refuse(TlsFault fault)
    {
        Fault = fault;
        _isBroken = true;
        _state = State.Ended;
        return TlsStep.Refused;
    }

    private TlsFault FaultOf(nuint error)
    {
        if (_verdict == OpenSslVerdict.Refused) return Rejected();
        return OpenSslErrors.Fault(error, _profile,
            isFirst: OpenSslApi.CurrentCipher(_ssl) == 0 && !_window->IsHandshakeDone);
    }

    private TlsFault Rejected() => new(TlsFailure.CertificateRejected,
        $"{(_profile.IsServer ? "client" : "server")} certificate refused: {_problem}");

    // ------------------------------------------------------------------ after the handshake

    private TlsStep Read(IPlainSink sink, CipherBlock output)
    {
        byte* plain = _scratch.PlainPointer;
        int filled = 0;
        _window->Credit = Math.Min(MostCredit, _window->Credit + StepsPerMessage);
        while (true)
        {
            nuint count;
            OpenSslApi.ClearErrors();
            int result = OpenSslApi.Read(_ssl, plain + filled, (nuint)(TlsScratch.PlainBytes - filled), &count);
            if (result == 1)
            {
                filled += (int)count;
                // A read takes whole records while one more fits, so that nothing is left inside OpenSSL, and without
                // input there is no next record.
                bool isLast = _window->InputLength == 0;
                if (!isLast && TlsScratch.PlainBytes - filled >= MostRecordBytes) continue;
                if (!Deliver(ref filled, sink, output)) return TlsStep.Stopped;
                if (isLast) return AfterRead(TlsStep.NeedInput);
                continue;
            }

            // Before any other code runs on this thread, because the reason is in its error queue.
            TlsStep step = EndOfRead(OpenSslApi.GetError(_ssl, result));
            if (filled > 0 && !Deliver(ref filled, sink, output) && step == TlsStep.NeedInput) return TlsStep.Stopped;
            return AfterRead(step);
        }
    }

    private bool Deliver(ref int filled, IPlainSink sink, CipherBlock output)
    {
        // The current output is visible to the sink, which must not change it.
        output.Length = output.Capacity - _window->OutputRoom;
        ReadOnlySpan<byte> plain = new(_scratch.PlainPointer, filled);
        filled = 0;
        return plain.IsEmpty || sink.Take(plain);
    }

    private TlsStep EndOfRead(int error)
    {
        switch (error)
        {
            case OpenSslApi.ErrorWantRead:
                return _window->IsFlooded
                    ? Refuse(new TlsFault(TlsFailure.Flood, "the peer sent too many records without content"))
                    : TlsStep.NeedInput;
            case OpenSslApi.ErrorWantWrite:
                return TlsStep.OutputFull;
            case OpenSslApi.ErrorZeroReturn:
                _state = State.PeerClosed;
                return TlsStep.PeerClosed;
            default:
                return Refuse(FaultOf(OpenSslErrors.TakeFirst()));
        }
    }

    /// <summary>Called after reads: a session ticket may have arrived.</summary>
    private TlsStep AfterRead(TlsStep step)
    {
        if (_window->PostSteps == _seenPostSteps) return step;
        _seenPostSteps = _window->PostSteps;
        if (!_profile.IsServer && !_isBroken) KeepSession();
        return step;
    }

    private void KeepSession()
    {
        if (_name is null || !_profile.Options.AllowResumption) return;
        nint session = OpenSslApi.TakeSession(_ssl);
        if (session == 0) return;
        if (OpenSslApi.SessionIsResumable(session) == 1) _profile.Sessions.Put(_name, session);
        else OpenSslApi.SessionFree(session);
    }

    private TlsStep Write(byte* plain, int length, ref int accepted)
    {
        int count = Math.Min(length, MostRecordBytes);
        // A write that OpenSSL has started must be repeated with the same data; it counts as accepted when all of it
        // was written.
        if (_unfinishedBytes > 0) count = (int)_unfinishedBytes;
        else if (count > _window->OutputRoom - MostOverhead)
        {
            // A record that does not fit would stay inside OpenSSL; a shorter one is sent now.
            count = _window->OutputRoom - MostOverhead;
            if (count < LeastRecordBytes) return TlsStep.OutputFull;
        }

        nuint written;
        OpenSslApi.ClearErrors();
        int result = OpenSslApi.Write(_ssl, plain, (nuint)count, &written);
        if (result == 1)
        {
            _unfinishedBytes = 0;
            accepted += (int)written;
            return TlsStep.NeedInput;
        }

        int error = OpenSslApi.GetError(_ssl, result);
        if (error == OpenSslApi.ErrorWantWrite)
        {
            _unfinishedBytes = (nuint)count;
            return TlsStep.OutputFull;
        }

        nuint reason = OpenSslErrors.TakeFirst();
        return Refuse(new TlsFault(TlsFailure.LocalFault,
            $"OpenSSL could not encrypt: {(reason == 0 ? $"error {error}" : OpenSslErrors.TextOf(reason))}"));
    }

    // ------------------------------------------------------------------ result of the handshake

    private TlsInfo ReadInfo()
    {
        if (_peer is null && (!_profile.IsServer || _profile.Options.ClientCertificates != TlsClientCertificates.Off))
            _peer = OpenSslPeer.Certificate(_ssl);
        byte* protocol;
        uint length;
        OpenSslApi.GetAlpn(_ssl, &protocol, &length);
        nint cipher = OpenSslApi.CurrentCipher(_ssl);
        return new TlsInfo
        {
#pragma warning disable CA5397 // only reports the version
            Protocol = OpenSslApi.Version(_ssl) == OpenSslApi.Tls13 ? SslProtocols.Tls13 : SslProtocols.Tls12,
#pragma warning restore CA5397
            CipherSuite = cipher == 0 ? 0 : (TlsCipherSuite)OpenSslApi.CipherId(cipher),
            ApplicationProtocol = length == 0 ? null : ProtocolText(new ReadOnlySpan<byte>(protocol, (int)length)),
            ServerName = _name is not null && !IPAddress.TryParse(_name, out _) ? _name : null,
            PeerCertificate = _peer,
            IsResumed = OpenSslApi.IsReused(_ssl) == 1,
            Provider = TlsProvider.OpenSsl,
        };
    }

    /// <summary>Returns the string of the options if it is one of them, to save an allocation per handshake.</summary>
    private string ProtocolText(ReadOnlySpan<byte> name)
    {
        foreach (string known in _profile.Options.ApplicationProtocols)
        {
            if (known.Length == name.Length && Ascii.Equals(name, known)) return known;
        }

        return Encoding.UTF8.GetString(name);
    }

    private void Release()
    {
        if (_ssl != 0)
        {
            OpenSslApi.Free(_ssl);
            _ = Interlocked.Decrement(ref _scratch.NativeLayers);
        }

        if (_window is not null) NativeMemory.Free(_window);
        _ssl = 0;
        _window = null;
    }
}
