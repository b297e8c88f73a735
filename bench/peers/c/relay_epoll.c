// relay_epoll.c - a TCP relay in the plainest way: one thread, level-triggered epoll, recv into one 64 KiB buffer and send at once to the other side.
// What that refuses is copied to memory of its own, and nothing more is read for it until it has gone; the end of one direction is passed on alone.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "server.h"

#define RECEIVE_SIZE (64 * 1024)
#define MAX_EVENTS 512

// Indexed by descriptor. What waits here is to be sent to this side.
static struct side {
    uint8_t *bytes;
    uint32_t at, length, events;
    int other; // 0: closed
    bool has_ended;
} sides[MAX_DESCRIPTORS];

static uint8_t buffer[RECEIVE_SIZE] __attribute__((aligned(4096)));
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
    uint32_t events = (side->has_ended || sides[side->other].bytes ? 0 : (uint32_t)EPOLLIN) | (side->bytes ? (uint32_t)EPOLLOUT : 0);
    if (events != side->events) watch(fd, EPOLL_CTL_MOD, side->events = events);
}

static void close_both(int fd)
{
    int both[] = {fd, sides[fd].other};
    for (int i = 0; i < 2; i++) {
        free(sides[both[i]].bytes);
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
        // Until the dial is done a send says EAGAIN, as to anybody who is slow.
        sides[front] = (struct side){.other = back, .events = EPOLLIN};
        sides[back] = (struct side){.other = front, .events = EPOLLIN};
        watch(front, EPOLL_CTL_ADD, EPOLLIN);
        watch(back, EPOLL_CTL_ADD, EPOLLIN);
    }
}

static void send_pending(int fd)
{
    struct side *side = &sides[fd];
    while (side->at < side->length) {
        ssize_t n = send(fd, side->bytes + side->at, side->length - side->at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) { close_both(fd); return; }
        side->at += (uint32_t)n;
    }
    free(side->bytes);
    side->bytes = NULL;
    if (sides[side->other].has_ended) shutdown(fd, SHUT_WR);
    look_for(fd);
    look_for(side->other);
}

static void pass_on(int fd)
{
    int other = sides[fd].other;
    ssize_t received = recv(fd, buffer, RECEIVE_SIZE, 0);
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
    ssize_t sent = send(other, buffer, (size_t)received, MSG_NOSIGNAL);
    if (sent == received) return;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) { close_both(fd); return; }
    if (sent < 0) sent = 0;
    size_t rest = (size_t)(received - sent);
    uint8_t *copy = malloc(rest);
    if (!copy) die("malloc");
    memcpy(copy, buffer + sent, rest);
    sides[other].bytes = copy;
    sides[other].at = 0;
    sides[other].length = (uint32_t)rest;
    look_for(fd);
    look_for(other);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"target", 1, 0, 't'}, {0, 0, 0, 0}};
    int port = 0, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 't') target.sin_port = htons((uint16_t)parse_number(optarg, "--target", 1, 65535));
        else return fputs("usage: relay_epoll --target PORT [--port N]\n", stderr), 2;
    }

    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, NULL, "c-relay");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) { accept_ready(); continue; }
            if (sides[fd].other && sides[fd].bytes) send_pending(fd);
            if (sides[fd].other && !sides[fd].has_ended && !sides[sides[fd].other].bytes && (events[i].events & ~(uint32_t)EPOLLOUT)) pass_on(fd);
            else if (sides[fd].other && sides[fd].has_ended && (events[i].events & (EPOLLERR | EPOLLHUP))) close_both(fd);
        }
    }
}
