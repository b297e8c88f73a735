namespace Whimbrel.Acme;

/// <summary>
/// Existing account at an authority that issues to its customers only (RFC 8555, 7.3.4). The authority gives both
/// values; keep them outside the source code.
/// </summary>
/// <param name="KeyId">Key identifier.</param>
/// <param name="MacKey">MAC key, in base64url.</param>
public sealed record AcmeExternalAccount(string KeyId, string MacKey)
{
    /// <summary>Returns the key identifier, without the key.</summary>
    public override string ToString() => KeyId;
}
