// One publisher or one subscriber of a broker, in plain C: the reference for a cluster of Whimbrel, and the counter of what its members receive.
//
//   pubsub pub nats|redis PORT RATE WARM SECONDS SHARED   publishes messages of 64 bytes; RATE 0: as fast as the slower subscriber takes them
//   pubsub sub nats|redis PORT SLOT SHARED                subscribes
//   pubsub sub tcp PORT SLOT SHARED                       a member of a server: messages without a frame
//
// SHARED is a file of 8-byte numbers, a slot for each of the two subscribers: how far it has come. So a publisher as fast as it goes stays at most WINDOW ahead, whichever
// system is in between, and nothing is lost for want of room. The publisher sends probes until it gets a line, then warms up, then says `begin`, and `end` after the last one.
// A subscriber says `hearing` with its first message, and at the end what came: messages, those missing, seconds, p50, p99, p99.9 in ns.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64, WINDOW = 16384, BATCH = 64, MOST_SAMPLES = 1 << 20, PROBE = 0, COUNTED = 1, END = 2 };

typedef struct { uint64_t number, sent_ns, kind; char filler[SIZE - 24]; } message;

static void fail(const char *what) { perror(what); exit(1); }

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(const char *text) { puts(text); fflush(stdout); }

static volatile uint64_t *share(const char *path)
{
    int file = open(path, O_RDWR);
    if (file < 0) fail(path);
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return memory;
}

