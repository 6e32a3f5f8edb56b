/* Jobs: laws of the generated ones, what a trace gives and what it leaves to the scenario, bursts, and refusals. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "sim/workload/scene.h"
#include "workload/jobs.h"

#define SWF_SAMPLE "traces/samples/jobs-sample.swf"
/* Jobs of a long run, and how far a mean of n may be off: four standard errors fail one run in 16,000 seeds. */
enum { LONG_DAYS = 280 };

static struct scenario scenario;

/* One kind, 200 jobs a day of 500 tenants for LONG_DAYS. */
static struct keys_jobs *start_scene(uint32_t source)
{
    scene_default(&scenario);
    scenario.duration_s = LONG_DAYS * 86400.0;
    scenario.jobs = (struct keys_jobs){.source = source, .tenants = 500, .rate_per_day = 200, .business_peak_h = 14,
                                       .weekend_ratio = 1, .trace_time_scale = 1, .trace_runtime_scale = 1};
    return &scenario.jobs;
}

static struct keys_job_kind *add_kind(const char *name)
{
    struct scenario_job_kind *kind = &scenario.job_kinds[scenario.job_kinds_count++];

    kind->keys = (struct keys_job_kind){.share = 1, .gpus = 1, .rank = 16, .tokens_mean = 2e6, .tokens_sigma = 1,
                                        .epochs = 3, .preemptible = true, .session_s = 3600};
    strcpy(kind->keys.name, name);
    return &kind->keys;
}

static struct job_source *open_source(void)
{
    struct job_source *source = NULL;

    assert_int_equal(job_source_open(&scenario, stderr, &source), STATUS_OK);
    return source;
}

struct taken {
    struct job_arrival *jobs;
    uint32_t count;
};

/* All of them, in order; free() them. */
static struct taken take_all(struct job_source *source)
{
    struct taken taken = {0};
    uint32_t room = 0;
    int64_t last_ns = 0;
    int64_t next_ns;

    while ((next_ns = job_source_next_at_ns(source)) != NEVER_NS) {
        struct job_arrival *job;

        if (taken.count == room) {
            room = room > 0 ? room * 2 : 1024;
            taken.jobs = realloc(taken.jobs, room * sizeof(*taken.jobs));
        }
        job = &taken.jobs[taken.count++];
        if (job_source_take(source, job) != STATUS_OK)
            fail_msg("%s", job_source_message(source));
        assert_int_equal(job->at_ns, next_ns);
        assert_true(job->at_ns >= last_ns);
        assert_true(job->at_ns <= (int64_t)(scenario.duration_s * 1e9));
        assert_true(job->tenant < job_source_tenants_max(source));
        assert_true(job->kind < scenario.job_kinds_count);
        assert_true(job->gpus >= 1);
        assert_true(job->runtime_ns > 0 || job->tokens > 0);
        last_ns = job->at_ns;
    }
    return taken;
}

static struct taken take_scene(void)
{
    struct job_source *source = open_source();
    struct taken taken = take_all(source);

    job_source_close(source);
    return taken;
}

static void assert_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, not %.9g within %.3g", what, got, wanted, tolerance);
}

/* Opens and expects a refusal; the message, valid until the next call. */
static const char *refusal(enum status status)
{
    static char message[4096];
    struct job_source *source = NULL;
    FILE *errors = fmemopen(message, sizeof(message), "w");

    message[0] = '\0';
    assert_int_equal(job_source_open(&scenario, errors, &source), status);
    assert_null(source);
    fclose(errors);
    return message;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in:\n%s", part, text);
}

/* --- generated --- */

static void without_jobs_there_are_none(void **state)
{
    (void)state;
    struct job_source *source;

    start_scene(KEY_JOBS_NONE);
    scenario.jobs.burst_jobs = 5;
    source = open_source();
    assert_true(job_source_next_at_ns(source) == NEVER_NS);
    assert_string_equal(job_source_notes(source), "");
    job_source_close(source);
}

