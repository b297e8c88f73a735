using System.Globalization;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// A certificate with its private key and its intermediate certificates. One object may be shared. If it was created
/// from files, changes of the files are detected and used for the next handshakes; existing connections and handshakes
/// keep the old certificate. Any thread.
/// </summary>
public sealed class TlsCertificate
{
    private readonly Func<TlsKeyPair>? _load;
    private readonly string[] _files = [];
    private readonly Lock _gate = new();
    private TlsKeyPair? _current;
    private string _stamp = "";
    private string? _loadMistake;
    private long _lookedAtMs = long.MinValue / 2;
    private int _reloads;

    private TlsCertificate(string source, Func<TlsKeyPair>? load, params string?[] files)
    {
        Source = source;
        _load = load;
        _files = [.. files.OfType<string>()];
    }

    /// <summary>Source of the certificate, as in messages.</summary>
    public string Source { get; }

    /// <summary>
    /// Certificate that the next handshake presents. Throws the exception of loading if nothing could be loaded yet.
    /// </summary>
    public X509Certificate2 Current => Take().Leaf;

    /// <summary>Number of times that the certificate was replaced.</summary>
    public int ReloadCount => Volatile.Read(ref _reloads);

    // ------------------------------------------------------------------ sources

    /// <summary>
    /// Creates a certificate from a PEM file with the certificate first, then its intermediates, and the key in the
    /// same or another file.
    /// </summary>
    /// <param name="certificatePath">Path of the certificates, as ACME clients write them (fullchain.pem).</param>
    /// <param name="keyPath">Path of the private key; null if it is in the same file.</param>
    /// <param name="password">Password of an encrypted key.</param>
    public static TlsCertificate FromPemFile(string certificatePath, string? keyPath = null, string? password = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(certificatePath);
        return new TlsCertificate(
            certificatePath,
            () => ReadPem(File.ReadAllText(certificatePath), File.ReadAllText(keyPath ?? certificatePath), password),
            certificatePath,
            keyPath);
    }

    /// <summary>
    /// Creates a certificate from PEM text: the certificate first, then its intermediates, and the key.
    /// </summary>
    /// <param name="certificates">PEM text of the certificates.</param>
    /// <param name="key">PEM text of the private key; null if it is in the same text.</param>
    /// <param name="password">Password of an encrypted key.</param>
    public static TlsCertificate FromPem(string certificates, string? key = null, string? password = null)
    {
        ArgumentNullException.ThrowIfNull(certificates);
        return new TlsCertificate("the PEM text", () => ReadPem(certificates, key ?? certificates, password));
    }

    /// <summary>
    /// Creates a certificate from a PFX file (PKCS#12) with certificate, key and optional intermediates.
    /// </summary>
    /// <param name="path">Path of the file.</param>
    /// <param name="password">Password of the file, or null.</param>
    public static TlsCertificate FromPfxFile(string path, string? password = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        return new TlsCertificate(path, () => ReadPfx(File.ReadAllBytes(path), password), path);
    }

    /// <summary>
    /// Finds a certificate with a usable private key in the system's store; of several, the one that is valid longest.
    /// </summary>
    /// <param name="subject">Part of the subject, or the thumbprint.</param>
    /// <param name="store">Name of the store; "My" has the user's own certificates.</param>
    /// <param name="location">Store of the user or of the machine.</param>
    public static TlsCertificate FromStore(string subject, StoreName store = StoreName.My,
        StoreLocation location = StoreLocation.CurrentUser)
    {
        ArgumentException.ThrowIfNullOrEmpty(subject);
        return new TlsCertificate($"the certificate '{subject}' of the store {location}/{store}",
            () => ReadStore(subject, store, location));
    }

    /// <summary>Wraps a loaded certificate with its private key.</summary>
    /// <param name="certificate">Certificate with private key. Not disposed.</param>
    /// <param name="intermediates">Certificates that are sent with it, the issuer first.</param>
    public static TlsCertificate From(X509Certificate2 certificate, X509Certificate2Collection? intermediates = null)
    {
        ArgumentNullException.ThrowIfNull(certificate);
        return new TlsCertificate($"the certificate '{certificate.Subject}'", null)
        {
            _current = new TlsKeyPair(certificate, intermediates ?? [])
        };
    }

    /// <summary>
    /// Returns the SHA-256 of the certificate's public key in base64, for <see cref="TlsOptions.PinnedKeys"/>.
    /// </summary>
    /// <param name="certificate">Any certificate; its private key is not needed.</param>
    public static string PinOf(X509Certificate2 certificate)
    {
        ArgumentNullException.ThrowIfNull(certificate);
        return Convert.ToBase64String(SHA256.HashData(certificate.PublicKey.ExportSubjectPublicKeyInfo()));
    }

