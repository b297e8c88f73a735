// program.h - what the load programs have in common: their way out when a run is bad, the clock and the CPU of both sides, the
// table of random bytes, and the options of every scenario. Each program defines `program_name`, `usage_text` and
// `print_parameters` before it uses what is here.
#ifndef WHIMBREL_BENCH_PROGRAM_H
#define WHIMBREL_BENCH_PROGRAM_H

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "message.h"

#define TABLE_SIZE 262139u          // the largest prime below 256 KiB: no buffer or window divides it, so a shifted
                                    // stream never lines up with itself by accident
#define MAX_EVENTS 512
#define SWEEP_NS 250000000ull
#define STALLED_SWEEPS 8            // 8 sweeps of 250 ms: two seconds in which the loop did run and nothing came

// CPU of both sides at one edge of the measured window.
struct cpu {
    uint64_t client_user_ns, client_system_ns;
    uint64_t server_ns, server_user_ticks, server_system_ticks;
};

static const char *const program_name;
static const char *const usage_text;
static void print_parameters(void);

static double seconds = 3, warmup = 2;
static bool check = true;
static int watched_pid;
static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;

// The only way out for a bad run. The first reason wins; other threads wait here until the process is gone.
__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);

    pthread_mutex_lock(&failing);
    for (char *c = reason; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = '\'';
    fprintf(stderr, "%s: FAILED: %s\n", program_name, reason);
    print_parameters();
    printf(",\"errors\":1,\"error\":\"%s\"}\n", reason);
    fflush(stdout);
    _exit(1);
}

__attribute__((format(printf, 1, 2), noreturn)) static void usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_name);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs(usage_text, stderr);
    exit(2);
}

// When `window near` is said, which is when the server may be asked what stops it for a moment: late in the warm-up, and early
// enough for the answer to come before the window.
static uint64_t near_ns(uint64_t start_ns)
{
    double near = warmup > 1 ? warmup - .5 : warmup / 2;
    return start_ns + (uint64_t)(near * 1e9);
}

// ---- the command line -----------------------------------------------------------------------------------------------

static unsigned parse_count(const char *text, const char *name, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (end == text || *end || n == 0 || n > most) usage("%s must be between 1 and %u, not '%s'", name, most, text);
    return (unsigned)n;
}

static double parse_seconds(const char *text, const char *name)
{
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s >= 0 && s <= 600)) usage("%s must be between 0 and 600 seconds, not '%s'", name, text);
    return s;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

// ---- the table: what is sent, and what must come back ---------------------------------------------------------------

// One longer than its period, so that any stretch of it is contiguous wherever it begins.
static void fill_table(uint8_t *table, size_t length)
{
    for (size_t i = 0; i < TABLE_SIZE; i++) table[i] = (uint8_t)(mix64(0x9E3779B97F4A7C15u * (i + 1)) >> 56);
    memcpy(table + TABLE_SIZE, table, length - TABLE_SIZE);
}

// ---- time -----------------------------------------------------------------------------------------------------------

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

// The watched server's CPU. Its process clock is exact to the nanosecond, counts threads that have ended and the slice
// that is still running, which /proc/PID/task/*/schedstat does not; only the split into user and system is in ticks.
static void sample_server(struct cpu *c)
{
    if (!watched_pid) return;
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(watched_pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        fail("the server (process %d) is gone", watched_pid);
    c->server_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;

    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", watched_pid);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f)) fail("cannot read %s", path);
    fclose(f);
    char *after_name = strrchr(line, ')');
    if (!after_name || sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                              &c->server_user_ticks, &c->server_system_ticks) != 2)
        fail("cannot read %s", path);
}

static void sample_cpu(struct cpu *c)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    c->client_user_ns = timeval_ns(u.ru_utime);
    c->client_system_ns = timeval_ns(u.ru_stime);
    sample_server(c);
}

// ---- parts of the result --------------------------------------------------------------------------------------------

static void print_latency(const struct histogram *h)
{
    if (!h->count) return;
    printf(",\"latency_ns\":{\"count\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"p99.9\":%" PRIu64 ",\"max\":%" PRIu64 "}",
           h->count, histogram_percentile(h, .5), histogram_percentile(h, .99), histogram_percentile(h, .999), h->max);
}

static void print_cpu(const struct cpu *first, const struct cpu *last)
{
    printf(",\"client_cpu_ns\":{\"user\":%" PRIu64 ",\"system\":%" PRIu64 "}",
           last->client_user_ns - first->client_user_ns, last->client_system_ns - first->client_system_ns);
    if (watched_pid)
        printf(",\"server_cpu_ns\":%" PRIu64 ",\"server_ticks\":{\"user\":%" PRIu64 ",\"system\":%" PRIu64 "}",
               last->server_ns - first->server_ns, last->server_user_ticks - first->server_user_ticks,
               last->server_system_ticks - first->server_system_ticks);
}

#endif
