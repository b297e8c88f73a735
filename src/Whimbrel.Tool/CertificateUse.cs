namespace Whimbrel.Tool;

/// <summary>Who shows a certificate to whom.</summary>
internal enum CertificateUse
{
    Server,
    Client,
}
