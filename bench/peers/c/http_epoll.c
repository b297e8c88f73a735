// http_epoll.c - the HTTP/1.1 responder in plain C: one thread, level-triggered epoll, one recv per event, all answers to what came
// in one send. It answers GET /bytes/N (N at most 64 KiB) with the first N bytes of the table, /async/N and /loops/N, where handlers of others wait, too,
// and closes where the request says so; anything else ends the connection. It reads every line of a head, as a server must, and knows nothing of bodies.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>

#include "../../load/message.h"
#include "server.h"

#define RECEIVE_SIZE (64 * 1024)
#define MAX_BODY (64 * 1024)
#define ANSWERS_SIZE (256 * 1024)
#define MAX_EVENTS 512

#ifdef FAULTS
// What this server does wrong, in each answer after so many: for bench/run --self-test.
static const char *fault = "none";
static long faultless;
static bool faulty(const char *what) { return faultless <= 0 && strcmp(fault, what) == 0; }
#else
#define faulty(what) false
#endif

// Indexed by descriptor: unsent data, or the beginning of an incomplete head.
static struct pending {
    uint8_t *bytes;
    uint32_t at, length;
    bool sends, closes;
} pending[MAX_DESCRIPTORS];

static uint8_t buffer[RECEIVE_SIZE + 1] __attribute__((aligned(4096))), answers[ANSWERS_SIZE], body[MAX_BODY];
static char date[64];
static time_t dated;
static int epoll, listener;

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

static void keep(int fd, const uint8_t *bytes, size_t length, bool sends, bool closes)
{
    uint8_t *copy = malloc(length);
    if (!copy) die("malloc");
    memcpy(copy, bytes, length);
    pending[fd] = (struct pending){.bytes = copy, .length = (uint32_t)length, .sends = sends, .closes = closes};
    if (sends) watch(fd, EPOLL_CTL_MOD, EPOLLOUT);
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
    bool closes = p->closes;
    free(p->bytes);
    *p = (struct pending){0};
    if (closes) close_connection(fd);
    else watch(fd, EPOLL_CTL_MOD, EPOLLIN);
}

// Takes one head that ends at `end`; returns the length of its body, or -1 for what it does not answer.
static long take_head(const char *head, const char *end, bool *closes)
{
    static const char question[] = "GET /bytes/", waiting[] = "GET /async/", looping[] = "GET /loops/";
    _Static_assert(sizeof question == sizeof waiting && sizeof question == sizeof looping, "the number begins at the same place");
    if (strncmp(head, question, sizeof question - 1) != 0 && strncmp(head, waiting, sizeof waiting - 1) != 0 && strncmp(head, looping, sizeof looping - 1) != 0) return -1;
    char *after;
    long n = strtol(head + sizeof question - 1, &after, 10);
    if (n < 0 || n > MAX_BODY || strncmp(after, " HTTP/1.1\r\n", 11) != 0) return -1;
    for (const char *line = after + 11; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end + 2 - line));
        const char *colon = next ? memchr(line, ':', (size_t)(next - line)) : NULL;
        if (!colon) return -1;
        if (colon - line == 10 && strncasecmp(line, "Connection", 10) == 0) *closes = strncasecmp(colon + 2, "close", 5) == 0;
        line = next + 1;
    }
    return n;
}

static void date_now(void)
{
    time_t now = time(NULL);
    if (now == dated) return;
    dated = now;
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

static void answer(int fd)
{
    struct pending *p = &pending[fd];
    size_t had = p->length;
    if (had) {
        memcpy(buffer, p->bytes, had);
        free(p->bytes);
        *p = (struct pending){0};
    }
    ssize_t received = recv(fd, buffer + had, RECEIVE_SIZE - had, 0);
    if (received <= 0) {
        if (received < 0 && (errno == EAGAIN || errno == EINTR) && had) keep(fd, buffer, had, false, false);
        else if (received == 0 || (errno != EAGAIN && errno != EINTR)) close_connection(fd);
        return;
    }
    date_now();
    const char *at = (char *)buffer, *last = at + had + received;
    size_t length = 0;
    bool closes = false;
    buffer[had + (size_t)received] = 0;
    while (at < last && !closes) {
        const char *end = memmem(at, (size_t)(last - at), "\r\n\r\n", 4);
        if (!end) break;
        long n = take_head(at, end, &closes);
        if (n < 0 || length + (size_t)n + 256 > ANSWERS_SIZE) { close_connection(fd); return; }
        if (faulty("stall")) return;
        if (faulty("close")) { close_connection(fd); return; }
        size_t begin = length;
        long stated = faulty("length") ? n + 1 : n;
        length += (size_t)sprintf((char *)answers + length, "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %ld\r\n%s\r\n", date, stated, closes ? "Connection: close\r\n" : "");
        memcpy(answers + length, body, (size_t)n);
        if (faulty("status")) answers[begin + 9] = '5';
        if (faulty("corrupt")) answers[length + (size_t)n / 2] ^= 1;
        length += (size_t)n;
        if (faulty("extra")) answers[length++] = '!';
#ifdef FAULTS
        faultless--;
#endif
        at = end + 4;
    }
    size_t rest = (size_t)(last - at);
    if (rest == RECEIVE_SIZE) { close_connection(fd); return; }
    ssize_t sent = length ? send(fd, answers, length, MSG_NOSIGNAL) : 0;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) { close_connection(fd); return; }
    if (sent < 0) sent = 0;
    // A client that asks for more than it takes, in the middle of a head, is not what this is for.
    if ((size_t)sent < length && rest && !closes) close_connection(fd);
    else if ((size_t)sent < length) keep(fd, answers + sent, length - (size_t)sent, true, closes);
    else if (closes) close_connection(fd);
    else if (rest) keep(fd, (const uint8_t *)at, rest, false, false);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", 1, 0, 'p'},
#ifdef FAULTS
        {"fault", 1, 0, 'f'}, {"after", 1, 0, 'a'},
#endif
        {0, 0, 0, 0}};
    int port = 0, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') port = (int)parse_number(optarg, "--port", 0, 65535);
#ifdef FAULTS
        else if (option == 'f') fault = optarg;
        else if (option == 'a') faultless = parse_number(optarg, "--after", 0, 1000000);
#endif
        else return fputs("usage: http_epoll [--port N]\n", stderr), 2;
    }
    for (size_t i = 0; i < MAX_BODY; i++) body[i] = (uint8_t)(mix64(0x9E3779B97F4A7C15u * (i + 1)) >> 56);

    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    listener = listen_and_tell(port, NULL, "c-http");
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_ready();
            else if (pending[fd].sends) send_pending(fd);
            else answer(fd);
        }
    }
}