static void poisson_jobs_have_their_rate_and_gaps_like_chance(void **state)
{
    (void)state;
    struct taken taken;
    double sum = 0;
    double squares = 0;
    double mean;

    start_scene(KEY_JOBS_GENERATED);
    add_kind("a");
    taken = take_scene();
    assert_near("jobs", taken.count, 200.0 * LONG_DAYS, 4 * sqrt(200.0 * LONG_DAYS));
    for (uint32_t i = 1; i < taken.count; i++) {
        double gap_s = (double)(taken.jobs[i].at_ns - taken.jobs[i - 1].at_ns) / 1e9;

        sum += gap_s;
        squares += gap_s * gap_s;
    }
    mean = sum / (taken.count - 1);
    assert_near("mean gap", mean, 432, 4 * 432 / sqrt(taken.count));
    /* The deviation of an exponential sample has a relative error of sqrt(2 / n). */
    assert_near("CV of the gaps", sqrt(squares / (taken.count - 1) - mean * mean) / mean, 1, 4 * sqrt(2.0 / taken.count));
    free(taken.jobs);
}

static void even_jobs_are_evenly_spaced(void **state)
{
    (void)state;
    struct taken taken;

    start_scene(KEY_JOBS_GENERATED)->process = KEY_JOBS_EVEN;
    scenario.jobs.rate_per_day = 24;
    scenario.duration_s = 86400;
    add_kind("a");
    taken = take_scene();
    assert_int_equal(taken.count, 24);
    for (uint32_t i = 0; i < taken.count; i++)
        assert_int_equal(taken.jobs[i].at_ns, (i + 1) * 3600 * NS_PER_S);
    free(taken.jobs);
}

/* Between 8 and 20 h around a peak at 14 h: 1/2 + amplitude / pi. Weekends: 2 r / (5 + 2 r). */
static void business_hours_and_weekends_have_their_closed_shares(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    struct taken taken;
    uint32_t day = 0;
    uint32_t weekend = 0;
    double day_share = 0.5 + 0.8 / pi;
    double weekend_share = 2 * 0.25 / (5 + 2 * 0.25);

    start_scene(KEY_JOBS_GENERATED)->business_amplitude = 0.8;
    scenario.jobs.weekend_ratio = 0.25;
    add_kind("a");
    taken = take_scene();
    for (uint32_t i = 0; i < taken.count; i++) {
        int64_t second = taken.jobs[i].at_ns / NS_PER_S;

        day += second % 86400 >= 8 * 3600 && second % 86400 < 20 * 3600;
        weekend += second / 86400 % 7 >= 5;
    }
    assert_near("jobs", taken.count, 200.0 * LONG_DAYS, 4 * sqrt(200.0 * LONG_DAYS));
    assert_near("by day", (double)day / taken.count, day_share, 4 * sqrt(day_share * (1 - day_share) / taken.count));
    assert_near("on weekends", (double)weekend / taken.count, weekend_share,
                4 * sqrt(weekend_share * (1 - weekend_share) / taken.count));
    free(taken.jobs);
}

static void kinds_and_tenants_have_their_shares(void **state)
{
    (void)state;
    struct taken taken;
    double large = 0;
    double first = 0;
    double harmonic = 0;

    start_scene(KEY_JOBS_GENERATED)->tenant_alpha = 1;
    add_kind("small")->share = 8;
    add_kind("large")->share = 2;
    scenario.job_kinds[1].keys.gpus = 8;
    add_kind("never")->share = 0;
    taken = take_scene();
    for (uint32_t i = 0; i < taken.count; i++) {
        assert_true(taken.jobs[i].kind < 2);
        assert_int_equal(taken.jobs[i].gpus, taken.jobs[i].kind == 1 ? 8 : 1);
        large += taken.jobs[i].kind == 1;
        first += taken.jobs[i].tenant == 0;
    }
    for (uint32_t i = 1; i <= 500; i++)
        harmonic += 1.0 / i;
    assert_near("large", large / taken.count, 0.2, 4 * sqrt(0.16 / taken.count));
    assert_near("first tenant", first / taken.count, 1 / harmonic, 4 * sqrt(1 / harmonic / taken.count));
    free(taken.jobs);
}

