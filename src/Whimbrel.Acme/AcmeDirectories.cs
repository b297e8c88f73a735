namespace Whimbrel.Acme;

/// <summary>Directories of public ACME authorities, for <see cref="AcmeOptions.Directory"/>.</summary>
public static class AcmeDirectories
{
    /// <summary>Let's Encrypt. Trusted by all clients, with strict limits on failed and repeated orders.</summary>
    public const string LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory";

    /// <summary>
    /// Staging of Let's Encrypt, for attempts: its certificates are not trusted by clients, and its limits are wide.
    /// </summary>
    public const string LetsEncryptStaging = "https://acme-staging-v02.api.letsencrypt.org/directory";
}
