// web.c - the load program for HTTP/1.1 and WebSocket: one thread, one epoll. It asks, checks the status, the length and every byte
// of what comes back, and prints what happened as one line of JSON, as load.c does. Whatever is not as it must be ends the run.
//
// Bodies are the table of random bytes from its beginning, over and over; `web table N` prints so many, for the servers' files.
// A WebSocket message is a stretch of the table; frames that are sent are masked beforehand, so that only the server works. With
// -DDEFLATE they may be JSON that is compressed beforehand as well, each by itself, and what comes back is inflated and compared.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#ifdef DEFLATE
#include <zlib.h>
#endif

#include "program.h"
#include "tls.h"

#define RECEIVE_SIZE (128u * 1024)
#define MAX_HEAD 2048u
#define MAX_CONNECTIONS 19900u
#define MAX_PIPELINE 64u
#define MAX_MESSAGE (1u << 20)
#define MAX_STEPS 8
#define STRETCHES 4u                // different messages, in turn
#define TEXT 1u
#define BINARY 2u
#define END 8u
#define PING 9u
#define PONG 10u
#define PACKED 0x40u               // the bit of compression, beside an opcode
#define MASK 0x5A17C36Eu
#define ROOM_SIZE 32u
// The nonce and its answer are the RFC's own example.
#define NONCE "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPTED "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

enum mode { KEEP, CLOSE, UP, WS_ECHO, WS_ONEWAY, WS_ROOM, WS_OPEN, WS_IDLE, WS_BEAT };
enum phase { WARMING, NEARING, MEASURING, DRAINING };
enum part { HEAD, BODY, FRAME, PAYLOAD, CLOSED };

struct connection {
    int fd;
    bool wants_out, more, shaken, resumes, follows, upgraded, joined, asked_end;
    uint8_t quiet_sweeps;
    enum part part;
    uint32_t key;
    unsigned waiting, opcode;       // answers that must still come; of the message that is coming
    bool last;                      // the frame that is coming ends its message
    const uint8_t *out;             // what is being sent
    uint64_t out_left, up_left;     // of it; and of the body that follows it, out of the table
    uint64_t up_at, number;         // in that body; messages sent
    uint64_t body_at, body_left;    // of the body or the message that is coming; of this frame
    uint64_t received, moved, moved_at_sweep;
    uint64_t started_ns, seen;      // room: the newest sequence
    unsigned head_length;
    uint8_t head[MAX_HEAD];         // of a head or of a frame's header that has not come whole
    SSL *ssl;
    SSL_SESSION *session;
    uint64_t refused;
    void *inflater;                 // with --deflate: what has come before
    bool packed;                    // the message that is coming
};

struct sample {
    uint64_t ns, messages, bytes;
    struct cpu cpu;
};

static const char *const program_name = "web";
static const char *const mode_names[] = {"http", "http-close", "http-up", "ws-echo", "ws-oneway", "ws-room", "ws-open", "ws-idle", "ws-beat"};
static enum mode mode;
static enum phase phase;
static unsigned connections = 1, pipeline = 1;
static unsigned steps[MAX_STEPS], step_count;
static uint64_t size = 1024, unit, stated_length;
static double hold = 30;
static const char *path = "/", *authority_file;
static bool resume;
static enum { PLAIN, ANEW, CONTEXT } deflate_mode;
static unsigned idle_messages = 1;
static struct sockaddr_in server = {.sin_family = AF_INET};
static int epoll;
static struct connection *all;
static uint8_t *table, buffer[RECEIVE_SIZE] __attribute__((aligned(4096)));
static char request[MAX_PIPELINE * 512];
static size_t request_length;
static uint8_t *frames[STRETCHES];  // masked, with their headers
static size_t frame_lengths[STRETCHES];
#ifdef DEFLATE
static char texts[STRETCHES][MAX_HEAD];
#endif
static uint8_t room_frame[6 + ROOM_SIZE], room_text[ROOM_SIZE];
static uint64_t room_sequence, room_got, room_started_ns;
static uint64_t done_messages, done_bytes, opened, ended_without, oneway_messages;
static uint64_t next_phase_ns, next_sweep_ns;
static unsigned open_count;
static struct sample first, last;
static struct histogram latency;

static const char *const usage_text =
    "\nusage: web http|http-close|http-up|ws-echo|ws-oneway|ws-room|ws-open|ws-idle|ws-beat --port N\n"
    "  --connections N    (http-close, ws-open: at a time; ws-idle: a list)      1\n"
    "  --path P           what is asked for                                      /\n"
    "  --size N           bytes of the answer, of the body or of a message       1024\n"
    "  --pipeline N       http: requests that leave together                     1\n"
    "  --unit N           count so many bytes of bodies as a message\n"
    "  --seconds S        measured window                                        3\n"
    "  --warmup S         before it                                              2\n"
    "  --hold S           ws-idle: longest wait for a line on stdin after each   30\n"
    "  --messages N       ws-idle: echoes on each before it is idle              1\n"
    "  --tls FILE         over TLS; FILE has the issuer of the server's certificate\n"
    "  --resume           http-close: every one after the first of each resumes\n"
    "  --watch PID        also report the CPU of this process over the window\n"
    "  --deflate HOW      ws-echo, ws-idle: compressed JSON; anew, or with the context of what came before\n"
    "  --no-check         do not compare the bytes\n"
    "web table N          prints N bytes of the table\n";