    /// <summary>
    /// Loads the files again, now. If that fails, it throws and keeps the current certificate. Has no effect without
    /// files.
    /// </summary>
    public void Reload()
    {
        if (_load is null) return;
        lock (_gate)
        {
            string stamp = StampOfFiles();
            TlsKeyPair fresh = Load();
            _stamp = stamp;
            Replace(fresh);
        }
    }

    /// <summary>Returns the source.</summary>
    public override string ToString() => Source;

    // ------------------------------------------------------------------ for providers

    /// <summary>
    /// Minimum interval in milliseconds between two checks of the files by handshakes. Tests shorten it.
    /// </summary>
    internal long LookEveryMs { get; set; } = 2_000;

    /// <summary>Returns the certificate for the next handshake, and loads it if needed.</summary>
    internal TlsKeyPair Take()
    {
        if (Volatile.Read(ref _current) is { } current) return current;
        lock (_gate)
        {
            if (_current is not null) return _current;
            _stamp = StampOfFiles();
            Volatile.Write(ref _current, Load());
            return _current!;
        }
    }

    /// <summary>
    /// Checks at the begin of a handshake whether the files have changed, if the last check is older than
    /// <see cref="LookEveryMs"/>, and loads them before the handshake continues. So no handshake presents a certificate
    /// that was replaced longer ago than that. Runs on the loop's thread: a check costs some microseconds, loading some
    /// milliseconds, once for each renewal. Handshakes of other loops wait for the check.
    /// </summary>
    internal void LookAtFiles(Engine engine, ConnectionHost host)
    {
        if (_files.Length == 0) return;
        long nowMs = engine.NowMs;
        if (nowMs - Volatile.Read(ref _lookedAtMs) < LookEveryMs) return;
        string? failure = null;
        // tidy: allowed because it is taken once in two seconds, and the waiting handshakes need the certificate
        lock (_gate)
        {
            if (nowMs - _lookedAtMs < LookEveryMs) return;
            try
            {
                string stamp = StampOfFiles();
                if (stamp != _stamp)
                {
                    Replace(Load());
                    // Set only now, so that a file that is still being written is tried again.
                    _stamp = stamp;
                }
            }
            catch (Exception e)
                when (e is IOException or UnauthorizedAccessException or CryptographicException or ArgumentException)
            {
                failure = $"{Failure("has changed and cannot be loaded", e)}. The old certificate stays in use; the "
                    + $"file is tried again.";
            }

            Volatile.Write(ref _lookedAtMs, nowMs);
        }

        if (failure is not null) host.NoteCertificate(failure);
    }

    /// <summary>Mistake for the start of a server or client, or null if the certificate is usable.</summary>
    internal string? Mistake
    {
        get
        {
            if (_loadMistake is not null) return _loadMistake;
            try
            {
                TlsKeyPair pair = Take();
                return pair.Leaf.HasPrivateKey ? null : $"{Source} has no private key. Create one: whimbrel certs";
            }
            catch (Exception e)
                when (e is IOException or UnauthorizedAccessException or CryptographicException or ArgumentException)
            {
                return Failure("cannot be loaded", e);
            }
        }
    }

    /// <summary>Returns a message if the certificate has expired, otherwise null.</summary>
    internal string? DateMistake(DateTimeOffset now) =>
        now > Take().Leaf.NotAfter ? $"{Source} expired {Date(Take().Leaf.NotAfter)}" : null;

    internal bool Covers(string name)
    {
        X509Certificate2 leaf = Take().Leaf;
        // A wildcard of the table is covered by the same wildcard of the certificate.
        return leaf.MatchesHostname(name.StartsWith("*.", StringComparison.Ordinal) ? "any" + name[1..] : name,
            allowWildcards: true, allowCommonName: false);
    }

    internal static string Date(DateTime date) =>
        date.ToUniversalTime().ToString("yyyy-MM-dd", CultureInfo.InvariantCulture);

    // ------------------------------------------------------------------ loading

    private TlsKeyPair Load()
    {
        try
        {
            TlsKeyPair pair = _load!();
            _loadMistake = null;
            return pair;
        }
        catch (CryptographicException e)
        {
            throw new CryptographicException(Failure("cannot be loaded", e), e);
        }
    }

    /// <summary>
    /// Returns a message without a full stop. An inner message with the same beginning is not repeated.
    /// </summary>
    private string Failure(string what, Exception exception)
    {
        Exception cause = exception is CryptographicException { InnerException: { } inner }
            && exception.Message.StartsWith(Source, StringComparison.Ordinal) ? inner : exception;
        return $"{Source} {what}: {ErrorText.WithoutStop(cause.Message)}";
    }

    private void Replace(TlsKeyPair fresh)
    {
        if (_current is { } old && old.Leaf.RawDataMemory.Span.SequenceEqual(fresh.Leaf.RawDataMemory.Span)) return;
        Volatile.Write(ref _current, fresh);
        Interlocked.Increment(ref _reloads);
    }