static void equal_tenants_have_equal_shares(void **state)
{
    (void)state;
    static uint32_t jobs_of[500];
    struct taken taken;
    double chi_squared = 0;

    start_scene(KEY_JOBS_GENERATED);
    add_kind("a");
    memset(jobs_of, 0, sizeof(jobs_of));
    taken = take_scene();
    for (uint32_t i = 0; i < taken.count; i++)
        jobs_of[taken.jobs[i].tenant]++;
    for (uint32_t i = 0; i < 500; i++) {
        double wanted = taken.count / 500.0;

        chi_squared += (jobs_of[i] - wanted) * (jobs_of[i] - wanted) / wanted;
    }
    assert_near("chi squared", chi_squared, 499, 4 * sqrt(2 * 499));
    free(taken.jobs);
}

static void tokens_are_lognormal_with_their_mean(void **state)
{
    (void)state;
    struct taken taken;
    double sum = 0;
    double logs = 0;
    double log_squares = 0;
    double n;

    start_scene(KEY_JOBS_GENERATED);
    add_kind("a");
    taken = take_scene();
    n = taken.count;
    for (uint32_t i = 0; i < taken.count; i++) {
        double log_tokens = log((double)taken.jobs[i].tokens);

        assert_int_equal(taken.jobs[i].runtime_ns, -1);
        sum += (double)taken.jobs[i].tokens;
        logs += log_tokens;
        log_squares += log_tokens * log_tokens;
    }
    /* Relative deviation of a lognormal with sigma 1: sqrt(e - 1). */
    assert_near("mean tokens", sum / n, 2e6, 4 * 2e6 * sqrt(1.71828 / n));
    assert_near("mean of logs", logs / n, log(2e6) - 0.5, 4 / sqrt(n));
    assert_near("deviation of logs", sqrt(log_squares / n - logs / n * (logs / n)), 1, 4 / sqrt(2 * n));
    free(taken.jobs);
}

static void a_kind_says_everything_else(void **state)
{
    (void)state;
    struct keys_job_kind *kind;
    struct taken taken;
    const struct job_arrival *job;

    start_scene(KEY_JOBS_GENERATED)->jobs_max = 3;
    kind = add_kind("a");
    kind->tokens_sigma = 0;
    kind->gpus = 8;
    kind->rank = 64;
    kind->epochs = 5;
    kind->priority = 9;
    kind->preemptible = false;
    kind->spot_ok = true;
    kind->stage = STAGE_EVALUATE;
    kind->isolation = ISOLATION_EXCLUSIVE;
    kind->runtime_min_s = 60;
    kind->deadline_h = 2;
    taken = take_scene();
    assert_int_equal(taken.count, 3);
    job = &taken.jobs[2];
    assert_int_equal(job->tokens, 2000000);
    assert_int_equal(job->gpus, 8);
    assert_int_equal(job->rank, 64);
    assert_int_equal(job->epochs, 5);
    assert_int_equal(job->priority, 9);
    assert_int_equal(job->flags, JOB_SPOT_OK);
    assert_int_equal(job->stage, STAGE_EVALUATE);
    assert_int_equal(job->runtime_min_ns, 60 * NS_PER_S);
    assert_int_equal(job->deadline_at_ns, job->at_ns + 7200 * NS_PER_S);
    assert_int_equal(job->gpu_milli, 0);
    assert_false(job->burst);
    free(taken.jobs);
}

