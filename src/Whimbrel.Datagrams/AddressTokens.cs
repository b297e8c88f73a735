using System.Buffers.Binary;
using System.Security.Cryptography;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Tokens that prove a peer's address without per-peer state. A server sends a token to the source address of a
/// datagram, and only a peer that receives at this address can return it. HMAC-SHA256, truncated to 128 bits, over the
/// time, the peer's address and port and, optionally, data of the protocol. Any thread; only the constructors and
/// Rotate allocate.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A token is <see cref="TokenBytes"/> bytes: number of the key, time (48 bits), code (128 bits). It reveals the
/// time and nothing about the key.</item>
/// <item>It is valid for one address, port and scope, from its creation until its lifetime has passed, any number of
/// times.</item>
/// <item>The time is an argument, in milliseconds that never go back. Within one process use <see cref="Loop.TimeMs"/>;
/// several machines with the same key need a common clock, such as Unix time.</item>
/// <item>Rotate switches to another key. Tokens of the previous key stay valid for their lifetime; older ones become
/// invalid.</item>
/// <item>The comparison takes constant time.</item>
/// </list>
/// </remarks>
public sealed class AddressTokens
{
    /// <summary>Length of a token in bytes.</summary>
    public const int TokenBytes = 1 + TimeBytes + CodeBytes;

    /// <summary>Maximum number of protocol bytes that a token can be bound to.</summary>
    public const int MaxBoundBytes = 256;

    /// <summary>Minimum length of a key in bytes.</summary>
    public const int MinKeyBytes = 16;

    private const int TimeBytes = 6;
    private const int CodeBytes = 16;
    private const int MaxNameBytes = 128;
    private const long TimeMask = (1L << (8 * TimeBytes)) - 1;

    private readonly long _lifetimeMs;
    private readonly long _skewMs;
    private volatile Keys _keys;

    /// <summary>Creates tokens with a random key: valid in this process only.</summary>
    /// <param name="lifetime">Lifetime of a token. 1 ms to 30 days.</param>
    public AddressTokens(TimeSpan lifetime)
        : this(lifetime, RandomNumberGenerator.GetBytes(32))
    {
    }

    /// <summary>Creates tokens with a given key: all servers with this key accept each other's tokens.</summary>
    /// <param name="lifetime">Lifetime of a token. 1 ms to 30 days.</param>
    /// <param name="key">Random bytes, at least <see cref="MinKeyBytes"/>, preferably 32; copied.</param>
    /// <param name="keyNumber">Number of the key, 0 to 255: the same on all servers with this key.</param>
    /// <param name="clockSkew">Maximum time by which a token may be from the future, for servers with different clocks.
    /// Default zero; at most the lifetime.</param>
    public AddressTokens(TimeSpan lifetime, ReadOnlySpan<byte> key, byte keyNumber = 0, TimeSpan clockSkew = default)
    {
        if (lifetime < TimeSpan.FromMilliseconds(1) || lifetime > TimeSpan.FromDays(30))
            Throw.OutOfRange(nameof(lifetime), lifetime, "1 ms to 30 days");
        if (clockSkew < TimeSpan.Zero || clockSkew > lifetime)
            Throw.OutOfRange(nameof(clockSkew), clockSkew, "zero up to the lifetime");
        CheckKey(key);
        _lifetimeMs = (long)lifetime.TotalMilliseconds;
        _skewMs = (long)clockSkew.TotalMilliseconds;
        _keys = new Keys(key.ToArray(), keyNumber, null, 0);
    }

    /// <summary>
    /// Switches to another random key with the next number; 255 is followed by 0. Tokens of the previous key stay valid
    /// for their lifetime.
    /// </summary>
    public void Rotate() => Rotate(RandomNumberGenerator.GetBytes(32), (byte)(_keys.Number + 1));

    /// <summary>
    /// Switches to another key. Tokens of the previous key stay valid for their lifetime. Any thread; the last call has
    /// precedence.
    /// </summary>
    /// <param name="key">Random bytes, at least <see cref="MinKeyBytes"/>; copied.</param>
    /// <param name="keyNumber">Number of the key, different from that of the previous key.</param>
    public void Rotate(ReadOnlySpan<byte> key, byte keyNumber)
    {
        CheckKey(key);
        Keys before = _keys;
        if (keyNumber == before.Number)
            throw new ArgumentException($"The key in use has number {keyNumber}: the next one needs another, otherwise "
                + $"their tokens could not be distinguished.", nameof(keyNumber));
        _keys = new Keys(key.ToArray(), keyNumber, before.Key, before.Number);
    }

