#include "engine/train/schedule.h"

#include <math.h>

static const char *const names[SCHEDULE_COUNT] = {
#define X(name, text, about) text,
    SCHEDULES(X)
#undef X
};

const char *schedule_kind_name(enum schedule_kind kind)
{
    check(kind < SCHEDULE_COUNT);
    return names[kind];
}

bool schedule_kind_find(const char *name, enum schedule_kind *ret_kind)
{
    for (enum schedule_kind kind = 0; kind < SCHEDULE_COUNT; kind++)
        if (strcmp(names[kind], name) == 0) {
            *ret_kind = kind;
            return true;
        }
    return false;
}

double schedule_rate(const struct schedule *schedule, int64_t step)
{
    const double pi = 3.14159265358979323846;
    double x;

    check(step >= 0 && schedule->steps >= 1);
    check(schedule->warmup_steps >= 0 && schedule->warmup_steps <= schedule->steps);
    if (step < schedule->warmup_steps)
        return schedule->peak * (double)(step + 1) / (double)schedule->warmup_steps;
    if (schedule->kind == SCHEDULE_CONSTANT)
        return schedule->peak;
    if (step >= schedule->steps)
        return 0;
    x = (double)(step - schedule->warmup_steps) / (double)(schedule->steps - schedule->warmup_steps);
    return schedule->kind == SCHEDULE_LINEAR ? schedule->peak * (1 - x) : schedule->peak * (1 + cos(pi * x)) / 2;
}

bool rate_fitted(enum model_family family, int32_t hidden, double *ret_rate)
{
    static const double powers[FAMILY_COUNT] = {[FAMILY_LLAMA] = 0.781, [FAMILY_QWEN2] = 0.0775, [FAMILY_QWEN3] = 0.0775};

    check(family < FAMILY_COUNT && hidden >= 1);
    if (powers[family] <= 0)
        return false;
    *ret_rate = 10 * 5e-5 * pow(2000.0 / hidden, powers[family]);
    return true;
}
