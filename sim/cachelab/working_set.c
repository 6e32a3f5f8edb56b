/* Windows of 2^k requests nest, so the request `previous` of the same object lies in another window of 2^k requests exactly where
 * its number differs from this one's in bit k or above. Each window counts its requests by the highest bit that differs; those of
 * bit k and above are the first of their object in the window. When k grows, neighbours add up, and nothing is lost. */
#include "cachelab/working_set.h"

#include <stdlib.h>

#define BITS 65 /* 64: never asked for before */

struct window {
    int64_t from_ns;
    uint64_t objects[BITS];
    uint128 bytes[BITS];
};

struct working_set {
    uint64_t requests;
    uint32_t bits; /* a window has 2^bits requests */
    struct window windows[WORKING_SET_WINDOWS_MAX];
};

enum status working_set_create(struct working_set **ret_set)
{
    struct working_set *set = calloc(1, sizeof(*set));

    if (set == NULL)
        return STATUS_FULL;
    set->bits = WORKING_SET_BITS_MIN;
    *ret_set = set;
    return STATUS_OK;
}

void working_set_free(struct working_set *set)
{
    free(set);
}

static void neighbours_merge(struct working_set *set)
{
    for (uint32_t i = 0; i < WORKING_SET_WINDOWS_MAX / 2; i++) {
        const struct window *second = &set->windows[2 * i + 1];
        struct window merged = set->windows[2 * i];

        for (uint32_t bit = 0; bit < BITS; bit++) {
            merged.objects[bit] += second->objects[bit];
            merged.bytes[bit] += second->bytes[bit];
        }
        set->windows[i] = merged;
    }
    memset(set->windows + WORKING_SET_WINDOWS_MAX / 2, 0, sizeof(set->windows) / 2);
    set->bits++;
}

void working_set_add(struct working_set *set, uint64_t previous, uint64_t size_bytes, int64_t at_ns)
{
    const uint64_t request = set->requests++;
    uint32_t bit = BITS - 1;
    struct window *window;

    if (previous != WORKING_SET_FIRST) {
        check(previous < request);
        bit = 63u - (uint32_t)__builtin_clzll(request ^ previous);
    }
    if (request >> set->bits == WORKING_SET_WINDOWS_MAX)
        neighbours_merge(set);
    window = &set->windows[request >> set->bits];
    if (request % (UINT64_C(1) << set->bits) == 0)
        window->from_ns = at_ns;
    window->objects[bit]++;
    window->bytes[bit] += size_bytes;
}

uint32_t working_set_windows(const struct working_set *set, struct working_set_window ret_windows[WORKING_SET_WINDOWS_MAX])
{
    const uint64_t length = UINT64_C(1) << set->bits;
    const uint32_t count = (uint32_t)div_up_u64(set->requests, length);

    for (uint32_t i = 0; i < count; i++) {
        const struct window *window = &set->windows[i];
        struct working_set_window *told = &ret_windows[i];

        *told = (struct working_set_window){.from_request = i * length, .requests = min_u64(length, set->requests - i * length),
                                            .from_ns = window->from_ns, .new_objects = window->objects[BITS - 1]};
        for (uint32_t bit = set->bits; bit < BITS; bit++) {
            told->objects += window->objects[bit];
            told->bytes += window->bytes[bit];
        }
    }
    return count;
}
