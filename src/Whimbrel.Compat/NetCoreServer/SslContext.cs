using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;

namespace NetCoreServer;

/// <summary>Certificates and settings of TLS. Read when a server starts and when a client connects.</summary>
public class SslContext
{
    /// <summary>Creates a context for TLS 1.3 without a certificate.</summary>
    public SslContext()
        : this(SslProtocols.Tls13)
    {
    }

    /// <summary>Creates a context without a certificate.</summary>
    /// <param name="protocols">Allowed versions of TLS.</param>
    public SslContext(SslProtocols protocols) => Protocols = protocols;

    /// <summary>Creates a context with a certificate.</summary>
    /// <param name="protocols">Allowed versions of TLS.</param>
    /// <param name="certificate">Certificate with its private key.</param>
    public SslContext(SslProtocols protocols, X509Certificate certificate)
        : this(protocols, certificate, null!)
    {
    }

    /// <summary>Creates a context with a certificate and its chain.</summary>
    /// <param name="protocols">Allowed versions of TLS.</param>
    /// <param name="certificates">Certificate with its private key, and its intermediates.</param>
    public SslContext(SslProtocols protocols, X509Certificate2Collection certificates)
        : this(protocols, certificates, null!)
    {
    }

    /// <summary>Creates a context without a certificate, with a validation callback.</summary>
    /// <param name="protocols">Allowed versions of TLS.</param>
    /// <param name="certificateValidationCallback">Decides whether the peer's certificate is accepted.</param>
    public SslContext(SslProtocols protocols, RemoteCertificateValidationCallback certificateValidationCallback)
        : this(protocols) => CertificateValidationCallback = certificateValidationCallback;

    /// <summary>Creates a context with a certificate and a validation callback.</summary>
    /// <param name="protocols">Allowed versions of TLS.</param>
    /// <param name="certificate">Certificate with its private key.</param>
    /// <param name="certificateValidationCallback">Decides whether the peer's certificate is accepted.</param>
    public SslContext(SslProtocols protocols, X509Certificate certificate,
        RemoteCertificateValidationCallback certificateValidationCallback)
        : this(protocols, certificateValidationCallback) => Certificate = certificate;

    /// <summary>Creates a context with a certificate, its chain, and a validation callback.</summary>
    /// <param name="protocols">Allowed versions of TLS.</param>
    /// <param name="certificates">Certificate with its private key, and its intermediates.</param>
    /// <param name="certificateValidationCallback">Decides whether the peer's certificate is accepted.</param>
    public SslContext(SslProtocols protocols, X509Certificate2Collection certificates,
        RemoteCertificateValidationCallback certificateValidationCallback)
        : this(protocols, certificateValidationCallback) => Certificates = certificates;

    /// <summary>Allowed versions of TLS. Default TLS 1.3.</summary>
    public SslProtocols Protocols { get; set; }

    /// <summary>Certificate of this side with its private key. Null: none, or one of <see
    /// cref="Certificates"/>.</summary>
    public X509Certificate Certificate { get; set; } = null!;

    /// <summary>Certificate of this side and its intermediates.</summary>
    public X509Certificate2Collection Certificates { get; set; } = null!;

    /// <summary>Decides whether the peer's certificate is accepted. Null: verification by the system, including the
    /// host name.</summary>
    public RemoteCertificateValidationCallback CertificateValidationCallback { get; set; } = null!;

    /// <summary>True if a server requires client certificates. Default false.</summary>
    public bool ClientCertificateRequired { get; set; }
}