static void print_parameters(void)
{
    printf("{\"scenario\":\"%s\",\"connections\":%u,\"in_flight\":%u,\"size\":%" PRIu64 ",\"path\":\"%s\",\"warmup_s\":%g,\"checked\":%s",
           mode_names[mode], connections, pipeline, size, path, warmup, check ? "true" : "false");
    if (deflate_mode) printf(",\"deflate\":\"%s\"", deflate_mode == ANEW ? "anew" : "context");
    if (authority_file) printf(",\"tls\":\"1.3\",\"resumed\":%s", resume ? "true" : "false");
}

static bool is_short(void) { return mode == CLOSE || mode == WS_OPEN; }
static bool is_socket(void) { return mode >= WS_ECHO; }

// ---- sending --------------------------------------------------------------------------------------------------------

static void watch_out(struct connection *c, bool out)
{
    if (c->wants_out == out) return;
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e) != 0) fail("epoll_ctl: %s", strerror(errno));
    c->wants_out = out;
}

// Like send(): -1 when the socket takes nothing now. Over TLS what was refused is offered again, not less of it.
static ssize_t send_some(struct connection *c, const uint8_t *bytes, size_t length)
{
    if (!c->ssl) {
        ssize_t n;
        do n = send(c->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT); while (n < 0 && errno == EINTR);
        if (n < 0 && errno != EAGAIN) fail("connection %u: send failed: %s", c->key, strerror(errno));
        return n;
    }
    size_t count;
    enum tls_step step = tls_write(c->ssl, bytes, c->refused ? (size_t)c->refused : length, &count);
    if (step == TLS_FAILED || step == TLS_CLOSED) fail("connection %u: send failed: %s", c->key, tls_error());
    c->refused = step == TLS_DONE ? 0 : c->refused ? c->refused : length;
    return step == TLS_DONE ? (ssize_t)count : -1;
}

static void begin_message(struct connection *c);

static void send_out(struct connection *c)
{
    for (;;) {
        if (c->out_left > 0) {
            ssize_t n = send_some(c, c->out, (size_t)c->out_left);
            if (n < 0) break;
            c->out += n;
            c->out_left -= (uint64_t)n;
            c->moved += (uint64_t)n;
        } else if (c->up_left > 0) {
            size_t at = (size_t)(c->up_at % TABLE_SIZE), n = RECEIVE_SIZE < c->up_left ? RECEIVE_SIZE : (size_t)c->up_left;
            ssize_t sent = send_some(c, table + at, n);
            if (sent < 0) break;
            c->up_at += (uint64_t)sent;
            c->up_left -= (uint64_t)sent;
            c->moved += (uint64_t)sent;
            done_bytes += (uint64_t)sent;
        } else if (mode == WS_ONEWAY && c->joined && phase < DRAINING) {
            begin_message(c);
        } else {
            watch_out(c, false);
            return;
        }
    }
    watch_out(c, true);
}

static void send_frame(struct connection *c, const uint8_t *frame, size_t length)
{
    if (c->out_left > 0) fail("connection %u: a frame is still being sent", c->key);
    c->out = frame;
    c->out_left = length;
    if (mode != WS_ONEWAY || !c->joined || phase == DRAINING) send_out(c);
}

// A masked frame with its header; returns the length of both.
static size_t make_frame(uint8_t *to, unsigned opcode, const uint8_t *payload, size_t length)
{
    size_t at = 0;
    to[at++] = (uint8_t)(0x80 | opcode);
    if (length < 126) {
        to[at++] = (uint8_t)(0x80 | length);
    } else if (length < 65536) {
        to[at++] = 0x80 | 126;
        to[at++] = (uint8_t)(length >> 8);
        to[at++] = (uint8_t)length;
    } else {
        to[at++] = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8) to[at++] = (uint8_t)((uint64_t)length >> shift);
    }
    for (int shift = 24; shift >= 0; shift -= 8) to[at++] = (uint8_t)(MASK >> shift);
    for (size_t i = 0; i < length; i++) to[at + i] = (uint8_t)(payload[i] ^ (uint8_t)(MASK >> (24 - 8 * (i & 3))));
    return at + length;
}

static const uint8_t *stretch(uint64_t number)
{
    return table + (number % STRETCHES) * 1009;
}

static void begin_message(struct connection *c)
{
    c->started_ns = clock_ns();
    c->body_at = 0;
    if (mode != WS_ONEWAY) c->waiting++;
    else oneway_messages++;
    done_bytes += mode == WS_ONEWAY ? size : 0;
    done_messages += mode == WS_ONEWAY;
    unsigned which = c->number++ % STRETCHES;
    send_frame(c, frames[which], frame_lengths[which]);
}

static void begin_broadcast(void)
{
    char text[ROOM_SIZE + 1];
    snprintf(text, sizeof text, "%0*" PRIu64, (int)ROOM_SIZE, ++room_sequence);
    memcpy(room_text, text, ROOM_SIZE);
    room_got = 0;
    room_started_ns = clock_ns();
    send_frame(&all[mix64(room_sequence) % connections], room_frame, make_frame(room_frame, TEXT, room_text, ROOM_SIZE));
}

