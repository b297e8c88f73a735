// broken.c - a server that does one thing wrong on purpose, so that `bench/run --self-test` can show that the load
// program notices. A thread per connection, blocking, simple; never a peer in a comparison.
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "../../load/message.h"
#include "server.h"

// What goes wrong, once, on each connection that gets that far: at byte `fault_at` (echo) or message `fault_at` (push).
// The last three get every byte right: `leak` keeps memory for each receive, `weak` burns CPU, and `cold` burns CPU, half as
// much every half second, like a program that is being compiled while it runs.
enum fault { NONE, CORRUPT, LOSE, REPEAT, FOREIGN, EXTRA, HALT, STALL, CLOSE, LEAK, COLD, WEAK };
static const char *const fault_names[] = {"none", "corrupt", "lose", "repeat", "foreign", "extra", "halt", "stall", "close", "leak", "cold", "weak"};
#define HALT_MS 50
#define LEAK_BYTES 4096
#define WEAK_US 40
#define COLD_US 4000
#define COLD_HALF_LIFE_MS 500
static enum fault fault;
static uint64_t fault_at;

static bool send_all(int fd, const void *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        ssize_t n = send(fd, (const uint8_t *)bytes + at, length - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

// Sends the bytes with the fault at `at`. False ends the connection. The buffer has room for one more byte.
static bool send_with_fault(int fd, uint8_t *bytes, size_t length, size_t at)
{
    switch (fault) {
    case NONE: return send_all(fd, bytes, length);
    case CORRUPT: bytes[at] ^= 1; return send_all(fd, bytes, length);
    case LOSE: return send_all(fd, bytes, at) && send_all(fd, bytes + at + 1, length - at - 1);
    case REPEAT: return send_all(fd, bytes, at + 1) && send_all(fd, bytes + at, length - at);
    case FOREIGN: memset(bytes + at, 'x', length - at < 32 ? length - at : 32); return send_all(fd, bytes, length);
    case EXTRA: bytes[length] = 'x'; return send_all(fd, bytes, length + 1);
    case HALT: usleep(HALT_MS * 1000); return send_all(fd, bytes, length); // nothing is wrong but the time
    case STALL: send_all(fd, bytes, at); pause(); return false;
    case CLOSE: send_all(fd, bytes, at); return false;
    case LEAK: case COLD: case WEAK: return send_all(fd, bytes, length);
    }
    return false;
}

static long ms_since_first_call(void)
{
    static _Atomic int64_t first;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000, none = 0;
    atomic_compare_exchange_strong(&first, &none, ms);
    return (long)(ms - first);
}

// Halves in each half-life, on a line between.
static long cold_us(long ms)
{
    long lives = ms / COLD_HALF_LIFE_MS, rest = ms % COLD_HALF_LIFE_MS;
    return lives > 12 ? 0 : (COLD_US >> lives) * (2 * COLD_HALF_LIFE_MS - rest) / (2 * COLD_HALF_LIFE_MS);
}

static void waste(void)
{
    if (fault == LEAK) {
        void *kept = malloc(LEAK_BYTES);
        if (kept) memset(kept, 1, LEAK_BYTES);
    }
    struct timespec since, now;
    if (fault < COLD || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &since) != 0) return;
    long wasted = fault == WEAK ? WEAK_US : cold_us(ms_since_first_call());
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - since.tv_sec) * 1000000 + (now.tv_nsec - since.tv_nsec) / 1000 < wasted);
}

static void *echo(void *argument)
{
    int fd = (int)(intptr_t)argument;
    uint8_t buffer[4096 + 1];
    uint64_t total = 0;
    ssize_t n;
    while ((n = recv(fd, buffer, 4096, 0)) > 0) {
        waste();
        bool now = total <= fault_at && fault_at < total + (uint64_t)n;
        if (!(now ? send_with_fault(fd, buffer, (size_t)n, fault_at - total) : send_all(fd, buffer, (size_t)n))) break;
        total += (uint64_t)n;
    }
    close(fd);
    return NULL;
}

static void *push(void *argument)
{
    int fd = (int)(intptr_t)argument;
    for (uint64_t sequence = 0;; sequence++) {
        struct message m;
        message_make(&m, sequence);
        if (sequence == fault_at) {
            if (fault == CORRUPT) m.word[2] ^= 1;
            if (fault == LOSE) continue;
            if (fault == REPEAT && !send_all(fd, &m, sizeof m)) break;
            if (fault == STALL) pause();
            if (fault == CLOSE) break;
        }
        if (!send_all(fd, &m, sizeof m)) break;
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"push", 0, 0, 'P'}, {"fault", 1, 0, 'f'}, {"after", 1, 0, 'a'}, {0, 0, 0, 0}};
    int port = 0, option;
    void *(*serve)(void *) = echo;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 'P') serve = push;
        else if (option == 'a') fault_at = (uint64_t)parse_number(optarg, "--after", 0, 1L << 40);
        else if (option == 'f') {
            while (fault <= WEAK && strcmp(optarg, fault_names[fault]) != 0) fault++;
            if (fault > WEAK) return fputs("--fault none|corrupt|lose|repeat|foreign|extra|halt|stall|close|leak|cold|weak\n", stderr), 2;
        } else return fputs("usage: broken [--port N] [--push] --fault NAME --after N\n", stderr), 2;
    }

    int listener = listen_and_tell(port, NULL, "broken");
    fcntl(listener, F_SETFL, 0); // shared code makes it non-blocking; this server waits in accept4
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) != 0) die("pthread_create");
        pthread_detach(thread);
    }
}
