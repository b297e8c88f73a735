// tls.h - TLS for the load program, by OpenSSL. Without -DTLS it is empty of work: `ssl` is always null and the plain load
// program needs no OpenSSL. The client checks the server's certificate and name, allows TLS 1.3 only, and reads ahead, so that
// it takes many records by one recv.
#ifndef WHIMBREL_BENCH_TLS_H
#define WHIMBREL_BENCH_TLS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Result of a TLS call that cannot continue.
enum tls_step { TLS_DONE, TLS_WANT_READ, TLS_WANT_WRITE, TLS_CLOSED, TLS_FAILED };

#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static SSL_CTX *tls_context;
static char tls_reason[256];

// A ticket came: the newest is kept where the connection's owner said, for the connection that follows in its place.
static int tls_keep_session(SSL *ssl, SSL_SESSION *session)
{
    SSL_SESSION **place = SSL_get_app_data(ssl);
    if (!place) return 0;
    SSL_SESSION_free(*place);
    *place = session;
    return 1;
}

static const char *tls_error(void)
{
    unsigned long code = ERR_get_error();
    if (code) ERR_error_string_n(code, tls_reason, sizeof tls_reason);
    else snprintf(tls_reason, sizeof tls_reason, "%s", errno ? strerror(errno) : "the connection ended");
    return tls_reason;
}

static bool tls_start(const char *authority_file)
{
    tls_context = SSL_CTX_new(TLS_client_method());
    if (!tls_context || SSL_CTX_load_verify_locations(tls_context, authority_file, NULL) != 1) return false;
    SSL_CTX_set_verify(tls_context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_min_proto_version(tls_context, TLS1_3_VERSION);
    SSL_CTX_set_mode(tls_context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(tls_context, 1);
    SSL_CTX_set_default_read_buffer_len(tls_context, 64 * 1024);
    SSL_CTX_set_session_cache_mode(tls_context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(tls_context, tls_keep_session);
    return true;
}

// `session`: where the newest session is kept, and taken from when there is one; null for a full handshake.
static SSL *tls_new(int fd, SSL_SESSION **session)
{
    SSL *ssl = SSL_new(tls_context);
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set1_host(ssl, "localhost") != 1 || SSL_set_tlsext_host_name(ssl, "localhost") != 1) return NULL;
    SSL_set_app_data(ssl, session);
    if (session && *session && SSL_set_session(ssl, *session) != 1) return NULL;
    SSL_set_connect_state(ssl);
    return ssl;
}

static enum tls_step tls_step_of(SSL *ssl, int result)
{
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_NONE: return TLS_DONE;
    case SSL_ERROR_WANT_READ: return TLS_WANT_READ;
    case SSL_ERROR_WANT_WRITE: return TLS_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN: return TLS_CLOSED;
    default: return TLS_FAILED;
    }
}

static enum tls_step tls_handshake(SSL *ssl)
{
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(ssl);
    return result == 1 ? TLS_DONE : tls_step_of(ssl, result);
}

// Takes all that is there, up to `room`. `*more`: OpenSSL may have some left that epoll does not know of.
static enum tls_step tls_read(SSL *ssl, uint8_t *to, size_t room, size_t *count, bool *more)
{
    *count = 0;
    *more = false;
    while (*count < room) {
        ERR_clear_error();
        errno = 0;
        int result = SSL_read(ssl, to + *count, (int)(room - *count));
        if (result <= 0) return tls_step_of(ssl, result);
        *count += (size_t)result;
        if (!SSL_has_pending(ssl)) return TLS_DONE;
    }
    *more = true;
    return TLS_DONE;
}

static enum tls_step tls_write(SSL *ssl, const uint8_t *bytes, size_t length, size_t *count)
{
    ERR_clear_error();
    errno = 0;
    int result = SSL_write(ssl, bytes, (int)length);
    *count = result > 0 ? (size_t)result : 0;
    return result > 0 ? TLS_DONE : tls_step_of(ssl, result);
}

// The peer's FIN came and no close_notify before it: some servers never send one.
static bool tls_ended_without_notify(void)
{
    return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

static bool tls_resumed(SSL *ssl) { return SSL_session_reused(ssl) == 1; }
static void tls_close_notify(SSL *ssl) { SSL_shutdown(ssl); }
static void tls_free(SSL *ssl) { SSL_free(ssl); }

#else

typedef void SSL;
typedef void SSL_SESSION;
static inline const char *tls_error(void) { return "this load program is built without TLS"; }
static inline bool tls_start(const char *authority_file) { (void)authority_file; return false; }
static inline SSL *tls_new(int fd, SSL_SESSION **session) { (void)fd; (void)session; return NULL; }
static inline enum tls_step tls_handshake(SSL *ssl) { (void)ssl; return TLS_FAILED; }
static inline enum tls_step tls_read(SSL *ssl, uint8_t *to, size_t room, size_t *count, bool *more) { (void)ssl; (void)to; (void)room; *count = 0; *more = false; return TLS_FAILED; }
static inline enum tls_step tls_write(SSL *ssl, const uint8_t *bytes, size_t length, size_t *count) { (void)ssl; (void)bytes; (void)length; *count = 0; return TLS_FAILED; }
static inline bool tls_ended_without_notify(void) { return false; }
static inline bool tls_resumed(SSL *ssl) { (void)ssl; return false; }
static inline void tls_close_notify(SSL *ssl) { (void)ssl; }
static inline void tls_free(SSL *ssl) { (void)ssl; }

#endif
#endif