static void ask_text(struct connection *c)
{
    static uint8_t frame[8];
    c->waiting++;
    c->body_at = 0;
    send_frame(c, frame, make_frame(frame, TEXT, (const uint8_t *)"?", 1));
}

static void ask(struct connection *c)
{
    c->started_ns = clock_ns();
    c->waiting += mode == UP || is_socket() ? 1 : pipeline;
    c->out = (const uint8_t *)request;
    c->out_left = request_length;
    c->up_left = mode == UP ? size : 0;
    c->up_at = 0;
    send_out(c);
}

// ---- connections ----------------------------------------------------------------------------------------------------

// 2,000 source addresses with 28,000 ports each, taken in turn, do not run out (README, traps).
static void bind_source(int fd, uint64_t number)
{
    int one = 1;
    uint32_t host = (uint32_t)(number % 2000);
    struct sockaddr_in a = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(0x7F010000u | (host / 250) << 8 | (host % 250 + 1));
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) != 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0)
        fail("bind to a source address: %s", strerror(errno));
}

static void open_connection(struct connection *c, uint32_t key)
{
    SSL_SESSION *session = c->session;
    bool follows = c->follows;
    memset(c, 0, sizeof *c);
    c->key = key;
    c->session = session;
    c->follows = follows;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (is_short() ? SOCK_NONBLOCK : 0), 0);
    if (c->fd < 0) fail("socket: %s", strerror(errno));
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (is_short()) bind_source(c->fd, opened++);
    c->started_ns = clock_ns();
    while (connect(c->fd, (struct sockaddr *)&server, sizeof server) != 0) {
        if (errno == EINPROGRESS) break;
        if (errno != EINTR) fail("connect, connection %u: %s", key, strerror(errno));
    }
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (authority_file) {
        c->resumes = session != NULL;
        c->ssl = tls_new(c->fd, resume ? &c->session : NULL);
        if (!c->ssl) fail("connection %u: no TLS: %s", key, tls_error());
        if (is_short()) {
            c->wants_out = true;
            e.events |= EPOLLOUT;
        } else {
            struct timeval limit = {.tv_sec = 10};
            setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            if (tls_handshake(c->ssl) != TLS_DONE) fail("connection %u: handshake: %s", key, tls_error());
        }
    }
    if (!is_short()) fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->shaken = !c->ssl || !is_short();
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e) != 0) fail("epoll_ctl: %s", strerror(errno));
    if (!is_short() && key % 64 == 63) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (is_short() && c->shaken) {
        uint64_t started = c->started_ns;
        ask(c);
        c->started_ns = started;
    }
}

// True when the handshake is over: full or resumed as it was meant to be.
static bool shake(struct connection *c)
{
    if (c->shaken) return true;
    enum tls_step step = tls_handshake(c->ssl);
    if (step == TLS_WANT_READ || step == TLS_WANT_WRITE) {
        watch_out(c, step == TLS_WANT_WRITE);
        return false;
    }
    if (step != TLS_DONE) fail("connection %u: handshake: %s", c->key, tls_error());
    if (tls_resumed(c->ssl) != c->resumes) fail("connection %u: the handshake %s", c->key, c->resumes ? "was to be resumed, and the server did not" : "was to be full, and was resumed");
    if (resume && !c->resumes && c->follows) fail("connection %u: the server gave no ticket to resume with", c->key);
    c->shaken = c->follows = true;
    uint64_t started = c->started_ns;
    ask(c);
    c->started_ns = started;
    return true;
}

static void end_connection(struct connection *c)
{
    if (c->ssl) tls_close_notify(c->ssl);
    tls_free(c->ssl);
    c->ssl = NULL;
    c->more = false;
    close(c->fd);
    c->fd = -1;
    if (phase < DRAINING) open_connection(c, c->key);
    else open_count--;
}

// ---- receiving ------------------------------------------------------------------------------------------------------

static void note_latency(const struct connection *c, uint64_t now)
{
    if (phase == MEASURING) histogram_record(&latency, now - c->started_ns);
}

// An answer has come whole.
static void answered(struct connection *c)
{
    uint64_t now = clock_ns();
    if (c->waiting == 0) fail("connection %u: an answer to no request", c->key);
    note_latency(c, now);
    done_messages += unit == 0;
    c->waiting--;
    if (mode == CLOSE) c->part = CLOSED;
    else c->part = HEAD;
    if (c->waiting > 0 || mode == CLOSE) return;
    if (phase < DRAINING) ask(c);
    else if (!unit) open_count--;
}

static void joined(struct connection *c)
{
    c->joined = true;
    open_count--;
}

#ifdef DEFLATE
// JSON as programs send it: names that repeat, numbers that do not.
static void write_json(char *to, size_t length, unsigned which)
{
    size_t at = 0;
    for (uint64_t i = 0; at < length; i++) {
        uint64_t n = mix64(i * STRETCHES + which + 1);
        char item[160];
        size_t have = (size_t)snprintf(item, sizeof item, "%s{\"id\":%" PRIu64 ",\"price\":%u.%02u,\"side\":\"%s\",\"quantity\":%u}", i ? "," : "[", n % 1000000, (unsigned)(n >> 20) % 500, (unsigned)(n >> 32) % 100, n >> 63 ? "buy" : "sell", (unsigned)(n >> 40) % 1000);
        if (have > length - at) have = length - at;
        memcpy(to + at, item, have);
        at += have;
    }
}

