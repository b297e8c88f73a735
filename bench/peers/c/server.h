// server.h - what the C peers share: the listening socket, the line that says it is there, and the way out.
#ifndef WHIMBREL_BENCH_SERVER_H
#define WHIMBREL_BENCH_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_DESCRIPTORS 20000

__attribute__((noreturn)) static inline void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static inline long parse_number(const char *text, const char *name, long least, long most)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < least || n > most) {
        fprintf(stderr, "%s must be between %ld and %ld, not '%s'\n", name, least, most, text);
        exit(2);
    }
    return n;
}

static inline void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max < MAX_DESCRIPTORS ? limit.rlim_max : MAX_DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// Another listening socket on the address of this one, which must have SO_REUSEPORT.
static inline int listen_beside(int first)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    if (getsockname(first, (struct sockaddr *)&address, &length) != 0) die("getsockname");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0) die("SO_REUSEPORT");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, length) != 0) die("bind");
    if (listen(fd, SOMAXCONN) != 0) die("listen");
    return fd;
}

// Listens on 127.0.0.1 (port 0: any) or on a Unix path, and prints the line the runner waits for.
static inline int listen_and_tell(int port, const char *unix_path, const char *engine)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = unix_path ? (struct sockaddr *)&path : (struct sockaddr *)&tcp;
    socklen_t length = unix_path ? sizeof path : sizeof tcp;
    int one = 1;
    if (unix_path) {
        if (strlen(unix_path) >= sizeof path.sun_path) {
            fputs("the path is too long\n", stderr);
            exit(2);
        }
        strcpy(path.sun_path, unix_path);
        unlink(unix_path);
    }

    raise_descriptor_limit();
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    if (!unix_path) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); // inherited by what is accepted
    }
    if (bind(fd, address, length) != 0) die("bind");
    if (listen(fd, SOMAXCONN) != 0) die("listen");
    if (getsockname(fd, address, &length) != 0) die("getsockname");
    if (unix_path) printf("listening on %s (engine %s, loops 1)\n", unix_path, engine);
    else printf("listening on 127.0.0.1:%d (engine %s, loops 1)\n", ntohs(tcp.sin_port), engine);
    fflush(stdout);
    return fd;
}

#endif
