namespace Whimbrel.Tool;

/// <summary>Side that presents a certificate.</summary>
internal enum CertificateUse
{
    Server,
    Client,
}
