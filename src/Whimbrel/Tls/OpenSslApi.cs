using System.Runtime.InteropServices;

namespace Whimbrel.Tls;

/// <summary>
/// The functions of OpenSSL 3 that the direct TLS layer calls, without policy. Names of the C library without their
/// prefix; handles are nint. Blittable DllImports of the exact library names, as for system calls (docs/design/0003).
/// They are called only after <see cref="OpenSslLibrary.Load"/> has found the libraries in the right version. Safe to
/// call with pointers that stay valid for the call, except where a comment says that OpenSSL keeps them.
/// </summary>
internal static unsafe class OpenSslApi
{
    internal const string Ssl = "libssl.so.3";
    internal const string Crypto = "libcrypto.so.3";

    internal const int ErrorWantRead = 2;
    internal const int ErrorWantWrite = 3;
    internal const int ErrorZeroReturn = 6;
    internal const int ErrorWantRetryVerify = 12;

    internal const int CtrlMode = 33;
    internal const int CtrlReadAhead = 41;
    internal const int CtrlSessionCacheMode = 44;
    internal const int CtrlSessionCacheSize = 42;
    internal const int CtrlHostName = 55;
    internal const int CtrlTicketKeys = 59;
    internal const int CtrlChainCertificate = 89;
    internal const int CtrlDhAuto = 118;
    internal const int CtrlMinVersion = 123;
    internal const int CtrlMaxVersion = 124;
    internal const int CtrlRetryVerify = 136;

    /// <summary>
    /// PARTIAL_WRITE, ACCEPT_MOVING_WRITE_BUFFER, NO_AUTO_CHAIN (otherwise it searches for issuers in each handshake),
    /// RELEASE_BUFFERS.
    /// </summary>
    internal const int Modes = 1 | 2 | 8 | 16;

    internal const int SessionCacheOff = 0;
    internal const int SessionCacheServer = 2;

    internal const ulong OptionNoTicket = 1UL << 14;
    internal const ulong OptionNoCompression = 1UL << 17;
    internal const ulong OptionNoRenegotiation = 1UL << 30;
    internal const ulong OptionCipherServerPreference = 1UL << 22;

    internal const int Tls12 = 0x303;
    internal const int Tls13 = 0x304;

    internal const int VerifyPeer = 1;
    internal const int VerifyFailIfNoPeerCertificate = 2;

    internal const int ShutdownSent = 1;
    internal const int ShutdownReceived = 2;

    internal const int BioRead = 1;
    internal const int BioWrite = 2;
    internal const int BioRetry = 8;
    internal const int BioSourceSink = 0x400;

    // ------------------------------------------------------------------ libssl: set up

    [DllImport(Ssl, EntryPoint = "OPENSSL_init_ssl")]
    internal static extern int Init(ulong options, nint settings);

    [DllImport(Ssl, EntryPoint = "TLS_method")]
    internal static extern nint TlsMethod();

    [DllImport(Ssl, EntryPoint = "SSL_CTX_new")]
    internal static extern nint ContextNew(nint method);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_free")]
    internal static extern void ContextFree(nint context);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_ctrl")]
    internal static extern nint ContextControl(nint context, int command, nint number, void* pointer);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_get_security_level")]
    internal static extern int ContextSecurityLevel(nint context);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_security_level")]
    internal static extern void ContextSetSecurityLevel(nint context, int level);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_options")]
    internal static extern ulong ContextSetOptions(nint context, ulong options);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_cipher_list")]
    internal static extern int ContextSetCipherList(nint context, byte* names);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_ciphersuites")]
    internal static extern int ContextSetCipherSuites(nint context, byte* names);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_num_tickets")]
    internal static extern int ContextSetTickets(nint context, nuint count);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_timeout")]
    internal static extern nint ContextSetTimeout(nint context, nint seconds);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_session_id_context")]
    internal static extern int ContextSetSessionIdContext(nint context, byte* id, uint length);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_use_certificate")]
    internal static extern int ContextUseCertificate(nint context, nint certificate);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_use_PrivateKey")]
    internal static extern int ContextUsePrivateKey(nint context, nint key);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_check_private_key")]
    internal static extern int ContextCheckPrivateKey(nint context);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_add_client_CA")]
    internal static extern int ContextAddClientAuthority(nint context, nint certificate);

