// load.c - the one client of all benchmarks: drives a server over loopback, checks every byte that comes back, and
// prints the result as one line of JSON. One thread and one epoll by default.
//
// A byte's way: `send_window` sends it by reference out of one table of random bytes, the server does its work, and the
// scenario's `..._ready` function receives it into the worker's buffer and compares it with the table. `run_worker` is
// the loop around that; `move_phase` is the clock: warm up, measure, drain, close. A wrong byte, a lost connection or a
// stall ends the program through `fail`; a run that failed never prints a rate.
//
// Lines on stdout, for the program that runs us: `window near`, `window start`, `window end`, for idle `open N`, and the JSON last.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "program.h"
#include "tls.h"

#define RECEIVE_SIZE (64u * 1024)   // holds two windows of W1, and stays in L2
#define SEND_CHUNK (64u * 1024)
#define MAX_THREADS 16
#define MAX_CONNECTIONS 19900u      // descriptors are limited to 20,000 per process
#define KNOWN_MESSAGES 8192u        // push: messages of which the right bytes are kept (256 KiB)
#define MAX_STEPS 8
#define MAX_SIZE (1024u * 1024)

enum scenario { ECHO, PINGPONG, SHORT, PUSH, IDLE, GROUPS, HANDSHAKE, RATE, STORM };
enum phase { WARMING, NEARING, MEASURING, DRAINING, CLOSING };

struct connection {
    int fd;
    bool wants_out, push_started;
    bool awaited;                   // push: must receive once more after the window, so that a stall at its end is seen
    uint8_t quiet_sweeps, carried;
    uint32_t key;
    uint32_t send_at, receive_at;   // positions in the table
    uint64_t sent, received;        // bytes since the connection opened
    uint64_t received_at_sweep;
    uint64_t heard_ns;              // with --stall-ms: when something came last
    uint64_t started_ns;            // ping-pong: when the message left; short: when the socket was made
    uint64_t next_sequence;         // push
    uint8_t carry[MESSAGE_SIZE];    // push: the beginning of an incomplete message
    SSL *ssl;                       // null without TLS
    SSL_SESSION *session;           // handshake: what the next connection in this place resumes
    uint64_t refused;               // TLS: so many bytes are partly on their way, and must be offered again
    bool more, shaken, resumes;     // TLS: something is left that epoll does not know of; the handshake is over; it offered a session
    bool follows;                   // handshake: another connection was in this place before
};

// Groups: one pending broadcast. Each member must receive it once and complete, and no other connection may.
struct broadcast {
    struct message message;         // sequence 0: none pending
    unsigned group, got, got_at_sweep;
    uint8_t quiet_sweeps;
    uint64_t started_ns, sequence_at_sweep;
    uint64_t *seen;                 // a bit for each member
};

// What is known at one edge of the measured window.
struct sample {
    uint64_t ns, bytes, messages;
    struct cpu cpu;
};

struct worker {
    int epoll;
    unsigned index, count;          // connections
    struct connection *connections;
    enum phase phase;
    uint64_t next_phase_ns, next_sweep_ns;
    unsigned open;                  // connections that have work before the phase may end
    uint64_t bytes, messages;       // received since the beginning
    uint64_t gaps, skipped;         // push: holes in the sequence, and messages in them
    uint64_t opened;                // short: connections opened by this worker
    uint64_t stalls, longest_gap_ns; // with --stall-ms
    struct sample first, last;
    struct histogram latency;
    struct message *known;          // push: ring of right messages; holds the sequences [known_low, known_high)
    uint64_t known_low, known_high;
    uint8_t *buffer;
};

static enum scenario scenario;
static const char *const scenario_names[] = {"echo", "pingpong", "short", "push", "idle", "groups", "handshake", "rate", "storm"};
static unsigned connections = 1, messages = 1000, size = 32, threads = 1;
static unsigned groups, members;    // 0: as many as connections
static struct broadcast *broadcasts;
static unsigned steps[MAX_STEPS], step_count;
static double hold = 30;
static bool lossless, resume;
static const char *authority_file;  // TLS
static unsigned burst = 100;
static unsigned rate, beside;       // rate: messages a second; connections that are open beside and say nothing
static uint64_t rate_begin_ns, next_message;
static uint64_t ended_with_notify, ended_without;
static struct sockaddr_storage server_address;
static socklen_t server_address_length;
static uint64_t window_bytes, epoch_ns, stall_ns;
static uint8_t *table;
static struct worker workers[MAX_THREADS];

static void print_parameters(void)
{
    printf("{\"scenario\":\"%s\",\"connections\":%u,\"in_flight\":%u,\"size\":%u,\"threads\":%u,\"warmup_s\":%g,\"checked\":%s",
           scenario_names[scenario], connections, scenario == ECHO || scenario == GROUPS ? messages : 1, size, threads, warmup,
           check ? "true" : "false");
    if (authority_file) printf(",\"tls\":\"1.3\",\"resumed\":%s", resume ? "true" : "false");
    if (scenario == STORM) printf(",\"burst\":%u", burst);
    if (scenario == RATE) printf(",\"rate\":%u,\"beside\":%u", rate, beside);
    if (scenario == GROUPS) printf(",\"groups\":%u,\"members\":%u", groups, members);
}

static const char *const program_name = "load";
static const char *const usage_text =
    "\nusage: load echo|pingpong|short|push|idle|groups|handshake|rate|storm --port N | --unix PATH\n"
    "  --connections N    (short: at a time; idle: a list such as 1000,10000)   1\n"
    "  --messages N       echo: messages in flight per connection                1000\n"
    "                     groups: broadcasts in flight                           1000\n"
    "  --groups N|all     groups; all: as many as connections                    all\n"
    "  --members N|all    groups: connections in each group                      all\n"
    "  --size N           bytes per message                                      32\n"
    "  --seconds S        measured window                                        3\n"
    "  --warmup S         before it                                              2\n"
    "  --threads N                                                               1\n"
    "  --lossless         push: a hole in the sequence fails the run\n"
    "  --stall-ms N       pingpong, echo: count the times a connection got nothing for longer\n"
    "  --hold S           idle: longest wait for a line on stdin after each step 30\n"
    "  --tls FILE         over TLS; FILE has the issuer of the server's certificate. handshake and storm are with TLS only\n"
    "  --resume           handshake: every one after the first of each resumes\n"
    "  --burst N          storm: handshakes at once                              100\n"
    "  --rate N           rate: messages a second over all connections, sent when they are due\n"
    "  --beside N         rate: connections that stay open beside and say nothing 0\n"
    "  --watch PID        also report the CPU of this process over the window\n"
    "  --no-check         do not compare the bytes (to show what the check costs)\n"
    "load test-histogram  compares the histogram with exact percentiles\n";

