// groups_epoll.c - the group server every other one is measured against. One thread, level-triggered epoll. A client sends
// 32-byte messages (bench/README.md, "Groups"): join a group, broadcast to one, or send this back to me. A broadcast is
// copied to the queue of every member; after the events of one epoll_wait each queue that is not empty is sent by one call.
//
// Compiled with -DFAULTS it does one thing wrong on purpose, for `bench/run --self-test`.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "../../load/message.h"
#include "server.h"

#define RECEIVE_SIZE (64 * 1024)
#define MAX_EVENTS 512
#define MAX_GROUPS 1000000u
#define QUEUE_LIMIT (1024u * 1024)      // a client that lags this far is closed

enum { JOIN = 1, BROADCAST = 2, ANSWER = 3 };

struct group {
    int *members;                       // descriptors
    unsigned count, capacity;
};

// Indexed by descriptor.
static struct client {
    uint8_t *queue;
    uint32_t at, length, capacity;
    uint8_t carry[MESSAGE_SIZE], carried;
    bool open, dirty, blocked;
    unsigned *groups, group_count, group_capacity;
} clients[MAX_DESCRIPTORS];

static struct group *groups;
static int dirty[MAX_DESCRIPTORS];
static unsigned dirty_count;
static uint8_t buffer[MESSAGE_SIZE + RECEIVE_SIZE] __attribute__((aligned(4096)));
static int epoll, listener;

#ifdef FAULTS
static const char *fault = "none";
static uint64_t fault_at, delivered;
#endif

static void watch(int fd, int operation, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &e) != 0) die("epoll_ctl");
}

static void *grown(void *items, unsigned count, unsigned *capacity, size_t item)
{
    if (count < *capacity) return items;
    *capacity = *capacity ? *capacity * 2 : 4;
    items = realloc(items, *capacity * item);
    if (!items) die("realloc");
    return items;
}

static void join(int fd, unsigned number)
{
    struct group *g = &groups[number];
    struct client *c = &clients[fd];
    for (unsigned i = 0; i < c->group_count; i++) if (c->groups[i] == number) return;
    g->members = grown(g->members, g->count, &g->capacity, sizeof *g->members);
    g->members[g->count++] = fd;
    c->groups = grown(c->groups, c->group_count, &c->group_capacity, sizeof *c->groups);
    c->groups[c->group_count++] = number;
}

static void leave_all(int fd)
{
    struct client *c = &clients[fd];
    for (unsigned i = 0; i < c->group_count; i++) {
        struct group *g = &groups[c->groups[i]];
        unsigned at = 0;
        while (g->members[at] != fd) at++;
        g->members[at] = g->members[--g->count];
    }
}

static void close_client(int fd)
{
    struct client *c = &clients[fd];
    leave_all(fd);
    free(c->queue);
    free(c->groups);
    bool was_dirty = c->dirty;
    *c = (struct client){.dirty = was_dirty}; // it stays on the list; flush finds it closed
    close(fd);
}

static void queue_message(int fd, const uint8_t *message)
{
    struct client *c = &clients[fd];
    if (c->length + MESSAGE_SIZE > c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 1024;
        c->queue = realloc(c->queue, c->capacity);
        if (!c->queue) die("realloc");
    }
    memcpy(c->queue + c->length, message, MESSAGE_SIZE);
    c->length += MESSAGE_SIZE;
    if (c->dirty) return;
    c->dirty = true;
    dirty[dirty_count++] = fd;
}

static void deliver(int fd, const uint8_t *message)
{
#ifdef FAULTS
    if (++delivered == fault_at) {
        uint8_t wrong[MESSAGE_SIZE];
        memcpy(wrong, message, sizeof wrong);
        wrong[20] ^= 1;
        if (strcmp(fault, "corrupt") == 0) { queue_message(fd, wrong); return; }
        if (strcmp(fault, "lose") == 0) return;
        if (strcmp(fault, "repeat") == 0) queue_message(fd, message);
        if (strcmp(fault, "foreign") == 0) for (int other = 0; other < MAX_DESCRIPTORS; other++) if (clients[other].open && other != fd) queue_message(other, message);
        if (strcmp(fault, "stall") == 0) pause();
        if (strcmp(fault, "close") == 0) shutdown(fd, SHUT_RDWR);
    }
#endif
    queue_message(fd, message);
}

static void take_message(int fd, const uint8_t *bytes)
{
    struct message m;
    memcpy(&m, bytes, sizeof m);
    unsigned operation = (unsigned)(m.sequence & 255);
    uint64_t number = m.sequence >> 8;
    if (number >= MAX_GROUPS) return;
    struct group *g = &groups[number];
    if (operation == JOIN) join(fd, (unsigned)number);
    else if (operation == ANSWER) queue_message(fd, bytes);
    else if (operation == BROADCAST) for (unsigned i = 0; i < g->count; i++) deliver(g->members[i], bytes);
}

static void receive(int fd)
{
    struct client *c = &clients[fd];
    ssize_t n = recv(fd, buffer + MESSAGE_SIZE, RECEIVE_SIZE, 0);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) close_client(fd);
        return;
    }
    uint8_t *at = buffer + MESSAGE_SIZE - c->carried;
    memcpy(at, c->carry, c->carried);
    size_t have = c->carried + (size_t)n;
    for (; have >= MESSAGE_SIZE; at += MESSAGE_SIZE, have -= MESSAGE_SIZE) take_message(fd, at);
    c->carried = (uint8_t)have;
    memcpy(c->carry, at, have);
}

static void send_queue(int fd)
{
    struct client *c = &clients[fd];
    while (c->at < c->length) {
        ssize_t n = send(fd, c->queue + c->at, c->length - c->at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) { close_client(fd); return; }
        if (n < 0) break;
        c->at += (uint32_t)n;
    }
    bool rest = c->at < c->length;
    if (!rest) c->at = c->length = 0;
    else if (c->length - c->at > QUEUE_LIMIT) { close_client(fd); return; }
    if (rest == c->blocked) return;
    c->blocked = rest;
    watch(fd, EPOLL_CTL_MOD, EPOLLIN | (rest ? EPOLLOUT : 0));
}

static void flush(void)
{
    for (unsigned i = 0; i < dirty_count; i++) {
        clients[dirty[i]].dirty = false;
        if (clients[dirty[i]].open && !clients[dirty[i]].blocked) send_queue(dirty[i]);
    }
    dirty_count = 0;
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
        if (fd >= MAX_DESCRIPTORS) { close(fd); continue; }
        clients[fd].open = true;
        watch(fd, EPOLL_CTL_ADD, EPOLLIN);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"unix", 1, 0, 'u'}, {"fault", 1, 0, 'f'}, {"after", 1, 0, 'a'}, {0, 0, 0, 0}};
    int port = 0, option;
    const char *unix_path = NULL;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 'u') unix_path = optarg;
#ifdef FAULTS
        else if (option == 'f') fault = optarg;
        else if (option == 'a') fault_at = (uint64_t)parse_number(optarg, "--after", 0, 1L << 40);
#endif
        else return fputs("usage: groups_epoll [--port N | --unix PATH]\n", stderr), 2;
    }

    groups = calloc(MAX_GROUPS, sizeof *groups);
    if (!groups) die("calloc");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, unix_path, "c-epoll");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) { accept_ready(); continue; }
            if (events[i].events & EPOLLOUT && clients[fd].open) send_queue(fd);
            if (events[i].events & ~(uint32_t)EPOLLOUT && clients[fd].open) receive(fd);
        }
        flush();
    }
}
