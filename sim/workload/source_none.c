/* No requests at all: a scenario of jobs only. */
#include "workload/kind.h"

static enum status none_open(struct source *source, FILE *errors)
{
    source->tenants_max = 1;
    (void)errors;
    return STATUS_OK;
}

static void none_close(struct source *source)
{
    (void)source;
}

static int64_t none_next_at_ns(struct source *source)
{
    (void)source;
    return NEVER_NS;
}

static enum status none_take(struct source *source, struct arrival *ret_arrival)
{
    (void)source;
    (void)ret_arrival;
    return STATUS_END;
}

static void none_say(const struct source *source, struct notes *notes)
{
    (void)source;
    (void)notes;
}

const struct source_kind source_none = {
    .open = none_open,
    .close = none_close,
    .next_at_ns = none_next_at_ns,
    .take = none_take,
    .say = none_say,
};