// ---- the table: what is sent, and what must come back ---------------------------------------------------------------

static void make_table(void)
{
    size_t length = TABLE_SIZE + (SEND_CHUNK > RECEIVE_SIZE ? SEND_CHUNK : RECEIVE_SIZE);
    table = aligned_alloc(4096, (length + 4095) & ~(size_t)4095);
    if (!table) fail("no memory for the table");
    fill_table(table, length);
}

// Direction 0 is client to server. An echo comes back as it went, so direction 1 is not used yet.
static uint32_t stream_start(uint32_t key, unsigned direction)
{
    return (uint32_t)(mix64(((uint64_t)key << 1 | direction) + 1) % TABLE_SIZE);
}

static uint32_t advance(uint32_t position, size_t bytes)
{
    return (uint32_t)((position + bytes) % TABLE_SIZE);
}

// The time in which a connection that waits for an answer got no byte, as far as it lies in the measured window.
static void note_gap(struct worker *w, struct connection *c)
{
    uint64_t now = clock_ns(), since = c->heard_ns > w->first.ns ? c->heard_ns : w->first.ns;
    c->heard_ns = now;
    if (w->phase != MEASURING || now <= since) return;
    if (now - since > w->longest_gap_ns) w->longest_gap_ns = now - since;
    if (now - since > stall_ns) w->stalls++;
}

// Counts and compares what came. `bytes` is at most RECEIVE_SIZE.
static void take_echo(struct worker *w, struct connection *c, size_t bytes)
{
    if (c->received + bytes > c->sent)
        fail("connection %u: %" PRIu64 " bytes came back, but only %" PRIu64 " were sent (a byte repeated, or foreign)",
             c->key, c->received + bytes, c->sent);

    const uint8_t *expected = table + c->receive_at;
    if (check && memcmp(w->buffer, expected, bytes) != 0) {
        size_t at = 0;
        while (w->buffer[at] == expected[at]) at++;
        fail("connection %u: byte %" PRIu64 " is 0x%02x and must be 0x%02x (a byte wrong, lost, repeated or foreign)",
             c->key, c->received + at, w->buffer[at], expected[at]);
    }
    c->receive_at = advance(c->receive_at, bytes);
    c->received += bytes;
    w->bytes += bytes;
    if (stall_ns) note_gap(w, c);
}

// ---- sockets --------------------------------------------------------------------------------------------------------

static void watch_out(struct worker *w, struct connection *c, bool out)
{
    if (c->wants_out == out) return;
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(w->epoll, EPOLL_CTL_MOD, c->fd, &e) != 0) fail("epoll_ctl: %s", strerror(errno));
    c->wants_out = out;
}

static void reset_connection(struct connection *c, uint32_t key, int fd)
{
    memset(c, 0, sizeof *c);
    c->fd = fd;
    c->key = key;
    c->send_at = c->receive_at = stream_start(key, 0);
}

static int new_socket(int flags)
{
    int fd = socket(server_address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0) fail("socket: %s", strerror(errno));
    int one = 1;
    if (server_address.ss_family == AF_INET) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

// The long-lived connections: connected one after the other, blocking, with a short rest after every 64 so that a
// server on the same cpu can accept before its backlog overflows (a dropped SYN costs a second).
static void open_connection(struct worker *w, struct connection *c, uint32_t key)
{
    int fd = new_socket(0);
    while (connect(fd, (struct sockaddr *)&server_address, server_address_length) != 0)
        if (errno != EINTR) fail("connect, connection %u: %s", key, strerror(errno));
    reset_connection(c, key, fd);
    if (authority_file) {
        struct timeval limit = {.tv_sec = 10};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        c->ssl = tls_new(fd, NULL);
        if (!c->ssl || tls_handshake(c->ssl) != TLS_DONE) fail("connection %u: handshake: %s", key, tls_error());
        c->shaken = true;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) != 0) fail("epoll_ctl: %s", strerror(errno));
    if (key % 64 == 63) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

// Returns what came, 0 when nothing did. The end of the connection is a failure: no scenario lets the server close first.
static size_t receive(struct connection *c, void *to, size_t room)
{
    if (c->ssl) {
        size_t count;
        enum tls_step step = tls_read(c->ssl, to, room, &count, &c->more);
        if (step == TLS_CLOSED && count == 0) fail("connection %u: the server closed it after %" PRIu64 " bytes", c->key, c->received);
        if (step == TLS_FAILED) fail("connection %u: lost after %" PRIu64 " bytes: %s", c->key, c->received, tls_error());
        return count;
    }
    ssize_t n = recv(c->fd, to, room, 0);
    if (n > 0) return (size_t)n;
    if (n == 0) fail("connection %u: the server closed it after %" PRIu64 " bytes", c->key, c->received);
    if (errno == EAGAIN || errno == EINTR) return 0;
    fail("connection %u: lost after %" PRIu64 " bytes: %s", c->key, c->received, strerror(errno));
}

// Like send(). What was refused once must be offered again, not less of it: its record is on the way in part.
static ssize_t send_tls(struct connection *c, size_t chunk)
{
    size_t count;
    if (chunk < c->refused) chunk = (size_t)c->refused;
    enum tls_step step = tls_write(c->ssl, table + c->send_at, chunk, &count);
    if (step == TLS_FAILED || step == TLS_CLOSED) fail("connection %u: send failed after %" PRIu64 " bytes: %s", c->key, c->sent, tls_error());
    c->refused = step == TLS_DONE ? 0 : chunk;
    if (step == TLS_DONE) return (ssize_t)count;
    errno = EAGAIN;
    return -1;
}

// Sends up to `room` bytes of the connection's stream, by reference. What the socket refuses is asked for again by EPOLLOUT.
static void send_stream(struct worker *w, struct connection *c, uint64_t room)
{
    while (room > 0) {
        size_t chunk = room < SEND_CHUNK ? room : SEND_CHUNK;
        ssize_t n = c->ssl ? send_tls(c, chunk) : send(c->fd, table + c->send_at, chunk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) break;
            fail("connection %u: send failed after %" PRIu64 " bytes: %s", c->key, c->sent, strerror(errno));
        }
        c->send_at = advance(c->send_at, (size_t)n);
        c->sent += (uint64_t)n;
        room -= (uint64_t)n;
    }
    watch_out(w, c, room > 0);
}