    /// <summary>Takes ownership of the key if it returns 1.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_CTX_set0_tmp_dh_pkey")]
    internal static extern int ContextSetDhParameters(nint context, nint key);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_verify")]
    internal static extern void ContextSetVerify(nint context, int mode, nint callback);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_cert_verify_callback")]
    internal static extern void ContextSetVerifyCallback(nint context,
        delegate* unmanaged[Cdecl]<nint, nint, int> callback, nint argument);

    /// <summary>Keeps <paramref name="argument"/>.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_alpn_select_cb")]
    internal static extern void ContextSetAlpnCallback(nint context,
        delegate* unmanaged[Cdecl]<nint, byte**, byte*, byte*, uint, nint, int> callback, nint argument);

    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_info_callback")]
    internal static extern void ContextSetInfoCallback(nint context,
        delegate* unmanaged[Cdecl]<nint, int, int, void> callback);

    /// <summary>0 is success.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_CTX_set_alpn_protos")]
    internal static extern int ContextSetAlpnProtocols(nint context, byte* list, uint length);

    /// <summary>The stack belongs to the context.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_CTX_get_ciphers")]
    internal static extern nint ContextCiphers(nint context);

    /// <summary>A constant of the library.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_CIPHER_get_name")]
    internal static extern byte* CipherName(nint cipher);

    // ------------------------------------------------------------------ libssl: one connection

    [DllImport(Ssl, EntryPoint = "SSL_new")]
    internal static extern nint New(nint context);

    [DllImport(Ssl, EntryPoint = "SSL_free")]
    internal static extern void Free(nint ssl);

    /// <summary>Takes ownership of both BIOs.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_set_bio")]
    internal static extern void SetBio(nint ssl, nint read, nint write);