static void interactive_sessions_are_exponential(void **state)
{
    (void)state;
    struct taken taken;
    double sum_s = 0;
    double long_ones = 0;

    start_scene(KEY_JOBS_GENERATED);
    add_kind("notebook")->stage = STAGE_INTERACTIVE;
    taken = take_scene();
    for (uint32_t i = 0; i < taken.count; i++) {
        assert_int_equal(taken.jobs[i].tokens, 0);
        assert_true(taken.jobs[i].deadline_at_ns == NEVER_NS);
        sum_s += (double)taken.jobs[i].runtime_ns / 1e9;
        long_ones += taken.jobs[i].runtime_ns > 3600 * NS_PER_S;
    }
    assert_near("mean session", sum_s / taken.count, 3600, 4 * 3600 / sqrt(taken.count));
    assert_near("longer than the mean", long_ones / taken.count, exp(-1), 4 * 0.5 / sqrt(taken.count));
    free(taken.jobs);
}

static void one_seed_gives_one_run_and_another_seed_another(void **state)
{
    (void)state;
    struct taken first;
    struct taken second;
    struct taken other;

    start_scene(KEY_JOBS_GENERATED);
    scenario.duration_s = 86400;
    add_kind("a");
    first = take_scene();
    second = take_scene();
    scenario.seed = 2;
    other = take_scene();
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.jobs, second.jobs, first.count * sizeof(*first.jobs));
    assert_true(other.jobs[0].at_ns != first.jobs[0].at_ns);
    free(first.jobs);
    free(second.jobs);
    free(other.jobs);
}

static void another_law_moves_no_other_luck(void **state)
{
    (void)state;
    struct taken plain;
    struct taken changed;

    start_scene(KEY_JOBS_GENERATED);
    scenario.duration_s = 86400 * 7;
    add_kind("a");
    plain = take_scene();
    scenario.job_kinds[0].keys.tokens_sigma = 0.5;
    scenario.jobs.tenant_alpha = 1;
    changed = take_scene();
    assert_int_equal(plain.count, changed.count);
    for (uint32_t i = 0; i < plain.count; i++) {
        assert_int_equal(plain.jobs[i].at_ns, changed.jobs[i].at_ns);
        /* One number decides both: who had more than the median has more than the other median. */
        assert_int_equal((double)plain.jobs[i].tokens > 2e6 * exp(-0.5), (double)changed.jobs[i].tokens > 2e6 * exp(-0.125));
    }
    free(plain.jobs);
    free(changed.jobs);
}

/* --- bursts --- */

static void a_burst_comes_at_once_and_moves_nobody_else(void **state)
{
    (void)state;
    struct taken plain;
    struct taken flooded;
    uint32_t in_burst = 0;
    uint32_t regular = 0;

    start_scene(KEY_JOBS_GENERATED);
    scenario.duration_s = 86400;
    add_kind("small");
    add_kind("large")->gpus = 8;
    plain = take_scene();
    scenario.jobs.burst_jobs = 50;
    scenario.jobs.burst_tenant = 7;
    scenario.jobs.burst_at_s = 3600.5;
    strcpy(scenario.jobs.burst_kind, "large");
    flooded = take_scene();
    assert_int_equal(flooded.count, plain.count + 50);
    for (uint32_t i = 0; i < flooded.count; i++) {
        const struct job_arrival *job = &flooded.jobs[i];

        if (job->burst) {
            assert_int_equal(job->at_ns, 3600500 * NS_PER_MS);
            assert_int_equal(job->tenant, 7);
            assert_int_equal(job->kind, 1);
            in_burst++;
        } else {
            assert_memory_equal(job, &plain.jobs[regular], sizeof(*job));
            regular++;
        }
    }
    assert_int_equal(in_burst, 50);
    free(plain.jobs);
    free(flooded.jobs);
}

