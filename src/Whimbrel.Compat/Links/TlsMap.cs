using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using NetCoreServer;

namespace Whimbrel.Compat.Links;

/// <summary>Converts NetCoreServer's SslContext to native options.</summary>
internal static class TlsMap
{
    private static readonly TimeSpan s_longestHandshake = TimeSpan.FromMinutes(10); // the native maximum

    internal static TlsOptions ForServer(object sender, SslContext context) => new()
    {
        Certificate = CertificateOf(context) ?? throw new InvalidOperationException(
            "The SslContext of the server has no certificate: give it one by its constructor, or set Certificate."),
        Protocols = context.Protocols,
        HandshakeTimeout = HandshakeTimeout,
        ClientCertificates =
            context.ClientCertificateRequired ? TlsClientCertificates.Required : TlsClientCertificates.Off,
        Verify = context.ClientCertificateRequired ? VerifyBy(sender, context) : null,
    };

    internal static TlsOptions ForClient(object sender, SslContext context, string name) => new()
    {
        Certificate = CertificateOf(context),
        Protocols = context.Protocols,
        HandshakeTimeout = HandshakeTimeout,
        HostName = name,
        Verify = VerifyBy(sender, context),
    };

    // The original has no limit, and its programs wait for the handshake in a loop: on a machine without a free CPU the
    // native 10 s ended them.
    private static TimeSpan HandshakeTimeout
    {
        get
        {
            TimeSpan stall = CompatOptions.StallTimeout;
            return stall > TimeSpan.Zero && stall < s_longestHandshake ? stall : s_longestHandshake;
        }
    }

    private static Func<TlsVerification, bool>? VerifyBy(object sender, SslContext context) =>
        context.CertificateValidationCallback is { } callback
            ? v => callback(sender, v.Certificate, v.Chain, v.PolicyErrors)
            : null;

    private static TlsCertificate? CertificateOf(SslContext context)
    {
        if (context.Certificate is { } one)
            return TlsCertificate.From(one as X509Certificate2 ?? new X509Certificate2(one));
        if (context.Certificates is not { Count: > 0 } many) return null;
        X509Certificate2 own = many.FirstOrDefault(static c => c.HasPrivateKey) ?? many[0];
        X509Certificate2Collection others = [.. many.Where(c => !ReferenceEquals(c, own))];
        return TlsCertificate.From(own, others);
    }
}
