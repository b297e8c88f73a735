// udp.c - the client of the datagram benchmarks: it keeps a window of datagrams in flight to a server on loopback, checks
// every one that comes back, counts those that do not, and prints what happened as one line of JSON. One thread, one epoll.
//
// echo: a datagram is its sequence number and bytes out of a table, so that each has content of its own and is compared by
// one memcmp. `send_some` fills the window, `take_echo` looks at what came. With --run N datagrams leave N at a time for
// one peer in one system call (UDP_SEGMENT), and come back joined if the server joins them (UDP_GRO).
// multicast: the receivers of one group; the server sends as much as it has credit for, and a credit leaves when the
// receivers have what the one before it paid for. `take_message` looks for holes.
//
// A lost datagram is not sent again and shrinks the window; that is counted, here and from the drop counters of the
// sockets at both ends. A window that has shrunk to nothing fails the run, and so do a datagram that is changed, cut,
// joined with another, repeated, or at the wrong socket.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "program.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

#define MAX_DATAGRAM 65507u
#define LARGEST_ETHERNET 2048u          // what is not joined by the kernel must fit here
#define BATCH 64
#define REMEMBERED (1u << 20)           // sequence numbers of which we know whether they are still out
#define SOCKET_BUFFER (1024 * 1024)
#define MAX_SOCKETS 10000u
#define DRAINED_SWEEPS 2

enum scenario { ECHO, MULTICAST };
enum phase { WARMING, NEARING, MEASURING, DRAINING };

// A datagram in flight; `out` until it is back.
struct flight {
    uint64_t sequence, started_ns;
    uint32_t socket;
    bool out;
};

struct sample {
    uint64_t ns, received, sent, lost;
    struct cpu cpu;
};

static enum scenario scenario;
static const char *const scenario_names[] = {"udp-echo", "udp-multicast"};
static unsigned sockets = 1, window = 100, size = 32, run = 1;
static int port, epoll, credit_socket = -1;
static int *fds;
static uint64_t *next_sequence;         // multicast: what each receiver expects; 0: nothing came yet
static struct flight *flights;
static uint8_t *table, *memory;
static struct mmsghdr messages[BATCH], sends[BATCH];
static struct iovec vectors[BATCH], send_vectors[BATCH];
static union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } controls[BATCH];
static uint8_t *send_memory;
static size_t slot_size;
static enum phase phase;
static uint64_t next_phase_ns, next_sweep_ns, received_at_sweep, start_ns, turn_ns;
static unsigned quiet_sweeps;
static uint64_t sent, received, lost, reordered, bytes, credited;
static uint64_t under_way;              // what may still come: sent, not back
static struct sample first, last;
static struct histogram latency;

static void print_parameters(void)
{
    printf("{\"scenario\":\"%s\",\"connections\":%u,\"in_flight\":%u,\"size\":%u,\"run\":%u,\"warmup_s\":%g,\"checked\":%s",
           scenario_names[scenario], sockets, window, size, run, warmup, check ? "true" : "false");
}

static const char *const program_name = "udp";
static const char *const usage_text =
    "\nusage: udp udp-echo|udp-multicast --port N\n"
    "  --connections N   echo: sockets, each a peer of the server; multicast: receivers   1\n"
    "  --messages N      datagrams in flight over all sockets                             100\n"
    "  --size N          bytes of a datagram; multicast: 32                               32\n"
    "  --run N           echo: so many leave together for one peer (UDP_SEGMENT)          1\n"
    "  --seconds S       measured window                                                  3\n"
    "  --warmup S        before it                                                        2\n"
    "  --watch PID       also report the CPU of this process over the window\n"
    "  --no-check        do not compare the bytes (to show what the check costs)\n";

// ---- sockets --------------------------------------------------------------------------------------------------------

static int new_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), bytes_asked = SOCKET_BUFFER;
    if (fd < 0) fail("socket: %s", strerror(errno));
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes_asked, sizeof bytes_asked) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes_asked, sizeof bytes_asked);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes_asked, sizeof bytes_asked);
    return fd;
}

static int connected_socket(void)
{
    int fd = new_socket();
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) fail("connect: %s", strerror(errno));
    return fd;
}

