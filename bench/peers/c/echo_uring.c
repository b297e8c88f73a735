// echo_uring.c - the same echo server on io_uring, by raw system calls: one thread, one ring, multishot accept, multishot
// receive into one ring of buffers of 32 KiB (32, or --buffers N), sends out of the buffer received into, one enter per turn. What the socket
// refuses is copied to memory of the connection; it receives again only when that was sent, as in echo_epoll.c.
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "server.h"

#define MOST_BUFFERS 255 // entries of one page
#define BUFFER_SIZE (32 * 1024)
#define ENTRIES 1024
#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#endif

enum operation { ACCEPT, RECEIVE, SEND, SEND_COPY, CANCEL };

// Indexed by descriptor. Sends of one connection are in order, one at a time: data received meanwhile is appended to a copy.
static struct connection {
    uint8_t *bytes;                     // data that waits for the send in flight
    uint8_t *sending;                   // the copy that is in flight
    uint32_t length, capacity, at, end; // of bytes; of what is in flight
    uint16_t buffer;                    // in flight, when sending is NULL
    bool in_flight, receiving, ended, failed, parked, cancelling;
} connections[MAX_DESCRIPTORS];

static int ring, enter_fd, listener;
static unsigned enter_flags = IORING_ENTER_GETEVENTS;
static unsigned *sq_head, *sq_tail, sq_mask, *cq_head, *cq_tail, cq_mask, tail;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static struct io_uring_buf_ring *buffer_ring;
static uint8_t *buffers;
static int buffer_count = 32; // a power of two
static uint16_t buffer_tail;
static int parked[MAX_DESCRIPTORS], parked_count;

static int enter(unsigned wait)
{
    __atomic_store_n(&buffer_ring->tail, buffer_tail, __ATOMIC_RELEASE);
    __atomic_store_n(sq_tail, tail, __ATOMIC_RELEASE);
    unsigned submit = tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE);
    long n = syscall(SYS_io_uring_enter, enter_fd, submit, wait, enter_flags, NULL, 0);
    if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) die("io_uring_enter");
    return (int)n;
}

static struct io_uring_sqe *operation(enum operation what, int fd)
{
    while (tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) > sq_mask) enter(0);
    struct io_uring_sqe *s = &sqes[tail++ & sq_mask];
    memset(s, 0, sizeof *s);
    s->fd = fd;
    s->user_data = (uint64_t)what << 32 | (uint32_t)fd;
    return s;
}

static void return_buffer(uint16_t id)
{
    struct io_uring_buf *b = &buffer_ring->bufs[buffer_tail++ & (buffer_count - 1)];
    b->addr = (uintptr_t)(buffers + (size_t)id * BUFFER_SIZE);
    b->len = BUFFER_SIZE;
    b->bid = id;
}

static void start_accept(void)
{
    struct io_uring_sqe *s = operation(ACCEPT, listener);
    s->opcode = IORING_OP_ACCEPT;
    s->ioprio = IORING_ACCEPT_MULTISHOT;
    s->accept_flags = SOCK_CLOEXEC;
}

static void start_receive(int fd)
{
    struct io_uring_sqe *s = operation(RECEIVE, fd);
    s->opcode = IORING_OP_RECV;
    s->ioprio = IORING_RECV_MULTISHOT;
    s->flags = IOSQE_BUFFER_SELECT;
    connections[fd].receiving = true;
}

static void start_send(int fd, enum operation what, const uint8_t *bytes, uint32_t length)
{
    struct io_uring_sqe *s = operation(what, fd);
    s->opcode = IORING_OP_SEND;
    s->addr = (uintptr_t)bytes;
    s->len = length;
    s->msg_flags = MSG_NOSIGNAL;
    connections[fd].in_flight = true;
}

// Everything about a connection has ended: nothing refers to the descriptor any more.
static void close_if_over(int fd)
{
    struct connection *c = &connections[fd];
    if (!c->ended || c->receiving || c->in_flight || c->cancelling || c->parked || (c->length > 0 && !c->failed)) return;
    free(c->bytes);
    *c = (struct connection){0};
    close(fd);
}