static void bursts_come_again_until_the_end(void **state)
{
    (void)state;
    struct taken taken;
    uint32_t in_burst = 0;
    uint32_t large = 0;

    start_scene(KEY_JOBS_GENERATED)->process = KEY_JOBS_EVEN;
    scenario.jobs.rate_per_day = 24;
    scenario.duration_s = 10 * 3600;
    scenario.jobs.burst_jobs = 200;
    scenario.jobs.burst_at_s = 3600;
    scenario.jobs.burst_every_s = 3 * 3600;
    add_kind("a");
    add_kind("b");
    taken = take_scene();
    for (uint32_t i = 0; i < taken.count; i++) {
        in_burst += taken.jobs[i].burst;
        large += taken.jobs[i].burst && taken.jobs[i].kind == 1;
        if (taken.jobs[i].burst)
            assert_int_equal(taken.jobs[i].at_ns / NS_PER_S % (3 * 3600), 3600);
    }
    assert_int_equal(in_burst, 4 * 200); /* at 1, 4, 7 and 10 h */
    assert_int_equal(taken.count, 10 + 4 * 200);
    assert_false(taken.jobs[0].burst); /* at one instant the regular job is first */
    assert_true(taken.jobs[1].burst);
    assert_near("by luck", large, 400, 4 * sqrt(800 * 0.25));
    free(taken.jobs);
}

/* --- traces --- */

static struct keys_jobs *start_trace(uint32_t format, const char *path)
{
    struct keys_jobs *keys = start_scene(KEY_JOBS_TRACE);

    keys->trace_format = format;
    strcpy(keys->trace_path, path);
    return keys;
}

static void a_trace_gives_arrivals_sizes_and_tenants(void **state)
{
    (void)state;
    struct job_source *source;
    struct taken taken;
    uint32_t sized_by_tokens = 0;

    start_trace(KEY_JOBS_SWF, SWF_SAMPLE);
    add_kind("a")->isolation = ISOLATION_MPS;
    source = open_source();
    taken = take_all(source);
    assert_int_equal(taken.count, 60);
    assert_int_equal(taken.jobs[0].at_ns, 0);
    assert_int_equal(taken.jobs[0].runtime_ns, 398 * NS_PER_S);
    assert_int_equal(taken.jobs[0].gpus, 2);
    assert_int_equal(taken.jobs[0].isolation, ISOLATION_EXCLUSIVE); /* a gang is */
    assert_int_equal(taken.jobs[0].tenant, 0);
    assert_string_equal(job_source_tenant_name(source, 0), "5");
    assert_int_equal(taken.jobs[1].at_ns, 2888 * NS_PER_S);
    assert_int_equal(taken.jobs[1].tenant, 1);
    assert_string_equal(job_source_tenant_name(source, 1), "1");
    assert_null(job_source_tenant_name(source, 9));
    assert_int_equal(job_source_tenants_max(source), 500);
    for (uint32_t i = 0; i < taken.count; i++) {
        if (taken.jobs[i].gpus == 1)
            assert_int_equal(taken.jobs[i].isolation, ISOLATION_MPS);
        sized_by_tokens += taken.jobs[i].runtime_ns == -1;
    }
    assert_int_equal(sized_by_tokens, 6); /* the log does not know */
    assert_has(job_source_notes(source), "Jobs come from the trace " SWF_SAMPLE ".\n");
    assert_has(job_source_notes(source), "The trace names the tenants: 9 of them.\n");
    assert_has(job_source_notes(source), "Reading met lines with: a part of a job that has a line of its own (SWF status 2 to 4) (2).\n");
    free(taken.jobs);
    job_source_close(source);
}

static void more_users_than_tenants_raise_the_bound(void **state)
{
    (void)state;
    struct job_source *source;

    start_trace(KEY_JOBS_SWF, SWF_SAMPLE)->tenants = 2;
    add_kind("a");
    source = open_source();
    assert_int_equal(job_source_tenants_max(source), 9);
    job_source_close(source);
}

