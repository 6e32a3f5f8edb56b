#include "workload/jobs.h"

#include <math.h>
#include <stdlib.h>

#include "workload/arrivals.h"
#include "workload/jobs_replay.h"

struct burst {
    int64_t at_ns;   /* of those still to come; NEVER_NS: none */
    int64_t every_ns;
    uint64_t size;
    uint64_t left;   /* of the burst at at_ns */
    uint64_t taken;  /* in all */
    uint32_t kind;   /* NONE_INDEX: by luck */
};

struct job_source {
    const struct scenario *scenario;
    struct rng_streams streams;
    struct job_draw draw;
    struct job_replay replay;    /* source trace */
    struct arrivals arrivals;    /* where no trace gives them */
    int64_t next_at_ns;          /* of these */
    bool replays_arrivals;
    uint64_t taken;              /* regular ones */
    uint64_t taken_max;
    int64_t duration_ns;
    struct burst burst;
    bool broken;
    struct notes notes;
    char message[TRACE_MESSAGE_MAX];
};

static int64_t ns_of(double seconds)
{
    return (int64_t)rint(seconds * (double)NS_PER_S);
}

static void start_arrivals(struct job_source *source)
{
    const struct keys_jobs *keys = &source->scenario->jobs;
    const struct keys_arrivals shape = {
        .process = keys->process == KEY_JOBS_EVEN ? KEY_PROCESS_EVEN : KEY_PROCESS_POISSON,
        .rate_per_s = keys->rate_per_day / SEASON_DAY_S,
        .cv = 1,
        .diurnal_amplitude = keys->business_amplitude,
        .diurnal_peak_h = keys->business_peak_h,
        .weekend_ratio = keys->weekend_ratio,
    };

    arrivals_init_on(&source->arrivals, &shape, &source->streams.of[RNG_JOB_ARRIVALS], NULL);
    source->next_at_ns = arrivals_next_ns(&source->arrivals);
}

static void start_burst(struct job_source *source)
{
    const struct keys_jobs *keys = &source->scenario->jobs;

    source->burst = (struct burst){
        .at_ns = keys->burst_jobs > 0 ? ns_of(keys->burst_at_s) : NEVER_NS,
        .every_ns = ns_of(keys->burst_every_s),
        .size = keys->burst_jobs,
        .left = keys->burst_jobs,
        .kind = job_kind_named(source->scenario, keys->burst_kind),
    };
}

static enum status open_parts(struct job_source *source, FILE *errors)
{
    const struct scenario *scenario = source->scenario;
    enum status status;

    source->next_at_ns = NEVER_NS;
    source->burst.at_ns = NEVER_NS;
    if (scenario->jobs.source == KEY_JOBS_NONE)
        return STATUS_OK;
    status = job_draw_open(&source->draw, scenario, &source->streams, errors);
    if (status == STATUS_OK && scenario->jobs.source == KEY_JOBS_TRACE)
        status = job_replay_open(&source->replay, scenario, errors);
    if (status != STATUS_OK)
        return status;
    source->replays_arrivals = scenario->jobs.source == KEY_JOBS_TRACE && job_replay_has_arrivals(&source->replay);
    if (!source->replays_arrivals)
        start_arrivals(source);
    start_burst(source);
    return STATUS_OK;
}

enum status job_source_open(const struct scenario *scenario, FILE *errors, struct job_source **ret_source)
{
    struct job_source *source = calloc(1, sizeof(*source));
    enum status status;

    if (source == NULL) {
        fprintf(errors, "jobs: not enough memory\n");
        return STATUS_FULL;
    }
    source->scenario = scenario;
    source->taken_max = scenario->jobs.jobs_max > 0 ? scenario->jobs.jobs_max : UINT64_MAX;
    source->duration_ns = ns_of(scenario->duration_s);
    rng_streams_open(&source->streams, scenario->seed);
    status = open_parts(source, errors);
    if (status == STATUS_OK)
        *ret_source = source;
    else
        job_source_close(source);
    return status;
}

void job_source_close(struct job_source *source)
{
    if (source == NULL)
        return;
    job_replay_close(&source->replay);
    job_draw_close(&source->draw);
    rng_streams_close(&source->streams);
    free(source);
}

static int64_t until_end(const struct job_source *source, int64_t at_ns)
{
    return !source->broken && at_ns <= source->duration_ns ? at_ns : NEVER_NS;
}

static int64_t regular_at_ns(const struct job_source *source)
{
    if (source->taken == source->taken_max)
        return NEVER_NS;
    return until_end(source, source->replays_arrivals ? source->replay.row_at_ns : source->next_at_ns);
}

static int64_t burst_at_ns(const struct job_source *source)
{
    return until_end(source, source->burst.at_ns);
}

int64_t job_source_next_at_ns(const struct job_source *source)
{
    return min_i64(regular_at_ns(source), burst_at_ns(source));
}