static size_t deflate_text(uint8_t *to, size_t room, const char *text, size_t length)
{
    z_stream z = {0};
    if (deflateInit2(&z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) fail("zlib: no compressor");
    z.next_in = (Bytef *)text;
    z.avail_in = (uInt)length;
    z.next_out = to;
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_SYNC_FLUSH) != Z_OK || z.avail_in || z.avail_out == 0) fail("zlib: not compressed");
    size_t have = room - z.avail_out;
    deflateEnd(&z);
    return have - 4; // 00 00 FF FF, which is left out (RFC 7692, 7.2.1)
}

// What stands in `head` becomes what was sent, byte by byte.
static void inflate_message(struct connection *c)
{
    static uint8_t plain[2 * MAX_HEAD];
    if (!c->packed) fail("connection %u: a message that is not compressed", c->key);
    if (!c->inflater) {
        c->inflater = calloc(1, sizeof(z_stream));
        if (!c->inflater || inflateInit2((z_stream *)c->inflater, -15) != Z_OK) fail("zlib: no memory");
    }
    z_stream *z = c->inflater;
    memcpy(c->head + c->body_at, "\0\0\xFF\xFF", 4);
    z->next_in = c->head;
    z->avail_in = (uInt)c->body_at + 4;
    z->next_out = plain;
    z->avail_out = sizeof plain;
    int result = inflate(z, Z_SYNC_FLUSH);
    if (result != Z_OK || z->avail_in) fail("connection %u: what came cannot be inflated: %d", c->key, result);
    c->body_at = sizeof plain - z->avail_out;
    if (check && (c->body_at != size || memcmp(plain, texts[(c->number - 1) % STRETCHES], (size_t)size) != 0)) fail("connection %u: the text (%.*s...) is not the one that was sent", c->key, 40, (char *)plain);
    if (deflate_mode == ANEW) inflateReset(z);
}
#else
static void inflate_message(struct connection *c) { fail("connection %u: made without zlib", c->key); }
#endif

// A whole message has come, of `body_at` bytes; text answers to "?" are in `head`.
static void take_message(struct connection *c)
{
    if (c->waiting == 0 && mode != WS_ROOM) fail("connection %u: a message that nothing asked for", c->key);
    if (mode == WS_ROOM) {
        if (!c->joined) {
            c->waiting--;
            joined(c);
            return;
        }
        if (c->body_at != ROOM_SIZE || memcmp(c->head, room_text, ROOM_SIZE) != 0)
            fail("connection %u: the message (%.*s) is not the pending one", c->key, (int)ROOM_SIZE, (char *)c->head);
        if (c->seen == room_sequence) fail("connection %u: sequence %" PRIu64 " came twice", c->key, c->seen);
        c->seen = room_sequence;
        done_messages++;
        if (phase == MEASURING) histogram_record(&latency, clock_ns() - room_started_ns);
        if (++room_got < connections) return;
        if (phase < DRAINING) begin_broadcast();
        else open_count = 0;
        return;
    }
    if (mode == WS_ONEWAY) {
        unsigned long long count, bytes;
        c->head[c->body_at < MAX_HEAD ? c->body_at : MAX_HEAD - 1] = 0;
        if (sscanf((char *)c->head, "%llu %llu", &count, &bytes) != 2 || count != c->number || bytes != c->number * size)
            fail("connection %u: of %" PRIu64 " messages of %" PRIu64 " bytes the server counted: %s", c->key, c->number, size, c->head);
        c->waiting--;
        open_count--;
        return;
    }
    if (deflate_mode) inflate_message(c);
    if (c->body_at != size) fail("connection %u: a message of %" PRIu64 " bytes where %" PRIu64 " were sent", c->key, c->body_at, size);
    note_latency(c, clock_ns());
    c->waiting--;
    if (mode == WS_OPEN) {
        static uint8_t end[8];
        c->asked_end = true;
        send_frame(c, end, make_frame(end, END, (const uint8_t *)"\x03\xE8", 2));
        return;
    }
    done_messages++;
    if (mode == WS_IDLE ? c->number >= idle_messages : phase >= DRAINING) open_count--;
    else begin_message(c);
}

// The value of a field in a head that ends with an empty line, or null; `length` without blanks.
static const char *field(const char *head, size_t head_length, const char *name, size_t *length)
{
    size_t name_length = strlen(name);
    const char *end = head + head_length;
    for (const char *line = head; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) return NULL;
        if ((size_t)(next - line) > name_length && line[name_length] == ':' && strncasecmp(line, name, name_length) == 0) {
            const char *value = line + name_length + 1;
            while (*value == ' ') value++;
            *length = (size_t)(next - value) - (next[-1] == '\r');
            return value;
        }
        line = next + 1;
    }
    return NULL;
}