// W1: a message may leave for every whole message that came back, on top of the first `messages`.
static void send_window(struct worker *w, struct connection *c)
{
    uint64_t allowed = c->received / size * size + window_bytes;
    if (allowed > c->sent) send_stream(w, c, allowed - c->sent);
}

// ---- scenarios ------------------------------------------------------------------------------------------------------

static void echo_ready(struct worker *w, struct connection *c)
{
    size_t n = receive(c, w->buffer, RECEIVE_SIZE);
    if (n) take_echo(w, c, n);
    if (w->phase < DRAINING) send_window(w, c);
    else if (c->refused) send_stream(w, c, c->refused); // the rest of a record that is partly sent
    else if (n && c->received == c->sent) w->open--;
}

static void pingpong_ready(struct worker *w, struct connection *c)
{
    size_t n = receive(c, w->buffer, RECEIVE_SIZE);
    if (n) take_echo(w, c, n);
    if (c->wants_out) {
        send_stream(w, c, size - c->sent % size);
        return;
    }
    if (!n || c->received != c->sent) return;

    // One clock reading per round trip: the end of this one is the beginning of the next.
    uint64_t now = clock_ns();
    if (w->phase == MEASURING) histogram_record(&w->latency, now - c->started_ns);
    w->messages++;
    if (w->phase < DRAINING) {
        c->started_ns = now;
        send_stream(w, c, size);
    } else {
        w->open--;
    }
}

// Open loop: message m leaves at its own moment on connection m % connections, whatever became of those before it, and its
// latency counts from the moment at which it was due. So a server that halts pays for every message of the pause.
static uint64_t due_ns(uint64_t message)
{
    return rate_begin_ns + (uint64_t)((double)message * 1e9 / rate);
}

static void rate_ready(struct worker *w, struct connection *c)
{
    size_t n = receive(c, w->buffer, RECEIVE_SIZE);
    uint64_t answered = c->received / size;
    if (n) take_echo(w, c, n);
    uint64_t now = clock_ns();
    for (; answered < c->received / size; answered++) {
        uint64_t due = due_ns(answered * connections + c->key);
        bool counts = w->phase == MEASURING ? due >= w->first.ns : w->phase == DRAINING && due >= w->first.ns && due < w->last.ns;
        if (counts) histogram_record(&w->latency, now - due);
        w->messages++;
    }
    uint64_t begun = (next_message + connections - 1 - c->key) / connections;
    if (c->wants_out) send_stream(w, c, begun * size - c->sent);
    else if (n && w->phase == DRAINING && c->received == c->sent) w->open--;
}

static void send_due(struct worker *w)
{
    if (w->phase >= DRAINING) return;
    for (uint64_t now = clock_ns(); due_ns(next_message) <= now; next_message++) {
        struct connection *c = &w->connections[next_message % connections];
        if (!c->wants_out) send_stream(w, c, (next_message / connections + 1) * size - c->sent);
    }
}

// The client closes first and so keeps the TIME_WAIT. 2,000 source addresses with 28,000 ports each, taken in turn, do not
// run out; IP_BIND_ADDRESS_NO_PORT leaves the port to connect(), which then only has to find a free four-tuple.
static void bind_source(int fd, uint64_t number)
{
    int one = 1;
    uint32_t host = (uint32_t)(number % 2000);
    struct sockaddr_in a = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(0x7F010000u | (host / 250) << 8 | (host % 250 + 1));
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) != 0)
        fail("IP_BIND_ADDRESS_NO_PORT: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0) fail("bind to a source address: %s", strerror(errno));
}

static void short_open(struct worker *w, struct connection *c)
{
    uint64_t started = clock_ns();
    int fd = new_socket(SOCK_NONBLOCK);
    uint64_t number = w->opened++ * threads + w->index;
    if (server_address.ss_family == AF_INET) bind_source(fd, number);
    if (connect(fd, (struct sockaddr *)&server_address, server_address_length) != 0 && errno != EINPROGRESS)
        fail("connect, connection %" PRIu64 ": %s", number, strerror(errno));
    SSL_SESSION *session = c->session;
    bool follows = c->follows;
    reset_connection(c, (uint32_t)number, fd);
    c->started_ns = started;
    c->session = session;
    c->follows = follows;
    if (scenario == HANDSHAKE) {
        c->resumes = session != NULL;
        c->ssl = tls_new(fd, resume ? &c->session : NULL);
        if (!c->ssl) fail("connection %" PRIu64 ": no TLS: %s", number, tls_error());
        c->wants_out = true; // writable: connected, and the handshake begins
        struct epoll_event both = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
        if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &both) != 0) fail("epoll_ctl: %s", strerror(errno));
        return;
    }

    // On loopback the handshake is over when connect() returns, so the first send nearly always goes through.
    ssize_t n = send(fd, table + c->send_at, size, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) fail("first send, connection %" PRIu64 ": %s", number, strerror(errno));
    c->sent = n > 0 ? (uint64_t)n : 0;
    c->send_at = advance(c->send_at, c->sent);
    c->wants_out = c->sent < size;
    struct epoll_event e = {.events = EPOLLIN | (c->wants_out ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) != 0) fail("epoll_ctl: %s", strerror(errno));
}

