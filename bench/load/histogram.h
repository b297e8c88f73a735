// histogram.h - a log-linear histogram of nanoseconds: 64 equal steps in each power of two, so that a percentile is at
// most 1/64 (1.6 %) above the true value, and the maximum is exact. Recording is one shift and one increment.
// The idea is HdrHistogram's. `load test-histogram` compares it with exact percentiles.
#ifndef WHIMBREL_BENCH_HISTOGRAM_H
#define WHIMBREL_BENCH_HISTOGRAM_H

#include <stdint.h>

#define STEP_BITS 6
#define STEPS (1u << STEP_BITS)
#define BUCKETS ((64 - STEP_BITS + 1) * STEPS)

struct histogram {
    uint64_t count, max;
    uint64_t bucket[BUCKETS];
};

// Values below 64 have a bucket each; above, the top six bits after the leading one choose the step.
static inline unsigned histogram_index(uint64_t value)
{
    if (value < STEPS) return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - STEP_BITS;
    return ((shift + 1) << STEP_BITS) + (unsigned)(value >> shift) - STEPS;
}

// The largest value that falls into the bucket: percentiles are never understated.
static inline uint64_t histogram_upper(unsigned index)
{
    if (index < STEPS) return index;
    unsigned shift = (index >> STEP_BITS) - 1;
    return (((uint64_t)(index & (STEPS - 1)) + STEPS + 1) << shift) - 1;
}

static inline void histogram_record(struct histogram *h, uint64_t value)
{
    h->bucket[histogram_index(value)]++;
    h->count++;
    if (value > h->max) h->max = value;
}

static inline void histogram_add(struct histogram *to, const struct histogram *from)
{
    for (unsigned i = 0; i < BUCKETS; i++) to->bucket[i] += from->bucket[i];
    to->count += from->count;
    if (from->max > to->max) to->max = from->max;
}

// The smallest recorded value that at least `share` of all values do not exceed (nearest rank).
static inline uint64_t histogram_percentile(const struct histogram *h, double share)
{
    if (h->count == 0) return 0;
    double exact = share * (double)h->count;
    uint64_t rank = (uint64_t)exact, seen = 0;
    if ((double)rank < exact || rank == 0) rank++;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen < rank) continue;
        uint64_t upper = histogram_upper(i);
        return upper < h->max ? upper : h->max;
    }
    return h->max;
}

#endif