/* Run times of a trace without arrivals go to the jobs that tokens would size. */
static void draw_runtime(const struct job_source *source, const struct job_luck *luck, struct job_arrival *job)
{
    if (source->replay.runtimes_count > 0 && job->runtime_ns < 0)
        job->runtime_ns = job_replay_runtime_ns(&source->replay, luck->runtime);
}

static enum status take_regular(struct job_source *source, struct job_arrival *ret_job)
{
    struct job_luck luck = job_draw_luck(&source->draw, source->taken, false);
    enum status status = STATUS_OK;

    if (source->replays_arrivals) {
        status = job_replay_take(&source->replay, &source->draw, &luck, ret_job, source->message);
    } else {
        job_draw_fill(&source->draw, job_draw_kind(&source->draw, luck.kind), &luck, source->next_at_ns, ret_job);
        ret_job->tenant = job_draw_tenant(&source->draw, luck.tenant);
        draw_runtime(source, &luck, ret_job);
        source->next_at_ns = arrivals_next_ns(&source->arrivals);
    }
    source->broken = status != STATUS_OK;
    source->taken += status == STATUS_OK;
    return status;
}

static void take_burst(struct job_source *source, struct job_arrival *ret_job)
{
    struct burst *burst = &source->burst;
    struct job_luck luck = job_draw_luck(&source->draw, burst->taken++, true);
    uint32_t kind = burst->kind != NONE_INDEX ? burst->kind : job_draw_kind(&source->draw, luck.kind);

    job_draw_fill(&source->draw, kind, &luck, burst->at_ns, ret_job);
    ret_job->tenant = (uint32_t)source->scenario->jobs.burst_tenant;
    ret_job->burst = true;
    draw_runtime(source, &luck, ret_job);
    if (--burst->left > 0)
        return;
    burst->left = burst->size;
    burst->at_ns = burst->every_ns > 0 ? burst->at_ns + burst->every_ns : NEVER_NS;
}

enum status job_source_take(struct job_source *source, struct job_arrival *ret_job)
{
    int64_t regular_ns = regular_at_ns(source);
    int64_t burst_ns = burst_at_ns(source);

    check(regular_ns != NEVER_NS || burst_ns != NEVER_NS);
    if (regular_ns <= burst_ns)
        return take_regular(source, ret_job);
    take_burst(source, ret_job);
    return STATUS_OK;
}

void job_source_retrain(const struct job_source *source, uint32_t kind, uint32_t adapter, int64_t at_ns,
                        struct job_arrival *ret_job)
{
    /* Numbers that no regular job and no burst can reach. */
    struct job_luck luck = job_draw_luck(&source->draw, UINT64_C(1) << 62 | adapter, false);

    job_draw_fill(&source->draw, kind, &luck, at_ns, ret_job);
}

const char *job_source_message(const struct job_source *source)
{
    return source->message;
}

uint32_t job_source_tenants_max(const struct job_source *source)
{
    return max_u32((uint32_t)source->scenario->jobs.tenants, source->replay.users.count);
}

const char *job_source_tenant_name(const struct job_source *source, uint32_t tenant)
{
    if (tenant >= source->replay.users.count || source->replay.users.texts[tenant][0] == '\0')
        return NULL;
    return source->replay.users.texts[tenant];
}

static void say_process(const struct keys_jobs *keys, struct notes *notes)
{
    char rate[NUMBER_TEXT_MAX];

    notes_say(notes, "Jobs are generated: %s, %s a day on average.",
              keys->process == KEY_JOBS_EVEN ? "evenly spaced" : "a Poisson process", notes_real(keys->rate_per_day, rate));
    if (keys->business_amplitude > 0 || keys->weekend_ratio < 1 || keys->weekend_ratio > 1)
        notes_say(notes, "Their rate follows the hours of a week that starts on a Monday; its average is over that week.");
}

static void say_burst(const struct keys_jobs *keys, struct notes *notes)
{
    char count[NUMBER_TEXT_MAX];
    char at[NUMBER_TEXT_MAX];
    char every[NUMBER_TEXT_MAX];

    if (keys->burst_jobs == 0)
        return;
    notes_say(notes, "Tenant %llu submits %s jobs at once at %s s%s%s%s.", (unsigned long long)keys->burst_tenant,
              count_text(keys->burst_jobs, count), notes_real(keys->burst_at_s, at),
              keys->burst_every_s > 0 ? ", and again every " : "",
              keys->burst_every_s > 0 ? notes_real(keys->burst_every_s, every) : "", keys->burst_every_s > 0 ? " s" : "");
}

const char *job_source_notes(struct job_source *source)
{
    const struct keys_jobs *keys = &source->scenario->jobs;

    notes_clear(&source->notes);
    if (keys->source == KEY_JOBS_NONE)
        return source->notes.text;
    if (keys->source == KEY_JOBS_TRACE)
        job_replay_say(&source->replay, &source->notes);
    if (!source->replays_arrivals)
        say_process(keys, &source->notes);
    say_burst(keys, &source->notes);
    return source->notes.text;
}
