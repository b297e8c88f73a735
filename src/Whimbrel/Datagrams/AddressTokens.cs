using System.Buffers.Binary;
using System.Security.Cryptography;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Tokens that prove an address without remembering anybody: a server sends one to where a datagram says it came from, and only who
/// receives there can send it back. HMAC-SHA256, cut to 128 bits, over the time, the peer's address and port and, if wanted, data of the
/// protocol. Any thread; no call but the constructors and Rotate allocates.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A token is <see cref="TokenBytes"/> bytes: number of the key, time (48 bits), code (128 bits). Whoever sees it learns the time and nothing of the key.</item>
/// <item>It is good for one address, one port and one scope, from the moment it was made until its lifetime is over, any number of times.</item>
/// <item>The time is an argument, in milliseconds that do not go back. Within one process that is <see cref="Loop.TimeMs"/>; several machines with one key
/// need one clock, such as Unix time.</item>
/// <item>Rotate begins to use another key; tokens of the one before stay good for their lifetime, older ones are wrong.</item>
/// <item>The comparison takes as long for a wrong code as for a right one.</item>
/// </list>
/// </remarks>
public sealed class AddressTokens
{
    /// <summary>Bytes of a token.</summary>
    public const int TokenBytes = 1 + TimeBytes + CodeBytes;

    /// <summary>Most bytes of the protocol that a token can be bound to.</summary>
    public const int MaxBoundBytes = 256;

    /// <summary>Fewest bytes of a key.</summary>
    public const int MinKeyBytes = 16;

    private const int TimeBytes = 6;
    private const int CodeBytes = 16;
    private const int MaxNameBytes = 128;
    private const long TimeMask = (1L << (8 * TimeBytes)) - 1;

    private readonly long _lifetimeMs;
    private readonly long _skewMs;
    private volatile Keys _keys;

    /// <summary>Tokens with a random key: good in this process only.</summary>
    /// <param name="lifetime">How long a token is good. 1 ms up to 30 days.</param>
    public AddressTokens(TimeSpan lifetime)
        : this(lifetime, RandomNumberGenerator.GetBytes(32))
    {
    }

    /// <summary>Tokens with a key of yours: all servers that have it take each other's tokens.</summary>
    /// <param name="lifetime">How long a token is good. 1 ms up to 30 days.</param>
    /// <param name="key">Random bytes, at least <see cref="MinKeyBytes"/>, 32 is right; copied.</param>
    /// <param name="keyNumber">Its number, 0 up to 255: the same on all servers that have the key.</param>
    /// <param name="clockSkew">How far in the future a token may have been made, for servers whose clocks differ. Default zero; at most the lifetime.</param>
    public AddressTokens(TimeSpan lifetime, ReadOnlySpan<byte> key, byte keyNumber = 0, TimeSpan clockSkew = default)
    {
        if (lifetime < TimeSpan.FromMilliseconds(1) || lifetime > TimeSpan.FromDays(30)) Throw.OutOfRange(nameof(lifetime), lifetime, "1 ms to 30 days");
        if (clockSkew < TimeSpan.Zero || clockSkew > lifetime) Throw.OutOfRange(nameof(clockSkew), clockSkew, "zero up to the lifetime");
        CheckKey(key);
        _lifetimeMs = (long)lifetime.TotalMilliseconds;
        _skewMs = (long)clockSkew.TotalMilliseconds;
        _keys = new Keys(key.ToArray(), keyNumber, null, 0);
    }

    /// <summary>Uses another random key from now on, numbered one higher; 255 is followed by 0. Tokens of the key before stay good for their lifetime.</summary>
    public void Rotate() => Rotate(RandomNumberGenerator.GetBytes(32), (byte)(_keys.Number + 1));

    /// <summary>Uses another key from now on. Tokens of the key before stay good for their lifetime. Any thread; the last of several wins.</summary>
    /// <param name="key">Random bytes, at least <see cref="MinKeyBytes"/>; copied.</param>
    /// <param name="keyNumber">Its number: another than that of the key before.</param>
    public void Rotate(ReadOnlySpan<byte> key, byte keyNumber)
    {
        CheckKey(key);
        Keys before = _keys;
        if (keyNumber == before.Number) throw new ArgumentException($"The key in use has number {keyNumber}: the next one needs another, or nobody can tell their tokens apart.", nameof(keyNumber));
        _keys = new Keys(key.ToArray(), keyNumber, before.Key, before.Number);
    }