// True when the handshake is over. Full or resumed as it was meant to be, and not what the server likes better.
static bool shake(struct worker *w, struct connection *c)
{
    if (c->shaken) return true;
    enum tls_step step = tls_handshake(c->ssl);
    if (step == TLS_WANT_READ || step == TLS_WANT_WRITE) {
        watch_out(w, c, step == TLS_WANT_WRITE);
        return false;
    }
    if (step != TLS_DONE) fail("connection %u: handshake: %s", c->key, tls_error());
    if (tls_resumed(c->ssl) != c->resumes) fail("connection %u: the handshake %s", c->key, c->resumes ? "was to be resumed, and the server did not" : "was to be full, and was resumed");
    if (resume && !c->resumes && c->follows) fail("connection %u: the server gave no ticket to resume with", c->key);
    c->shaken = c->follows = true;
    return true;
}

static void short_ready(struct worker *w, struct connection *c)
{
    if (scenario == HANDSHAKE && !shake(w, c)) return;
    size_t n = receive(c, w->buffer, RECEIVE_SIZE);
    if (n) take_echo(w, c, n);
    if (c->sent < size) send_stream(w, c, size - c->sent);
    else watch_out(w, c, false);
    if (c->received < size) return;

    if (w->phase == MEASURING) histogram_record(&w->latency, clock_ns() - c->started_ns);
    w->messages++;
    if (c->ssl) tls_close_notify(c->ssl);
    tls_free(c->ssl);
    c->ssl = NULL;
    c->more = false;
    close(c->fd);
    c->fd = -1;
    if (w->phase < DRAINING) short_open(w, c);
    else w->open--;
}

// All clients of a push server receive the same messages, so the right bytes are made once, kept in a ring and compared by
// one memcmp per run. Returns how many of the messages, taken as a run that begins with `sequence`, are right.
static size_t matching_messages(struct worker *w, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    if (count > KNOWN_MESSAGES / 2) count = KNOWN_MESSAGES / 2;
    if (sequence < w->known_low || sequence > w->known_high) w->known_low = w->known_high = sequence;
    for (; w->known_high < sequence + count; w->known_high++)
        message_make(&w->known[w->known_high % KNOWN_MESSAGES], w->known_high);
    if (w->known_high - w->known_low > KNOWN_MESSAGES) w->known_low = w->known_high - KNOWN_MESSAGES;

    size_t slot = sequence % KNOWN_MESSAGES;
    size_t whole = count < KNOWN_MESSAGES - slot ? count : KNOWN_MESSAGES - slot;
    if (memcmp(bytes, &w->known[slot], whole * MESSAGE_SIZE) == 0) return whole;
    size_t right = 0;
    while (memcmp(bytes + right * MESSAGE_SIZE, &w->known[slot + right], MESSAGE_SIZE) == 0) right++;
    return right;
}

static void check_messages(struct worker *w, struct connection *c, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        uint64_t sequence;
        memcpy(&sequence, bytes, sizeof sequence);
        size_t right = matching_messages(w, sequence, bytes, count);
        if (right == 0) fail("connection %u: the message after %" PRIu64 " bytes (sequence %" PRIu64 ") is not intact", c->key, c->received, sequence);
        if (c->push_started && sequence != c->next_sequence) {
            if (sequence < c->next_sequence)
                fail("connection %u: sequence %" PRIu64 " came where %" PRIu64 " was next (repeated or out of order)", c->key, sequence, c->next_sequence);
            if (lossless)
                fail("connection %u: %" PRIu64 " messages are missing before sequence %" PRIu64, c->key, sequence - c->next_sequence, sequence);
            w->gaps++;
            w->skipped += sequence - c->next_sequence;
        }
        c->push_started = true;
        c->next_sequence = sequence + right;
        bytes += right * MESSAGE_SIZE;
        count -= right;
    }
}

static void push_ready(struct worker *w, struct connection *c)
{
    size_t n = receive(c, w->buffer + MESSAGE_SIZE, RECEIVE_SIZE);
    if (!n) return;
    uint8_t *begin = w->buffer + MESSAGE_SIZE - c->carried;
    memcpy(begin, c->carry, c->carried);
    size_t have = c->carried + n, whole = have / MESSAGE_SIZE;
    if (check) check_messages(w, c, begin, whole);
    c->carried = (uint8_t)(have % MESSAGE_SIZE);
    memcpy(c->carry, begin + whole * MESSAGE_SIZE, c->carried);
    c->received += n;
    w->bytes += n;
    w->messages += whole;
    if (w->phase == DRAINING && c->awaited) {
        c->awaited = false;
        w->open--;
    }
}

// ---- groups ---------------------------------------------------------------------------------------------------------
// The words of these messages are in bench/README.md: operation and group, sequence, and two that follow from them.

enum { JOIN = 1, BROADCAST = 2, ANSWER = 3 };

static struct message group_message(unsigned operation, unsigned group, uint64_t sequence)
{
    struct message m = {.sequence = (uint64_t)group << 8 | operation, .word = {sequence}};
    m.word[1] = mix64(m.sequence ^ (0x9E3779B97F4A7C15u * (sequence + 1)));
    m.word[2] = mix64(m.word[1] + 1);
    return m;
}

// The members of a group are neighbours, from this one on; the groups begin as far apart as they can.
static unsigned first_member(unsigned group)
{
    return groups >= connections ? group % connections : group * (connections / groups);
}

// A connection has little data in flight to the server, so a message that cannot be sent at once means that the server does not read.
static void send_message(struct connection *c, struct message m)
{
    ssize_t n = send(c->fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n != sizeof m) fail("connection %u: a message could not be sent: %s", c->key, n < 0 ? strerror(errno) : "only a part was taken");
}

static void begin_broadcast(struct worker *w, unsigned slot)
{
    struct broadcast *b = &broadcasts[slot];
    uint64_t sequence = b->message.sequence ? b->message.word[0] + messages : slot + 1;
    b->group = (unsigned)(sequence % groups);
    b->got = 0;
    b->message = group_message(BROADCAST, b->group, sequence);
    memset(b->seen, 0, (members / 64 + 1) * sizeof *b->seen);
    unsigned sender = (first_member(b->group) + (unsigned)(mix64(sequence) % members)) % connections;
    b->started_ns = clock_ns();
    send_message(&w->connections[sender], b->message);
}