static void trace_times_are_scaled_cut_and_counted(void **state)
{
    (void)state;
    struct job_source *source;
    struct taken taken;

    start_trace(KEY_JOBS_SWF, SWF_SAMPLE)->trace_time_scale = 0.5;
    scenario.jobs.trace_runtime_scale = 2;
    scenario.jobs.trace_gpus_max = 4;
    scenario.duration_s = 2149.5; /* half of the fourth row's time */
    add_kind("a");
    source = open_source();
    taken = take_all(source);
    assert_int_equal(taken.count, 3); /* the third row has 16 */
    assert_int_equal(taken.jobs[1].at_ns, 1444 * NS_PER_S);
    assert_int_equal(taken.jobs[1].runtime_ns, 2 * 8782 * NS_PER_S);
    assert_int_equal(taken.jobs[2].at_ns, 2149500 * NS_PER_MS);
    assert_has(job_source_notes(source), "Jobs of the trace left out because they ask for more GPUs than jobs.trace_gpus_max: 1.\n");
    assert_has(job_source_notes(source), "Its times are multiplied by 0.5.\nIts run times are multiplied by 2.0.\n");
    free(taken.jobs);
    job_source_close(source);
}

static void a_class_with_the_name_of_a_kind_is_that_kind(void **state)
{
    (void)state;
    struct taken taken;
    uint32_t guaranteed = 0;

    start_trace(KEY_JOBS_OPENB, "traces/samples/jobs-openb-sample.csv");
    add_kind("LS");
    add_kind("Burstable");
    add_kind("BE");
    add_kind("Guaranteed");
    scenario.job_kinds[3].keys.share = 0;
    taken = take_scene();
    for (uint32_t i = 0; i < taken.count; i++)
        guaranteed += taken.jobs[i].kind == 3;
    assert_in_range(guaranteed, 1, 30); /* no luck would give it */
    free(taken.jobs);
}

static void shares_of_a_gpu_are_told_and_pods_that_never_ran_left_out(void **state)
{
    (void)state;
    struct job_source *source;
    struct taken taken;
    uint32_t shared = 0;

    start_trace(KEY_JOBS_OPENB, "traces/samples/jobs-openb-sample.csv");
    add_kind("a");
    source = open_source();
    taken = take_all(source);
    for (uint32_t i = 0; i < taken.count; i++) {
        shared += taken.jobs[i].gpu_milli == 460;
        assert_true(taken.jobs[i].gpu_milli == 0 || taken.jobs[i].gpus == 1);
        assert_true(taken.jobs[i].runtime_ns > 0);
    }
    assert_true(shared > 5);
    assert_has(job_source_notes(source), "because they ask for no GPU: 5.\n"); /* each eleventh of 60 */
    assert_has(job_source_notes(source), "because they were cancelled before they ran: 8.\n"); /* each seventh */
    assert_int_equal(taken.count, 60 - 5 - 8);
    free(taken.jobs);
    job_source_close(source);
}

static void a_trace_without_run_times_is_sized_by_tokens(void **state)
{
    (void)state;
    struct job_source *source;
    struct taken taken;

    start_trace(KEY_JOBS_GAVEL, "traces/samples/jobs-gavel-7-sample.trace");
    add_kind("a")->tokens_sigma = 0;
    source = open_source();
    taken = take_all(source);
    assert_int_equal(taken.count, 60);
    for (uint32_t i = 0; i < taken.count; i++) {
        assert_int_equal(taken.jobs[i].runtime_ns, -1);
        assert_int_equal(taken.jobs[i].tokens, 2000000);
    }
    assert_has(job_source_notes(source), "The trace has no run times: the tokens of the kinds of jobs give them.\n");
    free(taken.jobs);
    job_source_close(source);
}

