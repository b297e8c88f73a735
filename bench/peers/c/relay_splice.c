// relay_splice.c - relay_epoll.c without copies: bytes go from socket to socket through a pipe of the kernel for each direction, by splice.
// What the other side does not take waits in the pipe, and the direction is read again when that is empty.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>

#define PIPE_SIZE (256 * 1024)

struct held {
    int in, out; // of the pipe
    uint32_t waiting;
};

#include "relay.h"

static bool open_held(struct held *held)
{
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return false;
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
    *held = (struct held){.out = ends[0], .in = ends[1]};
    return true;
}

static void close_held(struct held *held)
{
    close(held->in);
    close(held->out);
}

static bool waits(const struct held *held) { return held->waiting; }

static ssize_t fill(int fd, struct held *held)
{
    ssize_t received = splice(fd, NULL, held->in, NULL, PIPE_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (received > 0) held->waiting = (uint32_t)received;
    return received;
}

static ssize_t give(int fd, struct held *held)
{
    ssize_t n = splice(held->out, NULL, fd, NULL, held->waiting, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    held->waiting -= (uint32_t)n;
    return n;
}

static void keep(struct held *held) { (void)held; }

int main(int argc, char **argv) { return relay(argc, argv, "c-relay-splice"); }