static void take_delivery(struct worker *w, struct connection *c, const uint8_t *bytes, uint64_t now)
{
    struct message m;
    memcpy(&m, bytes, sizeof m);
    if (c->awaited) {
        // The answer to the question after the joins: they have all been taken.
        struct message expected = group_message(ANSWER, 0, c->key);
        if (memcmp(&m, &expected, sizeof m) != 0) fail("connection %u: the answer after the joins is not intact", c->key);
        c->awaited = false;
        w->open--;
        return;
    }

    struct broadcast *b = &broadcasts[(m.word[0] - 1) % messages];
    if (b->message.sequence == 0 || (check ? memcmp(&m, &b->message, sizeof m) != 0 : m.word[0] != b->message.word[0]))
        fail("connection %u: the message after %" PRIu64 " bytes (sequence %" PRIu64 ") is not intact, or late", c->key, c->received, m.word[0]);
    unsigned member = (c->key + connections - first_member(b->group)) % connections;
    if (member >= members) fail("connection %u got sequence %" PRIu64 " of group %u and is no member of it", c->key, m.word[0], b->group);
    if (b->seen[member / 64] >> (member % 64) & 1) fail("connection %u got sequence %" PRIu64 " of group %u twice", c->key, m.word[0], b->group);
    b->seen[member / 64] |= 1ull << (member % 64);
    w->messages++;
    if (w->phase == MEASURING) histogram_record(&w->latency, now - b->started_ns);
    if (++b->got < members) return;
    if (w->phase < DRAINING) {
        begin_broadcast(w, (unsigned)(b - broadcasts));
    } else {
        b->message.sequence = 0;
        w->open--;
    }
}

static void groups_ready(struct worker *w, struct connection *c)
{
    size_t n = receive(c, w->buffer + MESSAGE_SIZE, RECEIVE_SIZE);
    if (!n) return;
    uint64_t now = clock_ns();
    uint8_t *at = w->buffer + MESSAGE_SIZE - c->carried;
    memcpy(at, c->carry, c->carried);
    size_t have = c->carried + n;
    for (; have >= MESSAGE_SIZE; at += MESSAGE_SIZE, have -= MESSAGE_SIZE) take_delivery(w, c, at, now);
    c->carried = (uint8_t)have;
    memcpy(c->carry, at, have);
    c->received += n;
    w->bytes += n;
}

static void sweep_broadcasts(void)
{
    for (unsigned i = 0; i < messages; i++) {
        struct broadcast *b = &broadcasts[i];
        bool moved = b->got != b->got_at_sweep || b->message.word[0] != b->sequence_at_sweep;
        b->got_at_sweep = b->got;
        b->sequence_at_sweep = b->message.word[0];
        if (b->message.sequence == 0 || moved) { b->quiet_sweeps = 0; continue; }
        if (++b->quiet_sweeps == STALLED_SWEEPS)
            fail("stalled: sequence %" PRIu64 " of group %u reached %u of %u members, and no further one for 2 s", b->message.word[0], b->group, b->got, members);
    }
}

// Like recv(): 0 for the proper end of TLS, and for the plain FIN that some servers send instead, which is counted apart.
static ssize_t receive_end(struct worker *w, struct connection *c)
{
    size_t count;
    enum tls_step step = tls_read(c->ssl, w->buffer, RECEIVE_SIZE, &count, &c->more);
    c->more = false;
    if (count > 0) return (ssize_t)count;
    if (step == TLS_CLOSED || (step == TLS_FAILED && tls_ended_without_notify())) {
        if (step == TLS_CLOSED) ended_with_notify++;
        else ended_without++;
        tls_free(c->ssl);
        c->ssl = NULL;
        return 0;
    }
    if (step == TLS_FAILED) fail("connection %u: lost while closing: %s", c->key, tls_error());
    errno = EAGAIN;
    return -1;
}

// After the last echo: we have sent our end, and the only thing that may come is the server's.
static void close_ready(struct worker *w, struct connection *c)
{
    ssize_t n = c->ssl ? receive_end(w, c) : recv(c->fd, w->buffer, RECEIVE_SIZE, 0);
    if (n > 0) fail("connection %u: %zd bytes more than were sent", c->key, n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) fail("connection %u: lost while closing: %s", c->key, strerror(errno));
    close(c->fd);
    c->fd = -1;
    w->open--;
}

static void ready(struct worker *w, struct connection *c)
{
    if (w->phase == CLOSING) { close_ready(w, c); return; }
    switch (scenario) {
    case ECHO: echo_ready(w, c); break;
    case PINGPONG: pingpong_ready(w, c); break;
    case SHORT: short_ready(w, c); break;
    case PUSH: push_ready(w, c); break;
    case IDLE: pingpong_ready(w, c); break;
    case GROUPS: groups_ready(w, c); break;
    case HANDSHAKE: short_ready(w, c); break;
    case RATE: rate_ready(w, c); break;
    case STORM: break; // has a loop of its own
    }
}

// ---- time -----------------------------------------------------------------------------------------------------------

static void take_sample(struct worker *w, struct sample *s)
{
    s->ns = clock_ns();
    s->bytes = w->bytes;
    s->messages = scenario == ECHO ? w->bytes / size : w->messages;
    if (w->index != 0) return;
    sample_cpu(&s->cpu);
}

static void announce(const struct worker *w, const char *line)
{
    if (w->index != 0) return;
    puts(line);
    fflush(stdout);
}

static bool in_flight(const struct connection *c)
{
    if (scenario == GROUPS) return false; // the broadcasts are watched, not the connections
    return c->fd >= 0 && (c->awaited || scenario == SHORT || scenario == HANDSHAKE || c->wants_out || c->sent != c->received);
}

static void begin_drain(struct worker *w)
{
    w->phase = DRAINING;
    w->open = 0;
    for (unsigned i = 0; i < w->count; i++) {
        if (scenario == ECHO && !w->connections[i].refused) watch_out(w, &w->connections[i], false); // nothing more is sent, not even what was refused
        if (in_flight(&w->connections[i])) w->open++;
    }
    if (scenario == GROUPS) w->open = messages;
}

