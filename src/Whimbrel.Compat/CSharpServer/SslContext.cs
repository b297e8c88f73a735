using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel;

namespace CSharpServer;

/// <summary>Certificates and rules of TLS, out of files. Read when a server starts and when a client connects. Not for several threads at once.</summary>
public class SslContext : IDisposable
{
    private readonly SslProtocols _protocols;
    private readonly X509Certificate2Collection _roots = [];
    private SslVerifyMode? _mode;
    private int? _depth;
    private string? _chain, _key, _password;
    private SslFileFormat _format;
    private TlsCertificate? _certificate;

    /// <summary>For versions of TLS.</summary>
    /// <param name="method">TLSV12: 1.2. TLS and SSLV23: 1.2 and 1.3.</param>
    /// <exception cref="NotSupportedException">An older one, which is broken.</exception>
    public SslContext(SslMethod method) => _protocols = method switch
    {
        SslMethod.TLSV12 or SslMethod.TLSV12_client or SslMethod.TLSV12_server => SslProtocols.Tls12,
        SslMethod.TLS or SslMethod.TLS_Client or SslMethod.TLS_Server or SslMethod.SSLV23 or SslMethod.SSLV23_Client or SslMethod.SSLV23_Server => SslProtocols.Tls12 | SslProtocols.Tls13,
        _ => throw new NotSupportedException($"{method} is broken, and not spoken here: take SslMethod.TLS."),
    };

    /// <summary>The system's roots: they are taken anyway.</summary>
    public void SetDefaultVerifyPaths()
    {
    }

    /// <summary>The system's roots: they are taken anyway.</summary>
    public void SetRootCerts()
    {
    }

    /// <summary>The password of the private key.</summary>
    /// <param name="password">In clear.</param>
    public void SetPassword(string password) => _password = password;

    /// <summary>How the peer's certificate is looked at. Not set: a client verifies, a server asks for none.</summary>
    /// <param name="mode">Values may be joined. The name of the host is not compared.</param>
    public void SetVerifyMode(SslVerifyMode mode) => _mode = mode;

    /// <summary>How many certificates may stand above the peer's.</summary>
    /// <param name="depth">From 0 on.</param>
    public void SetVerifyDepth(int depth) => _depth = depth;

    /// <summary>Roots that are known beside the system's.</summary>
    /// <param name="filename">A PEM file.</param>
    /// <exception cref="IOException">It cannot be read.</exception>
    /// <exception cref="CryptographicException">It has no certificate.</exception>
    public void LoadVerifyFile(string filename)
    {
        int before = _roots.Count;
        _roots.ImportFromPemFile(filename);
        if (_roots.Count == before) throw new CryptographicException($"{filename} has no certificate in PEM form.");
    }

    /// <summary>The own certificate, and those above it.</summary>
    /// <param name="filename">A PEM file.</param>
    /// <exception cref="IOException">It cannot be read.</exception>
    public void UseCertificateChainFile(string filename)
    {
        Require(filename);
        _chain = filename;
        Load();
    }

    /// <summary>The private key of the own certificate. Its password is set before.</summary>
    /// <param name="filename">The file.</param>
    /// <param name="format">How it is written down.</param>
    /// <exception cref="IOException">It cannot be read.</exception>
    /// <exception cref="CryptographicException">It has no private key, another password, or is that of another certificate.</exception>
    public void UsePrivateKeyFile(string filename, SslFileFormat format)
    {
        Require(filename);
        _key = filename;
        _format = format;
        Load();
    }

    /// <summary>Parameters of Diffie-Hellman: not used, because the system chooses better ones.</summary>
    /// <param name="filename">The file.</param>
    /// <exception cref="FileNotFoundException">There is none.</exception>
    public void UseTmpDHFile(string filename) => Require(filename);

    private static void Require(string filename)
    {
        if (!File.Exists(filename)) throw new FileNotFoundException($"There is no file {Path.GetFullPath(filename)}.", filename);
    }

    // As soon as both files are known, so that what is wrong with them throws at the call that named them.
    private void Load()
    {
        if (_chain is null || _key is null) return;
        if (_format == SslFileFormat.PEM)
        {
            string key = File.ReadAllText(_key);
            if (!key.Contains("PRIVATE KEY", StringComparison.Ordinal)) throw new CryptographicException($"{_key} has no private key. Create one: whimbrel certs");
            if (IsEncrypted(_key) && _password is null) throw new CryptographicException($"The private key of {_key} is encrypted: call SetPassword before UsePrivateKeyFile.");
        }

        _certificate = _format == SslFileFormat.PEM
            ? TlsCertificate.FromPemFile(_chain, _key, IsEncrypted(_key) ? _password : null)
            : TlsCertificate.FromPem(File.ReadAllText(_chain), PemOf(File.ReadAllBytes(_key)));
        try
        {
            _ = _certificate.Current; // reads them
        }
        catch (CryptographicException e) when (_format == SslFileFormat.PEM && IsEncrypted(_key))
        {
            throw new CryptographicException($"{_key} cannot be opened with the password of SetPassword, or is not the key of {_chain}. {e.Message}", e);
        }
    }

    // A password that a key does not need is no mistake.
    private static bool IsEncrypted(string key) => File.ReadAllText(key).Contains("ENCRYPTED", StringComparison.Ordinal);

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
        Certificate = _certificate ?? throw new InvalidOperationException("The SslContext of the server has no certificate: call UseCertificateChainFile and UsePrivateKeyFile."),
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

    private Func<TlsVerification, bool>? Check() => _depth is { } depth ? v => v.IsTrusted && (v.Chain is null || v.Chain.ChainElements.Count <= depth + 1) : null;

    /// <summary>Is done with it; servers and clients that use it go on.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Is done with it.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
    }
}
