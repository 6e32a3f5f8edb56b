#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"

static jmp_buf escape;
static bool escape_armed;

/* Takes the place of the host's in test programs. */
void check_failed(const char *condition, const char *file, int line)
{
    if (escape_armed) {
        escape_armed = false;
        longjmp(escape, 1);
    }
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
    abort();
}

bool check_stops(void (*act)(void *context), void *context)
{
    if (setjmp(escape) != 0)
        return true;
    escape_armed = true;
    act(context);
    escape_armed = false;
    return false;
}

uint64_t draw(uint64_t *state)
{
    uint64_t now = *state;

    *state += UINT64_C(0x9E3779B97F4A7C15);
    return hash_mix(now);
}

uint64_t draw_below(uint64_t *state, uint64_t below)
{
    check(below > 0);
    return draw(state) % below;
}

double draw_unit(uint64_t *state)
{
    return ((double)(draw(state) >> 11) + 0.5) * 0x1p-53;
}

uint64_t test_seed(uint64_t fallback)
{
    const char *text = getenv("BERTH_TEST_SEED");

    return text != NULL ? strtoull(text, NULL, 0) : fallback;
}

const char *test_shared_path(const char *relative)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];

    snprintf(path, sizeof(paths[0]), "../shared/%s", relative);
    return access(path, R_OK) == 0 ? path : NULL;
}