static void keep(int fd, const uint8_t *bytes, uint32_t length)
{
    struct connection *c = &connections[fd];
    if (c->length + length > c->capacity) {
        c->capacity = (c->length + length) * 2;
        c->bytes = realloc(c->bytes, c->capacity);
        if (!c->bytes) die("realloc");
    }
    memcpy(c->bytes + c->length, bytes, length);
    c->length += length;
    if (c->receiving && !c->cancelling) {
        struct io_uring_sqe *s = operation(CANCEL, fd);
        s->opcode = IORING_OP_ASYNC_CANCEL;
        s->addr = (uint64_t)RECEIVE << 32 | (uint32_t)fd;
        s->fd = -1;
        s->user_data = (uint64_t)CANCEL << 32 | (uint32_t)fd;
        c->cancelling = true;
    }
}

// Sends kept data, or receives again if there is none.
static void go_on(int fd)
{
    struct connection *c = &connections[fd];
    if (c->in_flight) return;
    if (c->length > 0 && !c->failed) {
        c->sending = c->bytes;
        c->at = 0;
        c->end = c->length;
        c->bytes = NULL;
        c->length = c->capacity = 0;
        start_send(fd, SEND_COPY, c->sending, c->end);
    } else if (!c->receiving && !c->ended && !c->parked) start_receive(fd);
    close_if_over(fd);
}

static void received(int fd, int result, unsigned flags)
{
    struct connection *c = &connections[fd];
    uint16_t id = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
    if (!(flags & IORING_CQE_F_MORE)) c->receiving = false;
    if (result > 0 && !c->failed) {
        if (!c->in_flight && c->length == 0) {
            c->buffer = id;
            c->at = 0;
            c->end = (uint32_t)result;
            start_send(fd, SEND, buffers + (size_t)id * BUFFER_SIZE, (uint32_t)result);
        } else {
            keep(fd, buffers + (size_t)id * BUFFER_SIZE, (uint32_t)result);
            return_buffer(id);
        }
        if (!c->receiving && c->length == 0 && !c->cancelling) start_receive(fd);
        return;
    }
    if (flags & IORING_CQE_F_BUFFER) return_buffer(id);
    if (result == -ENOBUFS) {
        c->parked = true;
        parked[parked_count++] = fd;
        return;
    }
    if (result == 0 || (result < 0 && result != -ECANCELED && result != -EINTR)) c->ended = true;
    if (result < 0 && c->ended) c->failed = true;
    go_on(fd);
}

static void sent(int fd, int result, bool is_copy)
{
    struct connection *c = &connections[fd];
    uint8_t *from = is_copy ? c->sending : buffers + (size_t)c->buffer * BUFFER_SIZE;
    c->in_flight = false;
    if (result < 0 && result != -EINTR) c->failed = c->ended = true;
    if (result > 0) c->at += (uint32_t)result;
    if (!c->failed && c->at < c->end) {
        start_send(fd, is_copy ? SEND_COPY : SEND, from + c->at, c->end - c->at);
        return;
    }
    if (is_copy) {
        free(c->sending);
        c->sending = NULL;
    } else return_buffer(c->buffer);
    if (c->failed && c->receiving && !c->cancelling) {
        struct io_uring_sqe *s = operation(CANCEL, -1);
        s->opcode = IORING_OP_ASYNC_CANCEL;
        s->addr = (uint64_t)RECEIVE << 32 | (uint32_t)fd;
        s->user_data = (uint64_t)CANCEL << 32 | (uint32_t)fd;
        c->cancelling = true;
    }
    if (c->length > 0 || !c->receiving) go_on(fd);
}