    private string StampOfFiles()
    {
        string stamp = "";
        foreach (string file in _files)
        {
            FileInfo facts = new(file);
            stamp += facts.Exists
                ? $"{facts.LastWriteTimeUtc.Ticks}/{facts.Length}/{facts.ResolveLinkTarget(true)?.FullName};"
                : "-;";
        }

        return stamp;
    }

    private static TlsKeyPair ReadPem(string certificates, string key, string? password)
    {
        X509Certificate2Collection all = [];
        all.ImportFromPem(certificates);
        if (all.Count == 0)
            throw new CryptographicException("there is no certificate in it (a PFX file is read by FromPfxFile)");
        using X509Certificate2 made = WithKey(certificates, key, password);
        X509Certificate2Collection rest = [];
        for (int i = 1; i < all.Count; i++) rest.Add(all[i]);
        all[0].Dispose();
        // Through PKCS#12, because on some systems the key of a certificate created from PEM cannot be used for TLS.
        return new TlsKeyPair(X509CertificateLoader.LoadPkcs12(made.Export(X509ContentType.Pkcs12), null), rest);
    }

    // The framework reports every unreadable key as invalid PEM.
    private static X509Certificate2 WithKey(string certificates, string key, string? password)
    {
        bool isEncrypted = key.Contains("-----BEGIN ENCRYPTED PRIVATE KEY-----", StringComparison.Ordinal);
        if (isEncrypted && password is null)
            throw new CryptographicException("its key is encrypted, and no password was given");
        if (!isEncrypted && password is not null && key.Contains("PRIVATE KEY-----", StringComparison.Ordinal)
            && !key.Contains("Proc-Type: 4,ENCRYPTED", StringComparison.Ordinal))
            throw new CryptographicException(
                "a password was given, and its key is not encrypted: leave the password out");
        if (!isEncrypted && key.Contains("Proc-Type: 4,ENCRYPTED", StringComparison.Ordinal))
            throw new CryptographicException("its key is encrypted in the old form of OpenSSL, which is not read. In "
                + "the new one: openssl pkcs8 -topk8 -in OLD.key -out NEW.key");
        try
        {
            return isEncrypted
                ? X509Certificate2.CreateFromEncryptedPem(certificates, key, password)
                : X509Certificate2.CreateFromPem(certificates, key);
        }
        catch (CryptographicException e) when (isEncrypted)
        {
            throw new CryptographicException(
                "the password does not open its key, or the key is that of another certificate", e);
        }
    }

    private static TlsKeyPair ReadPfx(byte[] bytes, string? password)
    {
        if (bytes.AsSpan().IndexOf("-----BEGIN "u8) >= 0)
            throw new CryptographicException("it is PEM and no PFX: read it with FromPemFile");
        X509Certificate2Collection all = X509CertificateLoader.LoadPkcs12Collection(bytes, password);
        X509Certificate2? leaf = null;
        foreach (X509Certificate2 certificate in all)
        {
            if (certificate.HasPrivateKey) leaf ??= certificate;
        }

        leaf ??= all.Count > 0 ? all[0] : throw new CryptographicException("there is no certificate in it");
        return new TlsKeyPair(leaf, Ordered(leaf, all));
    }

    /// <summary>Returns the chain of issuers in order; files contain them in any order.</summary>
    private static X509Certificate2Collection Ordered(X509Certificate2 leaf, X509Certificate2Collection all)
    {
        X509Certificate2Collection ordered = [];
        X509Certificate2 last = leaf;
        while (true)
        {
            X509Certificate2? issuer = null;
            foreach (X509Certificate2 candidate in all)
            {
                if (!ReferenceEquals(candidate, leaf) && !ordered.Contains(candidate)
                    && candidate.SubjectName.RawData.AsSpan().SequenceEqual(last.IssuerName.RawData))
                    issuer = candidate;
            }

            if (issuer is null) return ordered;
            ordered.Add(issuer);
            last = issuer;
        }
    }

    private static TlsKeyPair ReadStore(string subject, StoreName name, StoreLocation location)
    {
        using X509Store store = new(name, location);
        store.Open(OpenFlags.ReadOnly | OpenFlags.OpenExistingOnly);
        X509Certificate2Collection found = store.Certificates.Find(X509FindType.FindByThumbprint, subject,
            validOnly: false);
        if (found.Count == 0)
            found = store.Certificates.Find(X509FindType.FindBySubjectName, subject, validOnly: false);
        X509Certificate2? best = null;
        foreach (X509Certificate2 candidate in found)
        {
            if (candidate.HasPrivateKey && (best is null || candidate.NotAfter > best.NotAfter)) best = candidate;
        }

        return new TlsKeyPair(best ?? throw new CryptographicException("the store has none with a private key"), []);
    }
}
