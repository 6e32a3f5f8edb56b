/* Random: what may leave leaves by lot, each as likely. Needs no order at all, and is the floor that knowledge must beat. */
#include "policy/policy.h"

#define PURPOSE_VICTIM 1

static void random_insert(struct evict_view *view, uint32_t entry)
{
    (void)view, (void)entry;
}

static void random_touch(struct evict_view *view, uint32_t entry)
{
    (void)view, (void)entry;
}

static void random_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    (void)view, (void)entry, (void)evicted;
}

static uint32_t random_victim(struct evict_view *view)
{
    return evict_draw_entry(view, PURPOSE_VICTIM);
}

const struct evict_policy evict_random = {
    .name = "random",
    .about = "by lot",
    .source = "Belady, A study of replacement algorithms, IBM Systems Journal 1966",
    .insert = random_insert,
    .touch = random_touch,
    .remove = random_remove,
    .victim = random_victim,
};
