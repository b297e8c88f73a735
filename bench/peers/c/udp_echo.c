// udp_echo.c - the datagram echo server every other one is measured against: one thread, level-triggered epoll, recvmmsg of
// up to 64 datagrams and sendmmsg of the same out of the same memory. With --gso the kernel joins datagrams of one peer on
// receive (UDP_GRO) and cuts them again on send (UDP_SEGMENT): one pass through the stack for up to 64 of them. With --join
// only the answers are joined: neighbours of a batch that go to one peer and are of one size leave as one message of UDP_SEGMENT.
//
// What the socket does not take at once is waited for with poll: a client has a window, so that cannot last.
// Compiled with -DFAULTS it does one thing wrong on purpose, for `bench/run --self-test`.
#define _GNU_SOURCE
#include <getopt.h>
#include <poll.h>
#include <sys/epoll.h>

#include "udp.h"

#define PLAIN_SIZE 2048                 // holds a datagram of an Ethernet; a larger one would be cut, so nothing larger is sent
#define JOINED_SIZE 65536
#define JOINED_BATCH 16
#define JOINED_MOST 65507               // what one message to IPv4 holds

static struct mmsghdr messages[BATCH];
static struct iovec vectors[BATCH];
static struct sockaddr_in peers[BATCH];
static union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } controls[BATCH];
static uint8_t *memory;
static size_t slot_size;
static unsigned batch;

#ifdef FAULTS
static const char *fault = "none";
static uint64_t fault_at, echoed;

static bool is(const char *name) { return strcmp(fault, name) == 0; }

// The datagrams of a batch, with the fault at number `fault_at`. Returns how many to send.
static unsigned break_batch(int fd, unsigned count)
{
    for (unsigned i = 0; i < count; i++, echoed++) {
        if (is("stall") && echoed >= fault_at) return i;
        if (is("swap") && echoed >= fault_at && i + 1 < count && peers[i].sin_port != peers[i + 1].sin_port) {
            // The next peer gets this one's datagram.
            peers[i] = peers[i + 1];
            fault = "none";
        }
        if (echoed != fault_at) continue;
        uint8_t *bytes = vectors[i].iov_base;
        if (is("corrupt")) bytes[vectors[i].iov_len - 1] ^= 1;
        if (is("cut")) vectors[i].iov_len--;
        if (is("glue")) vectors[i].iov_len *= 2;
        if (is("foreign")) bytes[7] ^= 0x80;
        if (is("repeat")) sendto(fd, bytes, vectors[i].iov_len, 0, (struct sockaddr *)&peers[i], sizeof peers[i]);
        if (is("close")) exit(0);
        if (!is("lose")) continue;
        // Nothing of it leaves, and the others of this batch do.
        for (unsigned k = i; k + 1 < count; k++) {
            struct iovec v = vectors[k];
            vectors[k] = vectors[k + 1];
            vectors[k + 1] = v;
            struct sockaddr_in p = peers[k];
            peers[k] = peers[k + 1];
            peers[k + 1] = p;
        }
        echoed += count - i;
        return count - 1;
    }
    return count;
}
#endif

// Datagrams `first` to `first + n - 1` of the batch as one message: their memory piece by piece, cut again by the kernel.
static unsigned join(struct mmsghdr *to, unsigned first, unsigned count)
{
    const struct sockaddr_in *peer = &peers[first];
    size_t size = vectors[first].iov_len, total = size;
    unsigned n = 1;
    // All of one size, but for the last, which may be shorter.
    while (first + n < count && vectors[first + n - 1].iov_len == size && vectors[first + n].iov_len <= size && total + vectors[first + n].iov_len <= JOINED_MOST
           && size > 0 && vectors[first + n].iov_len > 0 && peers[first + n].sin_port == peer->sin_port && peers[first + n].sin_addr.s_addr == peer->sin_addr.s_addr)
        total += vectors[first + n++].iov_len;
    *to = messages[first];
    to->msg_hdr.msg_iovlen = n;
    if (n > 1) set_segment_size(&to->msg_hdr, controls[first].bytes, (uint16_t)size);
    return n;
}

static void make_messages(bool gso)
{
    batch = gso ? JOINED_BATCH : BATCH;
    slot_size = gso ? JOINED_SIZE : PLAIN_SIZE;
    memory = aligned_alloc(4096, batch * slot_size);
    if (!memory) die("memory");
    for (unsigned i = 0; i < batch; i++) {
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = &peers[i];
    }
}

static unsigned receive_batch(int fd, bool gso)
{
    for (unsigned i = 0; i < batch; i++) {
        vectors[i] = (struct iovec){memory + i * slot_size, slot_size};
        messages[i].msg_hdr.msg_namelen = sizeof peers[i];
        messages[i].msg_hdr.msg_control = gso ? controls[i].bytes : NULL;
        messages[i].msg_hdr.msg_controllen = gso ? sizeof controls[i].bytes : 0;
    }
    int n = recvmmsg(fd, messages, batch, 0, NULL);
    if (n < 0) {
        // An error of the network that belongs to an earlier answer is no error of this socket.
        if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED) return 0;
        die("recvmmsg");
    }
    return (unsigned)n;
}

static void prepare_answer(unsigned i, bool gso)
{
    size_t length = messages[i].msg_len;
    if (gso) {
        size_t size = segment_size(&messages[i].msg_hdr, length);
        if (size < length) set_segment_size(&messages[i].msg_hdr, controls[i].bytes, (uint16_t)size);
        else messages[i].msg_hdr.msg_controllen = 0;
    }
    vectors[i].iov_len = length;
}

static void send_batch(int fd, unsigned count, bool joins)
{
    struct mmsghdr joined[BATCH], *batch_of = messages;
    if (joins) {
        unsigned used = 0;
        for (unsigned first = 0; first < count; used++) first += join(&joined[used], first, count);
        batch_of = joined;
        count = used;
    }
    for (unsigned at = 0; at < count;) {
        int n = sendmmsg(fd, batch_of + at, count - at, 0);
        if (n > 0) at += (unsigned)n;
        else if (errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (errno != EINTR) at++; // to a peer that is gone; the client counts what is missing
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"gso", 0, 0, 'g'}, {"join", 0, 0, 'j'}, {"fault", 1, 0, 'f'}, {"after", 1, 0, 'a'}, {0, 0, 0, 0}};
    int port = 0, option, one = 1;
    bool gso = false, joins = false;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
        else if (option == 'g') gso = true;
        else if (option == 'j') joins = true;
#ifdef FAULTS
        else if (option == 'f') fault = optarg;
        else if (option == 'a') fault_at = (uint64_t)parse_number(optarg, "--after", 0, 1L << 40);
#endif
        else return fputs("usage: udp_echo [--port N] [--gso | --join]\n", stderr), 2;
    }

    if (gso) joins = false;
    make_messages(gso);
    int fd = bind_and_tell(&port, gso ? "c-udp-gso" : joins ? "c-udp-join" : "c-udp");
    if (gso && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one) != 0) die("UDP_GRO");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) die("epoll");
    for (;;) {
        int n = epoll_wait(epoll, &e, 1, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        if (n <= 0) continue;
        // A batch that is not full was the last one: a second call would only return that nothing is there.
        for (unsigned count = batch; count == batch;) {
            count = receive_batch(fd, gso);
            for (unsigned i = 0; i < count; i++) prepare_answer(i, gso);
#ifdef FAULTS
            unsigned sent = break_batch(fd, count);
            send_batch(fd, sent, joins);
#else
            send_batch(fd, count, joins);
#endif
        }
    }
}