static void run_times_without_arrivals_are_drawn(void **state)
{
    (void)state;
    const char *path = scene_file("runtimes.csv", "runtime\n0\n1\n2\n3\n");
    struct job_source *source;
    struct taken taken;
    double counts[4] = {0};

    start_trace(KEY_JOBS_PHILLY, path);
    add_kind("a");
    source = open_source();
    taken = take_all(source);
    scene_remove(path);
    assert_near("jobs", taken.count, 200.0 * LONG_DAYS, 4 * sqrt(200.0 * LONG_DAYS));
    for (uint32_t i = 0; i < taken.count; i++) {
        int64_t runtime_ns = taken.jobs[i].runtime_ns;

        assert_true(runtime_ns == 1 || runtime_ns % NS_PER_S == 0); /* none takes no time at all */
        counts[runtime_ns / NS_PER_S]++;
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_near("share", counts[i] / taken.count, 0.25, 4 * sqrt(0.1875 / taken.count));
    assert_has(job_source_notes(source), "It has no arrivals: they are generated, and run times are drawn from its 4.\n");
    assert_has(job_source_notes(source), "Jobs are generated: a Poisson process, 200.0 a day on average.\n");
    free(taken.jobs);
    job_source_close(source);
}

static void any_csv_is_replayed_by_its_columns(void **state)
{
    (void)state;
    struct keys_jobs *keys = start_trace(KEY_JOBS_CSV, "traces/samples/jobs-generic-sample.csv");
    struct job_source *source;
    struct taken taken;

    strcpy(keys->trace_time_column, "submitted");
    strcpy(keys->trace_gpus_column, "gpus");
    strcpy(keys->trace_user_column, "who");
    strcpy(keys->trace_class_column, "class");
    keys->trace_time_unit = KEY_TIME_DATETIME;
    add_kind("day");
    add_kind("night")->share = 0;
    source = open_source();
    taken = take_all(source);
    assert_int_equal(taken.count, 60);
    for (uint32_t i = 0; i < taken.count; i++)
        assert_int_equal(taken.jobs[i].kind, i % 3 == 0);
    assert_non_null(strstr(job_source_tenant_name(source, 0), "user "));
    free(taken.jobs);
    job_source_close(source);
}

static void bursts_join_a_trace_and_jobs_max_counts_the_trace_only(void **state)
{
    (void)state;
    struct taken taken;

    start_trace(KEY_JOBS_SWF, SWF_SAMPLE)->jobs_max = 10;
    scenario.jobs.burst_jobs = 5;
    scenario.jobs.burst_tenant = 400;
    add_kind("a");
    taken = take_scene();
    assert_int_equal(taken.count, 15);
    assert_false(taken.jobs[0].burst);
    for (uint32_t i = 1; i < 6; i++)
        assert_true(taken.jobs[i].burst);
    assert_int_equal(taken.jobs[5].tenant, 400);
    free(taken.jobs);
}

static void the_fallback_is_used_and_said(void **state)
{
    (void)state;
    struct job_source *source;

    start_trace(KEY_JOBS_SWF, "no/such.swf");
    strcpy(scenario.jobs.trace_path_fallback, SWF_SAMPLE);
    add_kind("a");
    source = open_source();
    assert_has(job_source_notes(source), "Jobs come from the trace " SWF_SAMPLE ", since no/such.swf does not exist.\n");
    job_source_close(source);
}

static void traces_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    const char *path = scene_file("cut.csv", "runtime\n1\nx\n");

    start_trace(KEY_JOBS_SWF, "");
    add_kind("a");
    assert_string_equal(refusal(STATUS_INVALID), "jobs.trace_path: is empty; name the trace's file\n");
    strcpy(scenario.jobs.trace_path, "no/such.swf");
    assert_string_equal(refusal(STATUS_NOT_FOUND), "jobs.trace_path: no such file: no/such.swf\n");
    strcpy(scenario.jobs.trace_path, "traces/samples/azure-small.csv");
    assert_has(refusal(STATUS_CORRUPT), "azure-small.csv:1:");
    strcpy(scenario.jobs.trace_path, path);
    scenario.jobs.trace_format = KEY_JOBS_PHILLY;
    assert_has(refusal(STATUS_CORRUPT), "cut.csv:3:1: runtime 'x' is not a number; ");
    scenario.jobs.trace_format = KEY_JOBS_CSV;
    memset(scenario.jobs.trace_runtime_column, 'x', 64);
    assert_string_equal(refusal(STATUS_INVALID), "jobs.trace_runtime_column: longer than 63 characters\n");
    scene_remove(path);
}

