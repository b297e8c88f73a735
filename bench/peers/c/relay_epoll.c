// relay_epoll.c - a TCP relay in the plainest way: one thread, level-triggered epoll, recv into one 64 KiB buffer and send at once to the other side.
// What that refuses is copied to memory of its own, and nothing more is read for it until it has gone.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>

#define RECEIVE_SIZE (64 * 1024)

struct held {
    uint8_t *bytes; // in the buffer, or memory of its own
    uint32_t at, length;
    bool is_own;
};

#include "relay.h"

static uint8_t buffer[RECEIVE_SIZE] __attribute__((aligned(4096)));

static bool open_held(struct held *held)
{
    (void)held;
    return true;
}

static void close_held(struct held *held)
{
    if (held->is_own) free(held->bytes);
    *held = (struct held){0};
}

static bool waits(const struct held *held) { return held->bytes; }

static ssize_t fill(int fd, struct held *held)
{
    ssize_t received = recv(fd, buffer, RECEIVE_SIZE, 0);
    if (received > 0) *held = (struct held){.bytes = buffer, .length = (uint32_t)received};
    return received;
}

static ssize_t give(int fd, struct held *held)
{
    uint32_t left = held->length - held->at;
    ssize_t n = send(fd, held->bytes + held->at, left, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    held->at += (uint32_t)n;
    if ((uint32_t)n == left) close_held(held);
    return (uint32_t)n == left ? n : 0; // less than all: the socket is full
}

static void keep(struct held *held)
{
    uint32_t rest = held->length - held->at;
    uint8_t *copy = malloc(rest);
    if (!copy) die("malloc");
    memcpy(copy, held->bytes + held->at, rest);
    *held = (struct held){.bytes = copy, .length = rest, .is_own = true};
}

int main(int argc, char **argv) { return relay(argc, argv, "c-relay"); }
