using System.Buffers.Binary;

namespace Whimbrel.Tls;

/// <summary>
/// Detects from the ServerHello, which is in the clear, whether a session was resumed, because SslStream does not
/// report it. In TLS 1.3 the server answers with the extension pre_shared_key; in 1.2 it sends no Certificate after the
/// hello. Sans-I/O.
/// </summary>
internal sealed class SslStreamHelloWatch
{
    private const int Most = 512;

    private byte[]? _bytes;
    private int _count;
    private bool _isIncoming;
    private bool _isDone;

    /// <summary>The result, or null while it is not known.</summary>
    internal bool? IsResumed { get; private set; }

    /// <summary>
    /// Processes bytes of the handshake, in order for each direction. The first ones from the server decide.
    /// </summary>
    internal void See(ReadOnlySpan<byte> bytes, bool incoming)
    {
        if (_isDone || bytes.IsEmpty) return;
        if (_bytes is null)
        {
            // The server's direction is the one that begins with a ServerHello.
            if (bytes.Length < 6 || bytes[0] != 0x16 || bytes[5] != 2) return;
            _isIncoming = incoming;
            _bytes = new byte[Most];
        }

        if (incoming != _isIncoming) return;
        int part = Math.Min(bytes.Length, Most - _count);
        bytes[..part].CopyTo(_bytes.AsSpan(_count));
        _count += part;
        Look(_bytes.AsSpan(0, _count));
        if (_isDone || _count == Most)
        {
            _isDone = true;
            _bytes = null;
        }
    }

    private void Look(ReadOnlySpan<byte> bytes)
    {
        int record = BinaryPrimitives.ReadUInt16BigEndian(bytes[3..]);
        if (bytes.Length < 5 + record || bytes.Length < 5 + 4 + 35) return;
        int hello = 4 + (bytes[6] << 16 | bytes[7] << 8 | bytes[8]);
        if (bytes.Length < 5 + hello) return;
        ReadOnlySpan<byte> rest = bytes.Slice(9, hello - 4)[34..];
        if (rest.IsEmpty || rest.Length < 1 + rest[0] + 3) return;
        rest = rest[(1 + rest[0] + 3)..];
        bool is13 = false;
        bool hasKey = false;
        for (rest = rest.Length >= 2 ? rest[2..] : default; rest.Length >= 4;)
        {
            int type = BinaryPrimitives.ReadUInt16BigEndian(rest);
            int length = BinaryPrimitives.ReadUInt16BigEndian(rest[2..]);
            is13 |= type == 43;
            hasKey |= type == 41;
            if (rest.Length - 4 < length) break;
            rest = rest[(4 + length)..];
        }

        if (is13)
        {
            // A HelloRetryRequest has the same form and a fixed random value; the real hello follows it.
            if (bytes[11] == 0xCF && bytes[12] == 0x21 && bytes[13] == 0xAD && bytes[14] == 0x74)
            {
                _bytes = null;
                _count = 0;
                return;
            }

            IsResumed = hasKey;
            _isDone = true;
            return;
        }

        // The message after the hello, in the same record or the next.
        ReadOnlySpan<byte> next = bytes[(5 + hello)..];
        if (hello == record)
        {
            if (next.Length < 6) return;
            IsResumed = next[0] == 0x14 || next[5] != 11;
        }
        else
        {
            if (next.IsEmpty) return;
            IsResumed = next[0] != 11;
        }

        _isDone = true;
    }
}
