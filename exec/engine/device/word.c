#define _DEFAULT_SOURCE /* syscall */
#include "engine/device/word.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void word_wait(struct word *word, uint32_t seen)
{
    int64_t until_ns;

    if (word_get(word) != seen)
        return;
    until_ns = now_ns() + WORD_SPIN_NS;
    do {
        for (int i = 0; i < 8; i++) {
            pause_briefly();
            if (word_get(word) != seen)
                return;
        }
    } while (now_ns() < until_ns);
    /* The count goes up before the kernel compares the word, and is read after the word was changed: one of the two sees the other. */
    atomic_fetch_add(&word->asleep, 1);
    while (word_get(word) == seen)
        syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&word->asleep, 1);
}

void word_wake(struct word *word)
{
    if (atomic_load(&word->asleep) > 0)
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
