#include "workload/jobs_draw.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

#define TOKENS_MAX 1e15 /* a longer tail of the lognormal law is cut */

enum status job_draw_open(struct job_draw *draw, const struct scenario *scenario, const struct rng_streams *streams,
                          FILE *errors)
{
    enum status status;
    double sum = 0;
    double total = 0;

    *draw = (struct job_draw){.scenario = scenario, .streams = streams};
    check(scenario->job_kinds_count > 0);
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++)
        total += scenario->job_kinds[i].keys.share;
    check(total > 0);
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        sum += scenario->job_kinds[i].keys.share;
        draw->shares[i] = sum / total;
    }
    status = popularity_open(&draw->tenants, KEY_ADAPTER_ZIPF, scenario->jobs.tenant_alpha,
                             (uint32_t)scenario->jobs.tenants);
    if (status != STATUS_OK)
        fprintf(errors, "jobs.tenants: not enough memory for %llu tenants\n", (unsigned long long)scenario->jobs.tenants);
    return status;
}

void job_draw_close(struct job_draw *draw)
{
    popularity_close(&draw->tenants);
}

struct job_luck job_draw_luck(const struct job_draw *draw, uint64_t ordinal, bool burst)
{
    const struct rng *of = draw->streams->of;
    uint64_t key = ordinal << 1 | burst;

    return (struct job_luck){
        .kind = rng_unit_at(&of[RNG_JOB_KINDS], key),
        .tenant = rng_unit_at(&of[RNG_JOB_TENANTS], key),
        .tokens = rng_unit_at(&of[RNG_JOB_TOKENS], key),
        .session = rng_unit_at(&of[RNG_JOB_SESSIONS], key),
        .runtime = rng_unit_at(&of[RNG_JOB_RUNTIMES], key),
    };
}

uint32_t job_draw_kind(const struct job_draw *draw, double unit)
{
    uint32_t kind = 0;

    while (kind + 1 < draw->scenario->job_kinds_count && unit >= draw->shares[kind])
        kind++;
    return kind;
}

uint32_t job_draw_tenant(const struct job_draw *draw, double unit)
{
    return popularity_rank(&draw->tenants, unit, 0);
}

/* Lognormal with this mean: mu = ln(mean) - sigma^2 / 2. */
static uint64_t tokens_at(const struct keys_job_kind *keys, double unit)
{
    double log_mean = log(keys->tokens_mean) - keys->tokens_sigma * keys->tokens_sigma / 2;
    double tokens = rint(exp(log_mean + keys->tokens_sigma * gsl_cdf_ugaussian_Pinv(unit)));

    return tokens <= 1 ? 1 : tokens < TOKENS_MAX ? (uint64_t)tokens : (uint64_t)TOKENS_MAX;
}

static int64_t ns_of(double seconds)
{
    return (int64_t)rint(seconds * (double)NS_PER_S);
}

void job_draw_fill(const struct job_draw *draw, uint32_t kind, const struct job_luck *luck, int64_t at_ns,
                   struct job_arrival *ret_job)
{
    const struct keys_job_kind *keys = &draw->scenario->job_kinds[kind].keys;
    bool interactive = keys->stage == STAGE_INTERACTIVE;
    int64_t deadline_ns = ns_of(keys->deadline_h * 3600);

    *ret_job = (struct job_arrival){
        .at_ns = at_ns,
        .runtime_ns = interactive ? max_i64(1, ns_of(-keys->session_s * log1p(-luck->session))) : -1,
        .runtime_min_ns = ns_of(keys->runtime_min_s),
        .deadline_at_ns = deadline_ns > 0 && at_ns < NEVER_NS - deadline_ns ? at_ns + deadline_ns : NEVER_NS,
        .tokens = interactive ? 0 : tokens_at(keys, luck->tokens),
        .epochs = (uint32_t)keys->epochs,
        .kind = (uint16_t)kind,
        .gpus = (uint16_t)keys->gpus,
        .rank = (uint16_t)keys->rank,
        .priority = (int16_t)keys->priority,
        .flags = (uint16_t)((keys->preemptible ? JOB_PREEMPTIBLE : 0) | (keys->spot_ok ? JOB_SPOT_OK : 0)),
        .stage = (uint8_t)keys->stage,
        .isolation = (uint8_t)keys->isolation,
    };
}

uint32_t job_kind_named(const struct scenario *scenario, const char *name)
{
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        if (strcmp(scenario->job_kinds[i].keys.name, name) == 0)
            return i;
    }
    return NONE_INDEX;
}