static void begin_close(struct worker *w)
{
    w->phase = CLOSING;
    w->open = 0;
    for (unsigned i = 0; i < w->count; i++) {
        if (w->connections[i].fd < 0) continue;
        w->connections[i].quiet_sweeps = 0;
        if (w->connections[i].ssl) tls_close_notify(w->connections[i].ssl);
        if (shutdown(w->connections[i].fd, SHUT_WR) != 0) fail("connection %u: shutdown: %s", w->connections[i].key, strerror(errno));
        w->open++;
    }
}

// Warm up, measure, drain: message counts and CPU time are read at the same instant, by the counting thread.
static void move_phase(struct worker *w)
{
    if (w->phase == WARMING) {
        w->phase = NEARING;
        announce(w, "window near");
        w->next_phase_ns = epoch_ns + (uint64_t)(warmup * 1e9);
        return;
    }
    // In a new process the first handshakes take long, and a short window must not end before there was one.
    if (scenario == HANDSHAKE && w->messages == (w->phase == NEARING ? 0 : w->first.messages)) {
        w->next_phase_ns = clock_ns() + 50000000;
        return;
    }
    if (w->phase == NEARING) {
        w->phase = MEASURING;
        announce(w, "window start");
        take_sample(w, &w->first);
        w->next_phase_ns = w->first.ns + (uint64_t)(seconds * 1e9);
    } else {
        // What is still silent has been so until now.
        for (unsigned i = 0; stall_ns && i < w->count; i++) note_gap(w, &w->connections[i]);
        take_sample(w, &w->last);
        announce(w, "window end");
        w->next_phase_ns = UINT64_MAX;
        begin_drain(w);
    }
}

// A connection that has something in flight and received nothing in eight sweeps has stalled. Sweeps are counted, not time:
// a client that did not get the cpu for two seconds must not blame the server.
static void sweep(struct worker *w)
{
    if (scenario == GROUPS && w->phase < CLOSING) sweep_broadcasts();
    for (unsigned i = 0; i < w->count; i++) {
        struct connection *c = &w->connections[i];
        bool waiting = w->phase == CLOSING ? c->fd >= 0 : in_flight(c);
        bool moved = c->received != c->received_at_sweep;
        c->received_at_sweep = c->received;
        if (!waiting || moved) { c->quiet_sweeps = 0; continue; }
        if (++c->quiet_sweeps < (scenario == HANDSHAKE && w->messages == 0 ? 5 * STALLED_SWEEPS : STALLED_SWEEPS)) continue;
        if (w->phase == CLOSING) fail("connection %u: the server did not close within 2 s of our end", c->key);
        fail("connection %u: stalled: nothing received for 2 s, %" PRIu64 " bytes sent, %" PRIu64 " received", c->key, c->sent,
             c->received);
    }
}

static int wait_for_events(struct worker *w, struct epoll_event *events)
{
    if (scenario != RATE || w->phase >= DRAINING) return epoll_wait(w->epoll, events, MAX_EVENTS, 50);
    uint64_t now = clock_ns(), due = due_ns(next_message), wait = due > now ? due - now : 0;
    struct timespec time = {.tv_nsec = (long)(wait < 50000000 ? wait : 50000000)};
    return epoll_pwait2(w->epoll, events, MAX_EVENTS, &time, NULL);
}

