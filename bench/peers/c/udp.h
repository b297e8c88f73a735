// udp.h - what the C peers for datagrams share: the bound socket, the line that says it is there, and arrays of messages
// for recvmmsg and sendmmsg.
#ifndef WHIMBREL_BENCH_UDP_H
#define WHIMBREL_BENCH_UDP_H

#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>

#include "server.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define BATCH 64                        // datagrams of one system call
#define SOCKET_BUFFER (1024 * 1024)     // asked for; the system gives what net.core.rmem_max allows

static inline void enlarge_buffers(int fd)
{
    int bytes = SOCKET_BUFFER;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

// Binds to 127.0.0.1 (port 0: any) and prints the line that the runner waits for. The number of the port goes to *port.
static inline int bind_and_tell(int *port, const char *engine)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    enlarge_buffers(fd);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0) die("bind");
    if (getsockname(fd, (struct sockaddr *)&a, &length) != 0) die("getsockname");
    *port = ntohs(a.sin_port);
    printf("listening on 127.0.0.1:%d (engine %s, loops 1)\n", *port, engine);
    fflush(stdout);
    return fd;
}

// The size of the segments that the kernel joined into this message, or its whole length.
static inline size_t segment_size(struct msghdr *m, size_t length)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
        int size;
        memcpy(&size, CMSG_DATA(c), sizeof size);
        return (size_t)size;
    }
    return length;
}

// Asks the kernel to cut this message into datagrams of `size` bytes. The control buffer must have CMSG_SPACE(2).
static inline void set_segment_size(struct msghdr *m, void *control, uint16_t size)
{
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(sizeof size);
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(c), &size, sizeof size);
}

#endif
