// tls_epoll.c - echo over TLS, the server every other TLS server is measured against: one thread, level-triggered epoll,
// OpenSSL on the socket. Reads ahead 64 KiB, so that a recv takes several records, and asks for more only when OpenSSL
// still has some; what was read goes back by one SSL_write. Buffers are given back between messages. What the socket refuses
// is copied to memory of the connection, which then does not receive until it is gone.
// With -DFAULTS it breaks on purpose, for the self-test of bench/run.
#define _GNU_SOURCE
#include <getopt.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "server.h"

#define RECEIVE_SIZE (64 * 1024)
#define MAX_EVENTS 512

// Indexed by descriptor.
static struct connection {
    SSL *ssl;
    uint8_t *bytes;             // refused by the socket
    uint32_t at, length;
    uint32_t events;            // asked of epoll
    uint64_t total;             // FAULTS only
} connections[MAX_DESCRIPTORS];

static uint8_t buffer[RECEIVE_SIZE + 1] __attribute__((aligned(4096)));
static SSL_CTX *context;
static int epoll, listener;

__attribute__((noreturn)) static void die_tls(const char *what)
{
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    fprintf(stderr, "%s: %s\n", what, reason);
    exit(1);
}

static void watch(int fd, int operation, uint32_t events)
{
    if (operation == EPOLL_CTL_MOD && connections[fd].events == events) return;
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &e) != 0) die("epoll_ctl");
    if (fd != listener) connections[fd].events = events;
}

static void close_connection(int fd)
{
    SSL_free(connections[fd].ssl);
    free(connections[fd].bytes);
    connections[fd] = (struct connection){0};
    close(fd);
}

static void accept_ready(void)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN) return;
            die("accept4");
        }
        if (fd >= MAX_DESCRIPTORS) {
            close(fd);
            continue;
        }
        SSL *ssl = SSL_new(context);
        if (!ssl || SSL_set_fd(ssl, fd) != 1) die_tls("SSL_new");
        SSL_set_accept_state(ssl);
        connections[fd].ssl = ssl;
        watch(fd, EPOLL_CTL_ADD, EPOLLIN);
    }
}

// What stops a TLS call: waits for the right event, or ends the connection, properly when the peer did.
static void stop_for(int fd, int result)
{
    struct connection *c = &connections[fd];
    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ: watch(fd, EPOLL_CTL_MOD, EPOLLIN); return;
    case SSL_ERROR_WANT_WRITE: watch(fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT); return;
    case SSL_ERROR_ZERO_RETURN: SSL_shutdown(c->ssl); break;
    default: break;
    }
    close_connection(fd);
}

// Returns how many bytes went; `*result` is that of the last call. A part of 16 KiB is one record and one send.
static size_t write_all(SSL *ssl, const uint8_t *bytes, size_t length, int *result)
{
    size_t at = 0;
    while (at < length) {
        ERR_clear_error();
        *result = SSL_write(ssl, bytes + at, (int)(length - at));
        if (*result <= 0) break;
        at += (size_t)*result;
    }
    return at;
}

static void send_pending(int fd)
{
    struct connection *c = &connections[fd];
    int result = 0;
    c->at += (uint32_t)write_all(c->ssl, c->bytes + c->at, c->length - c->at, &result);
    if (c->at < c->length) {
        if (SSL_get_error(c->ssl, result) != SSL_ERROR_WANT_WRITE) close_connection(fd);
        return;
    }
    free(c->bytes);
    c->bytes = NULL;
    watch(fd, EPOLL_CTL_MOD, EPOLLIN);
}

#ifdef FAULTS
enum fault { NONE, CORRUPT, LOSE, EXTRA, STALL, CLOSE, FRESH };
static const char *const fault_names[] = {"none", "corrupt", "lose", "extra", "stall", "close", "fresh"};
static enum fault fault;
static uint64_t fault_at;

// Spoils byte `fault_at` of each connection. Returns how many bytes to send, or -1 to end it.
static long spoil(int fd, size_t length)
{
    struct connection *c = &connections[fd];
    bool now = fault_at >= c->total && fault_at < c->total + length;
    size_t at = fault_at - c->total;
    c->total += length;
    if (!now || fault == NONE || fault == FRESH) return (long)length;
    switch (fault) {
    case CORRUPT: buffer[at] ^= 1; return (long)length;
    case LOSE: memmove(buffer + at, buffer + at + 1, length - at - 1); return (long)length - 1;
    case EXTRA: buffer[length] = 'x'; return (long)length + 1;
    case STALL: return 0;
    default: return -1;
    }
}
#endif

static void echo(int fd)
{
    struct connection *c = &connections[fd];
    do {
        size_t have = 0;
        int result = 1;
        do {
            ERR_clear_error();
            result = SSL_read(c->ssl, buffer + have, (int)(RECEIVE_SIZE - have));
            if (result <= 0) break;
            have += (size_t)result;
        } while (have < RECEIVE_SIZE && SSL_has_pending(c->ssl));

        if (have > 0) {
#ifdef FAULTS
            long spoilt = spoil(fd, have);
            if (spoilt < 0) { close_connection(fd); return; }
            have = (size_t)spoilt;
#endif
            int write_result = 1;
            size_t sent = write_all(c->ssl, buffer, have, &write_result);
            if (sent < have) {
                if (SSL_get_error(c->ssl, write_result) != SSL_ERROR_WANT_WRITE) { close_connection(fd); return; }
                c->length = (uint32_t)(have - sent);
                c->at = 0;
                c->bytes = malloc(c->length);
                if (!c->bytes) die("malloc");
                memcpy(c->bytes, buffer + sent, c->length);
                watch(fd, EPOLL_CTL_MOD, EPOLLOUT);
                return;
            }
        }
        if (result <= 0) { stop_for(fd, result); return; }
    } while (SSL_has_pending(c->ssl));
}

static void make_context(const char *certificate, const char *key)
{
    context = SSL_CTX_new(TLS_server_method());
    if (!context) die_tls("SSL_CTX_new");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, RECEIVE_SIZE);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); // tickets carry the session
    SSL_CTX_set_num_tickets(context, 1);
    if (SSL_CTX_set_session_id_context(context, (const unsigned char *)"echo", 4) != 1) die_tls("session id context");
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) die_tls(certificate);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) die_tls(key);
#ifdef FAULTS
    if (fault == FRESH) SSL_CTX_set_num_tickets(context, 0);
#endif
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"cert", 1, 0, 'c'}, {"key", 1, 0, 'k'}, {"fault", 1, 0, 'f'}, {"after", 1, 0, 'a'}, {0, 0, 0, 0}};
    int port = 0, option;
    const char *certificate = NULL, *key = NULL;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 'c') certificate = optarg;
        else if (option == 'k') key = optarg;
#ifdef FAULTS
        else if (option == 'a') fault_at = (uint64_t)parse_number(optarg, "--after", 0, 1L << 40);
        else if (option == 'f') {
            while (fault <= FRESH && strcmp(optarg, fault_names[fault]) != 0) fault++;
            if (fault > FRESH) return fputs("--fault none|corrupt|lose|extra|stall|close|fresh\n", stderr), 2;
        }
#endif
        else return fputs("usage: tls_epoll --cert FILE --key FILE [--port N]\n", stderr), 2;
    }
    if (!certificate || !key) return fputs("usage: tls_epoll --cert FILE --key FILE [--port N]\n", stderr), 2;

    make_context(certificate, key);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, NULL, "c-tls");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_ready();
            else if (connections[fd].bytes) send_pending(fd);
            else echo(fd);
        }
    }
}