// One turn: wait, then the clock, then the events. Returns true when stdin has said something (idle only).
static bool turn(struct worker *w)
{
    struct epoll_event events[MAX_EVENTS];
    int n = wait_for_events(w, events);
    if (n < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
    uint64_t now = clock_ns();
    if (now >= w->next_phase_ns) move_phase(w);
    if (now >= w->next_sweep_ns) {
        sweep(w);
        w->next_sweep_ns = now + SWEEP_NS;
    }
    bool told = false;
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        if (c) do ready(w, c); while (c->more && c->fd >= 0);
        else told = true;
    }
    if (scenario == RATE) send_due(w);
    return told;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

static void start_traffic(struct worker *w)
{
    uint64_t now = clock_ns();
    w->next_phase_ns = near_ns(epoch_ns);
    w->next_sweep_ns = now + SWEEP_NS;
    for (unsigned i = 0; i < w->count; i++) {
        struct connection *c = &w->connections[i];
        c->started_ns = c->heard_ns = clock_ns();
        c->awaited = scenario == PUSH;
        if (scenario == ECHO) send_window(w, c);
        else if (scenario == PINGPONG) send_stream(w, c, size);
        else if (scenario == SHORT || scenario == HANDSHAKE) short_open(w, c);
    }
    for (unsigned i = 0; scenario == GROUPS && i < messages; i++) begin_broadcast(w, i);
    rate_begin_ns = clock_ns();
}

static void *run_worker(void *argument)
{
    struct worker *w = argument;
    start_traffic(w);
    while (w->phase < DRAINING || w->open > 0) turn(w);
    if (scenario == PUSH || scenario == SHORT || scenario == HANDSHAKE) return NULL;
    begin_close(w);
    while (w->open > 0) turn(w);
    return NULL;
}

static void make_worker(struct worker *w, unsigned index, unsigned count)
{
    w->index = index;
    w->count = count;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->connections = calloc(count, sizeof *w->connections);
    w->buffer = aligned_alloc(4096, RECEIVE_SIZE + 4096);
    w->known = aligned_alloc(4096, KNOWN_MESSAGES * sizeof *w->known);
    if (w->epoll < 0 || !w->connections || !w->buffer || !w->known) fail("no memory or descriptors for a worker");
    for (unsigned i = 0; i < count; i++) w->connections[i].fd = -1;
}

static void print_storm(void);

static void print_result(void)
{
    struct worker *first = &workers[0];
    uint64_t bytes = 0, count = 0, gaps = 0, skipped = 0, stalls = 0, longest_gap_ns = 0;
    for (unsigned t = 0; t < threads; t++) {
        stalls += workers[t].stalls;
        if (workers[t].longest_gap_ns > longest_gap_ns) longest_gap_ns = workers[t].longest_gap_ns;
        bytes += workers[t].last.bytes - workers[t].first.bytes;
        count += workers[t].last.messages - workers[t].first.messages;
        gaps += workers[t].gaps;
        skipped += workers[t].skipped;
        if (t) histogram_add(&first->latency, &workers[t].latency);
    }
    double elapsed = (double)(first->last.ns - first->first.ns) / 1e9;
    if (count == 0) fail("no message came back in the measured window");

    print_parameters();
    printf(",\"seconds\":%.6f,\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"per_second\":%.1f", elapsed, count, bytes, (double)count / elapsed);
    print_latency(&first->latency);
    print_cpu(&first->first.cpu, &first->last.cpu);
    if (authority_file) printf(",\"ended_with_close_notify\":%" PRIu64 ",\"ended_without\":%" PRIu64, ended_with_notify, ended_without);
    if (scenario == STORM) print_storm();
    if (scenario == PUSH) printf(",\"gaps\":%" PRIu64 ",\"skipped\":%" PRIu64, gaps, skipped);
    if (stall_ns)
        printf(",\"stall_ms\":%" PRIu64 ",\"stalls\":%" PRIu64 ",\"longest_gap_ns\":%" PRIu64, stall_ns / 1000000u, stalls, longest_gap_ns);
    puts(",\"errors\":0}");
    fflush(stdout);
}

// Every connection joins its groups, and then asks for an answer, which says that it is in.
static void join_groups(struct worker *w)
{
    broadcasts = calloc(messages, sizeof *broadcasts);
    if (!broadcasts) fail("no memory for the broadcasts");
    for (unsigned i = 0; i < messages; i++) {
        broadcasts[i].seen = calloc(members / 64 + 1, sizeof *broadcasts[i].seen);
        if (!broadcasts[i].seen) fail("no memory for the members");
    }
    w->next_phase_ns = w->next_sweep_ns = UINT64_MAX;
    uint64_t until = clock_ns() + 60000000000ull;
    for (unsigned g = 0; g < groups; g++)
        for (unsigned k = 0; k < members; k++) {
            send_message(&w->connections[(first_member(g) + k) % connections], group_message(JOIN, g, 0));
            if ((g * (uint64_t)members + k) % 1024 == 1023) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    for (unsigned i = 0; i < connections; i++) {
        if (i % 64 == 0) while (w->open > 0 && clock_ns() < until) turn(w);
        w->connections[i].awaited = true;
        w->open++;
        send_message(&w->connections[i], group_message(ANSWER, 0, w->connections[i].key));
    }
    while (w->open > 0 && clock_ns() < until) turn(w);
    if (w->open > 0) fail("the server did not answer after the joins");
}

static void run_measured(void)
{
    for (unsigned t = 0; t < threads; t++)
        make_worker(&workers[t], t, connections / threads + (t < connections % threads) + beside);
    if (scenario != SHORT && scenario != HANDSHAKE)
        for (unsigned i = 0; i < connections + beside; i++) open_connection(&workers[i % threads], &workers[i % threads].connections[i / threads], i);

    if (scenario == GROUPS) join_groups(&workers[0]);

    // With one thread the process stays single-threaded, which the kernel makes cheaper; so does the server's C twin.
    epoch_ns = clock_ns();
    pthread_t ids[MAX_THREADS];
    for (unsigned t = 1; t < threads; t++)
        if (pthread_create(&ids[t], NULL, run_worker, &workers[t]) != 0) fail("cannot start thread %u", t);
    run_worker(&workers[0]);
    for (unsigned t = 1; t < threads; t++) pthread_join(ids[t], NULL);
    print_result();
}

static void echo_once(struct worker *w, unsigned from, unsigned to)
{
    w->phase = DRAINING;
    for (unsigned i = from; i < to; i++) {
        // Rounds of 64, so that the server has accepted them before the next ones knock.
        if (i % 64 == 0) while (w->open > 0) turn(w);
        if (w->connections[i].fd < 0) open_connection(w, &w->connections[i], i);
        w->open++;
        send_stream(w, &w->connections[i], size);
    }
    while (w->open > 0) turn(w);
}

// Opens each step's number of connections, echoes one message on each new one and holds until asked to continue. At the end
// every connection echoes once more: none may have been lost while it was idle.
static void run_idle(void)
{
    struct worker *w = &workers[0];
    make_worker(w, 0, connections);
    w->next_phase_ns = UINT64_MAX;
    w->next_sweep_ns = clock_ns() + SWEEP_NS;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    bool has_stdin = epoll_ctl(w->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &e) == 0;

    for (unsigned s = 0, open = 0; s < step_count; open = steps[s++]) {
        echo_once(w, open, steps[s]);
        printf("open %u\n", steps[s]);
        fflush(stdout);
        uint64_t until = clock_ns() + (uint64_t)(hold * 1e9);
        bool told = false;
        while (!told && clock_ns() < until) told = turn(w);
        char line[64];
        if (told && has_stdin && read(STDIN_FILENO, line, sizeof line) <= 0) {
            epoll_ctl(w->epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
            has_stdin = false;
        }
    }
    echo_once(w, 0, connections);
    begin_close(w);
    while (w->open > 0) turn(w);
    print_parameters();
    printf(",\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"errors\":0}\n", w->messages, w->bytes);
    fflush(stdout);
}

#include "storm.h"

// ---- the histogram's own test ---------------------------------------------------------------------------------------

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int test_histogram(void)
{
    enum { COUNT = 100000 };
    static uint64_t values[COUNT];
    static struct histogram h;
    // Spread over all magnitudes from 1 ns to minutes: a random number of leading zeros, then random bits.
    for (uint64_t i = 0; i < COUNT; i++) {
        values[i] = mix64(i + 1) >> (24 + mix64(i + COUNT) % 40);
        histogram_record(&h, values[i]);
    }
    qsort(values, COUNT, sizeof *values, compare_u64);
    const double shares[] = {.001, .25, .5, .9, .99, .999, 1};
    for (unsigned i = 0; i < sizeof shares / sizeof *shares; i++) {
        uint64_t exact = values[(size_t)(shares[i] * COUNT + .5) - 1], got = histogram_percentile(&h, shares[i]);
        if (got < exact || got > exact + exact / 64) {
            fprintf(stderr, "load: histogram: p%g is %" PRIu64 ", exact %" PRIu64 "\n", shares[i] * 100, got, exact);
            return 1;
        }
    }
    if (h.max != values[COUNT - 1]) return fputs("load: histogram: wrong maximum\n", stderr), 1;
    puts("histogram: right within 1/64 at 7 percentiles of 100000 values");
    return 0;
}

// ---- the command line -----------------------------------------------------------------------------------------------

static unsigned parse_count_or_all(const char *text, const char *name)
{
    return strcmp(text, "all") == 0 ? 0 : parse_count(text, name, 1000000);
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

static void set_tcp(const char *text)
{
    struct sockaddr_in *a = (struct sockaddr_in *)&server_address;
    a->sin_family = AF_INET;
    a->sin_port = htons((uint16_t)parse_count(text, "--port", 65535));
    a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server_address_length = sizeof *a;
}

static void set_unix(const char *path)
{
    struct sockaddr_un *a = (struct sockaddr_un *)&server_address;
    a->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof a->sun_path) usage("the path is too long");
    strcpy(a->sun_path, path);
    server_address_length = sizeof *a;
}

static void parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", 1, 0, 'p'}, {"unix", 1, 0, 'u'}, {"connections", 1, 0, 'c'}, {"messages", 1, 0, 'm'}, {"size", 1, 0, 's'},
        {"seconds", 1, 0, 'z'}, {"warmup", 1, 0, 'w'}, {"threads", 1, 0, 't'}, {"lossless", 0, 0, 'l'}, {"hold", 1, 0, 'h'},
        {"watch", 1, 0, 'W'}, {"no-check", 0, 0, 'n'}, {"groups", 1, 0, 'g'}, {"members", 1, 0, 'M'},
        {"tls", 1, 0, 'T'}, {"resume", 0, 0, 'r'}, {"burst", 1, 0, 'b'},
        {"rate", 1, 0, 'R'}, {"beside", 1, 0, 'B'},
        {"stall-ms", 1, 0, 'S'}, {0, 0, 0, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': set_tcp(optarg); break;
        case 'u': set_unix(optarg); break;
        case 'c': parse_steps(optarg); break;
        case 'm': messages = parse_count(optarg, "--messages", 1000000); break;
        case 's': size = parse_count(optarg, "--size", MAX_SIZE); break;
        case 'z': seconds = parse_seconds(optarg, "--seconds"); break;
        case 'w': warmup = parse_seconds(optarg, "--warmup"); break;
        case 't': threads = parse_count(optarg, "--threads", MAX_THREADS); break;
        case 'l': lossless = true; break;
        case 'h': hold = parse_seconds(optarg, "--hold"); break;
        case 'W': watched_pid = (int)parse_count(optarg, "--watch", INT32_MAX); break;
        case 'S': stall_ns = parse_count(optarg, "--stall-ms", 10000) * 1000000ull; break;
        case 'n': check = false; break;
        case 'g': groups = parse_count_or_all(optarg, "--groups"); break;
        case 'T': authority_file = optarg; break;
        case 'r': resume = true; break;
        case 'b': burst = parse_count(optarg, "--burst", 4096); break;
        case 'R': rate = parse_count(optarg, "--rate", 10000000); break;
        case 'B': beside = parse_count(optarg, "--beside", MAX_CONNECTIONS); break;
        case 'M': members = parse_count_or_all(optarg, "--members"); break;
        default: usage("see above");
        }
    }
    if (optind != argc) usage("unexpected '%s'", argv[optind]);
    if (!server_address_length) usage("--port or --unix is needed");
    if (!step_count) steps[step_count++] = connections;
    if (step_count > 1 && scenario != IDLE) usage("only idle takes several counts");
    if (threads > connections || (threads > 1 && (scenario == IDLE || scenario == GROUPS))) usage("too many threads");
    if (groups == 0) groups = connections;
    if (members == 0) members = connections;
    if (scenario == GROUPS && members > connections) usage("a group cannot have more members than there are connections");
    if (scenario == GROUPS && size != MESSAGE_SIZE) usage("the messages of groups have %d bytes", MESSAGE_SIZE);
    if ((scenario == HANDSHAKE || scenario == STORM) && (!authority_file || size > 64)) usage("%s is with --tls, and with at most 64 bytes", scenario_names[scenario]);
    if (authority_file && (scenario == SHORT || scenario == PUSH || scenario == GROUPS || threads > 1)) usage("%s is not with TLS, and TLS not with several threads", scenario_names[scenario]);
    if ((scenario == RATE) != (rate > 0)) usage("rate needs --rate, and nothing else takes it");
    if (scenario == RATE && (threads > 1 || authority_file)) usage("rate is with one thread, and without TLS");
    if (beside && (scenario != RATE || connections + beside > MAX_CONNECTIONS)) usage("--beside is with rate, and with at most %u connections in all", MAX_CONNECTIONS);
    if (stall_ns && scenario != ECHO && scenario != PINGPONG) usage("only pingpong and echo look for stalls");
    if (size > SEND_CHUNK && scenario == SHORT) usage("the message of short has at most %u bytes", SEND_CHUNK);
    if (!check && lossless) usage("--lossless needs the check");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "test-histogram") == 0) return test_histogram();
    if (argc < 2) usage("a scenario is needed");
    unsigned s = 0;
    while (s <= STORM && strcmp(argv[1], scenario_names[s]) != 0) s++;
    if (s > STORM) usage("unknown scenario '%s'", argv[1]);
    scenario = (enum scenario)s;
    parse_options(argc - 1, argv + 1);
    window_bytes = (uint64_t)messages * size;

    signal(SIGPIPE, SIG_IGN);       // OpenSSL writes without MSG_NOSIGNAL; a reset must be an error with a reason
    raise_descriptor_limit();
    make_table();
    if (scenario == RATE) prctl(PR_SET_TIMERSLACK, 1000ul); // a nanosleep may otherwise be 50 us late
    if (authority_file && !tls_start(authority_file)) fail("no TLS: %s", tls_error());
    if (scenario == STORM) run_storm();
    else if (scenario == IDLE) run_idle();
    else run_measured();
    return 0;
}