    /// <summary>Writes a token for a peer.</summary>
    /// <param name="token">Where: at least <see cref="TokenBytes"/> bytes.</param>
    /// <param name="peer">Who it is for. Nobody throws <see cref="ArgumentException"/>.</param>
    /// <param name="nowMs">Milliseconds of the clock that <see cref="Check"/> is given too.</param>
    /// <param name="bound">What else it must be good for only, such as the number of a connection; at most <see cref="MaxBoundBytes"/>.</param>
    public void Write(Span<byte> token, in DatagramPeer peer, long nowMs, ReadOnlySpan<byte> bound = default)
    {
        if (token.Length < TokenBytes) throw new ArgumentException($"A token has {TokenBytes} bytes, and there is room for {token.Length}.", nameof(token));
        if (peer.IsNone) throw new ArgumentException("The peer is nobody: a sender without a name has no address to prove.", nameof(peer));
        if (bound.Length > MaxBoundBytes) throw new ArgumentException($"A token can be bound to at most {MaxBoundBytes} bytes, not {bound.Length}.", nameof(bound));
        Keys keys = _keys;
        token[0] = keys.Number;
        WriteTime(token[1..], nowMs);
        Compute(keys.Key, token[..(1 + TimeBytes)], in peer, bound, token.Slice(1 + TimeBytes, CodeBytes));
    }

    /// <summary>Says whether a token proves the address of the peer that sent it. Anything may come: nothing throws.</summary>
    /// <param name="token">The bytes that came; of another length than <see cref="TokenBytes"/> they are wrong.</param>
    /// <param name="peer">Who sent them.</param>
    /// <param name="nowMs">Milliseconds of the clock that <see cref="Write"/> was given.</param>
    /// <param name="bound">As for <see cref="Write"/>.</param>
    public AddressTokenCheck Check(ReadOnlySpan<byte> token, in DatagramPeer peer, long nowMs, ReadOnlySpan<byte> bound = default)
    {
        if (token.Length != TokenBytes || peer.IsNone || bound.Length > MaxBoundBytes) return AddressTokenCheck.Wrong;
        Keys keys = _keys;
        byte[]? key = token[0] == keys.Number ? keys.Key : token[0] == keys.NumberBefore ? keys.KeyBefore : null;
        if (key is null) return AddressTokenCheck.Wrong;
        Span<byte> code = stackalloc byte[CodeBytes];
        Compute(key, token[..(1 + TimeBytes)], in peer, bound, code);
        if (!CryptographicOperations.FixedTimeEquals(code, token[(1 + TimeBytes)..])) return AddressTokenCheck.Wrong;
        // Only now: of a token that is not ours the time means nothing.
        long ageMs = AgeMs(token[1..], nowMs);
        return ageMs >= -_skewMs && ageMs < _lifetimeMs ? AddressTokenCheck.Valid : AddressTokenCheck.Expired;
    }

    private static void CheckKey(ReadOnlySpan<byte> key)
    {
        if (key.Length < MinKeyBytes) throw new ArgumentException($"A key has at least {MinKeyBytes} bytes, and this one has {key.Length}.", nameof(key));
    }

    private static void WriteTime(Span<byte> target, long timeMs)
    {
        BinaryPrimitives.WriteUInt32BigEndian(target, (uint)((ulong)timeMs >> 16));
        BinaryPrimitives.WriteUInt16BigEndian(target[4..], (ushort)timeMs);
    }

    /// <summary>From 48 bits of each: right as long as both are less than 4,000 years apart.</summary>
    private static long AgeMs(ReadOnlySpan<byte> time, long nowMs)
    {
        long madeMs = ((long)BinaryPrimitives.ReadUInt32BigEndian(time) << 16) | BinaryPrimitives.ReadUInt16BigEndian(time[4..]);
        long age = (nowMs - madeMs) & TimeMask;
        return age > TimeMask / 2 ? age - TimeMask - 1 : age;
    }

    private static void Compute(byte[] key, ReadOnlySpan<byte> head, in DatagramPeer peer, ReadOnlySpan<byte> bound, Span<byte> code)
    {
        // Each part has a fixed length or its length in front: two different contents never give the same bytes.
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
