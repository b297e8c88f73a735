using System.Globalization;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>
/// <c>whimbrel certs</c>: an authority, a server's certificate and clients' certificates in one folder. The authority
/// that exists is used again, so that programs that trust it also trust later certificates. On stdout a line for
/// each certificate and how to use them; everything else goes to stderr.
/// </summary>
internal static class CertsCommand
{
    internal static int Run(CertsSettings settings)
    {
        CertificateFolder folder = new(settings.Folder);
        try
        {
            DateTimeOffset now = DateTimeOffset.UtcNow;
            string[] wanted = [.. settings.NewAuthority ? (string[])[CertificateFolder.Authority] : [],
                .. settings.WantsServer ? (string[])[settings.Server] : [], .. settings.Clients];
            if (!settings.Force && wanted.SelectMany(folder.Present).ToArray() is { Length: > 0 } present)
            {
                return Fail($"{string.Join(", ", present)} {(present.Length == 1 ? "is" : "are")} there already. "
                    + $"--force replaces, --out takes another folder.");
            }

            folder.Create();
            using CertificateAuthority authority = Authority(settings, folder, now);
            IReadOnlyList<SubjectName> names =
                settings.SubjectNames.Count > 0 ? settings.SubjectNames : SubjectName.OfThisMachine;
            Make(settings, folder, authority, settings.Server, CertificateUse.Server, names[0].Text, names, now);
            foreach (string client in settings.Clients.Count > 0 ? settings.Clients : [CertsSettings.DefaultClient])
            {
                Make(settings, folder, authority, client, CertificateUse.Client, client, [], now);
            }

            Explain(settings, folder, names[0].Text,
                settings.Clients.Count > 0 ? settings.Clients[0] : CertsSettings.DefaultClient);
            return ExitCode.Done;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return Fail(e.Message);
        }
        catch (CryptographicException e)
        {
            return Fail($"{folder.PemOf(CertificateFolder.Authority)} cannot be used: {e.Message.TrimEnd('.')}. "
                + $"--password or --password-file opens an encrypted key; --new-ca --force makes another authority, "
                + $"and what the old one signed is then no longer trusted.");
        }
    }

    /// <summary>SHA-256 over the whole certificate, as other programs print it.</summary>
    internal static string FingerprintOf(X509Certificate2 certificate) =>
        string.Join(':',
            Convert.ToHexString(SHA256.HashData(certificate.RawData)).Chunk(2).Select(static pair => new string(pair)));

    private static CertificateAuthority Authority(CertsSettings settings, CertificateFolder folder, DateTimeOffset now)
    {
        if (folder.Present(CertificateFolder.Authority).Length > 0 && !settings.NewAuthority)
        {
            if (!File.Exists(folder.PemOf(CertificateFolder.Authority)))
                throw new CryptographicException("the certificate is missing, and only its key is there");
            if (!File.Exists(folder.KeyOf(CertificateFolder.Authority)))
                throw new CryptographicException(
                    $"{folder.KeyOf(CertificateFolder.Authority)} is missing, and nothing can be signed without it");
            CertificateAuthority there = folder.ReadAuthority(settings.Password);
            if (there.Certificate.NotAfter.ToUniversalTime() <= now)
                throw new CryptographicException($"it expired {Day(there.Certificate)}");
            Tell("used", folder.PemOf(CertificateFolder.Authority), "authority", there.Certificate);
            return there;
        }

        string name = $"Whimbrel development CA {Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(4))}";
        TimeSpan asked = TimeSpan.FromDays(settings.Days);
        CertificateAuthority made = CertificateAuthority.Create(name, settings.RsaBits, now,
            asked > CertificateAuthority.DefaultLife ? asked : CertificateAuthority.DefaultLife);
        folder.WriteAuthority(made, settings.Password, settings.Force);
        Tell("made", folder.PemOf(CertificateFolder.Authority), "authority", made.Certificate);
        return made;
    }

