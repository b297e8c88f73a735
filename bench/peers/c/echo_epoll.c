// echo_epoll.c - the echo server every other one is measured against: one thread, level-triggered epoll, one recv per
// event into one 64 KiB buffer, and send at once out of that buffer. What the socket refuses is copied to memory of the
// connection, which then waits for EPOLLOUT and does not receive until it is gone: so a slow peer costs one buffer, no more.
// With --threads N there are N such threads, each with an epoll, a buffer and a listening socket of its own.
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "server.h"

#define RECEIVE_SIZE (64 * 1024)
#define MAX_EVENTS 512

// Indexed by descriptor, of which each belongs to one thread. An idle connection costs these 16 bytes.
static struct pending {
    uint8_t *bytes;
    uint32_t at, length;
} pending[MAX_DESCRIPTORS];

static __thread uint8_t buffer[RECEIVE_SIZE] __attribute__((aligned(4096)));
static __thread int epoll, listener;

static void watch(int fd, int operation, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &e) != 0) die("epoll_ctl");
}

static void close_connection(int fd)
{
    free(pending[fd].bytes);
    pending[fd] = (struct pending){0};
    close(fd);
}

// Accepts all that wait, 64 at most, so that a storm of connections does not starve those that are there.
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

static void keep_rest(int fd, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length);
    if (!copy) die("malloc");
    memcpy(copy, bytes, length);
    pending[fd] = (struct pending){.bytes = copy, .length = (uint32_t)length};
    watch(fd, EPOLL_CTL_MOD, EPOLLOUT);
}

static void send_pending(int fd)
{
    struct pending *p = &pending[fd];
    while (p->at < p->length) {
        ssize_t n = send(fd, p->bytes + p->at, p->length - p->at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) { close_connection(fd); return; }
        p->at += (uint32_t)n;
    }
    free(p->bytes);
    *p = (struct pending){0};
    watch(fd, EPOLL_CTL_MOD, EPOLLIN);
}

static void echo(int fd)
{
    ssize_t received = recv(fd, buffer, RECEIVE_SIZE, 0);
    if (received <= 0) {
        if (received == 0 || (errno != EAGAIN && errno != EINTR)) close_connection(fd);
        return;
    }
    ssize_t sent = send(fd, buffer, (size_t)received, MSG_NOSIGNAL);
    if (sent == received) return;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) { close_connection(fd); return; }
    if (sent < 0) sent = 0;
    keep_rest(fd, buffer + sent, (size_t)(received - sent));
}

static void *serve(void *listening)
{
    listener = (int)(intptr_t)listening;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_ready();
            else if (pending[fd].bytes) send_pending(fd);
            else echo(fd);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"threads", 1, 0, 't'}, {"unix", 1, 0, 'u'}, {0, 0, 0, 0}};
    int port = 0, threads = 1, option;
    const char *unix_path = NULL;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 't') threads = (int)parse_number(optarg, "--threads", 1, 256);
        else if (option == 'u') unix_path = optarg;
        else return fputs("usage: echo_epoll [--port N [--threads N] | --unix PATH]\n", stderr), 2;
    }

    if (unix_path && threads > 1) return fputs("--threads needs --port: a Unix path has one listening socket\n", stderr), 2;
    int first = listen_and_tell(port, unix_path, "c-epoll");
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, serve, (void *)(intptr_t)listen_beside(first))) != 0) die("pthread_create");
    }
    serve((void *)(intptr_t)first);
}
