// message.h - the 32-byte message of the push scenario: a sequence number and three words that follow from it.
// Shared by the load program, which checks it, and the C and C++ push servers, which make it. The definition, for servers in
// other languages, is in bench/README.md.
#ifndef WHIMBREL_BENCH_MESSAGE_H
#define WHIMBREL_BENCH_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The message is little-endian on the wire, and this code stores words as they are."
#endif

#define MESSAGE_SIZE 32

struct message {
    uint64_t sequence;
    uint64_t word[3];
};

static_assert(sizeof(struct message) == MESSAGE_SIZE, "the message is 32 bytes on the wire");

// The finaliser of splitmix64: a bijection, so that two sequence numbers never share a word.
static inline uint64_t mix64(uint64_t z)
{
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBu;
    z ^= z >> 31;
    return z;
}

static inline void message_make(struct message *m, uint64_t sequence)
{
    m->sequence = sequence;
    for (uint64_t k = 0; k < 3; k++)
        m->word[k] = mix64(sequence ^ (0x9E3779B97F4A7C15u * (k + 1)));
}

#endif
