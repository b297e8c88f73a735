using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>
/// The certificates of a connection's peer, as .NET objects. Used during and after the handshake, on the thread that
/// runs the layer.
/// </summary>
// Safe: borrowed objects of OpenSSL are copied; owned ones are freed here.
internal static unsafe class OpenSslPeer
{
    // X509_V_ERR constants that OpenSSL converts to the corresponding alert.
    private const int HasExpired = 10;
    private const int UnknownIssuer = 20;
    private const int Rejected = 28;

    private const int MostOthers = 32;

    /// <summary>Returns the peer's own certificate, or null.</summary>
    internal static X509Certificate2? Certificate(nint ssl)
    {
        nint native = OpenSslApi.TakePeerCertificate(ssl);
        if (native == 0) return null;
        try
        {
            return Copy(native);
        }
        finally
        {
            OpenSslApi.CertificateFree(native);
        }
    }

    /// <summary>
    /// Returns the first certificate of a stack, or null: during the handshake the peer's own, which the connection
    /// does not have yet.
    /// </summary>
    internal static X509Certificate2? First(nint stack) =>
        stack == 0 || OpenSslApi.StackCount(stack) == 0 ? null : Copy(OpenSslApi.StackItem(stack, 0));

    /// <summary>
    /// Returns the other certificates sent by the peer, for building the chain; null if there are none. The caller
    /// disposes them.
    /// </summary>
    internal static X509Certificate2Collection? Others(nint stack, X509Certificate2? leaf)
    {
        if (stack == 0 || leaf is null) return null;
        X509Certificate2Collection? others = null;
        int count = Math.Min(OpenSslApi.StackCount(stack), MostOthers);
        for (int i = 0; i < count; i++)
        {
            X509Certificate2 other = Copy(OpenSslApi.StackItem(stack, i));
            // The stack begins with the leaf, except for a server after the handshake.
            if (other.RawDataMemory.Span.SequenceEqual(leaf.RawDataMemory.Span)) other.Dispose();
            else (others ??= []).Add(other);
        }

        return others;
    }

    /// <summary>Returns the error number that selects the alert for a rejected certificate. Never throws.</summary>
    internal static int AlertErrorOf(X509Certificate2? leaf)
    {
        if (leaf is null) return Rejected;
        try
        {
            if (leaf.NotAfter < DateTime.Now) return HasExpired;
            return leaf.SubjectName.RawData.AsSpan().SequenceEqual(leaf.IssuerName.RawData) ? UnknownIssuer : Rejected;
        }
        catch (System.Security.Cryptography.CryptographicException)
        {
            // A field of the peer's certificate cannot be read. An exception must not leave the callback of OpenSSL.
            return Rejected;
        }
    }

    private static X509Certificate2 Copy(nint native)
    {
        int length = OpenSslApi.WriteCertificate(native, null);
        if (length <= 0)
            throw new System.Security.Cryptography.CryptographicException(
                $"a certificate of the peer cannot be read: {OpenSslErrors.Take()}");
        byte[] der = new byte[length];
        fixed (byte* bytes = der)
        {
            byte* at = bytes;
            _ = OpenSslApi.WriteCertificate(native, &at);
        }

        return X509CertificateLoader.LoadCertificate(der);
    }
}
