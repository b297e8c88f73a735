// storm.h - ping-pong by the clock while handshakes arrive all at once: does a loop serve those it has while others knock?
// Included by load.c. One thread sends a message on each of the long-lived connections every 5 ms whatever happens, and
// measures from the moment at which the message was due, so that a server that stalls is not asked less. After half of the
// window a second thread, which gives way to the first (nice 19), opens a burst of connections, makes their first flights
// beforehand and sends them all at once; each goes through the handshake, echoes once and closes; 100 ms after the last comes
// the next burst. What was due while a burst ran is counted apart from the quiet half. The same bursts run uncounted in the first
// three quarters of the warm-up, so that a server with a JIT compiler has compiled its handshake before it is measured.
#ifdef TLS
#include <math.h>
#include <poll.h>
#include <sys/timerfd.h>

#define STORM_PERIOD_NS 5000000ull  // 200 messages a second on each connection
#define STORM_TICK_NS 500000
#define STORM_QUEUE 4096u           // messages that may be pending on one connection: 20 s of them
#define STORM_REST_NS 100000000ull
#define STORM_PATIENCE_NS 30000000000ull

struct schedule {
    uint64_t next_due, due[STORM_QUEUE];
    unsigned head, tail;
};

struct knocker {
    int fd;
    SSL *ssl;
    uint8_t flight[2048];
    int flight_length;
    size_t got;
    bool shaken, done;
};

static struct histogram storm_quiet;
static volatile bool storm_warming, storm_begin, storm_end;
static volatile uint64_t storm_since, storm_until; // the burst that runs began; the last one ended
static uint64_t storm_bursts, storm_handshakes, storm_burst_max_ns, storm_burst_total_ns;

static void knock(struct knocker *k, uint64_t number)
{
    k->fd = new_socket(0);
    bind_source(k->fd, number);
    while (connect(k->fd, (struct sockaddr *)&server_address, server_address_length) != 0)
        if (errno != EINTR) fail("connect of a burst: %s", strerror(errno));
    fcntl(k->fd, F_SETFL, O_NONBLOCK);
    k->ssl = tls_new(k->fd, NULL);
    if (!k->ssl) fail("a client of a burst cannot be made: %s", tls_error());
    // The first flight into memory, to be sent with all others; from then on the socket.
    BIO *memory = BIO_new(BIO_s_mem());
    SSL_set0_wbio(k->ssl, memory);
    if (tls_handshake(k->ssl) != TLS_WANT_READ) fail("no first flight: %s", tls_error());
    k->flight_length = BIO_read(memory, k->flight, sizeof k->flight);
    if (k->flight_length <= 0 || BIO_pending(memory) > 0) fail("the first flight has %d bytes", k->flight_length);
    SSL_set0_wbio(k->ssl, BIO_new_socket(k->fd, BIO_NOCLOSE));
}

static void knocker_ready(struct knocker *k, uint32_t start)
{
    if (!k->shaken) {
        enum tls_step step = tls_handshake(k->ssl);
        if (step == TLS_WANT_READ || step == TLS_WANT_WRITE) return;
        if (step != TLS_DONE) fail("a handshake of a burst failed: %s", tls_error());
        k->shaken = true;
        size_t sent;
        if (tls_write(k->ssl, table + start, size, &sent) != TLS_DONE || sent != size) fail("a message of a burst could not be sent: %s", tls_error());
    }
    uint8_t bytes[64];
    size_t n;
    bool more;
    enum tls_step step = tls_read(k->ssl, bytes, sizeof bytes, &n, &more);
    if (step == TLS_CLOSED || step == TLS_FAILED) fail("a connection of a burst was lost: %s", tls_error());
    if (k->got + n > size || memcmp(bytes, table + start + k->got, n) != 0) fail("a connection of a burst got other bytes than it sent");
    k->got += n;
    k->done = k->got == size;
}

static void one_burst(struct knocker *all, uint64_t number)
{
    static struct pollfd polls[4096];
    memset(all, 0, burst * sizeof *all);
    for (unsigned i = 0; i < burst; i++) knock(&all[i], number + i);

    uint64_t began = clock_ns();
    storm_since = began;
    for (unsigned i = 0; i < burst; i++)
        if (send(all[i].fd, all[i].flight, (size_t)all[i].flight_length, MSG_NOSIGNAL) != all[i].flight_length) fail("a first flight could not be sent: %s", strerror(errno));
    unsigned open = burst;
    while (open > 0) {
        for (unsigned i = 0; i < burst; i++) polls[i] = (struct pollfd){.fd = all[i].done ? -1 : all[i].fd, .events = POLLIN};
        if (poll(polls, burst, 1000) < 0 && errno != EINTR) fail("poll: %s", strerror(errno));
        if (clock_ns() - began > STORM_PATIENCE_NS) fail("stalled: %u of %u handshakes of a burst did not end within 30 s", open, burst);
        for (unsigned i = 0; i < burst; i++) {
            if (!polls[i].revents || all[i].done) continue;
            knocker_ready(&all[i], stream_start((uint32_t)(number + i), 0) % (TABLE_SIZE - 64));
            if (all[i].done) open--;
        }
    }
    uint64_t took = clock_ns() - began;
    storm_until = clock_ns();
    storm_since = 0;
    for (unsigned i = 0; i < burst; i++) {
        tls_close_notify(all[i].ssl);
        tls_free(all[i].ssl);
        close(all[i].fd);
    }
    if (!storm_begin) return;
    storm_bursts++;
    storm_handshakes += burst;
    storm_burst_total_ns += took;
    if (took > storm_burst_max_ns) storm_burst_max_ns = took;
}

