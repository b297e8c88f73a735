using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using NetCoreServer;

namespace Whimbrel.Compat.Links;

/// <summary>Converts NetCoreServer's SslContext to native options.</summary>
internal static class TlsMap
{
    internal static TlsOptions ForServer(object sender, SslContext context) => new()
    {
        Certificate = CertificateOf(context) ?? throw new InvalidOperationException(
            "The SslContext of the server has no certificate: give it one by its constructor, or set Certificate."),
        Protocols = context.Protocols,
        ClientCertificates =
            context.ClientCertificateRequired ? TlsClientCertificates.Required : TlsClientCertificates.Off,
        Verify = context.ClientCertificateRequired ? VerifyBy(sender, context) : null,
    };

    internal static TlsOptions ForClient(object sender, SslContext context, string name) => new()
    {
        Certificate = CertificateOf(context),
        Protocols = context.Protocols,
        HostName = name,
        Verify = VerifyBy(sender, context),
    };

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
