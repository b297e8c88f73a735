// relay.h - what the two relays in C share: connections in pairs, level-triggered epoll, the end of one direction passed on alone. What waits for a side, and how
// bytes get there, is each one's own (struct held and the functions declared here): nothing more is read for a side while something waits for it.
#ifndef WHIMBREL_BENCH_RELAY_H
#define WHIMBREL_BENCH_RELAY_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "server.h"

#define MAX_EVENTS 512

static bool open_held(struct held *held);
static void close_held(struct held *held);
static bool waits(const struct held *held);

// Receives from a socket what shall be sent to the other side: as recv.
static ssize_t fill(int fd, struct held *held);

// Sends what it can: as send, but 0 when there is no room now.
static ssize_t give(int fd, struct held *held);

// What was not sent stays until there is room.
static void keep(struct held *held);

// Indexed by descriptor.
static struct side {
    struct held held; // to be sent to this side
    uint32_t events;
    int other; // 0: closed
    bool has_ended;
} sides[MAX_DESCRIPTORS];

static struct sockaddr_in target = {.sin_family = AF_INET};
static int epoll, listener;

static void watch(int fd, int operation, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &e) != 0) die("epoll_ctl");
}

// It is read while it has not ended and the other side takes what comes, and written to when something waits.
static void look_for(int fd)
{
    struct side *side = &sides[fd];
    uint32_t events = (side->has_ended || waits(&sides[side->other].held) ? 0 : (uint32_t)EPOLLIN) | (waits(&side->held) ? (uint32_t)EPOLLOUT : 0);
    if (events != side->events) watch(fd, EPOLL_CTL_MOD, side->events = events);
}

static void close_both(int fd)
{
    int both[] = {fd, sides[fd].other};
    for (int i = 0; i < 2; i++) {
        close_held(&sides[both[i]].held);
        sides[both[i]] = (struct side){0};
        close(both[i]);
    }
}

static void accept_ready(void)
{
    for (int i = 0; i < 64; i++) {
        int front = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
        if (front < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN) return;
            die("accept4");
        }
        int back = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (back < 0) die("socket");
        setsockopt(back, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (front >= MAX_DESCRIPTORS || back >= MAX_DESCRIPTORS || (connect(back, (struct sockaddr *)&target, sizeof target) != 0 && errno != EINPROGRESS)) {
            close(front);
            close(back);
            continue;
        }
        // Until the connect is complete a send returns EAGAIN, as for a slow peer.
        sides[front] = (struct side){.other = back, .events = EPOLLIN};
        sides[back] = (struct side){.other = front, .events = EPOLLIN};
        if (!open_held(&sides[front].held) || !open_held(&sides[back].held)) die("no room for a connection");
        watch(front, EPOLL_CTL_ADD, EPOLLIN);
        watch(back, EPOLL_CTL_ADD, EPOLLIN);
    }
}

// False when the connection has gone.
static bool send_held(int fd)
{
    struct held *held = &sides[fd].held;
    while (waits(held)) {
        ssize_t n = give(fd, held);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { close_both(fd); return false; }
        if (n == 0) break;
    }
    return true;
}

static void send_pending(int fd)
{
    if (!send_held(fd) || waits(&sides[fd].held)) return;
    if (sides[sides[fd].other].has_ended) shutdown(fd, SHUT_WR);
    look_for(fd);
    look_for(sides[fd].other);
}

static void pass_on(int fd)
{
    int other = sides[fd].other;
    ssize_t received = fill(fd, &sides[other].held);
    if (received < 0) {
        if (errno != EAGAIN && errno != EINTR) close_both(fd);
        return;
    }
    if (received == 0) {
        sides[fd].has_ended = true;
        if (sides[other].has_ended) { close_both(fd); return; }
        shutdown(other, SHUT_WR);
        look_for(fd);
        return;
    }
    if (!send_held(other) || !waits(&sides[other].held)) return;
    keep(&sides[other].held);
    look_for(fd);
    look_for(other);
}

static int relay(int argc, char **argv, const char *name)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"target", 1, 0, 't'}, {0, 0, 0, 0}};
    int port = 0, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 't') target.sin_port = htons((uint16_t)parse_number(optarg, "--target", 1, 65535));
        else return fprintf(stderr, "usage: %s --target PORT [--port N]\n", argv[0]), 2;
    }

    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, NULL, name);
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) { accept_ready(); continue; }
            if (sides[fd].other && waits(&sides[fd].held)) send_pending(fd);
            if (sides[fd].other && !sides[fd].has_ended && !waits(&sides[sides[fd].other].held) && (events[i].events & ~(uint32_t)EPOLLOUT)) pass_on(fd);
            else if (sides[fd].other && sides[fd].has_ended && (events[i].events & (EPOLLERR | EPOLLHUP))) close_both(fd);
        }
    }
}

#endif