static void *run_bursts(void *argument)
{
    (void)argument;
    if (nice(19) < 0 && errno) fail("nice: %s", strerror(errno)); // of this thread only, on Linux
    struct knocker *all = calloc(burst, sizeof *all);
    if (!all) fail("no memory for a burst");
    for (uint64_t number = 1u << 20; !storm_end;) {
        if (!storm_warming && !storm_begin) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        one_burst(all, number);
        number += burst;
        nanosleep(&(struct timespec){.tv_nsec = STORM_REST_NS}, NULL);
    }
    free(all);
    return NULL;
}

// Counts the messages that came back whole.
static void storm_ready(struct worker *w, struct connection *c, struct schedule *s)
{
    uint64_t whole = c->received / size;
    size_t n = receive(c, w->buffer, RECEIVE_SIZE);
    if (n) take_echo(w, c, n);
    uint64_t now = clock_ns();
    for (; whole < c->received / size; whole++) {
        uint64_t due = s->due[s->head++ % STORM_QUEUE];
        w->messages++;
        // Due while a burst ran: one that runs now and began before it was answered, or the last one.
        bool stormy = storm_begin && ((storm_since && now >= storm_since) || due < storm_until);
        if (stormy) histogram_record(&w->latency, now - due);
        else if (!storm_begin && w->phase == MEASURING) histogram_record(&storm_quiet, now - due);
    }
}

static void run_storm(void)
{
    struct worker *w = &workers[0];
    make_worker(w, 0, connections);
    struct schedule *schedules = calloc(connections, sizeof *schedules);
    if (!schedules) fail("no memory for the schedules");
    for (unsigned i = 0; i < connections; i++) open_connection(w, &w->connections[i], i);
    storm_warming = true;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec tick = {.it_interval.tv_nsec = STORM_TICK_NS, .it_value.tv_nsec = STORM_TICK_NS};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    if (timer < 0 || timerfd_settime(timer, 0, &tick, NULL) != 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, timer, &e) != 0) fail("timerfd: %s", strerror(errno));
    pthread_t bursts;
    if (pthread_create(&bursts, NULL, run_bursts, NULL) != 0) fail("cannot start the thread of the bursts");

    // Spread over the period, so that the connections do not come in a burst of their own.
    uint64_t start = clock_ns();
    for (unsigned i = 0; i < connections; i++) schedules[i].next_due = start + STORM_PERIOD_NS * i / connections;
    uint64_t calm = start + (uint64_t)(warmup * .75e9), measure = start + (uint64_t)(warmup * 1e9), half = measure + (uint64_t)(seconds / 2 * 1e9), end = measure + (uint64_t)(seconds * 1e9);
    uint64_t last_answer = start;
    bool draining = false;
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(w->epoll, events, MAX_EVENTS, 50);
        if (n < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
        uint64_t now = clock_ns(), answered = w->messages;
        if (storm_warming && now >= calm) storm_warming = false;
        if (w->phase == WARMING && now >= near_ns(start)) {
            w->phase = NEARING;
            announce(w, "window near");
        }
        if (w->phase == NEARING && now >= measure) {
            w->phase = MEASURING;
            announce(w, "window start");
            take_sample(w, &w->first);
        }
        if (!storm_begin && now >= half) storm_begin = true;
        // The window is as long as it takes to see three bursts whole.
        if (!draining && now >= end && storm_bursts >= 3) {
            take_sample(w, &w->last);
            announce(w, "window end");
            storm_end = draining = true;
        }
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            uint64_t expired;
            if (c) do storm_ready(w, c, &schedules[c - w->connections]); while (c->more);
            else if (read(timer, &expired, sizeof expired) < 0 && errno != EAGAIN) fail("timerfd: %s", strerror(errno));
        }
        unsigned busy = 0;
        for (unsigned i = 0; i < connections; i++) {
            struct connection *c = &w->connections[i];
            struct schedule *s = &schedules[i];
            for (; !draining && s->next_due <= now; s->next_due += STORM_PERIOD_NS) {
                if (s->tail - s->head == STORM_QUEUE) fail("stalled: connection %u has %u messages pending", i, STORM_QUEUE);
                s->due[s->tail++ % STORM_QUEUE] = s->next_due;
            }
            uint64_t wanted = (uint64_t)s->tail * size;
            if (c->sent < wanted && !c->wants_out) send_stream(w, c, wanted - c->sent);
            busy += c->received < (uint64_t)s->tail * size;
        }
        if (w->messages != answered || busy == 0) last_answer = now;
        if (now - last_answer > STORM_PATIENCE_NS) fail("stalled: nothing came back for 30 s");
        if (draining && busy == 0) break;
    }
    pthread_join(bursts, NULL);
    w->next_phase_ns = UINT64_MAX;
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, timer, NULL);
    begin_close(w);
    while (w->open > 0) turn(w);
    print_result();
}

static void print_storm(void)
{
    printf(",\"quiet_ns\":{\"count\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}", storm_quiet.count,
           histogram_percentile(&storm_quiet, .5), histogram_percentile(&storm_quiet, .99), storm_quiet.max);
    printf(",\"bursts\":%" PRIu64 ",\"handshakes\":%" PRIu64 ",\"burst_ns\":{\"mean\":%" PRIu64 ",\"max\":%" PRIu64 "}", storm_bursts, storm_handshakes,
           storm_bursts ? storm_burst_total_ns / storm_bursts : 0, storm_burst_max_ns);
}

#else
static void run_storm(void) { fail("this load program is built without TLS"); }
static void print_storm(void) { }
#endif
