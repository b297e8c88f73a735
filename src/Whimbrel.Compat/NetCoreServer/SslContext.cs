using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;

namespace NetCoreServer;

/// <summary>Certificates and rules of TLS. Read when a server starts and when a client connects.</summary>
public class SslContext
{
    /// <summary>TLS 1.3, without a certificate.</summary>
    public SslContext()
        : this(SslProtocols.Tls13)
    {
    }

    /// <summary>Without a certificate.</summary>
    /// <param name="protocols">Versions that are allowed.</param>
    public SslContext(SslProtocols protocols) => Protocols = protocols;

    /// <summary>With a certificate.</summary>
    /// <param name="protocols">Versions that are allowed.</param>
    /// <param name="certificate">With its private key.</param>
    public SslContext(SslProtocols protocols, X509Certificate certificate)
        : this(protocols, certificate, null!)
    {
    }

    /// <summary>With a certificate and a chain.</summary>
    /// <param name="protocols">Versions that are allowed.</param>
    /// <param name="certificates">One with its private key, and those above it.</param>
    public SslContext(SslProtocols protocols, X509Certificate2Collection certificates)
        : this(protocols, certificates, null!)
    {
    }

    /// <summary>Without a certificate, with a check of its own.</summary>
    /// <param name="protocols">Versions that are allowed.</param>
    /// <param name="certificateValidationCallback">Says whether the peer's certificate is taken.</param>
    public SslContext(SslProtocols protocols, RemoteCertificateValidationCallback certificateValidationCallback)
        : this(protocols) => CertificateValidationCallback = certificateValidationCallback;

    /// <summary>With a certificate and a check of its own.</summary>
    /// <param name="protocols">Versions that are allowed.</param>
    /// <param name="certificate">With its private key.</param>
    /// <param name="certificateValidationCallback">Says whether the peer's certificate is taken.</param>
    public SslContext(SslProtocols protocols, X509Certificate certificate, RemoteCertificateValidationCallback certificateValidationCallback)
        : this(protocols, certificateValidationCallback) => Certificate = certificate;

    /// <summary>With a certificate, a chain, and a check of its own.</summary>
    /// <param name="protocols">Versions that are allowed.</param>
    /// <param name="certificates">One with its private key, and those above it.</param>
    /// <param name="certificateValidationCallback">Says whether the peer's certificate is taken.</param>
    public SslContext(SslProtocols protocols, X509Certificate2Collection certificates, RemoteCertificateValidationCallback certificateValidationCallback)
        : this(protocols, certificateValidationCallback) => Certificates = certificates;

    /// <summary>Versions that are allowed. Default TLS 1.3.</summary>
    public SslProtocols Protocols { get; set; }

    /// <summary>The own certificate, with its private key. Null: none, or one of <see cref="Certificates"/>.</summary>
    public X509Certificate Certificate { get; set; } = null!;

    /// <summary>The own certificate and those above it.</summary>
    public X509Certificate2Collection Certificates { get; set; } = null!;

    /// <summary>Says whether the peer's certificate is taken. Null: what the system says, name included.</summary>
    public RemoteCertificateValidationCallback CertificateValidationCallback { get; set; } = null!;

    /// <summary>Of a server: clients must show one. Default false.</summary>
    public bool ClientCertificateRequired { get; set; }
}