static void take_head(struct connection *c, const char *head, size_t length)
{
    size_t n;
    const char *wanted = is_socket() ? "HTTP/1.1 101 " : "HTTP/1.1 200 ";
    if (length < 13 || memcmp(head, wanted, 12) != 0) fail("connection %u: the answer begins with %.*s", c->key, (int)(length < 30 ? length : 30), head);
    if (is_socket()) {
        const char *accept = field(head, length, "Sec-WebSocket-Accept", &n);
        if (!accept || n != strlen(ACCEPTED) || memcmp(accept, ACCEPTED, n) != 0) fail("connection %u: no Sec-WebSocket-Accept, or another", c->key);
        const char *extension = field(head, length, "Sec-WebSocket-Extensions", &n);
        if (!extension == !!deflate_mode) fail("connection %u: compression was %s", c->key, extension ? "not asked for" : "refused");
        if (extension && (!memmem(extension, n, "permessage-deflate", 18) || !memmem(extension, n, "server_no_context_takeover", 26) == (deflate_mode == ANEW)))
            fail("connection %u: the compression is another: %.*s", c->key, (int)n, extension);
        c->waiting--;
        c->upgraded = true;
        c->part = FRAME;
        if (mode == WS_ROOM) ask_text(c);
        else if (mode == WS_OPEN) { uint64_t started = c->started_ns; begin_message(c); c->started_ns = started; }
        else joined(c);
        return;
    }
    const char *value = field(head, length, "Content-Length", &n);
    if (!value) fail("connection %u: an answer without Content-Length", c->key);
    uint64_t stated = strtoull(value, NULL, 10);
    if (stated != stated_length) fail("connection %u: an answer of %" PRIu64 " bytes that must have %" PRIu64, c->key, stated, stated_length);
    c->body_at = 0;
    c->body_left = stated;
    c->part = BODY;
    if (stated == 0) answered(c);
}

// Until a head is whole it is collected. Returns how much of `bytes` was taken.
static size_t collect_head(struct connection *c, const uint8_t *bytes, size_t length)
{
    if (c->head_length == 0) {
        const uint8_t *end = memmem(bytes, length, "\r\n\r\n", 4);
        if (end) {
            size_t whole = (size_t)(end - bytes) + 4;
            take_head(c, (const char *)bytes, whole);
            return whole;
        }
    }
    size_t before = c->head_length, room = MAX_HEAD - before, n = length < room ? length : room;
    memcpy(c->head + before, bytes, n);
    c->head_length += (unsigned)n;
    const uint8_t *end = memmem(c->head, c->head_length, "\r\n\r\n", 4);
    if (!end) {
        if (c->head_length == MAX_HEAD) fail("connection %u: a head of more than %u bytes", c->key, MAX_HEAD);
        return n;
    }
    size_t whole = (size_t)(end - c->head) + 4;
    c->head_length = 0;
    take_head(c, (const char *)c->head, whole);
    return whole - before;
}

static void compare(const struct connection *c, const uint8_t *bytes, const uint8_t *expected, size_t n)
{
    if (!check || memcmp(bytes, expected, n) == 0) return;
    size_t at = 0;
    while (bytes[at] == expected[at]) at++;
    fail("connection %u: byte %" PRIu64 " is 0x%02x and must be 0x%02x", c->key, c->body_at + at, bytes[at], expected[at]);
}

static size_t take_body(struct connection *c, const uint8_t *bytes, size_t length)
{
    size_t n = length < c->body_left ? length : (size_t)c->body_left;
    compare(c, bytes, table + c->body_at % TABLE_SIZE, n);
    c->body_at += n;
    c->body_left -= n;
    done_bytes += n;
    if (c->body_left == 0) answered(c);
    return n;
}

// The header of a frame, 2 to 10 bytes; collected one by one, which happens where a frame is cut.
static size_t take_header(struct connection *c, const uint8_t *bytes, size_t length)
{
    uint8_t *h = c->head;
    size_t taken = 0;
    unsigned need = 2;
    static __thread uint8_t header[10];
    if (c->head_length) memcpy(header, h + MAX_HEAD - 10, c->head_length);
    for (;;) {
        if (c->head_length >= 2) need = (header[1] & 127) == 126 ? 4 : (header[1] & 127) == 127 ? 10 : 2;
        if (c->head_length >= need) break;
        if (taken == length) {
            memcpy(h + MAX_HEAD - 10, header, c->head_length);
            return taken;
        }
        header[c->head_length++] = bytes[taken++];
    }
    c->head_length = 0;
    if (header[1] & 0x80) fail("connection %u: a masked frame from the server", c->key);
    if (header[0] & (deflate_mode ? 0x30 : 0x70)) fail("connection %u: a frame with reserved bits", c->key);
    uint64_t n = header[1] & 127;
    if (n >= 126) {
        n = 0;
        for (unsigned i = 2; i < need; i++) n = n << 8 | header[i];
    }
    unsigned opcode = header[0] & 15;
    c->last = header[0] & 0x80;
    if (opcode != 0) {
        c->opcode = opcode;
        c->packed = header[0] & PACKED;
        c->body_at = 0;
    }
    if (c->opcode == END && !c->asked_end) fail("connection %u: the server ended it", c->key);
    if (c->opcode != TEXT && c->opcode != BINARY && c->opcode != END && !(mode == WS_BEAT && (opcode == PING || opcode == PONG))) fail("connection %u: a frame with opcode %u", c->key, c->opcode);
    if (c->opcode == BINARY && c->body_at + n > size) fail("connection %u: a message of more than %" PRIu64 " bytes", c->key, size);
    c->body_left = n;
    c->part = PAYLOAD;
    return taken;
}