// Bound to the group itself, so that nothing else arrives here.
static int group_socket(void)
{
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(0xEFFF0000u | (uint32_t)port)};
    struct ip_mreqn join = {.imr_multiaddr = group.sin_addr, .imr_ifindex = (int)if_nametoindex("lo")};
    int fd = new_socket(), one = 1, zero = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) fail("SO_REUSEADDR: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&group, sizeof group) != 0) fail("bind to the group: %s", strerror(errno));
    if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &zero, sizeof zero) != 0) fail("IP_MULTICAST_ALL: %s", strerror(errno));
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) != 0) fail("joining the group: %s", strerror(errno));
    return fd;
}

static void open_sockets(void)
{
    fds = calloc(sockets, sizeof *fds);
    next_sequence = calloc(sockets, sizeof *next_sequence);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!fds || !next_sequence || epoll < 0) fail("no memory or descriptors");
    if (scenario == MULTICAST) credit_socket = connected_socket();
    for (unsigned i = 0; i < sockets; i++) {
        fds[i] = scenario == ECHO ? connected_socket() : group_socket();
        int one = 1;
        if (run > 1 && setsockopt(fds[i], IPPROTO_UDP, UDP_GRO, &one, sizeof one) != 0) fail("UDP_GRO: %s", strerror(errno));
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &e) != 0) fail("epoll_ctl: %s", strerror(errno));
    }
}

// Datagrams that the kernel dropped for our sockets, mostly because earlier ones were not received in time.
static uint64_t dropped_here(void)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < sockets; i++) {
        uint32_t memory_info[16] = {0};
        socklen_t length = sizeof memory_info;
        if (getsockopt(fds[i], SOL_SOCKET, SO_MEMINFO, memory_info, &length) == 0 && length > 8 * sizeof(uint32_t)) total += memory_info[8];
    }
    return total;
}

// The same of the server's sockets: those at its port that are bound to no group.
static uint64_t dropped_there(void)
{
    uint64_t total = 0;
    const char *const files[] = {"/proc/net/udp", "/proc/net/udp6"};
    for (unsigned i = 0; i < 2; i++) {
        FILE *f = fopen(files[i], "r");
        char line[512];
        while (f && fgets(line, sizeof line, f)) {
            char address[64], *before_drops = strrchr(line, ' ');
            unsigned local_port;
            if (sscanf(line, " %*d: %63[0-9A-F]:%x", address, &local_port) != 2 || local_port != (unsigned)port) continue;
            // The last column is followed by spaces.
            while (before_drops && before_drops > line && before_drops[1] <= ' ') {
                *before_drops = 0;
                before_drops = strrchr(line, ' ');
            }
            bool is_group = i == 0 && strlen(address) == 8 && strtoul(address + 6, NULL, 16) >= 224;
            if (!is_group && before_drops) total += strtoull(before_drops + 1, NULL, 10);
        }
        if (f) fclose(f);
    }
    return total;
}

// ---- what is sent, and what must come back --------------------------------------------------------------------------

static void make_table(void)
{
    size_t length = TABLE_SIZE + MAX_DATAGRAM;
    table = malloc(length);
    slot_size = run > 1 ? 65536 : LARGEST_ETHERNET > size * 2 ? LARGEST_ETHERNET : 65536;
    memory = aligned_alloc(4096, BATCH * slot_size);
    send_memory = aligned_alloc(4096, BATCH * 65536ul);
    flights = calloc(REMEMBERED, sizeof *flights);
    if (!table || !memory || !send_memory || !flights) fail("no memory");
    fill_table(table, length);
    for (unsigned i = 0; i < BATCH; i++) {
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        send_vectors[i] = (struct iovec){send_memory + i * 65536ul, size};
        sends[i].msg_hdr.msg_iov = &send_vectors[i];
        sends[i].msg_hdr.msg_iovlen = 1;
    }
}

static const uint8_t *body_of(uint64_t sequence)
{
    return table + mix64(sequence + 1) % TABLE_SIZE;
}

static void write_datagram(uint8_t *to, uint64_t sequence, uint32_t socket_index)
{
    struct flight *f = &flights[sequence % REMEMBERED];
    *f = (struct flight){.sequence = sequence, .started_ns = turn_ns, .socket = socket_index, .out = true};
    memcpy(to, &sequence, sizeof sequence);
    memcpy(to + sizeof sequence, body_of(sequence), size - sizeof sequence);
}

