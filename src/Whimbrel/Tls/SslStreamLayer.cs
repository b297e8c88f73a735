using System.Buffers;
using System.Diagnostics;
using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>
/// The portable layer: SslStream over <see cref="SslStreamWire"/>. SslStream is designed for streams that wait. Here
/// each wait is completed inline, so that each of its operations begins and ends inside a call of this layer, on the
/// caller's thread, without allocation per message. See docs/design/0016-tls.md.
/// </summary>
#pragma warning disable CA1001 // both streams are released in Free, by the one owner of a layer
internal sealed unsafe class SslStreamLayer : TlsLayer
#pragma warning restore CA1001
{
    /// <summary>
    /// Number of records without content (key updates, tickets) that a peer may send at once; each received block
    /// allows one more.
    /// </summary>
    internal const int MostCredit = 32;

    /// <summary>
    /// Maximum number of records without content between two writes of this side. Each may require an answer, which
    /// SslStream keeps in native memory (26 bytes) and sends with the next write only.
    /// </summary>
    internal const int MostUnanswered = 1024;

    private const int RecordBytes = 16 * 1024;
    private const int RecordOverhead = 29;
    private const int SendReserve = 512;

    private readonly SslStreamProfile _profile;
    private readonly SslStreamWire _wire = new();
    private readonly JudgedSslStream _ssl;
    private readonly string? _name;
    private readonly TlsKeyPair? _keyPair;
    private readonly TlsScratch _scratch;
    private Task? _authenticating;
    private ValueTask<int> _read;
    private bool _isReading;
    private bool _isReady;
    private bool _isFreed;
    private string? _problem;
    private TlsInfo? _info;
    private long _delivered;
    private long _deliveredAtRecord;
    private long _recordsSeen;
    private long _credit = MostCredit;
    private long _unanswered;

    internal SslStreamLayer(SslStreamProfile profile, string? name, TlsKeyPair? keyPair, TlsScratch scratch)
    {
        _profile = profile;
        _name = name;
        _keyPair = keyPair;
        _scratch = scratch;
        _ssl = new JudgedSslStream(_wire, this);
    }

    internal override TlsInfo Info => _info!;

    // ------------------------------------------------------------------ the handshake

    internal override TlsStep Start(CipherBlock output)
    {
        _wire.Output = output;
        try
        {
            _authenticating = _profile.IsServer
                ? _ssl.AuthenticateAsServerAsync(_profile.ForServer(_keyPair!))
                : _ssl.AuthenticateAsClientAsync(_profile.ForClient(_name, _keyPair));
        }
        catch (Exception e) when (e is AuthenticationException or IOException or ArgumentException
            or InvalidOperationException or NotSupportedException)
        {
            return Refuse(new TlsFault(TlsFailure.LocalFault, e.Message));
        }
        finally
        {
            _wire.Output = null;
        }

        return _authenticating.IsFaulted ? HandshakeFailed() : _wire.HasSpill ? TlsStep.OutputFull : TlsStep.NeedInput;
    }

    // Safe: the pointer is used only while the span is pinned here.
    internal override TlsStep Receive(ReadOnlySpan<byte> cipher, out int consumed, IPlainSink sink, CipherBlock output)
    {
        consumed = 0;
        if (!_wire.DrainSpill(output)) return TlsStep.OutputFull;
        if (_isReady && !cipher.IsEmpty) _credit = Math.Min(MostCredit, _credit + 1);
        fixed (byte* input = cipher)
        {
            _wire.SetInput(input, cipher.Length);
            _wire.Output = output;
            TlsStep step = _isReady ? Deliver(sink) : Shake();
            consumed = _wire.InputUsed;
            _wire.Output = null;
            _wire.SetInput(null, 0);
            return step == TlsStep.NeedInput && _wire.HasSpill ? TlsStep.OutputFull : step;
        }
    }

    private TlsStep Shake()
    {
        _wire.Feed();
        if (!_authenticating!.IsCompleted) return TlsStep.NeedInput;
        if (!_authenticating.IsCompletedSuccessfully) return HandshakeFailed();
        _isReady = true;
        _wire.StepsByRecord = true;
        if (_ssl.SslProtocol == SslProtocols.Tls13) _wire.Guard = IsFlood;
        _info = new TlsInfo
        {
            Protocol = _ssl.SslProtocol,
            CipherSuite = _ssl.NegotiatedCipherSuite,
            ApplicationProtocol = _ssl.NegotiatedApplicationProtocol.Protocol.IsEmpty
                ? null
                : _ssl.NegotiatedApplicationProtocol.ToString(),
            ServerName = _name,
            PeerCertificate = _ssl.RemoteCertificate as X509Certificate2,
            Provider = TlsProvider.Portable,
        };
        return TlsStep.Ready;
    }

    private TlsStep HandshakeFailed()
    {
        Exception e = _authenticating!.Exception?.InnerException ?? new IOException("the handshake was cancelled");
        if (_problem is not null)
            return Refuse(new TlsFault(TlsFailure.CertificateRejected,
                $"{(_profile.IsServer ? "client" : "server")} certificate refused: {_problem}"));
        if (_wire.EndWasRead)
            return Refuse(new TlsFault(TlsFailure.PeerLeft,
                "the peer ended the connection in the middle of the handshake"));
        return Refuse(TlsErrorText.Classify(e, _profile));
    }

    private TlsStep Refuse(TlsFault fault)
    {
        Fault = fault;
        return TlsStep.Refused;
    }

    /// <summary>Decides about the peer's certificate. Inside a call of the layer, on its thread.</summary>
    internal static bool JudgePeer(object sender, X509Certificate? certificate, X509Chain? chain,
        SslPolicyErrors errors)
    {
        SslStreamLayer layer = ((JudgedSslStream)sender).Layer;
        // If the platform reports "not available", there is no certificate.
        layer._problem = layer._profile.Trust.Judge(certificate as X509Certificate2, chain,
            layer._profile.IsServer ? null : layer._name);
        return layer._problem is null;
    }

    // ------------------------------------------------------------------ plaintext in

    /// <summary>Reads as long as whole records are available and the sink accepts their content.</summary>
    private TlsStep Deliver(IPlainSink sink)
    {
        try
        {
            while (true)
            {
                if (!_isReading)
                {
#pragma warning disable CA2012 // consumed once, below or in Free
                    _read = _ssl.ReadAsync(_scratch.Plain);
#pragma warning restore CA2012
                    _isReading = true;
                }

                if (!_read.IsCompleted) _wire.Feed();
                if (!_read.IsCompleted) return TlsStep.NeedInput;
                _isReading = false;
                int count = _read.GetAwaiter().GetResult();
                if (count == 0) return _wire.EndWasRead ? Cut() : TlsStep.PeerClosed;
                _delivered += count;
                if (!sink.Take(_scratch.Plain.AsSpan(0, count))) return TlsStep.Stopped;
            }
        }
        catch (Exception e)
            when (e is IOException or AuthenticationException or InvalidOperationException or NotSupportedException)
        {
            _isReading = false;
            if (IsFlooded)
                return Refuse(new TlsFault(TlsFailure.Flood, _credit < 0
                    ? "the peer sent too many records without content"
                    : $"the peer sent {MostUnanswered} records without content to a connection that sends nothing"));
            return _wire.EndWasRead ? Cut() : Refuse(TlsErrorText.Classify(e, _profile));
        }
    }

    private TlsStep Cut()
    {
        Fault = new TlsFault(TlsFailure.Truncated,
            "the peer's bytes ended without close_notify: what it sent may not be all");
        return TlsStep.Truncated;
    }

    private bool IsFlooded => _credit < 0 || _unanswered > MostUnanswered;

    /// <summary>
    /// Called before each record: if nothing was delivered since the last one, that was a record without content.
    /// </summary>
    private bool IsFlood()
    {
        if (_wire.Records == _recordsSeen) return false;
        if (_delivered == _deliveredAtRecord)
        {
            _credit -= _wire.Records - _recordsSeen;
            _unanswered += _wire.Records - _recordsSeen;
        }

        _recordsSeen = _wire.Records;
        _deliveredAtRecord = _delivered;
        return IsFlooded;
    }

    internal override TlsStep EndOfInput()
    {
        _wire.EndInput();
        _wire.Output = null;
        _wire.Feed();
        if (!_isReady) return _authenticating is { IsCompleted: true } ? HandshakeFailed()
            : Refuse(new TlsFault(TlsFailure.PeerLeft, "the peer ended the connection in the middle of the handshake"));
        TlsStep step = Deliver(s_nowhere);
        return step is TlsStep.PeerClosed or TlsStep.Truncated or TlsStep.Refused ? step : Cut();
    }

    // ------------------------------------------------------------------ plaintext out

    // Safe: the view ends before the span does; SslStream has encrypted all of it when WriteAsync returns.
    internal override TlsStep Send(ReadOnlySpan<byte> plain, out int accepted, CipherBlock output)
    {
        accepted = 0;
        if (!_wire.DrainSpill(output)) return TlsStep.OutputFull;
        int fits = output.Room - SendReserve - (RecordOverhead * ((output.Room / RecordBytes) + 1));
        int count = Math.Min(plain.Length, Math.Max(fits, 1));
        // Saves the output of the running Receive, if its sink sends.
        CipherBlock? outer = _wire.Output;
        _wire.Output = output;
        try
        {
            fixed (byte* bytes = plain)
            {
                _scratch.View.Show(bytes, count);
                ValueTask write = _ssl.WriteAsync(_scratch.View.Memory);
                Debug.Assert(write.IsCompleted, "a write to the wire does not wait");
                write.GetAwaiter().GetResult();
            }
        }
        catch (Exception e)
            when (e is IOException or AuthenticationException or InvalidOperationException or NotSupportedException)
        {
            return Refuse(TlsErrorText.Classify(e, _profile));
        }
        finally
        {
            _scratch.View.Hide();
            _wire.Output = outer;
        }

        accepted = count;
        _unanswered = 0;
        return count == plain.Length && !_wire.HasSpill ? TlsStep.NeedInput : TlsStep.OutputFull;
    }

    internal override void CloseNotify(CipherBlock output)
    {
        if (!_isReady || !_wire.DrainSpill(output)) return;
        _wire.Output = output;
        try
        {
            Task shut = _ssl.ShutdownAsync();
            if (shut.IsFaulted) _ = shut.Exception;
        }
        catch (Exception e) when (e is IOException or InvalidOperationException or AuthenticationException)
        {
            // The receiving side has failed before, so no close_notify can be sent.
        }
        finally
        {
            _wire.Output = null;
        }
    }

    internal override void Free()
    {
        if (_isFreed) return;
        _isFreed = true;
        _wire.Output = null;
        _wire.Fail();
        if (_authenticating is { IsFaulted: true }) _ = _authenticating.Exception;
        if (_isReading && _read.IsCompleted)
        {
            try
            {
                _read.GetAwaiter().GetResult();
            }
            catch (Exception e) when (e is IOException or AuthenticationException or ObjectDisposedException
                or InvalidOperationException)
            {
                // The failed read was intended.
            }
        }

        _ssl.Dispose();
        _wire.Release();
    }

    private static readonly Nowhere s_nowhere = new();

    /// <summary>An SslStream from which the static callback finds its layer.</summary>
    private sealed class JudgedSslStream(Stream wire, SslStreamLayer layer)
        : SslStream(wire, leaveInnerStreamOpen: true)
    {
        internal SslStreamLayer Layer { get; } = layer;
    }

    private sealed class Nowhere : IPlainSink
    {
        public bool Take(ReadOnlySpan<byte> plain) => true;
    }
}