static size_t take_payload(struct connection *c, const uint8_t *bytes, size_t length)
{
    size_t n = length < c->body_left ? length : (size_t)c->body_left;
    if (c->opcode == BINARY) {
        compare(c, bytes, stretch(c->number - 1) + c->body_at, n);
    } else {
        if (c->body_at + n > MAX_HEAD - 15) fail("connection %u: a text of more than %u bytes", c->key, MAX_HEAD - 15);
        memcpy(c->head + c->body_at, bytes, n);
    }
    c->body_at += n;
    c->body_left -= n;
    if (mode != WS_ONEWAY) done_bytes += n;
    if (c->body_left > 0) return n;
    c->part = FRAME;
    if (!c->last) return n;
    if (c->opcode == END) {
        done_messages++;
        c->part = CLOSED;
        shutdown(c->fd, SHUT_WR);
        return n;
    }
    if (mode == WS_BEAT) {
        static uint8_t pong[140];
        done_messages += c->opcode == PING;
        if (c->opcode == PING) send_frame(c, pong, make_frame(pong, PONG, c->head, (size_t)c->body_at));
        if (c->out_left) fail("connection %u: a pong is not taken", c->key);
        return n;
    }
    take_message(c);
    return n;
}

static void take(struct connection *c, const uint8_t *bytes, size_t length)
{
    c->moved += length;
    while (length > 0) {
        size_t n = 0;
        switch (c->part) {
        case HEAD: n = collect_head(c, bytes, length); break;
        case BODY: n = take_body(c, bytes, length); break;
        case FRAME: n = take_header(c, bytes, length); break;
        case PAYLOAD: n = take_payload(c, bytes, length); break;
        case CLOSED: fail("connection %u: %zu bytes after the end", c->key, length);
        }
        bytes += n;
        length -= n;
        // An empty payload has no byte that would bring it here.
        if (length == 0 && c->part == PAYLOAD && c->body_left == 0) take_payload(c, bytes, 0);
    }
}

static void ready(struct connection *c)
{
    if (!shake(c)) return;
    size_t count = 0;
    bool ended = false;
    if (c->ssl) {
        enum tls_step step = tls_read(c->ssl, buffer, RECEIVE_SIZE, &count, &c->more);
        ended = step == TLS_CLOSED || (step == TLS_FAILED && c->part == CLOSED && tls_ended_without_notify());
        if (step == TLS_FAILED && !ended) fail("connection %u: lost: %s", c->key, tls_error());
        if (ended && step == TLS_FAILED) ended_without++;
    } else {
        ssize_t n = recv(c->fd, buffer, RECEIVE_SIZE, 0);
        if (n < 0 && errno != EAGAIN && errno != EINTR) fail("connection %u: lost: %s", c->key, strerror(errno));
        ended = n == 0;
        count = n > 0 ? (size_t)n : 0;
    }
    if (count > 0) take(c, buffer, count);
    if (ended) {
        if (c->part != CLOSED) fail("connection %u: the server closed it", c->key);
        end_connection(c);
        return;
    }
    if (c->wants_out) send_out(c);
}

// ---- time -----------------------------------------------------------------------------------------------------------