static void a_bad_line_ends_the_jobs_where_it_stands(void **state)
{
    (void)state;
    const char *path = scene_file("bad.csv", "name,time,application,num_replicas,batch_size\na,0,x,1,1\nb,5,x,2,1\nc,4,x,1,1\n");
    struct job_source *source;
    struct job_arrival job;

    start_trace(KEY_JOBS_SIA, path);
    add_kind("a");
    source = open_source();
    assert_int_equal(job_source_take(source, &job), STATUS_OK);
    assert_int_equal(job_source_take(source, &job), STATUS_OK);
    assert_int_equal(job.gpus, 2);
    assert_int_equal(job_source_next_at_ns(source), 5 * NS_PER_S);
    assert_int_equal(job_source_take(source, &job), STATUS_CORRUPT);
    assert_has(job_source_message(source), "bad.csv:4:3: time goes back by 1.000000000 s");
    assert_true(job_source_next_at_ns(source) == NEVER_NS);
    job_source_close(source);
    scenario.jobs.trace_lenient = true;
    source = open_source();
    free(take_all(source).jobs);
    assert_has(job_source_notes(source), "Lenient reading met lines with: time before the row above (1).\n");
    job_source_close(source);
    scene_remove(path);
}

static void the_real_traces_are_replayed(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t format;
        uint32_t jobs;
    } files[] = {{"traces/swf/hpc2n.swf", KEY_JOBS_SWF, 3170},
                 {"traces/gavel-philly/0e4a51.trace", KEY_JOBS_GAVEL, 1181},
                 {"traces/alibaba-2023-openb/openb_pod_list_default.csv", KEY_JOBS_OPENB, 0},
                 {"traces/sia/newtrace-1.csv", KEY_JOBS_SIA, 960}};

    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        const char *path = test_shared_path(files[i].path);
        struct taken taken;

        if (path == NULL) {
            print_message("%s is not there: skipped\n", files[i].path);
            skip();
        }
        start_trace(files[i].format, path);
        add_kind("a");
        taken = take_scene();
        if (files[i].jobs > 0)
            assert_int_equal(taken.count, files[i].jobs);
        assert_in_range(taken.count, 900, 8152);
        free(taken.jobs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_jobs_there_are_none),
        cmocka_unit_test(poisson_jobs_have_their_rate_and_gaps_like_chance),
        cmocka_unit_test(even_jobs_are_evenly_spaced),
        cmocka_unit_test(business_hours_and_weekends_have_their_closed_shares),
        cmocka_unit_test(kinds_and_tenants_have_their_shares),
        cmocka_unit_test(equal_tenants_have_equal_shares),
        cmocka_unit_test(tokens_are_lognormal_with_their_mean),
        cmocka_unit_test(a_kind_says_everything_else),
        cmocka_unit_test(interactive_sessions_are_exponential),
        cmocka_unit_test(one_seed_gives_one_run_and_another_seed_another),
        cmocka_unit_test(another_law_moves_no_other_luck),
        cmocka_unit_test(a_burst_comes_at_once_and_moves_nobody_else),
        cmocka_unit_test(bursts_come_again_until_the_end),
        cmocka_unit_test(a_trace_gives_arrivals_sizes_and_tenants),
        cmocka_unit_test(more_users_than_tenants_raise_the_bound),
        cmocka_unit_test(trace_times_are_scaled_cut_and_counted),
        cmocka_unit_test(a_class_with_the_name_of_a_kind_is_that_kind),
        cmocka_unit_test(shares_of_a_gpu_are_told_and_pods_that_never_ran_left_out),
        cmocka_unit_test(a_trace_without_run_times_is_sized_by_tokens),
        cmocka_unit_test(run_times_without_arrivals_are_drawn),
        cmocka_unit_test(any_csv_is_replayed_by_its_columns),
        cmocka_unit_test(bursts_join_a_trace_and_jobs_max_counts_the_trace_only),
        cmocka_unit_test(the_fallback_is_used_and_said),
        cmocka_unit_test(traces_that_cannot_be_read_are_refused),
        cmocka_unit_test(a_bad_line_ends_the_jobs_where_it_stands),
        cmocka_unit_test(the_real_traces_are_replayed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
