using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>
/// Passes the private key of a .NET certificate to a context. The framework's keys on Linux are keys of the same
/// libcrypto and are shared without an export; other kinds of keys are exported, imported and wiped.
/// </summary>
// Safe: see the two members that pass a key.
internal static unsafe class OpenSslKey
{
    /// <summary>Sets the key. Throws CryptographicException if the certificate has no usable key.</summary>
    internal static void Use(nint context, X509Certificate2 leaf)
    {
        using AsymmetricAlgorithm key = (AsymmetricAlgorithm?)leaf.GetECDsaPrivateKey() ?? leaf.GetRSAPrivateKey()
            ?? throw new CryptographicException(
                $"The certificate '{leaf.Subject}' has no private key, or one that is neither EC nor RSA.");
        using SafeEvpPKeyHandle? shared = Shared(key);
        bool isUsed = shared is not null ? Give(context, shared) : GiveCopy(context, key);
        if (!isUsed)
            throw new CryptographicException(
                $"The private key of '{leaf.Subject}' cannot be used: {OpenSslErrors.Take()}");
    }

    // The direct layer runs on Linux only (OpenSslLibrary), where these types are supported.
#pragma warning disable CA1416
    private static SafeEvpPKeyHandle? Shared(AsymmetricAlgorithm key) => key switch
    {
        ECDsaOpenSsl ec => ec.DuplicateKeyHandle(),
        RSAOpenSsl rsa => rsa.DuplicateKeyHandle(),
        _ => null,
    };
#pragma warning restore CA1416

    // Safe: the handle is held for the call, and the context takes its own reference.
    private static bool Give(nint context, SafeEvpPKeyHandle key)
    {
        bool isHeld = false;
        try
        {
            key.DangerousAddRef(ref isHeld);
            return OpenSslApi.ContextUsePrivateKey(context, key.DangerousGetHandle()) == 1;
        }
        finally
        {
            if (isHeld) key.DangerousRelease();
        }
    }

    // Safe: the bytes are pinned while libcrypto reads them, and wiped.
    internal static bool GiveCopy(nint context, AsymmetricAlgorithm key)
    {
        byte[] bytes = key.ExportPkcs8PrivateKey();
        try
        {
            fixed (byte* first = bytes)
            {
                byte* at = first;
                nint native = OpenSslApi.ReadPrivateKey(null, &at, bytes.Length);
                if (native == 0) return false;
                bool isUsed = OpenSslApi.ContextUsePrivateKey(context, native) == 1;
                OpenSslApi.KeyFree(native);
                return isUsed;
            }
        }
        finally
        {
            CryptographicOperations.ZeroMemory(bytes);
        }
    }
}