static void take_sample(struct sample *s)
{
    s->ns = clock_ns();
    s->messages = unit ? done_bytes / unit : done_messages;
    s->bytes = done_bytes;
    sample_cpu(&s->cpu);
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void begin_drain(void)
{
    phase = DRAINING;
    open_count = mode == WS_ROOM ? 1 : connections;
    next_phase_ns = UINT64_MAX;
    if (unit || mode == WS_BEAT) open_count = 0; // the pending message is long, and was compared as far as it was received
}

static void move_phase(void)
{
    switch (phase) {
    case WARMING:
        say("window near");
        phase = NEARING;
        next_phase_ns = clock_ns() + (uint64_t)((warmup > 1 ? .5 : warmup / 2) * 1e9);
        break;
    case NEARING:
        take_sample(&first);
        say("window start");
        phase = MEASURING;
        next_phase_ns = first.ns + (uint64_t)(seconds * 1e9);
        break;
    default:
        if (mode == WS_BEAT && done_messages == first.messages && clock_ns() < first.ns + 10000000000u) {
            next_phase_ns = clock_ns() + 50000000; // a short window may lie between two beats
            break;
        }
        take_sample(&last);
        say("window end");
        begin_drain();
        break;
    }
}

// What waits for something and saw nothing move through eight sweeps of a loop that did run has stalled.
static void sweep(void)
{
    for (unsigned i = 0; i < connections; i++) {
        struct connection *c = &all[i];
        bool waits = c->fd >= 0 && (c->waiting > 0 || c->out_left > 0 || c->up_left > 0 || c->part == CLOSED || (mode == WS_ROOM && c->joined && room_sequence && c->seen != room_sequence));
        bool moved = c->moved != c->moved_at_sweep || (mode == WS_ROOM && room_sequence && done_messages != c->received);
        c->moved_at_sweep = c->moved;
        c->received = done_messages;
        c->quiet_sweeps = waits && !moved ? (uint8_t)(c->quiet_sweeps + 1) : 0;
        if (c->quiet_sweeps == STALLED_SWEEPS) fail("connection %u: stalled: nothing for 2 s, %u answers are missing", c->key, c->waiting);
    }
}

// Returns true when stdin has said something (ws-idle only).
static bool turn(void)
{
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(epoll, events, MAX_EVENTS, 50);
    if (n < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
    uint64_t now = clock_ns();
    if (now >= next_phase_ns) move_phase();
    if (now >= next_sweep_ns) {
        sweep();
        next_sweep_ns = now + SWEEP_NS;
    }
    bool told = false;
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        if (c) do ready(c); while (c->more && c->fd >= 0);
        else told = true;
    }
    return told;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

static void upgrade(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        // Rounds of 64, so that the server has accepted them before the next ones knock.
        if (i % 64 == 0) while (open_count > 0) turn();
        open_connection(&all[i], i);
        open_count++;
        ask(&all[i]);
    }
    while (open_count > 0) turn();
}

static void print_result(void)
{
    uint64_t count = last.messages - first.messages, bytes = last.bytes - first.bytes;
    double elapsed = (double)(last.ns - first.ns) / 1e9;
    if (count == 0) fail("no answer came in the measured window");
    print_parameters();
    printf(",\"seconds\":%.6f,\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"per_second\":%.1f", elapsed, count, bytes, (double)count / elapsed);
    print_latency(&latency);
    print_cpu(&first.cpu, &last.cpu);
    if (authority_file) printf(",\"ended_without\":%" PRIu64, ended_without);
    say(",\"errors\":0}");
}

static void run_measured(void)
{
    uint64_t start = clock_ns();
    if (is_socket() && !is_short()) upgrade(0, connections);
    next_phase_ns = near_ns(start = clock_ns());
    for (unsigned i = 0; i < connections; i++) {
        if (!is_socket() || is_short()) open_connection(&all[i], i);
        if (is_short() || mode == WS_ROOM || mode == WS_BEAT) continue;
        if (mode == WS_ECHO) begin_message(&all[i]);
        else if (mode == WS_ONEWAY) send_out(&all[i]);
        else ask(&all[i]);
    }
    if (mode == WS_ROOM) begin_broadcast();
    while (phase < DRAINING) turn();
    if (mode == WS_ONEWAY) {
        for (unsigned i = 0; i < connections; i++) {
            while (all[i].out_left > 0) turn();
            ask_text(&all[i]);
        }
    }
    while (open_count > 0) turn();
    print_result();
}

// As load.c's idle: each step opens more, echoes on them, and holds until it is asked to continue.
static void run_idle(void)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    bool has_stdin = epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &e) == 0;
    next_phase_ns = UINT64_MAX;
    for (unsigned s = 0, open = 0; s <= step_count; open = steps[s++]) {
        if (s < step_count) upgrade(open, steps[s]);
        else open = 0; // at the end all echo once more: none may have been lost while it was idle
        for (unsigned i = open; i < (s < step_count ? steps[s] : connections); i++) {
            open_count++;
            begin_message(&all[i]);
            if (i % 64 == 63) while (open_count > 0) turn();
        }
        while (open_count > 0) turn();
        if (s == step_count) break;
        printf("open %u\n", steps[s]);
        fflush(stdout);
        uint64_t until = clock_ns() + (uint64_t)(hold * 1e9);
        bool told = false;
        while (!told && clock_ns() < until) told = turn();
        char line[64];
        if (told && has_stdin && read(STDIN_FILENO, line, sizeof line) <= 0) {
            epoll_ctl(epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
            has_stdin = false;
        }
    }
    print_parameters();
    printf(",\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"errors\":0}\n", done_messages, done_bytes);
    fflush(stdout);
}

static void prepare(void)
{
    size_t length = 2 * TABLE_SIZE + MAX_MESSAGE + RECEIVE_SIZE;
    table = malloc(length);
    all = calloc(connections, sizeof *all);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!table || !all || epoll < 0) fail("no memory or descriptors");
    fill_table(table, 2 * TABLE_SIZE);
    for (size_t at = 2 * TABLE_SIZE; at < length; at++) table[at] = table[at - TABLE_SIZE];
    for (unsigned i = 0; i < connections; i++) all[i].fd = -1;

    stated_length = mode == UP ? 0 : size;
    if (is_socket()) {
        for (unsigned i = 0; i < STRETCHES; i++) {
            frames[i] = malloc((size_t)size + 14 + 64);
            if (!frames[i]) fail("no memory for the frames");
#ifdef DEFLATE
            if (deflate_mode) {
                uint8_t packed[2 * MAX_HEAD];
                write_json(texts[i], (size_t)size, i);
                frame_lengths[i] = make_frame(frames[i], TEXT | PACKED, packed, deflate_text(packed, sizeof packed, texts[i], (size_t)size));
                continue;
            }
#endif
            frame_lengths[i] = make_frame(frames[i], BINARY, stretch(i), (size_t)size);
        }
    }
    for (unsigned i = 0; i < pipeline; i++)
        request_length += (size_t)(is_socket()
            ? snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " NONCE "\r\n%s\r\n", path,
                deflate_mode == ANEW ? "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n" : deflate_mode ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "")
            : mode == UP ? snprintf(request, sizeof request, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %" PRIu64 "\r\n\r\n", path, size)
            : snprintf(request + request_length, sizeof request - request_length, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, mode == CLOSE ? "Connection: close\r\n" : ""));
}

