// push_epoll.c - the broadcast server every other one is measured against. One thread owns one log, a ring of 32-byte
// messages (load/message.h); a message is written once, and every client holds its own offset into the log and is sent
// whatever lies between its offset and the head, straight out of the log and as one piece.
//
// Nothing is dropped for a client that keeps up: the log stops growing while the slowest client lags by a whole ring.
// One that stays there without taking a byte for a second is closed, so that it cannot hold the others for ever.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "../../load/message.h"
#include "server.h"

#define LOG_MESSAGES 32768u             // 1 MiB: what W3 lets a session have pending
#define LOG_SIZE ((uint64_t)LOG_MESSAGES * MESSAGE_SIZE)
#define MAX_EVENTS 512
#define STUCK_NS 1000000000ull

struct client {
    int fd;
    bool blocked;                       // its socket is full; EPOLLOUT reports space
    uint64_t at;                        // offset into the log, counted from the beginning of time
    uint64_t behind_since_ns;           // since when it has been the one that holds the log, 0 when it is not
};

static struct message ring[LOG_MESSAGES] __attribute__((aligned(4096)));
static uint64_t head;                   // bytes ever appended
static struct client *clients[MAX_DESCRIPTORS];
static unsigned client_count;
static int epoll, listener;

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void watch(int fd, int operation, uint32_t events, void *data)
{
    struct epoll_event e = {.events = events, .data.ptr = data};
    if (epoll_ctl(epoll, operation, fd, &e) != 0) die("epoll_ctl");
}

// A client that joins sees the log from its head on.
static void accept_ready(void)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN) return;
            die("accept4");
        }
        struct client *c = calloc(1, sizeof *c);
        if (!c) die("calloc");
        c->fd = fd;
        c->at = head;
        clients[client_count++] = c;
        // Edge-triggered: a blocked client is woken once when it has room, and none has to be armed and disarmed.
        watch(fd, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, c);
    }
}

static void append(uint64_t count)
{
    for (; count > 0; count--, head += MESSAGE_SIZE) {
        uint64_t sequence = head / MESSAGE_SIZE;
        message_make(&ring[sequence % LOG_MESSAGES], sequence);
    }
}

// Sends up to the head or to the end of the ring, whichever comes first. False when the client is gone.
static bool send_from_log(struct client *c)
{
    while (c->at < head) {
        uint64_t position = c->at % LOG_SIZE, length = head - c->at;
        if (length > LOG_SIZE - position) length = LOG_SIZE - position;
        ssize_t n = send(c->fd, (const uint8_t *)ring + position, length, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            c->blocked = errno == EAGAIN;
            return c->blocked;
        }
        c->at += (uint64_t)n;
        c->behind_since_ns = 0;
        // A short send means that the socket is full; asking again would only cost a call. The edge comes when it has room.
        if ((uint64_t)n < length) {
            c->blocked = true;
            return true;
        }
    }
    return true;
}

// The offset of the slowest client, after sending to each that has room. Clients that are gone or stuck are closed here,
// and only here, so that no event of this turn refers to one.
static uint64_t send_to_all(void)
{
    uint64_t slowest = head;
    for (unsigned i = 0; i < client_count;) {
        struct client *c = clients[i];
        bool alive = c->fd >= 0 && (c->blocked || send_from_log(c));
        if (alive && head - c->at == LOG_SIZE) {
            uint64_t now = clock_ns();
            if (c->behind_since_ns == 0) c->behind_since_ns = now;
            else if (now - c->behind_since_ns > STUCK_NS) alive = false;
        }
        if (!alive) {
            if (c->fd >= 0) close(c->fd);
            free(c);
            clients[i] = clients[--client_count];
            continue;
        }
        if (c->at < slowest) slowest = c->at;
        i++;
    }
    return slowest;
}

// Clients only receive. Anything readable is their end, or bytes that we do not want.
static void client_ready(struct client *c, uint32_t events)
{
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        close(c->fd);
        c->fd = -1;
        return;
    }
    if (events & EPOLLOUT) c->blocked = false;
}

static void wait_events(int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(epoll, events, MAX_EVENTS, timeout_ms);
    if (n < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &listener) accept_ready();
        else client_ready(events[i].data.ptr, events[i].events);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", 1, 0, 'p'}, {"unix", 1, 0, 'u'}, {"rate", 1, 0, 'r'}, {"batch", 1, 0, 'b'}, {0, 0, 0, 0}};
    int port = 0, option;
    uint64_t rate = 0, batch = 1024;    // 32 KiB per send: the smallest piece at which the call no longer shows
    const char *unix_path = NULL;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 'u') unix_path = optarg;
        else if (option == 'r') rate = (uint64_t)parse_number(optarg, "--rate", 1, 1000000000);
        else if (option == 'b') batch = (uint64_t)parse_number(optarg, "--batch", 1, LOG_MESSAGES);
        else return fputs("usage: push_epoll [--port N | --unix PATH] [--rate MESSAGES_PER_SECOND] [--batch MESSAGES]\n", stderr), 2;
    }

    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, unix_path, "c-epoll");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN, &listener);

    uint64_t paced_from_ns = 0, paced_from = 0;
    for (;;) {
        uint64_t room = (LOG_SIZE - (head - send_to_all())) / MESSAGE_SIZE, due = batch;
        if (client_count == 0) paced_from_ns = 0;
        else if (paced_from_ns == 0) paced_from_ns = clock_ns(), paced_from = head;
        if (rate && client_count) {
            // What a millisecond brings may be more than one batch.
            due = (uint64_t)((double)(clock_ns() - paced_from_ns) * 1e-9 * (double)rate) - (head - paced_from) / MESSAGE_SIZE;
            if (due > LOG_MESSAGES / 2) due = LOG_MESSAGES / 2;
        }

        // Full speed: never wait while the log has space. Otherwise only a writable socket lets the loop continue.
        bool go = client_count > 0 && room >= due && due > 0;
        if (go) append(due);
        // With a rate it sleeps a millisecond between two looks, as a server with a timer does: it has nothing to gain by spinning.
        wait_events(client_count == 0 ? -1 : rate ? 1 : go ? 0 : 100);
    }
}