static void complete(const struct io_uring_cqe *e)
{
    int fd = (int)(uint32_t)e->user_data;
    switch ((enum operation)(e->user_data >> 32)) {
    case ACCEPT:
        if (e->res >= MAX_DESCRIPTORS) close(e->res);
        else if (e->res >= 0) start_receive(e->res);
        else if (e->res != -ECONNABORTED && e->res != -EINTR) { errno = -e->res; die("accept"); }
        if (!(e->flags & IORING_CQE_F_MORE)) start_accept();
        break;
    case RECEIVE: received(fd, e->res, e->flags); break;
    case SEND: sent(fd, e->res, false); break;
    case SEND_COPY: sent(fd, e->res, true); break;
    case CANCEL:
        connections[fd].cancelling = false;
        go_on(fd);
        break;
    }
}

static void set_up(void)
{
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL
        | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_NO_SQARRAY, .cq_entries = ENTRIES * 4};
    ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring < 0 && errno == EINVAL) {
        p.flags &= ~IORING_SETUP_NO_SQARRAY;
        ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
    }
    if (ring < 0) die("io_uring_setup");
    bool has_array = !(p.flags & IORING_SETUP_NO_SQARRAY);
    size_t size = p.cq_off.cqes + p.cq_entries * sizeof *cqes;
    size_t with_array = has_array ? p.sq_off.array + p.sq_entries * sizeof(unsigned) : 0;
    uint8_t *queues = mmap(NULL, size > with_array ? size : with_array, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    sqes = mmap(NULL, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    if (queues == MAP_FAILED || sqes == MAP_FAILED) die("mmap");
    sq_head = (unsigned *)(queues + p.sq_off.head);
    sq_tail = (unsigned *)(queues + p.sq_off.tail);
    sq_mask = p.sq_entries - 1;
    cq_head = (unsigned *)(queues + p.cq_off.head);
    cq_tail = (unsigned *)(queues + p.cq_off.tail);
    cq_mask = p.cq_entries - 1;
    cqes = (struct io_uring_cqe *)(queues + p.cq_off.cqes);
    for (unsigned i = 0; has_array && i < p.sq_entries; i++) ((unsigned *)(queues + p.sq_off.array))[i] = i;

    buffer_ring = aligned_alloc(4096, 4096);
    buffers = aligned_alloc(4096, (size_t)buffer_count * BUFFER_SIZE);
    if (!buffer_ring || !buffers) die("aligned_alloc");
    memset(buffer_ring, 0, 4096);
    for (uint16_t i = 0; i < buffer_count; i++) return_buffer(i);
    struct io_uring_buf_reg registration = {.ring_addr = (uintptr_t)buffer_ring, .ring_entries = (unsigned)buffer_count};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &registration, 1) != 0) die("io_uring_register buffers");
    struct io_uring_rsrc_update update = {.offset = UINT32_MAX, .data = (uint64_t)ring};
    enter_fd = ring;
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_RING_FDS, &update, 1) == 1) {
        enter_fd = (int)update.offset;
        enter_flags |= IORING_ENTER_REGISTERED_RING;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"unix", 1, 0, 'u'}, {"buffers", 1, 0, 'b'}, {0, 0, 0, 0}};
    int port = 0, option;
    const char *unix_path = NULL;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 'u') unix_path = optarg;
        else if (option == 'b') buffer_count = (int)parse_number(optarg, "--buffers", 1, MOST_BUFFERS);
        else return fputs("usage: echo_uring [--port N | --unix PATH] [--buffers N]\n", stderr), 2;
    }

    set_up();
    listener = listen_and_tell(port, unix_path, "c-uring");
    int blocking = 0; // or the accept would not wait
    if (ioctl(listener, FIONBIO, &blocking) != 0) die("ioctl");
    start_accept();
    for (;;) {
        // The buffers of this turn are back: as many receives begin again as there are buffers.
        int again = parked_count < buffer_count ? parked_count : buffer_count;
        for (int i = 0; i < again; i++) {
            connections[parked[i]].parked = false;
            go_on(parked[i]);
        }
        parked_count -= again;
        memmove(parked, parked + again, (size_t)parked_count * sizeof *parked);
        enter(parked_count == 0);
        unsigned head = *cq_head, end = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
        for (; head != end; head++) {
            struct io_uring_cqe e = cqes[head & cq_mask];
            complete(&e);
        }
        __atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
    }
}