static void must_send(int fd, unsigned count)
{
    for (unsigned at = 0; at < count;) {
        int n = sendmmsg(fd, sends + at, count - at, 0);
        if (n > 0) at += (unsigned)n;
        else if (errno != EINTR) fail("a datagram could not be sent, with %" PRIu64 " in flight: %s", under_way, strerror(errno));
    }
}

// A run of datagrams is one message that the kernel cuts.
static void send_run(uint32_t socket_index)
{
    uint16_t segment = (uint16_t)size;
    for (unsigned i = 0; i < run; i++) write_datagram(send_memory + i * size, sent++, socket_index);
    struct iovec v = {send_memory, (size_t)run * size};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = controls[0].bytes, .msg_controllen = CMSG_SPACE(sizeof segment)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(c), &segment, sizeof segment);
    if (sendmsg(fds[socket_index], &m, 0) != (ssize_t)v.iov_len)
        fail("a run of %u datagrams could not be sent, with %" PRIu64 " in flight: %s", run, under_way, strerror(errno));
    under_way += run;
}

// Fills the window. With several sockets each datagram leaves from one chosen at random.
static void send_some(void)
{
    while (run > 1 && under_way + run <= window) send_run((uint32_t)(mix64(sent) % sockets));
    while (run == 1 && under_way < window) {
        uint32_t chosen = (uint32_t)(mix64(sent) % sockets);
        unsigned count = sockets > 1 ? 1 : window - under_way < BATCH ? (unsigned)(window - under_way) : BATCH;
        for (unsigned i = 0; i < count; i++) write_datagram(send_vectors[i].iov_base, sent++, chosen);
        must_send(fds[chosen], count);
        under_way += count;
    }
}

static void take_echo(uint32_t socket_index, const uint8_t *datagram, size_t length)
{
    uint64_t sequence = 0;
    if (length != size) fail("socket %u: a datagram of %zu bytes where all have %u (cut, or joined with another)", socket_index, length, size);
    memcpy(&sequence, datagram, sizeof sequence);
    struct flight *f = &flights[sequence % REMEMBERED];
    if (sequence >= sent || f->sequence != sequence) fail("socket %u: datagram %" PRIu64 " was never sent (changed, or foreign)", socket_index, sequence);
    if (!f->out) fail("socket %u: datagram %" PRIu64 " came twice", socket_index, sequence);
    if (f->socket != socket_index) fail("socket %u: datagram %" PRIu64 " belongs to socket %u", socket_index, sequence, f->socket);
    if (check && memcmp(datagram + sizeof sequence, body_of(sequence), size - sizeof sequence) != 0)
        fail("socket %u: datagram %" PRIu64 " is not intact", socket_index, sequence);
    if (sequence + 1 < next_sequence[socket_index]) reordered++;
    else next_sequence[socket_index] = sequence + 1;
    f->out = false;
    under_way--;
    received++;
    bytes += length;
    if (phase == MEASURING) histogram_record(&latency, turn_ns - f->started_ns);
}

// Numbers increase at each receiver; a hole is what was lost.
static void take_message(uint32_t socket_index, const uint8_t *datagram, size_t length)
{
    struct message m, expected;
    if (length != MESSAGE_SIZE) fail("receiver %u: a datagram of %zu bytes where all have %u (cut, or joined with another)", socket_index, length, size);
    memcpy(&m, datagram, sizeof m);
    message_make(&expected, m.sequence);
    if (check && memcmp(&m, &expected, sizeof m) != 0) fail("receiver %u: the message with sequence %" PRIu64 " is not intact", socket_index, m.sequence);
    uint64_t next = next_sequence[socket_index];
    if (m.sequence + 1 <= next) fail("receiver %u: sequence %" PRIu64 " came where %" PRIu64 " was next (repeated or out of order)", socket_index, m.sequence, next);
    lost += m.sequence - next;
    next_sequence[socket_index] = m.sequence + 1;
    received++;
    bytes += length;
}

