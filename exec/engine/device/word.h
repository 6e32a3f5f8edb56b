/* Waiting for a word of memory to change: look at it for at most WORD_SPIN_NS, since what is waited for mostly comes within
 * microseconds, then sleep in the kernel, since trainers, servers and control plane share the cores. */
#ifndef DEVICE_WORD_H
#define DEVICE_WORD_H

#include <stdatomic.h>

#include "base/base.h"

#define WORD_SPIN_NS 20000

/* A word on a cache line of its own; `asleep` counts who may be in the kernel, so that a change nobody sleeps for costs no call. */
struct word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t asleep;
};

static inline uint32_t word_get(const struct word *word)
{
    return atomic_load_explicit(&word->value, memory_order_acquire);
}

/* Returns once the word is not `seen` any more; what was written before it changed is then visible. */
void word_wait(struct word *word, uint32_t seen);
/* Wakes whoever sleeps; to be called after each change that somebody may wait for, which must be sequentially consistent. */
void word_wake(struct word *word);

#endif
