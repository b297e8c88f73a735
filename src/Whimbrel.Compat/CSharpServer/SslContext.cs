using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel;

namespace CSharpServer;

/// <summary>Certificates and TLS settings, loaded from files. Read when a server starts and when a client connects. Not
/// thread-safe.</summary>
public class SslContext : IDisposable
{
    private readonly SslProtocols _protocols;
    private readonly X509Certificate2Collection _roots = [];
    private SslVerifyMode? _mode;
    private int? _depth;
    private string? _chain, _key, _password;
    private SslFileFormat _format;
    private TlsCertificate? _certificate;

    /// <summary>Creates a context for the given versions of TLS.</summary>
    /// <param name="method">TLSV12: 1.2. TLS and SSLV23: 1.2 and 1.3.</param>
    /// <exception cref="NotSupportedException">An older version, which is insecure.</exception>
    public SslContext(SslMethod method) => _protocols = method switch
    {
        SslMethod.TLSV12 or SslMethod.TLSV12_client or SslMethod.TLSV12_server => SslProtocols.Tls12,
        SslMethod.TLS or SslMethod.TLS_Client or SslMethod.TLS_Server or SslMethod.SSLV23 or SslMethod.SSLV23_Client
        or SslMethod.SSLV23_Server => SslProtocols.Tls12 | SslProtocols.Tls13,
        _ => throw new NotSupportedException($"{method} is broken, and not spoken here: take SslMethod.TLS."),
    };

    /// <summary>Does nothing: the system's roots are always used.</summary>
    public void SetDefaultVerifyPaths()
    {
    }

    /// <summary>Does nothing: the system's roots are always used.</summary>
    public void SetRootCerts()
    {
    }

    /// <summary>Sets the password of the private key.</summary>
    /// <param name="password">Password in clear text.</param>
    public void SetPassword(string password) => _password = password;

    /// <summary>Sets how the peer's certificate is verified. By default a client verifies, and a server requests
    /// none.</summary>
    /// <param name="mode">Verification mode. The host name is not compared.</param>
    public void SetVerifyMode(SslVerifyMode mode) => _mode = mode;

    /// <summary>Sets the longest accepted certificate chain.</summary>
    /// <param name="depth">Number of certificates above the peer's, at least 0.</param>
    public void SetVerifyDepth(int depth) => _depth = depth;

    /// <summary>Adds trusted roots to those of the system.</summary>
    /// <param name="filename">Path of a PEM file.</param>
    /// <exception cref="IOException">The file cannot be read.</exception>
    /// <exception cref="CryptographicException">The file contains no certificate.</exception>
    public void LoadVerifyFile(string filename)
    {
        int before = _roots.Count;
        _roots.ImportFromPemFile(filename);
        if (_roots.Count == before) throw new CryptographicException($"{filename} has no certificate in PEM form.");
    }

    /// <summary>Sets the certificate of this side, and its intermediates.</summary>
    /// <param name="filename">Path of a PEM file.</param>
    /// <exception cref="IOException">The file cannot be read.</exception>
    public void UseCertificateChainFile(string filename)
    {
        Require(filename);
        _chain = filename;
        Load();
    }

    /// <summary>Sets the private key of this side's certificate. Call <see cref="SetPassword"/> first if it is
    /// encrypted.</summary>
    /// <param name="filename">Path of the file.</param>
    /// <param name="format">Format of the file.</param>
    /// <exception cref="IOException">The file cannot be read.</exception>
    /// <exception cref="CryptographicException">The file has no private key, the password is wrong, or the key belongs
    /// to another certificate.</exception>
    public void UsePrivateKeyFile(string filename, SslFileFormat format)
    {
        Require(filename);
        _key = filename;
        _format = format;
        Load();
    }

    /// <summary>Checks that the file exists. Its Diffie-Hellman parameters are not used, because the system chooses
    /// better ones.</summary>
    /// <param name="filename">Path of the file.</param>
    /// <exception cref="FileNotFoundException">The file does not exist.</exception>
    public void UseTmpDHFile(string filename) => Require(filename);

    private static void Require(string filename)
    {
        if (!File.Exists(filename))
            throw new FileNotFoundException($"There is no file {Path.GetFullPath(filename)}.", filename);
    }

    // Loads as soon as both files are known, so that the call that named a wrong file throws.
    private void Load()
    {
        if (_chain is null || _key is null) return;
        if (_format == SslFileFormat.PEM)
        {
            string key = File.ReadAllText(_key);
            if (!key.Contains("PRIVATE KEY", StringComparison.Ordinal))
                throw new CryptographicException($"{_key} has no private key. Create one: whimbrel certs");
            if (IsEncrypted(_key) && _password is null)
                throw new CryptographicException(
                    $"The private key of {_key} is encrypted: call SetPassword before UsePrivateKeyFile.");
        }

        _certificate = _format == SslFileFormat.PEM
            ? TlsCertificate.FromPemFile(_chain, _key, IsEncrypted(_key) ? _password : null)
            : TlsCertificate.FromPem(File.ReadAllText(_chain), PemOf(File.ReadAllBytes(_key)));
        try
        {
            _ = _certificate.Current; // loads them
        }
        catch (CryptographicException e) when (_format == SslFileFormat.PEM && IsEncrypted(_key))
        {
            throw new CryptographicException($"{_key} cannot be opened with the password of SetPassword, or is not the "
                + $"key of {_chain}. {e.Message}", e);
        }
    }

    // A password for an unencrypted key is accepted.
    private static bool IsEncrypted(string key) =>
        File.ReadAllText(key).Contains("ENCRYPTED", StringComparison.Ordinal);

    private static string PemOf(byte[] key)
    {
        try
        {
            using RSA rsa = RSA.Create();
            rsa.ImportRSAPrivateKey(key, out _);
            return PemEncoding.WriteString("RSA PRIVATE KEY", key);
        }
        catch (CryptographicException)
        {
            return PemEncoding.WriteString("PRIVATE KEY", key);
        }
    }

    internal TlsOptions ForServer() => new()
    {
        Certificate = _certificate ?? throw new InvalidOperationException(
            "The SslContext of the server has no certificate: call UseCertificateChainFile and UsePrivateKeyFile."),
        Protocols = _protocols,
        ClientCertificates = _mode switch
        {
            null or SslVerifyMode.VerifyNone => TlsClientCertificates.Off,
            SslVerifyMode.VerifyPeer => TlsClientCertificates.Requested,
            _ => TlsClientCertificates.Required,
        },
        ExtraRoots = _roots,
        Verify = Check(),
    };

    internal TlsOptions ForClient(string name) => new()
    {
        Certificate = _certificate,
        Protocols = _protocols,
        HostName = name,
        ChecksHostName = false,
        ExtraRoots = _roots,
        Verify = _mode == SslVerifyMode.VerifyNone ? static _ => true : Check(),
    };

    private Func<TlsVerification, bool>? Check() =>
        _depth is { } depth ? v => v.IsTrusted && (v.Chain is null || v.Chain.ChainElements.Count <= depth + 1) : null;

    /// <summary>Does nothing: servers and clients that use the context continue.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Does nothing.</summary>
    /// <param name="disposing">True if called by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
    }
}
