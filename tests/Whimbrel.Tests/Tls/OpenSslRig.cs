using System.Runtime.InteropServices;
using System.Security.Authentication;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>Helpers for tests of the direct OpenSSL provider; skips them without OpenSSL 3.</summary>
internal static class OpenSslRig
{
    internal const int KeyUpdateRequested = 1;

    internal static OpenSslProfile Prepare(TlsOptions options, bool isServer)
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        return new OpenSslProfile(options, isServer);
    }

    internal static TlsPair Pair(TlsOptions? server = null, TlsOptions? client = null, int split = int.MaxValue,
        int outputBytes = 32 * 1024) =>
        new(Prepare(server ?? TestCertificates.ServerOptions, true),
            Prepare(client ?? TestCertificates.ClientOptions, false), "chat.test", split, outputBytes);

    internal static TlsOptions Client(SslProtocols version) =>
        new() { HostName = "chat.test", Roots = TestCertificates.Roots, Protocols = version };

    /// <summary>Makes the peer send a key update with its next bytes.</summary>
    internal static void UpdateKeys(TlsEnd end, int kind) =>
        Assert.Equal(1, SslKeyUpdate(((OpenSslLayer)end.Layer!).Native, kind));

    /// <summary>Makes the peer start a renegotiation with its next bytes. TLS 1.2 and older only.</summary>
    internal static void Renegotiate(TlsEnd end)
    {
        nint ssl = ((OpenSslLayer)end.Layer!).Native;
        _ = SslClearOptions(ssl, OpenSslApi.OptionNoRenegotiation);
        Assert.Equal(1, SslRenegotiate(ssl));
    }

    internal static void LeaveErrorInQueue()
    {
        // An invalid certificate: libcrypto queues an error that is not read.
        unsafe
        {
            byte* bytes = stackalloc byte[4];
            byte* at = bytes;
            Assert.Equal(0, OpenSslApi.ReadCertificate(null, &at, 4));
        }
    }

    [DllImport("libssl.so.3", EntryPoint = "SSL_clear_options")]
    private static extern ulong SslClearOptions(nint ssl, ulong options);

    [DllImport("libssl.so.3", EntryPoint = "SSL_renegotiate")]
    private static extern int SslRenegotiate(nint ssl);

    [DllImport("libssl.so.3", EntryPoint = "SSL_key_update")]
    private static extern int SslKeyUpdate(nint ssl, int kind);
}
