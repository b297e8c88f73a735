using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Tool;

/// <summary>
/// Certificates as files: <c>NAME.pem</c>, <c>NAME.key</c> and <c>NAME.pfx</c>, and for the authority the first two. A
/// file with a private key can be read by its owner only, from its first byte on. A file is written completely or not
/// at all, and replaces an existing one on request only.
/// </summary>
internal sealed class CertificateFolder(string path)
{
    internal const string Authority = "ca";

    internal string PemOf(string name) => Path.Combine(path, name + ".pem");

    internal string KeyOf(string name) => Path.Combine(path, name + ".key");

    internal string PfxOf(string name) => Path.Combine(path, name + ".pfx");

    /// <summary>Returns the existing files of this name.</summary>
    internal string[] Present(string name) => [.. ((string[])[PemOf(name), KeyOf(name), PfxOf(name)]).Where(
        File.Exists)];

    /// <summary>
    /// Creates the folder. Throws an <see cref="IOException"/> with a message of its own, because the framework's
    /// message names a file that the user did not request.
    /// </summary>
    internal void Create()
    {
        try
        {
            Directory.CreateDirectory(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            string why = FileInTheWay() is { } file ? $"{file} is a file" : e switch
            {
                UnauthorizedAccessException => "it is not allowed there",
                FileNotFoundException or DirectoryNotFoundException => "the file system there takes no folders",
                _ => e.Message,
            };
            throw new IOException($"The folder {path} cannot be made: {why}. --out takes another one.", e);
        }
    }

    private string? FileInTheWay()
    {
        string? at = Path.GetFullPath(path);
        while (at is not null && !File.Exists(at)) at = Path.GetDirectoryName(at);
        return at;
    }

    internal CertificateAuthority ReadAuthority(string? password) =>
        CertificateAuthority.Load(File.ReadAllText(PemOf(Authority)), File.ReadAllText(KeyOf(Authority)), password);

    internal void WriteAuthority(CertificateAuthority authority, string? password, bool replace)
    {
        // The key first: a certificate without its key would be taken for an authority that cannot be used.
        Write(KeyOf(Authority), Encoding.ASCII.GetBytes(CertificateKey.PemOf(authority.Certificate, password)),
            isSecret: true, replace);
        Write(PemOf(Authority), Encoding.ASCII.GetBytes(authority.Certificate.ExportCertificatePem() + "\n"),
            isSecret: false, replace);
    }

    internal void Write(string name, X509Certificate2 certificate, X509Certificate2 authority, string? password,
        bool replace)
    {
        using X509Certificate2 authorityWithoutKey = X509CertificateLoader.LoadCertificate(authority.RawData);
        Write(KeyOf(name), Encoding.ASCII.GetBytes(CertificateKey.PemOf(certificate, password)),
            isSecret: true, replace);
        Write(PfxOf(name), new X509Certificate2Collection((X509Certificate2[])[certificate, authorityWithoutKey])
            .ExportPkcs12(Pkcs12ExportPbeParameters.Pbes2Aes256Sha256, password), isSecret: true, replace);
        Write(PemOf(name), Encoding.ASCII.GetBytes(certificate.ExportCertificatePem() + "\n"),
            isSecret: false, replace);
    }

    private static void Write(string file, byte[] bytes, bool isSecret, bool replace)
    {
        string beside = $"{file}.{Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(4))}.tmp";
        FileStreamOptions options = new() { Mode = FileMode.CreateNew, Access = FileAccess.Write };
        if (isSecret && !OperatingSystem.IsWindows())
            options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite;
        try
        {
            using (FileStream stream = new(beside, options)) stream.Write(bytes);
            File.Move(beside, file, overwrite: replace);
        }
        finally
        {
            File.Delete(beside);
        }
    }
}