static int dial(int port)
{
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (connect(s, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static void put(int s, const void *data, size_t count)
{
    for (const char *at = data; count > 0;) {
        ssize_t n = write(s, at, count);
        if (n < 0) fail("write");
        at += n;
        count -= (size_t)n;
    }
}

static const char *before, *after;

static void hello(int s, const char *protocol, int subscribes)
{
    if (!strcmp(protocol, "nats")) {
        static const char connect_line[] = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n", sub[] = "SUB bench 1\r\n";
        put(s, connect_line, sizeof connect_line - 1);
        if (subscribes) put(s, sub, sizeof sub - 1);
        before = "PUB bench 64\r\n";
    } else if (!strcmp(protocol, "redis")) {
        static const char sub[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$5\r\nbench\r\n";
        if (subscribes) put(s, sub, sizeof sub - 1);
        before = "*3\r\n$7\r\nPUBLISH\r\n$5\r\nbench\r\n$64\r\n";
    }
    after = "\r\n";
}

// ---------------------------------------------------------------------------------------------------------------- publish

static uint64_t published;

static void publish(int s, const char *protocol, int count, uint64_t kind)
{
    static char out[BATCH * (SIZE + 64)];
    size_t length = 0, head = strlen(before);
    for (int i = 0; i < count; i++) {
        message m = { .number = kind == COUNTED ? ++published : 0, .sent_ns = now_ns(), .kind = kind };
        memcpy(out + length, before, head);
        memcpy(out + length + head, &m, SIZE);
        memcpy(out + length + head + SIZE, after, 2);
        length += head + SIZE + 2;
    }
    put(s, out, length);
    // Answers of Redis, pings of NATS.
    static char in[65536];
    struct pollfd p = { s, POLLIN, 0 };
    while (poll(&p, 1, 0) > 0) {
        ssize_t n = read(s, in, sizeof in);
        if (n <= 0) fail("the broker closed");
        if (!strcmp(protocol, "nats") && memmem(in, (size_t)n, "PING", 4)) put(s, "PONG\r\n", 6);
    }
}

static void run(int s, const char *protocol, volatile uint64_t *shared, long rate, double seconds)
{
    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), sent = 0;
    while (now_ns() < end) {
        if (rate == 0) {
            uint64_t slowest = shared[0] < shared[1] ? shared[0] : shared[1];
            if (published - slowest > WINDOW - BATCH) usleep(200);
            else publish(s, protocol, BATCH, COUNTED);
            continue;
        }
        uint64_t due = (uint64_t)((double)(now_ns() - start) * (double)rate / 1e9);
        for (; sent < due; ) {
            int count = due - sent > BATCH ? BATCH : (int)(due - sent);
            publish(s, protocol, count, COUNTED);
            sent += (uint64_t)count;
        }
        usleep(200);
    }
}

// ---------------------------------------------------------------------------------------------------------------- subscribe

static uint32_t samples[MOST_SAMPLES];
static uint64_t last, heard, missing, first_ns, last_ns, sampled;

static int by_value(const void *a, const void *b) { uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b; return x < y ? -1 : x > y; }

static void take(const char *at, uint64_t now, volatile uint64_t *slot, volatile uint64_t *shared)
{
    static int hears;
    message m;
    memcpy(&m, at, SIZE);
    if (!hears) { hears = 1; say("hearing"); }
    if (m.kind == END) {
        uint64_t count = sampled < MOST_SAMPLES ? sampled : MOST_SAMPLES;
        qsort(samples, count, sizeof *samples, by_value);
        printf("came %lu missing %lu seconds %.6f p50 %u p99 %u p999 %u\n", heard, missing, (double)(last_ns - first_ns) / 1e9,
               count ? samples[count / 2] : 0, count ? samples[count * 99 / 100] : 0, count ? samples[count * 999 / 1000] : 0);
        exit(0);
    }
    if (m.kind != COUNTED) return;
    if (m.number <= last) { fprintf(stderr, "%lu after %lu\n", m.number, last); exit(1); }
    missing += m.number - last - 1;
    last = m.number;
    *slot = last;
    // The publisher writes into slot 2 with which number the counted part begins.
    if (shared[2] == 0 || m.number < shared[2]) return;
    if (heard++ == 0) first_ns = now;
    last_ns = now;
    samples[sampled++ % MOST_SAMPLES] = (uint32_t)(now - m.sent_ns < UINT32_MAX ? now - m.sent_ns : UINT32_MAX);
}

// How long the frame before the payload is; 0: not whole yet; below 0: so many bytes are no message.
static long frame(const char *protocol, int s, const char *at, size_t left)
{
    if (!strcmp(protocol, "tcp")) return left >= SIZE ? SIZE : 0;
    const char *end = memchr(at, '\n', left);
    if (!end) return 0;
    size_t line = (size_t)(end - at) + 1;
    if (!strcmp(protocol, "nats")) {
        if (line >= 4 && !memcmp(at, "PING", 4)) put(s, "PONG\r\n", 6);
        if (line < 3 || memcmp(at, "MSG", 3)) return -(long)line;
        return left >= line + SIZE + 2 ? (long)line : 0;
    }
    // "*3 $7 message $5 bench $64", each with its line end, or the answer to SUBSCRIBE.
    static const char push[] = "*3\r\n$7\r\nmessage\r\n$5\r\nbench\r\n$64\r\n";
    if (left < 20) return 0;
    if (memcmp(at, push, 17)) return -(long)line;
    return left >= sizeof push - 1 + SIZE + 2 ? (long)sizeof push - 1 : 0;
}

static void subscribe(int s, const char *protocol, volatile uint64_t *slot, volatile uint64_t *shared)
{
    static char in[1 << 20];
    size_t have = 0;
    int is_framed = strcmp(protocol, "tcp");
    say("ready");
    for (;;) {
        ssize_t n = read(s, in + have, sizeof in - have);
        if (n <= 0) fail("it closed");
        have += (size_t)n;
        uint64_t now = now_ns();
        size_t at = 0;
        for (long head; at < have && (head = frame(protocol, s, in + at, have - at)) != 0;) {
            if (head < 0) { at += (size_t)-head; continue; }
            take(in + at + (is_framed ? head : 0), now, slot, shared);
            at += is_framed ? (size_t)head + SIZE + 2 : SIZE;
        }
        memmove(in, in + at, have -= at);
    }
}

int main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "sub")) {
        volatile uint64_t *shared = share(argv[5]);
        int s = dial(atoi(argv[3]));
        hello(s, argv[2], 1);
        subscribe(s, argv[2], &shared[atoi(argv[4])], shared);
    }
    if (argc != 8 || strcmp(argv[1], "pub")) { fprintf(stderr, "see the head of pubsub.c\n"); return 2; }
    volatile uint64_t *shared = share(argv[7]);
    int s = dial(atoi(argv[3]));
    hello(s, argv[2], 0);
    say("ready");
    for (struct pollfd p = { 0, POLLIN, 0 }; poll(&p, 1, 20) == 0;) publish(s, argv[2], 1, PROBE);
    long rate = atol(argv[4]);
    run(s, argv[2], shared, rate, atof(argv[5]));
    shared[2] = published + 1;
    say("begin");
    run(s, argv[2], shared, rate, atof(argv[6]));
    say("end");
    publish(s, argv[2], 1, END);
    usleep(200000);
    return 0;
}