// A credit for half a window, when so much has come (or is known to be lost) at all receivers together.
static void send_credit(void)
{
    while (received + lost + (uint64_t)window * sockets / 2 >= credited * sockets) {
        uint64_t credit = window / 2;
        ssize_t n = send(credit_socket, &credit, sizeof credit, 0);
        if (n != (ssize_t)sizeof credit) fail("a credit could not be sent: %s", strerror(errno));
        credited += credit;
    }
    sent = credited;
    under_way = credited * sockets - received - lost;
}

static size_t joined_size(struct msghdr *m, size_t length)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
        int segment;
        memcpy(&segment, CMSG_DATA(c), sizeof segment);
        return (size_t)segment;
    }
    return length;
}

static void take_datagrams(uint32_t socket_index, struct mmsghdr *m, const uint8_t *at)
{
    if (m->msg_hdr.msg_flags & MSG_TRUNC) fail("socket %u: a datagram is larger than %zu bytes", socket_index, slot_size);
    size_t length = m->msg_len, segment = run > 1 ? joined_size(&m->msg_hdr, length) : length;
    if (length == 0) fail("socket %u: an empty datagram came", socket_index);
    for (; length > 0; at += segment) {
        if (segment > length) segment = length;
        if (scenario == ECHO) take_echo(socket_index, at, segment);
        else take_message(socket_index, at, segment);
        length -= segment;
    }
}

static void ready(uint32_t socket_index)
{
    // A batch that is not full was the last one.
    for (int n = BATCH; n == BATCH;) {
        for (unsigned i = 0; i < BATCH; i++) {
            vectors[i] = (struct iovec){memory + i * slot_size, slot_size};
            messages[i].msg_hdr.msg_control = run > 1 ? controls[i].bytes : NULL;
            messages[i].msg_hdr.msg_controllen = run > 1 ? sizeof controls[i].bytes : 0;
        }
        n = recvmmsg(fds[socket_index], messages, BATCH, 0, NULL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) fail("socket %u: receive: %s", socket_index, strerror(errno));
        for (int i = 0; i < n; i++) take_datagrams(socket_index, &messages[i], memory + (size_t)i * slot_size);
    }
}

// ---- time -----------------------------------------------------------------------------------------------------------

static void take_sample(struct sample *s)
{
    *s = (struct sample){.ns = clock_ns(), .received = received, .sent = sent, .lost = lost};
    sample_cpu(&s->cpu);
}