static uint64_t parse_size(const char *text, uint64_t most)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || *end || n == 0 || n > most) usage("'%s' is no number of bytes up to %" PRIu64, text, most);
    return n;
}

static void parse_steps(char *text)
{
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
        if (step_count == MAX_STEPS) usage("at most %d steps", MAX_STEPS);
        steps[step_count] = parse_count(part, "--connections", MAX_CONNECTIONS);
        if (step_count && steps[step_count] <= steps[step_count - 1]) usage("steps must grow");
        step_count++;
    }
    if (!step_count) usage("--connections needs a number");
    connections = steps[step_count - 1];
}

static void parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", 1, 0, 'p'}, {"connections", 1, 0, 'c'}, {"size", 1, 0, 's'}, {"path", 1, 0, 'P'}, {"pipeline", 1, 0, 'l'}, {"unit", 1, 0, 'u'},
        {"seconds", 1, 0, 'z'}, {"warmup", 1, 0, 'w'}, {"hold", 1, 0, 'h'}, {"messages", 1, 0, 'm'}, {"watch", 1, 0, 'W'}, {"tls", 1, 0, 'T'}, {"resume", 0, 0, 'r'},
        {"deflate", 1, 0, 'd'}, {"no-check", 0, 0, 'n'}, {0, 0, 0, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': server.sin_port = htons((uint16_t)parse_count(optarg, "--port", 65535)); break;
        case 'c': parse_steps(optarg); break;
        case 's': size = parse_size(optarg, 1ull << 40); break;
        case 'P': path = optarg; break;
        case 'l': pipeline = parse_count(optarg, "--pipeline", MAX_PIPELINE); break;
        case 'u': unit = parse_size(optarg, 1ull << 30); break;
        case 'z': seconds = parse_seconds(optarg, "--seconds"); break;
        case 'w': warmup = parse_seconds(optarg, "--warmup"); break;
        case 'm': idle_messages = parse_count(optarg, "--messages", 1000000); break;
        case 'h': hold = parse_seconds(optarg, "--hold"); break;
        case 'W': watched_pid = (int)parse_count(optarg, "--watch", INT32_MAX); break;
        case 'T': authority_file = optarg; break;
        case 'r': resume = true; break;
        case 'd':
            deflate_mode = strcmp(optarg, "anew") == 0 ? ANEW : strcmp(optarg, "context") == 0 ? CONTEXT : PLAIN;
            if (!deflate_mode) usage("--deflate is anew or context");
            break;
        case 'n': check = false; break;
        default: usage("see above");
        }
    }
    if (optind != argc) usage("unexpected '%s'", argv[optind]);
    if (!server.sin_port) usage("--port is needed");
    if (strlen(path) > 200) usage("the path is too long");
    if (is_socket() && size > MAX_MESSAGE) usage("a message has at most %u bytes", MAX_MESSAGE);
    if (pipeline > 1 && mode != KEEP) usage("only http sends several requests at once");
    if (step_count > 1 && mode != WS_IDLE) usage("only ws-idle takes several counts");
    if (deflate_mode && ((mode != WS_ECHO && mode != WS_IDLE) || size > MAX_HEAD)) usage("--deflate is for ws-echo and ws-idle, with at most %u bytes", MAX_HEAD);
#ifndef DEFLATE
    if (deflate_mode) usage("--deflate: this was made without zlib");
#endif
    if (mode == UP && !unit) usage("http-up needs --unit");
}

int main(int argc, char **argv)
{
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (argc < 2) usage("a scenario is needed");
    if (argc == 3 && strcmp(argv[1], "table") == 0) {
        table = malloc(2 * TABLE_SIZE);
        if (!table) return 1;
        fill_table(table, 2 * TABLE_SIZE);
        for (uint64_t left = parse_size(argv[2], 1ull << 40); left > 0;) {
            size_t n = left < TABLE_SIZE ? (size_t)left : TABLE_SIZE;
            if (fwrite(table, 1, n, stdout) != n) return 1;
            left -= n;
        }
        return 0;
    }
    unsigned m = 0;
    while (m <= WS_BEAT && strcmp(argv[1], mode_names[m]) != 0) m++;
    if (m > WS_BEAT) usage("unknown scenario '%s'", argv[1]);
    mode = (enum mode)m;
    parse_options(argc - 1, argv + 1);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    prepare();
    if (authority_file && !tls_start(authority_file)) fail("no TLS: %s", tls_error());
    next_phase_ns = UINT64_MAX;
    if (mode == WS_IDLE) run_idle();
    else run_measured();
    return 0;
}
