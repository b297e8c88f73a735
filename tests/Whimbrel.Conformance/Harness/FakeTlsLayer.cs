using System.Buffers.Binary;
using System.Net.Security;
using System.Numerics;
using System.Security.Authentication;
using Whimbrel.Tls;

namespace Whimbrel.Conformance;

/// <summary> A layer with the records and the behaviour of TLS and without its cryptography: a hello, a response, a
/// finish; records of at most 16 KiB with every byte inverted and a checksum at the end. The same input always produces
/// the same output, which the memory engine's seeds need. Accepts whole records only, and stops between any two.
/// </summary>
internal sealed class FakeTlsLayer(bool isServer, string? name, TlsScratch scratch) : TlsLayer
{
    private const byte ChangeOfKeys = 24;
    private const int Header = 5;
    private const int Most = 16 * 1024;
    private const byte Shake = 0x16, Data = 0x17, Alert = 0x15;

    private readonly byte[] _record = new byte[Header + Most + 1];
    private int _have;
    private bool _isReady;
    private bool _isFreed;

    /// <summary>First message of a client.</summary>
    internal static byte[] AsksForKeys => [Shake, 3, 3, 0, 1, ChangeOfKeys];

    internal override TlsInfo Info => new()
    {
        Protocol = SslProtocols.Tls13,
        CipherSuite = TlsCipherSuite.TLS_NULL_WITH_NULL_NULL,
        ServerName = name,
        Provider = TlsProvider.Auto
    };

    internal override TlsStep Start(CipherBlock output)
    {
        if (!isServer) output.Write(Hello());
        return TlsStep.NeedInput;
    }

    internal override TlsStep Receive(ReadOnlySpan<byte> cipher, out int consumed, IPlainSink sink, CipherBlock output)
    {
        Assert.False(_isFreed, "a freed layer is not called");
        consumed = 0;
        while (true)
        {
            int want = _have < Header ? Header : Header + BinaryPrimitives.ReadUInt16BigEndian(_record.AsSpan(3));
            if (want > _record.Length || (_have >= Header && want == Header))
                return Refuse(TlsFailure.BadRecord, "a record of no possible size");
            if (_have >= Header && _have == want)
            {
                _have = 0;
                TlsStep step = Take(_record[0], _record.AsSpan(Header, want - Header), sink, output);
                if (step != TlsStep.NeedInput) return step;
                continue;
            }

            int part = Math.Min(want - _have, cipher.Length - consumed);
            if (part == 0) return TlsStep.NeedInput;
            cipher.Slice(consumed, part).CopyTo(_record.AsSpan(_have));
            _have += part;
            consumed += part;
        }
    }

    private TlsStep Take(byte type, Span<byte> body, IPlainSink sink, CipherBlock output)
    {
        switch (type)
        {
            case Shake when !_isReady:
                bool answers = isServer ? body[0] == 1 : body[0] == 2;
                bool isLast = isServer ? body[0] == 20 : answers;
                if (!answers && !isLast) return Refuse(TlsFailure.BadRecord, "a message out of order");
                if (answers) output.Write([Shake, 3, 3, 0, 4, (byte)(isServer ? 2 : 20), 0, 0, 0]);
                if (!isLast) return TlsStep.NeedInput;
                _isReady = true;
                return TlsStep.Ready;
            case Shake when _isReady && body[0] == ChangeOfKeys:
                // The response of a layer to a peer that requests a key update.
                if (isServer) output.Write([Shake, 3, 3, 0, 1, ChangeOfKeys]);
                return TlsStep.NeedInput;
            case Data when _isReady:
                byte sum = Turn(body[..^1], body, isPlain: false);
                if (sum != body[^1]) return Refuse(TlsFailure.BadRecord, "a record was changed on its way");
                Span<byte> plain = scratch.Plain.AsSpan(0, body.Length - 1);
                body[..^1].CopyTo(plain);
                bool goesOn = plain.IsEmpty || sink.Take(plain);
                plain.Fill(0xDD);
                return goesOn ? TlsStep.NeedInput : TlsStep.Stopped;
            case Alert when body.Length == 2 && body[1] == 0:
                return TlsStep.PeerClosed;
            case Alert:
                return Refuse(TlsFailure.RefusedByPeer, "the peer refused it");
            default:
                return Refuse(TlsFailure.BadRecord, "a record out of order");
        }
    }

    // Encrypts or decrypts, possibly in place. Returns the checksum of the plaintext.
    private static byte Turn(ReadOnlySpan<byte> from, Span<byte> to, bool isPlain)
    {
        const byte key = 0x5A;
        Vector<byte> keys = new(key);
        Vector<byte> sums = Vector<byte>.Zero;
        int i = 0;
        for (; i + Vector<byte>.Count <= from.Length; i += Vector<byte>.Count)
        {
            Vector<byte> before = new(from[i..]);
            Vector<byte> after = before ^ keys;
            sums += isPlain ? before : after;
            after.CopyTo(to[i..]);
        }

        byte sum = Vector.Sum(sums);
        for (; i < from.Length; i++)
        {
            byte before = from[i];
            to[i] = (byte)(before ^ key);
            sum += isPlain ? before : to[i];
        }

        return sum;
    }

    private TlsStep Refuse(TlsFailure cause, string message)
    {
        Fault = new TlsFault(cause, message);
        return TlsStep.Refused;
    }

    internal override TlsStep Send(ReadOnlySpan<byte> plain, out int accepted, CipherBlock output)
    {
        Assert.True(_isReady && !_isFreed, "plaintext is sent when the handshake is done");
        accepted = 0;
        while (accepted < plain.Length && output.Room > Header + 1)
        {
            int part = Math.Min(Math.Min(plain.Length - accepted, Most), output.Room - Header - 1);
            Span<byte> record = output.Free;
            record[0] = Data;
            record[1] = 3;
            record[2] = 3;
            BinaryPrimitives.WriteUInt16BigEndian(record[3..], (ushort)(part + 1));
            record[Header + part] = Turn(plain.Slice(accepted, part), record[Header..], isPlain: true);
            output.Length += Header + part + 1;
            accepted += part;
        }

        return accepted == plain.Length ? TlsStep.NeedInput : TlsStep.OutputFull;
    }

    internal override TlsStep EndOfInput()
    {
        Fault = new TlsFault(_isReady ? TlsFailure.Truncated : TlsFailure.PeerLeft, "the bytes ended");
        return _isReady ? TlsStep.Truncated : TlsStep.Refused;
    }

    internal override void CloseNotify(CipherBlock output) => output.Write([Alert, 3, 3, 0, 2, 1, 0]);

    internal override void Free()
    {
        Assert.False(_isFreed, "a layer is freed once");
        _isFreed = true;
    }

    /// <summary>A parsable ClientHello: version 1.3, the host name if there is one, nothing else.</summary>
    private byte[] Hello()
    {
        byte[] host = System.Text.Encoding.ASCII.GetBytes(name ?? "");
        byte[] extensions = [0, 43, 0, 3, 2, 3, 4];
        if (host.Length > 0)
            extensions = [0, 0, 0, (byte)(host.Length + 5), 0, (byte)(host.Length + 3), 0, 0, (byte)host.Length,
                .. host, .. extensions];
        byte[] body = [3, 3, .. new byte[32], 0, 0, 2, 0x13, 1, 1, 0, 0, (byte)extensions.Length, .. extensions];
        return [Shake, 3, 1, 0, (byte)(body.Length + 4), 1, 0, 0, (byte)body.Length, .. body];
    }
}
