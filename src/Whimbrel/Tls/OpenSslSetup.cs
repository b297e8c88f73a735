using System.Buffers.Binary;
using System.Net.Security;
using System.Runtime.InteropServices;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Tls;

/// <summary>
/// One prepared SSL_CTX: options and a certificate as of one moment. Immutable; a new certificate or new ticket keys
/// lead to a new one (<see cref="OpenSslProfile"/>). Connections keep the context alive with OpenSSL's own count, so
/// this object releases it when no further connection can be started from it. Any thread.
/// </summary>
// Safe: every pointer that is passed is pinned or on the stack for the call, and OpenSSL copies or counts what it
// keeps.
internal sealed unsafe class OpenSslSetup
{
    private const int DefaultTickets = 1;
    private const int MostKeptSessions = 1024;
    private const int MostAuthorities = 100;
    private const int KeyTypeDh = 28;
    private const int SessionIdBytes = 16;
    private const int TicketKeyBytes = 80; // name 16, HMAC-SHA256 32, AES-256 32

    /// <summary>112 bits: RSA 2,048, SHA-224.</summary>
    private const int OwnLevel = 2;

    private static long s_made;

    /// <summary>
    /// Creates the context. Throws ArgumentException with the option's name, or CryptographicException about the
    /// certificate.
    /// </summary>
    internal OpenSslSetup(TlsOptions options, bool isServer, TlsKeyPair? keyPair, long nowMs)
    {
        KeyPair = keyPair;
        MadeAtMs = nowMs;
        TicketSecret = isServer ? options.TicketKeys?.Secret : null;
        OpenSslApi.ClearErrors();
        Handle = OpenSslApi.ContextNew(OpenSslApi.TlsMethod());
        // From here on the finalizer frees it, also if the rest throws.
        if (Handle == 0) throw new CryptographicException($"OpenSSL made no context: {OpenSslErrors.Take()}");

        _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlMode, OpenSslApi.Modes, null);
        // Unread input stays with the connection: data that the session has not requested is not read into OpenSSL's
        // buffers.
        _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlReadAhead, 0, null);
        _ = OpenSslApi.ContextSetOptions(Handle, OpenSslApi.OptionNoCompression | OpenSslApi.OptionNoRenegotiation);
        OpenSslCallbacks.Install(Handle);
        UseVersions(options);
        UseCiphers(options);
        UseSecurityLevel(options, keyPair);
        if (keyPair is not null) UseKeyPair(keyPair);
        UseProtocols(options, isServer);
        if (isServer) UseServerRules(options);
        else UseClientRules();
    }

    ~OpenSslSetup()
    {
        if (Handle != 0) OpenSslApi.ContextFree(Handle);
    }

    /// <summary>The SSL_CTX. The caller keeps this object alive while using it.</summary>
    internal nint Handle { get; }

    internal TlsKeyPair? KeyPair { get; }

    internal long MadeAtMs { get; }

    /// <summary>Secret from which its ticket keys are derived; null for random keys.</summary>
    internal byte[]? TicketSecret { get; }

    // ------------------------------------------------------------------ versions, ciphers, application protocols

    private void UseVersions(TlsOptions options)
    {
        SslProtocols allowed = options.AllowedProtocols;
        int least = (allowed & SslProtocols.Tls12) != 0 ? OpenSslApi.Tls12 : OpenSslApi.Tls13;
        int most = (allowed & SslProtocols.Tls13) != 0 ? OpenSslApi.Tls13 : OpenSslApi.Tls12;
        if (OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlMinVersion, least, null) != 1
            || OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlMaxVersion, most, null) != 1)
        {
            throw new ArgumentException(
                $"Tls.Protocols = {options.Protocols}: this OpenSSL refuses it: {OpenSslErrors.Take()}");
        }
    }

    /// <summary>
    /// Sets the security level: as strict as the system, and at least 2. Certificates of peers are checked by
    /// <see cref="TlsTrust"/>; a lower level is for a weak certificate that this side is allowed to present.
    /// </summary>
    private void UseSecurityLevel(TlsOptions options, TlsKeyPair? keyPair)
    {
        int level = Math.Max(OpenSslApi.ContextSecurityLevel(Handle), OwnLevel);
        TlsWeakAlgorithms shown = TlsWeakAlgorithms.None;
        if (keyPair is not null && options.AllowedWeakAlgorithms != TlsWeakAlgorithms.None)
        {
            foreach (X509Certificate2 own in (IEnumerable<X509Certificate2>)[keyPair.Leaf, .. keyPair.Intermediates])
                shown |= CertificateStrength.WeaknessOf(own) & options.AllowedWeakAlgorithms;
        }

        // Level 1 allows RSA of 1,024 bits; SHA-1 is below that.
        if ((shown & TlsWeakAlgorithms.Rsa1024Key) != 0) level = Math.Min(level, 1);
        if ((shown & TlsWeakAlgorithms.Sha1Signature) != 0) level = 0;
        OpenSslApi.ContextSetSecurityLevel(Handle, level);
    }

    // Suites of 1.3 and of 1.2 are in two lists. If the policy contains none of a version, that version is disabled.
    private void UseCiphers(TlsOptions options)
    {
        if (options.CipherSuites.Count == 0) return;
        var modern = new List<string>();
        var classic = new List<string>();
        Dictionary<ushort, string> known = KnownCiphers();
        foreach (TlsCipherSuite suite in options.CipherSuites)
        {
            if (!known.TryGetValue((ushort)suite, out string? name))
                throw new ArgumentException(
                    $"Tls.CipherSuites names {suite}, which OpenSSL {OpenSslLibrary.Version} does not have");
            (((ushort)suite >> 8) == 0x13 ? modern : classic).Add(name);
        }

        SslProtocols allowed = options.AllowedProtocols;
        bool isModern = modern.Count > 0 && (allowed & SslProtocols.Tls13) != 0;
        bool isClassic = classic.Count > 0 && (allowed & SslProtocols.Tls12) != 0;
        if (!isModern && !isClassic)
            throw new ArgumentException($"Tls.CipherSuites has no suite for Tls.Protocols = {options.Protocols}");
        if (!isModern) _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlMaxVersion, OpenSslApi.Tls12, null);
        if (!isClassic) _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlMinVersion, OpenSslApi.Tls13, null);
        fixed (byte* list = NativeText(string.Join(':', modern)))
        {
            if (OpenSslApi.ContextSetCipherSuites(Handle, list) != 1)
                throw new ArgumentException($"Tls.CipherSuites: {OpenSslErrors.Take()}");
        }

        if (isClassic)
        {
            fixed (byte* list = NativeText(string.Join(':', classic)))
            {
                if (OpenSslApi.ContextSetCipherList(Handle, list) != 1)
                    throw new ArgumentException($"Tls.CipherSuites: {OpenSslErrors.Take()}");
            }
        }

        // The given order has precedence over the client's.
        _ = OpenSslApi.ContextSetOptions(Handle, OpenSslApi.OptionCipherServerPreference);
    }

    /// <summary>
    /// Returns all suites of this OpenSSL, whatever the system's policy allows: by number, because its names for 1.2
    /// differ.
    /// </summary>
    private static Dictionary<ushort, string> KnownCiphers()
    {
        var known = new Dictionary<ushort, string>();
        nint all = OpenSslApi.ContextNew(OpenSslApi.TlsMethod());
        if (all == 0) throw new CryptographicException($"OpenSSL made no context: {OpenSslErrors.Take()}");
        try
        {
            fixed (byte* everything = "ALL:@SECLEVEL=0\0"u8) _ = OpenSslApi.ContextSetCipherList(all, everything);
            fixed (byte* modern = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"u8
                + "TLS_AES_128_CCM_SHA256:TLS_AES_128_CCM_8_SHA256\0"u8)
            {
                _ = OpenSslApi.ContextSetCipherSuites(all, modern);
            }

            nint ciphers = OpenSslApi.ContextCiphers(all);
            for (int i = 0; i < OpenSslApi.StackCount(ciphers); i++)
            {
                nint cipher = OpenSslApi.StackItem(ciphers, i);
                known[OpenSslApi.CipherId(cipher)] = Marshal.PtrToStringUTF8((nint)OpenSslApi.CipherName(cipher))!;
            }
        }
        finally
        {
            OpenSslApi.ContextFree(all);
            OpenSslApi.ClearErrors();
        }

        return known;
    }

    private void UseProtocols(TlsOptions options, bool isServer)
    {
        if (options.ApplicationProtocols.Count == 0) return;
        if (isServer)
        {
            OpenSslCallbacks.InstallAlpn(Handle, OpenSslProtocolList.Of(options.ApplicationProtocols));
            return;
        }

        byte[] wire = OpenSslProtocolList.WireOf(options.ApplicationProtocols);
        fixed (byte* list = wire)
        {
            if (OpenSslApi.ContextSetAlpnProtocols(Handle, list, (uint)wire.Length) != 0)
                throw new ArgumentException($"Tls.ApplicationProtocols: {OpenSslErrors.Take()}");
        }
    }

    // ------------------------------------------------------------------ certificate and key

    private void UseKeyPair(TlsKeyPair keyPair)
    {
        if (OpenSslApi.ContextUseCertificate(Handle, keyPair.Leaf.Handle) != 1) throw Unusable(keyPair);
        GC.KeepAlive(keyPair.Leaf);
        OpenSslKey.Use(Handle, keyPair.Leaf);
        if (OpenSslApi.ContextCheckPrivateKey(Handle) != 1) throw Unusable(keyPair);
        foreach (var intermediate in keyPair.Intermediates)
        {
            // Adds a reference, which is released with the context.
            if (OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlChainCertificate, 1, (void*)intermediate.Handle) != 1)
                throw Unusable(keyPair);
            GC.KeepAlive(intermediate);
        }
    }

    private static CryptographicException Unusable(TlsKeyPair keyPair) =>
        new($"The certificate '{keyPair.Leaf.Subject}' cannot be used: {OpenSslErrors.Take()}");

    // ------------------------------------------------------------------ the two roles

    private void UseServerRules(TlsOptions options)
    {
        bool asksForCertificates = options.ClientCertificates != TlsClientCertificates.Off;
        if (asksForCertificates)
        {
            // OpenSSL calls no callback for a client without a certificate: if the application has a Verify callback,
            // it is called after the handshake.
            bool isRequired = options.ClientCertificates == TlsClientCertificates.Required && options.Verify is null;
            OpenSslApi.ContextSetVerify(Handle,
                OpenSslApi.VerifyPeer | (isRequired ? OpenSslApi.VerifyFailIfNoPeerCertificate : 0), 0);
            NameAuthorities(options);
        }

        UseSessions(options, asksForCertificates);
        UseDhParameters(options);
    }

    /// <summary>Sends clients the accepted authorities, so that they select the right certificate.</summary>
    private void NameAuthorities(TlsOptions options)
    {
        if (options.Roots is not { } roots || roots.Count > MostAuthorities) return;
        foreach (var root in roots)
        {
            if (OpenSslApi.ContextAddClientAuthority(Handle, root.Handle) != 1)
                throw new ArgumentException(
                    $"Tls.Roots has '{root.Subject}', which OpenSSL does not take: {OpenSslErrors.Take()}");
            GC.KeepAlive(root);
        }
    }

    /// <summary>
    /// Configures session resumption. Without client certificates sessions are in tickets, and nothing is stored here.
    /// With client certificates a bounded number of sessions is stored here. A ticket contains the client's own
    /// certificate only, and without the intermediates it could not be verified again.
    /// </summary>
    private void UseSessions(TlsOptions options, bool asksForCertificates)
    {
        // A session is valid only in the context that issued it: ticket keys belong to the context, and this id is
        // checked with them. With a shared secret both are the same for all servers with this certificate.
        byte* id = stackalloc byte[SessionIdBytes];
        BinaryPrimitives.WriteInt64LittleEndian(new Span<byte>(id, 8), Interlocked.Increment(ref s_made));
        BinaryPrimitives.WriteInt64LittleEndian(new Span<byte>(id + 8, 8), (long)options.ClientCertificates);
        if (TicketSecret is { } secret && !asksForCertificates)
            UseTicketKeys(secret, new Span<byte>(id, SessionIdBytes));
        _ = OpenSslApi.ContextSetSessionIdContext(Handle, id, SessionIdBytes);

        int tickets = options.AllowResumption ? options.TicketCount ?? DefaultTickets : 0;
        _ = OpenSslApi.ContextSetTickets(Handle, (nuint)tickets);
        if (options.TicketLifetime is { } life) _ = OpenSslApi.ContextSetTimeout(Handle, (nint)life.TotalSeconds);
        bool isKeptHere = asksForCertificates && tickets > 0;
        _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlSessionCacheMode,
            isKeptHere ? OpenSslApi.SessionCacheServer : OpenSslApi.SessionCacheOff, null);
        if (isKeptHere) _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlSessionCacheSize, MostKeptSessions, null);
        if (asksForCertificates || tickets == 0) _ = OpenSslApi.ContextSetOptions(Handle, OpenSslApi.OptionNoTicket);
    }

    private void UseTicketKeys(byte[] secret, Span<byte> id)
    {
        byte[] certificate = KeyPair?.Leaf.RawData ?? [];
        Span<byte> keys = stackalloc byte[TicketKeyBytes];
        TlsTicketKeys.Derive(secret, "whimbrel ticket keys"u8, certificate, keys);
        TlsTicketKeys.Derive(secret, "whimbrel session id"u8, certificate, id);
        fixed (byte* bytes = keys)
        {
            if (OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlTicketKeys, TicketKeyBytes, bytes) != 1)
                throw new CryptographicException($"OpenSSL does not take ticket keys: {OpenSslErrors.Take()}");
        }

        CryptographicOperations.ZeroMemory(keys);
    }

    private void UseDhParameters(TlsOptions options)
    {
        if (options.DhParametersFile is not { } file)
        {
            // The standard groups, by the size of the key.
            _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlDhAuto, 1, null);
            return;
        }

        byte[] der = ReadDhParameters(file);
        fixed (byte* bytes = der)
        {
            byte* at = bytes;
            nint key = OpenSslApi.ReadKeyParameters(KeyTypeDh, null, &at, der.Length);
            if (key == 0) throw new ArgumentException($"Tls.DhParametersFile = {file}: {OpenSslErrors.Take()}");
            if (OpenSslApi.ContextSetDhParameters(Handle, key) == 1) return;
            OpenSslApi.KeyFree(key);
            throw new ArgumentException($"Tls.DhParametersFile = {file}: {OpenSslErrors.Take()}");
        }
    }

    private static byte[] ReadDhParameters(string file)
    {
        string text;
        try
        {
            text = File.ReadAllText(file);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw new ArgumentException($"Tls.DhParametersFile = {file}: {e.Message}", e);
        }

        if (!PemEncoding.TryFind(text, out PemFields fields) || text[fields.Label] is not "DH PARAMETERS")
        {
            throw new ArgumentException($"Tls.DhParametersFile = {file}: there are no DH PARAMETERS in it. Create "
                + $"them: openssl dhparam -out {file} 2048");
        }

        return Convert.FromBase64String(text[fields.Base64Data]);
    }

    private void UseClientRules()
    {
        OpenSslApi.ContextSetVerify(Handle, OpenSslApi.VerifyPeer, 0);
        // Sessions are stored by host (OpenSslSessions), which OpenSSL's own cache cannot distinguish.
        _ = OpenSslApi.ContextControl(Handle, OpenSslApi.CtrlSessionCacheMode, OpenSslApi.SessionCacheOff, null);
    }

    private static byte[] NativeText(string text) => Encoding.ASCII.GetBytes(text + "\0");
}