    private static void Make(CertsSettings settings, CertificateFolder folder, CertificateAuthority authority,
        string file, CertificateUse use, string name, IReadOnlyList<SubjectName> subjectNames, DateTimeOffset now)
    {
        string what = use == CertificateUse.Server
            ? $"server {string.Join(", ", subjectNames.Select(static n => n.Text))}"
            : $"client {name}";
        // If certificates were requested by name, --force replaces those. A new authority replaces all of the old one.
        bool isAskedFor = use == CertificateUse.Server ? settings.WantsServer : settings.Clients.Count > 0;
        bool replace = settings.Force
            && (isAskedFor || settings.NewAuthority || (!settings.WantsServer && settings.Clients.Count == 0));
        if (!replace && folder.Present(file) is { Length: > 0 } present)
        {
            // With --force other certificates were requested by name, so the remedy is this one's name.
            string remedy = !settings.Force ? "--force makes another one" : use == CertificateUse.Server
                ? $"--server {file} makes another one, too" : $"--client {file} makes another one, too";
            Console.Out.WriteLine(
                $"kept   {string.Join(", ", present)}{(HasExpired(folder.PemOf(file), now) ? ": EXPIRED" : "")} "
                + $"({remedy})");
            return;
        }

        using X509Certificate2 certificate = authority.Issue(name, use, subjectNames, settings.RsaBits, now,
            now.AddDays(settings.Days));
        folder.Write(file, certificate, authority.Certificate, settings.Password, replace);
        Tell("made", folder.PemOf(file), what, certificate);
        if (certificate.NotAfter.ToUniversalTime() < now.AddDays(settings.Days).AddMinutes(-1).UtcDateTime)
            Console.Error.WriteLine(
                $"{folder.PemOf(file)} ends with its authority, before {settings.Days} days have passed.");
    }

    private static bool HasExpired(string pem, DateTimeOffset now)
    {
        if (!File.Exists(pem)) return false;
        try
        {
            using X509Certificate2 certificate = X509CertificateLoader.LoadCertificateFromFile(pem);
            return certificate.NotAfter.ToUniversalTime() <= now;
        }
        catch (CryptographicException)
        {
            return false;
        }
    }

    private static void Tell(string verb, string file, string what, X509Certificate2 certificate)
    {
        string key = certificate.GetRSAPublicKey() is { } rsa ? $"RSA {rsa.KeySize}" : "P-256";
        Console.Out.WriteLine(
            $"{verb}   {file}: {what}; {key}, until {Day(certificate)}, SHA-256 {FingerprintOf(certificate)}");
    }

    private static string Day(X509Certificate2 certificate) =>
        certificate.NotAfter.ToUniversalTime().ToString("yyyy-MM-dd", CultureInfo.InvariantCulture);

    private static void Explain(CertsSettings settings, CertificateFolder folder, string host, string client)
    {
        string ca = Quoted(folder.PemOf(CertificateFolder.Authority));
        string place = host.Contains(':', StringComparison.Ordinal)
            ? $"[{host}]"
            : host.Replace("*", "www", StringComparison.Ordinal);
        string password = settings.Password is null ? "" : " --password-file FILE";
        string server = settings.Server;
        Console.Out.WriteLine(
            $"""

            Keys (.key) and bundles (.pfx: certificate, key and authority) can be read by you only{(settings.Password is null ? "" : ", and are encrypted")}.
            Whoever has {Path.GetFileName(folder.KeyOf(CertificateFolder.Authority))} can make certificates that everybody who trusts {Path.GetFileName(ca.Trim('\''))} believes: it stays here.

            A server       whimbrel serve echo --tls --cert {Quoted(folder.PemOf(server))} --key {Quoted(folder.KeyOf(server))}{password}
                           or the same with --pfx {Quoted(folder.PfxOf(server))}
            A client       whimbrel connect --ca {ca} tls://{place}:1111
                           openssl s_client -connect {place}:1111 -servername {place.Trim('[', ']')} -CAfile {ca} -verify_return_error
            Both sides     serve ... --client-ca {ca}
                           connect ... --cert {Quoted(folder.PemOf(client))} --key {Quoted(folder.KeyOf(client))}{password}
            Look at it     openssl x509 -noout -text -in {Quoted(folder.PemOf(server))}
            """);
    }

    private static string Quoted(string path) =>
        path.All(static c => char.IsAsciiLetterOrDigit(c) || c is '/' or '\\' or '.' or '-' or '_' or ':')
            ? path
            : $"'{path.Replace("'", "'\\''", StringComparison.Ordinal)}'";

    private static int Fail(string message)
    {
        Console.Error.WriteLine($"whimbrel: {message}");
        return ExitCode.Failed;
    }
}