    /// <summary>Writes a token for a peer.</summary>
    /// <param name="token">Buffer of at least <see cref="TokenBytes"/> bytes.</param>
    /// <param name="peer">Peer that the token is for. <c>default</c> throws <see cref="ArgumentException"/>.</param>
    /// <param name="nowMs">Milliseconds of the same clock as for <see cref="Check"/>.</param>
    /// <param name="bound">Additional data that the token is bound to, such as the number of a connection; at most
    /// <see cref="MaxBoundBytes"/>.</param>
    public void Write(Span<byte> token, in DatagramPeer peer, long nowMs, ReadOnlySpan<byte> bound = default)
    {
        if (token.Length < TokenBytes)
            throw new ArgumentException($"A token has {TokenBytes} bytes, and there is room for {token.Length}.",
                nameof(token));
        if (peer.IsNone)
            throw new ArgumentException("The peer is empty: a sender without a name has no address to prove.",
                nameof(peer));
        if (bound.Length > MaxBoundBytes)
            throw new ArgumentException($"A token can be bound to at most {MaxBoundBytes} bytes, not {bound.Length}.",
                nameof(bound));
        Keys keys = _keys;
        token[0] = keys.Number;
        WriteTime(token[1..], nowMs);
        Compute(keys.Key, token[..(1 + TimeBytes)], in peer, bound, token.Slice(1 + TimeBytes, CodeBytes));
    }

    /// <summary>
    /// Checks whether a token proves the address of the peer that sent it. Never throws, whatever data arrives.
    /// </summary>
    /// <param name="token">Received bytes; any other length than <see cref="TokenBytes"/> is invalid.</param>
    /// <param name="peer">Peer that sent them.</param>
    /// <param name="nowMs">Milliseconds of the same clock as for <see cref="Write"/>.</param>
    /// <param name="bound">Additional data, as for <see cref="Write"/>.</param>
    public AddressTokenCheck Check(ReadOnlySpan<byte> token, in DatagramPeer peer, long nowMs,
        ReadOnlySpan<byte> bound = default)
    {
        if (token.Length != TokenBytes || peer.IsNone || bound.Length > MaxBoundBytes) return AddressTokenCheck.Wrong;
        Keys keys = _keys;
        byte[]? key = token[0] == keys.Number ? keys.Key : token[0] == keys.NumberBefore ? keys.KeyBefore : null;
        if (key is null) return AddressTokenCheck.Wrong;
        Span<byte> code = stackalloc byte[CodeBytes];
        Compute(key, token[..(1 + TimeBytes)], in peer, bound, code);
        if (!CryptographicOperations.FixedTimeEquals(code, token[(1 + TimeBytes)..])) return AddressTokenCheck.Wrong;
        // Checked last, because the time of an invalid token means nothing.
        long ageMs = AgeMs(token[1..], nowMs);
        return ageMs >= -_skewMs && ageMs < _lifetimeMs ? AddressTokenCheck.Valid : AddressTokenCheck.Expired;
    }

    private static void CheckKey(ReadOnlySpan<byte> key)
    {
        if (key.Length < MinKeyBytes)
            throw new ArgumentException($"A key has at least {MinKeyBytes} bytes, and this one has {key.Length}.",
                nameof(key));
    }

    private static void WriteTime(Span<byte> target, long timeMs)
    {
        BinaryPrimitives.WriteUInt32BigEndian(target, (uint)((ulong)timeMs >> 16));
        BinaryPrimitives.WriteUInt16BigEndian(target[4..], (ushort)timeMs);
    }

    /// <summary>
    /// Returns the age, from 48 bits of each time: correct while both are less than 4,000 years apart.
    /// </summary>
    private static long AgeMs(ReadOnlySpan<byte> time, long nowMs)
    {
        long madeMs = ((long)BinaryPrimitives.ReadUInt32BigEndian(time) << 16)
            | BinaryPrimitives.ReadUInt16BigEndian(time[4..]);
        long age = (nowMs - madeMs) & TimeMask;
        return age > TimeMask / 2 ? age - TimeMask - 1 : age;
    }

    private static void Compute(byte[] key, ReadOnlySpan<byte> head, in DatagramPeer peer, ReadOnlySpan<byte> bound,
        Span<byte> code)
    {
        // Each part has a fixed length or a length prefix, so that two different inputs never give the same bytes.
        Span<byte> text = stackalloc byte[64 + MaxNameBytes + MaxBoundBytes];
        head.CopyTo(text);
        int at = head.Length;
        text[at++] = (byte)peer.Family;
        if (peer.Name is { } name)
        {
            ReadOnlySpan<byte> bytes = name.Bytes[..Math.Min(name.Bytes.Length, MaxNameBytes)];
            text[at++] = (byte)bytes.Length;
            bytes.CopyTo(text[at..]);
            at += bytes.Length;
        }
        else
        {
            Span<byte> address = text.Slice(at, 16);
            address.Clear();
            peer.TryWriteAddress(address, out _);
            BinaryPrimitives.WriteUInt16BigEndian(text[(at + 16)..], (ushort)peer.Port);
            BinaryPrimitives.WriteUInt32BigEndian(text[(at + 18)..], (uint)peer.ScopeId);
            at += 22;
        }

        bound.CopyTo(text[at..]);
        Span<byte> whole = stackalloc byte[HMACSHA256.HashSizeInBytes];
        HMACSHA256.HashData(key, text[..(at + bound.Length)], whole);
        whole[..CodeBytes].CopyTo(code);
    }

    private sealed record Keys(byte[] Key, byte Number, byte[]? KeyBefore, byte NumberBefore);
}
