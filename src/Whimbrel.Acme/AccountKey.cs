using System.Buffers.Text;
using System.Security.Cryptography;
using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// Key of an account: signs requests (RFC 8555, 6.2; ES256) and answers challenges. No I/O. One thread at a time.
/// </summary>
internal sealed class AccountKey : IDisposable
{
    private readonly ECDsa _key;

    private AccountKey(ECDsa key)
    {
        _key = key;
        ECParameters point = key.ExportParameters(includePrivateParameters: false);
        Jwk = new JwkJson("P-256", "EC", Text(point.Q.X!), Text(point.Q.Y!));
        Thumbprint = Text(SHA256.HashData(AcmeJson.Write(Jwk, AcmeJson.Default.JwkJson)));
    }

    internal JwkJson Jwk { get; }

    internal string Thumbprint { get; }

    internal static AccountKey Create() => new(ECDsa.Create(ECCurve.NamedCurves.nistP256));

    internal static AccountKey FromPem(string pem)
    {
        ECDsa key = ECDsa.Create();
        try
        {
            key.ImportFromPem(pem);
            if (key.KeySize != 256) throw new CryptographicException("The key is no P-256 key.");
            return new AccountKey(key);
        }
        catch (Exception)
        {
            key.Dispose();
            throw;
        }
    }

    internal string ToPem() => _key.ExportPkcs8PrivateKeyPem();

    /// <summary>Returns the answer to a challenge with this token (RFC 8555, 8.1).</summary>
    internal string AuthorizationOf(string token) => $"{token}.{Thumbprint}";

    /// <summary>Returns the body of a request.</summary>
    /// <param name="url">URL that the request is sent to.</param>
    /// <param name="nonce">Nonce of the authority.</param>
    /// <param name="account">URL of the account; null to send the public key instead.</param>
    /// <param name="payload">JSON; empty to fetch a resource (POST-as-GET).</param>
    internal byte[] Sign(string url, string nonce, string? account, ReadOnlySpan<byte> payload)
    {
        JwsHeadJson head = new("ES256", nonce, url, account is null ? Jwk : null, account);
        (string protectedText, string payloadText, byte[] data) = Parts(head, payload);
        string signature = Text(_key.SignData(data, HashAlgorithmName.SHA256));
        return AcmeJson.Write(new JwsJson(protectedText, payloadText, signature), AcmeJson.Default.JwsJson);
    }

    /// <summary>Returns the proof of an external account: this public key, signed with its MAC key.</summary>
    internal JwsJson Bind(AcmeExternalAccount account, string url)
    {
        byte[] payload = AcmeJson.Write(Jwk, AcmeJson.Default.JwkJson);
        (string protectedText, string payloadText, byte[] data) =
            Parts(new JwsHeadJson("HS256", null, url, null, account.KeyId), payload);
        byte[] key = Base64Url.DecodeFromChars(account.MacKey.TrimEnd('='));
        return new JwsJson(protectedText, payloadText, Text(HMACSHA256.HashData(key, data)));
    }

    private static (string Protected, string Payload, byte[] Data) Parts(JwsHeadJson head, ReadOnlySpan<byte> payload)
    {
        string first = Text(AcmeJson.Write(head, AcmeJson.Default.JwsHeadJson)), second = Text(payload);
        return (first, second, Encoding.ASCII.GetBytes($"{first}.{second}"));
    }

    private static string Text(ReadOnlySpan<byte> bytes) => Base64Url.EncodeToString(bytes);

    public void Dispose() => _key.Dispose();
}