static void announce(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void move_phase(void)
{
    if (phase == WARMING) {
        phase = NEARING;
        announce("window near");
        next_phase_ns = start_ns + (uint64_t)(warmup * 1e9);
    } else if (phase == NEARING) {
        phase = MEASURING;
        announce("window start");
        take_sample(&first);
        next_phase_ns = first.ns + (uint64_t)(seconds * 1e9);
    } else {
        take_sample(&last);
        announce("window end");
        phase = DRAINING;
        next_phase_ns = UINT64_MAX;
        quiet_sweeps = 0;
        next_sweep_ns = last.ns + SWEEP_NS;
    }
}

// Nothing can leave any more, because too much of the window never came back.
static __attribute__((noreturn)) void fail_drained(void)
{
    fail("the window has drained to zero: %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64 " dropped at the server's sockets, %" PRIu64 " at ours",
         sent, received, dropped_there(), dropped_here());
}

// Sweeps are counted, not time: a client that did not get the cpu for two seconds must not blame the server. True when
// nothing has come for long enough to call what is out lost.
static bool sweep(void)
{
    quiet_sweeps = received == received_at_sweep ? quiet_sweeps + 1 : 0;
    received_at_sweep = received;
    if (phase == DRAINING) return quiet_sweeps >= DRAINED_SWEEPS;
    if (quiet_sweeps >= STALLED_SWEEPS) fail_drained();
    return false;
}

// ---- the run --------------------------------------------------------------------------------------------------------

static void run_measured(void)
{
    struct epoll_event events[MAX_EVENTS];
    bool over = false;
    start_ns = turn_ns = clock_ns();
    next_phase_ns = near_ns(start_ns);
    next_sweep_ns = turn_ns + SWEEP_NS;
    if (scenario == ECHO) send_some();
    else send_credit();
    while (!over) {
        int n = epoll_wait(epoll, events, MAX_EVENTS, 50);
        if (n < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
        turn_ns = clock_ns();
        if (turn_ns >= next_phase_ns) move_phase();
        for (int i = 0; i < n; i++) ready(events[i].data.u32);
        if (phase < DRAINING && scenario == ECHO) send_some();
        else if (phase < DRAINING) send_credit();
        // After the events, so that what was there is not called lost. Drained runs wait too: nothing may come any more.
        if (turn_ns >= next_sweep_ns) {
            over = sweep();
            next_sweep_ns = turn_ns + SWEEP_NS;
        }
    }
}

static void print_result(void)
{
    // Echo: what is still out has been lost. Multicast: what the last messages would have shown, had they come.
    uint64_t missing = scenario == ECHO ? sent - received : credited * sockets - received;
    if (scenario == ECHO ? missing + run > window : missing - lost > (uint64_t)window * sockets / 2) fail_drained();
    lost = missing;
    uint64_t datagrams = last.received - first.received;
    if (datagrams == 0) fail("no datagram came back in the measured window");
    // Of a multicast one message is one send, which each receiver gets or loses.
    uint64_t count = scenario == ECHO ? datagrams : (datagrams + last.lost - first.lost) / sockets;
    if (count == 0) fail("no whole message reached all receivers in the measured window");
    double elapsed = (double)(last.ns - first.ns) / 1e9;

    print_parameters();
    printf(",\"seconds\":%.6f,\"messages\":%" PRIu64 ",\"datagrams\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"per_second\":%.1f", elapsed, count, datagrams, bytes, (double)count / elapsed);
    printf(",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"dropped_at_server\":%" PRIu64 ",\"dropped_at_client\":%" PRIu64 ",\"reordered\":%" PRIu64,
           scenario == ECHO ? sent : credited, received, lost, dropped_there(), dropped_here(), reordered);
    print_latency(&latency);
    print_cpu(&first.cpu, &last.cpu);
    puts(",\"errors\":0}");
    fflush(stdout);
}

// ---- the command line -----------------------------------------------------------------------------------------------

static void parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", 1, 0, 'p'}, {"connections", 1, 0, 'c'}, {"messages", 1, 0, 'm'}, {"size", 1, 0, 's'}, {"run", 1, 0, 'r'},
        {"seconds", 1, 0, 'z'}, {"warmup", 1, 0, 'w'}, {"watch", 1, 0, 'W'}, {"no-check", 0, 0, 'n'}, {0, 0, 0, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': port = (int)parse_count(optarg, "--port", 65535); break;
        case 'c': sockets = parse_count(optarg, "--connections", MAX_SOCKETS); break;
        case 'm': window = parse_count(optarg, "--messages", 100000); break;
        case 's': size = parse_count(optarg, "--size", MAX_DATAGRAM); break;
        case 'r': run = parse_count(optarg, "--run", 64); break;
        case 'z': seconds = parse_seconds(optarg, "--seconds"); break;
        case 'w': warmup = parse_seconds(optarg, "--warmup"); break;
        case 'W': watched_pid = (int)parse_count(optarg, "--watch", INT32_MAX); break;
        case 'n': check = false; break;
        default: usage("see above");
        }
    }
    if (optind != argc) usage("unexpected '%s'", argv[optind]);
    if (!port) usage("--port is needed");
    if (size < 16) usage("a datagram has at least 16 bytes: its number and some content");
    if ((size_t)run * size > MAX_DATAGRAM) usage("--run times --size must be at most %u", MAX_DATAGRAM);
    if (run > window) usage("a run cannot be longer than what is in flight");
    if (scenario == MULTICAST && (size != MESSAGE_SIZE || run != 1)) usage("the messages of multicast have %d bytes and leave one by one", MESSAGE_SIZE);
    if (scenario == MULTICAST && window < 2) usage("multicast needs at least 2 in flight");
}

int main(int argc, char **argv)
{
    if (argc < 2) usage("a scenario is needed");
    if (strcmp(argv[1], scenario_names[ECHO]) == 0) scenario = ECHO;
    else if (strcmp(argv[1], scenario_names[MULTICAST]) == 0) scenario = MULTICAST;
    else usage("unknown scenario '%s'", argv[1]);
    parse_options(argc - 1, argv + 1);

    raise_descriptor_limit();
    make_table();
    open_sockets();
    run_measured();
    print_result();
    return 0;
}