    [DllImport(Ssl, EntryPoint = "SSL_get_rbio"), SuppressGCTransition]
    internal static extern nint GetReadBio(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_set_accept_state")]
    internal static extern void SetAcceptState(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_set_connect_state")]
    internal static extern void SetConnectState(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_do_handshake")]
    internal static extern int DoHandshake(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_read_ex")]
    internal static extern int Read(nint ssl, byte* buffer, nuint length, nuint* count);

    [DllImport(Ssl, EntryPoint = "SSL_write_ex")]
    internal static extern int Write(nint ssl, byte* buffer, nuint length, nuint* count);

    [DllImport(Ssl, EntryPoint = "SSL_get_error")]
    internal static extern int GetError(nint ssl, int result);

    [DllImport(Ssl, EntryPoint = "SSL_shutdown")]
    internal static extern int Shutdown(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_set_shutdown")]
    internal static extern void SetShutdown(nint ssl, int mode);

    [DllImport(Ssl, EntryPoint = "SSL_ctrl")]
    internal static extern nint Control(nint ssl, int command, nint number, void* pointer);

    /// <summary>The bytes belong to the session.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_get0_alpn_selected")]
    internal static extern void GetAlpn(nint ssl, byte** protocol, uint* length);

    [DllImport(Ssl, EntryPoint = "SSL_get_ex_data_X509_STORE_CTX_idx")]
    internal static extern int StoreIndexOfSsl();

    [DllImport(Ssl, EntryPoint = "SSL_version")]
    internal static extern int Version(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_get_current_cipher")]
    internal static extern nint CurrentCipher(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_CIPHER_get_protocol_id")]
    internal static extern ushort CipherId(nint cipher);

    [DllImport(Ssl, EntryPoint = "SSL_get1_peer_certificate")]
    internal static extern nint TakePeerCertificate(nint ssl);

    /// <summary>The stack belongs to the connection.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_get_peer_cert_chain")]
    internal static extern nint PeerChain(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_session_reused")]
    internal static extern int IsReused(nint ssl);

    [DllImport(Ssl, EntryPoint = "SSL_get1_session")]
    internal static extern nint TakeSession(nint ssl);

    /// <summary>Adds a reference of its own.</summary>
    [DllImport(Ssl, EntryPoint = "SSL_set_session")]
    internal static extern int SetSession(nint ssl, nint session);

    [DllImport(Ssl, EntryPoint = "SSL_SESSION_is_resumable")]
    internal static extern int SessionIsResumable(nint session);

    [DllImport(Ssl, EntryPoint = "SSL_SESSION_free")]
    internal static extern void SessionFree(nint session);

    // ------------------------------------------------------------------ libcrypto

    [DllImport(Crypto, EntryPoint = "OpenSSL_version_num")]
    internal static extern nuint VersionNumber();

    [DllImport(Crypto, EntryPoint = "BIO_get_new_index")]
    internal static extern int BioNewIndex();

    [DllImport(Crypto, EntryPoint = "BIO_meth_new")]
    internal static extern nint BioMethodNew(int type, byte* name);

    [DllImport(Crypto, EntryPoint = "BIO_meth_set_read")]
    internal static extern int BioMethodSetRead(nint method,
        delegate* unmanaged[Cdecl]<nint, byte*, int, int> callback);

    [DllImport(Crypto, EntryPoint = "BIO_meth_set_write")]
    internal static extern int BioMethodSetWrite(nint method,
        delegate* unmanaged[Cdecl]<nint, byte*, int, int> callback);

    [DllImport(Crypto, EntryPoint = "BIO_meth_set_ctrl")]
    internal static extern int BioMethodSetControl(nint method,
        delegate* unmanaged[Cdecl]<nint, int, nint, void*, nint> callback);

    [DllImport(Crypto, EntryPoint = "BIO_new")]
    internal static extern nint BioNew(nint method);

    [DllImport(Crypto, EntryPoint = "BIO_free")]
    internal static extern int BioFree(nint bio);

    [DllImport(Crypto, EntryPoint = "BIO_set_data")]
    internal static extern void BioSetData(nint bio, void* data);

    // Called inside every callback: it reads one field, and a transition would cost more than the call.
    [DllImport(Crypto, EntryPoint = "BIO_get_data"), SuppressGCTransition]
    internal static extern void* BioGetData(nint bio);

    [DllImport(Crypto, EntryPoint = "BIO_set_init")]
    internal static extern void BioSetInit(nint bio, int isReady);

    [DllImport(Crypto, EntryPoint = "BIO_set_flags")]
    internal static extern void BioSetFlags(nint bio, int flags);

    // Called before each call of libssl: it clears sixteen entries of this thread's queue.
    [DllImport(Crypto, EntryPoint = "ERR_clear_error"), SuppressGCTransition]
    internal static extern void ClearErrors();

    /// <summary>Removes and returns the oldest error of this thread, or 0.</summary>
    [DllImport(Crypto, EntryPoint = "ERR_get_error")]
    internal static extern nuint TakeError();

    [DllImport(Crypto, EntryPoint = "ERR_reason_error_string")]
    internal static extern byte* ErrorReason(nuint error);

    [DllImport(Crypto, EntryPoint = "ERR_error_string_n")]
    internal static extern void ErrorText(nuint error, byte* text, nuint length);

    /// <summary>Moves <paramref name="data"/> to the end of the read bytes.</summary>
    [DllImport(Crypto, EntryPoint = "d2i_X509")]
    internal static extern nint ReadCertificate(nint* into, byte** data, nint length);

    [DllImport(Crypto, EntryPoint = "i2d_X509")]
    internal static extern int WriteCertificate(nint certificate, byte** into);

    [DllImport(Crypto, EntryPoint = "X509_free")]
    internal static extern void CertificateFree(nint certificate);

    [DllImport(Crypto, EntryPoint = "d2i_AutoPrivateKey")]
    internal static extern nint ReadPrivateKey(nint* into, byte** data, nint length);

    [DllImport(Crypto, EntryPoint = "d2i_KeyParams")]
    internal static extern nint ReadKeyParameters(int type, nint* into, byte** data, nint length);

    [DllImport(Crypto, EntryPoint = "EVP_PKEY_free")]
    internal static extern void KeyFree(nint key);

    [DllImport(Crypto, EntryPoint = "OPENSSL_sk_num")]
    internal static extern int StackCount(nint stack);

    [DllImport(Crypto, EntryPoint = "OPENSSL_sk_value")]
    internal static extern nint StackItem(nint stack, int index);

    [DllImport(Crypto, EntryPoint = "X509_STORE_CTX_get_ex_data")]
    internal static extern nint StoreData(nint store, int index);

    [DllImport(Crypto, EntryPoint = "X509_STORE_CTX_set_error")]
    internal static extern void StoreSetError(nint store, int error);

    /// <summary>The certificates sent by the peer, its own first. The stack belongs to the handshake.</summary>
    [DllImport(Crypto, EntryPoint = "X509_STORE_CTX_get0_untrusted")]
    internal static extern nint StoreUntrusted(nint store);
}
