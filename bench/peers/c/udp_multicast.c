// udp_multicast.c - the multicast sender every other one is measured against: one thread, level-triggered epoll. A client
// sends a credit, one 64-bit number, to its port; it then sends so many numbered messages of 32 bytes (message.h) to its
// group by sendmmsg. The group is 239.255.H.L at the same port, H and L being the two bytes of the port; loopback only.
//
// Compiled with -DFAULTS it does one thing wrong on purpose, for `bench/run --self-test`.
#define _GNU_SOURCE
#include <getopt.h>
#include <net/if.h>
#include <poll.h>
#include <sys/epoll.h>

#include "../../load/message.h"
#include "udp.h"

static struct mmsghdr messages[BATCH];
static struct iovec vectors[BATCH];
static struct message bodies[BATCH];
static struct sockaddr_in group;
static uint64_t sequence;

#ifdef FAULTS
static const char *fault = "none";
static uint64_t fault_at;
static struct sockaddr_in nobody;       // a group without receivers

static bool is(const char *name) { return strcmp(fault, name) == 0; }
#endif

static void send_to_group(int fd, uint64_t credit)
{
    while (credit > 0) {
        unsigned count = credit < BATCH ? (unsigned)credit : BATCH;
        for (unsigned i = 0; i < count; i++) {
#ifdef FAULTS
            if (is("stall") && sequence == fault_at) return;
            if (is("repeat") && sequence == fault_at + 1) fault = "none", sequence--;
            message_make(&bodies[i], sequence++);
            if (is("corrupt") && bodies[i].sequence == fault_at) bodies[i].word[2] ^= 1;
            messages[i].msg_hdr.msg_name = is("lose") && bodies[i].sequence == fault_at ? &nobody : &group;
            vectors[i].iov_len = is("cut") && bodies[i].sequence == fault_at ? MESSAGE_SIZE - 1 : MESSAGE_SIZE;
#else
            message_make(&bodies[i], sequence++);
#endif
        }
        for (unsigned at = 0; at < count;) {
            int n = sendmmsg(fd, messages + at, count - at, 0);
            if (n > 0) at += (unsigned)n;
            else if (errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            else if (errno != EINTR) die("sendmmsg");
        }
        credit -= count;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'}, {"fault", 1, 0, 'f'}, {"after", 1, 0, 'a'}, {0, 0, 0, 0}};
    int port = 0, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
#ifdef FAULTS
        else if (option == 'f') fault = optarg;
        else if (option == 'a') fault_at = (uint64_t)parse_number(optarg, "--after", 0, 1L << 40);
#endif
        else return fputs("usage: udp_multicast [--port N]\n", stderr), 2;
    }

    int fd = bind_and_tell(&port, "c-udp");
    group = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(0xEFFF0000u | (uint32_t)port)};
#ifdef FAULTS
    nobody = group;
    nobody.sin_port ^= htons(1);
#endif
    struct ip_mreqn interface = {.imr_ifindex = (int)if_nametoindex("lo")};
    int ttl = 1, loopback = 1;
    if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface) != 0) die("IP_MULTICAST_IF");
    if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl) != 0) die("IP_MULTICAST_TTL");
    if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &loopback, sizeof loopback) != 0) die("IP_MULTICAST_LOOP");
    for (unsigned i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){&bodies[i], MESSAGE_SIZE};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &group, .msg_namelen = sizeof group, .msg_iov = &vectors[i], .msg_iovlen = 1};
    }

    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) die("epoll");
    for (;;) {
        int n = epoll_wait(epoll, &e, 1, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        uint64_t credit;
        while (n > 0 && recv(fd, &credit, sizeof credit, 0) == (ssize_t)sizeof credit) send_to_group(fd, credit);
    }
}
