using System.Security.Cryptography;

namespace Whimbrel;

/// <summary>
/// Keys of session tickets that several servers share, for <see cref="TlsOptions.TicketKeys"/>: a client that resumes
/// at another one of them needs no full handshake. They are derived from a secret, which must be the same on all
/// servers and is as sensitive as a private key. Any thread.
/// </summary>
public sealed class TlsTicketKeys
{
    private const int LeastBytes = 32;

    /// <summary>Creates keys.</summary>
    /// <param name="secret">32 or more random bytes, from <c>RandomNumberGenerator.GetBytes(32)</c>.</param>
    /// <exception cref="ArgumentException">The secret has fewer than 32 bytes.</exception>
    public TlsTicketKeys(ReadOnlySpan<byte> secret) => Secret = Checked(secret);

    /// <summary>The current secret. Another object after each replacement.</summary>
    internal byte[] Secret { get; private set => Volatile.Write(ref field, value); }

    /// <summary>
    /// Replaces the secret. Older tickets lead to a full handshake; open connections continue. Replace it once a day on
    /// all servers, because it also decrypts what was recorded of TLS 1.2 connections that were resumed.
    /// </summary>
    /// <param name="secret">32 or more random bytes.</param>
    /// <exception cref="ArgumentException">The secret has fewer than 32 bytes.</exception>
    public void Replace(ReadOnlySpan<byte> secret) => Secret = Checked(secret);

    /// <summary>Derives bytes for one purpose and certificate.</summary>
    internal static void Derive(byte[] secret, ReadOnlySpan<byte> purpose, ReadOnlySpan<byte> certificate,
        Span<byte> into) => HKDF.DeriveKey(HashAlgorithmName.SHA256, secret, into, salt: [], [.. purpose,
            .. SHA256.HashData(certificate)]);

    private static byte[] Checked(ReadOnlySpan<byte> secret) => secret.Length >= LeastBytes
        ? secret.ToArray()
        : throw new ArgumentException($"The secret of session tickets has {secret.Length} bytes, and needs "
            + $"{LeastBytes}: RandomNumberGenerator.GetBytes(32).", nameof(secret));
}
