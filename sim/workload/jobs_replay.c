#include "workload/jobs_replay.h"

#include <math.h>
#include <stdlib.h>

#include "workload/trace_files.h"

static const char *const formats[] = {
    [KEY_JOBS_SWF] = "swf", [KEY_JOBS_PHILLY] = "philly", [KEY_JOBS_GAVEL] = "gavel",
    [KEY_JOBS_OPENB] = "openb", [KEY_JOBS_SIA] = "sia", [KEY_JOBS_CSV] = "csv",
};

static enum status read_columns(const struct keys_jobs *keys, struct job_columns *columns, FILE *errors)
{
    const struct {
        const char *key;
        const char *text;
        char *column;
    } parts[] = {
        {"time", keys->trace_time_column, columns->time},
        {"runtime", keys->trace_runtime_column, columns->runtime},
        {"gpus", keys->trace_gpus_column, columns->gpus},
        {"user", keys->trace_user_column, columns->user},
        {"class", keys->trace_class_column, columns->queue},
    };

    *columns = (struct job_columns){.time_unit = (enum trace_time_unit)keys->trace_time_unit};
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (strlen(parts[i].text) >= TRACE_ID_MAX) {
            fprintf(errors, "jobs.trace_%s_column: longer than %d characters\n", parts[i].key, TRACE_ID_MAX - 1);
            return STATUS_INVALID;
        }
        strcpy(parts[i].column, parts[i].text);
    }
    return STATUS_OK;
}

static enum status open_trace(struct job_replay *replay, FILE *errors)
{
    const struct keys_jobs *keys = &replay->scenario->jobs;
    struct job_trace_options options = {
        .lenient = keys->trace_lenient,
        .backward_tolerance_ns = (int64_t)rint(keys->trace_backward_tolerance_s * (double)NS_PER_S),
        .columns = keys->trace_format == KEY_JOBS_CSV ? &replay->columns : NULL,
    };
    char message[TRACE_MESSAGE_MAX];
    enum status status;

    check(keys->trace_format < ARRAY_COUNT(formats));
    status = job_trace_open(replay->path, formats[keys->trace_format], &options, &replay->trace, message);
    if (status == STATUS_OK)
        replay->has = job_trace_info(replay->trace).has;
    else
        fprintf(errors, "%s\n", message);
    return status;
}

/* Counts what it leaves out. */
static bool is_wanted(struct job_replay *replay, const struct job_row *row)
{
    uint64_t gpus_max = replay->scenario->jobs.trace_gpus_max;

    if (gpus_max == 0 || gpus_max > UINT16_MAX)
        gpus_max = UINT16_MAX;
    if ((replay->has & JOB_HAS_GPUS) != 0 && row->gpus == 0 && row->gpu_milli == 0)
        replay->without_gpu++;
    else if (row->gpus > gpus_max)
        replay->too_large++;
    else if (row->status == JOB_ROW_CANCELLED && row->runtime_ns <= 0)
        replay->never_ran++;
    else
        return true;
    return false;
}

/* The next row that is a job of this run. STATUS_END: none, or not before its end. */
static enum status next_job(struct job_replay *replay)
{
    enum status status;

    while ((status = job_trace_next(replay->trace, &replay->row)) == STATUS_OK) {
        replay->row_at_ns = trace_scaled_ns(replay->scenario->jobs.trace_time_scale, replay->row.at_ns);
        if (replay->row_at_ns > replay->duration_ns)
            return STATUS_END;
        if (is_wanted(replay, &replay->row))
            return STATUS_OK;
    }
    return status;
}

static void look_ahead(struct job_replay *replay)
{
    int64_t before_ns = replay->row_at_ns;
    enum status status = next_job(replay);

    if (status == STATUS_END)
        replay->row_at_ns = NEVER_NS;
    else if (status != STATUS_OK)
        replay->row_at_ns = before_ns; /* the error is told at the last known instant */
    replay->status = status == STATUS_END ? STATUS_OK : status;
}

static enum status begin_anew(struct job_replay *replay, FILE *errors)
{
    job_trace_close(replay->trace);
    replay->trace = NULL;
    replay->without_gpu = 0;
    replay->too_large = 0;
    replay->never_ran = 0;
    return open_trace(replay, errors);
}

/* Numbers the users, then begins the trace anew. */
static enum status count_users(struct job_replay *replay, FILE *errors)
{
    uint64_t jobs_max = replay->scenario->jobs.jobs_max;
    enum status status = STATUS_OK;
    uint32_t number;

    for (uint64_t i = 0; (jobs_max == 0 || i < jobs_max) && (status = next_job(replay)) == STATUS_OK; i++) {
        if (names_number(&replay->users, replay->row.user, &number) == STATUS_OK)
            continue;
        fprintf(errors, "%s:%llu: more distinct users than this program holds (%u, memory permitting); shorten the run\n",
                replay->path, (unsigned long long)replay->row.line, NAMES_MAX);
        return STATUS_FULL;
    }
    if (status == STATUS_OK || status == STATUS_END)
        return begin_anew(replay, errors);
    fprintf(errors, "%s\n", job_trace_message(replay->trace));
    return status;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool runtime_add(struct job_replay *replay, uint32_t *room, int64_t runtime_ns)
{
    if (replay->runtimes_count == *room) {
        uint32_t more = max_u32(1024, *room * 2);
        int64_t *larger = realloc(replay->runtimes_ns, more * sizeof(*larger));

        if (larger == NULL)
            return false;
        replay->runtimes_ns = larger;
        *room = more;
    }
    replay->runtimes_ns[replay->runtimes_count++] = runtime_ns;
    return true;
}

/* Of a trace without arrivals: its order says nothing (the published one is sorted), so its run times are drawn. */
static enum status read_runtimes(struct job_replay *replay, FILE *errors)
{
    struct job_row row;
    uint32_t room = 0;
    enum status status;

    while ((status = job_trace_next(replay->trace, &row)) == STATUS_OK) {
        if (row.runtime_ns < 0)
            continue;
        replay->runtimes_cut = replay->runtimes_count == JOB_RUNTIMES_MAX;
        if (replay->runtimes_cut)
            break;
        if (!runtime_add(replay, &room, row.runtime_ns)) {
            fprintf(errors, "%s: not enough memory for its run times\n", replay->path);
            return STATUS_FULL;
        }
    }
    if (status != STATUS_END && status != STATUS_OK) {
        fprintf(errors, "%s\n", job_trace_message(replay->trace));
        return status;
    }
    if (replay->runtimes_count == 0) {
        fprintf(errors, "%s: no row tells a run time\n", replay->path);
        return STATUS_INVALID;
    }
    qsort(replay->runtimes_ns, replay->runtimes_count, sizeof(*replay->runtimes_ns), by_value);
    return STATUS_OK;
}

enum status job_replay_open(struct job_replay *replay, const struct scenario *scenario, FILE *errors)
{
    const struct keys_jobs *keys = &scenario->jobs;
    const struct trace_file file = {"jobs", "trace_", keys->trace_path, keys->trace_path_fallback};
    enum status status;

    *replay = (struct job_replay){.scenario = scenario, .row_at_ns = NEVER_NS,
                                  .duration_ns = (int64_t)rint(scenario->duration_s * (double)NS_PER_S)};
    status = trace_file_choose(&file, scenario, errors, replay->path, &replay->fell_back);
    if (status == STATUS_OK)
        status = read_columns(keys, &replay->columns, errors);
    if (status == STATUS_OK)
        status = open_trace(replay, errors);
    if (status != STATUS_OK)
        return status;
    if (!job_replay_has_arrivals(replay))
        return read_runtimes(replay, errors);
    if ((replay->has & JOB_HAS_USER) != 0)
        status = count_users(replay, errors);
    if (status == STATUS_OK)
        look_ahead(replay);
    return status;
}

void job_replay_close(struct job_replay *replay)
{
    job_trace_close(replay->trace);
    names_close(&replay->users);
    free(replay->runtimes_ns);
    *replay = (struct job_replay){0};
}

bool job_replay_has_arrivals(const struct job_replay *replay)
{
    return (replay->has & JOB_HAS_ARRIVAL) != 0;
}

/* A job that took no time still took its turn. */
static int64_t runtime_scaled_ns(const struct job_replay *replay, int64_t runtime_ns)
{
    return max_i64(1, trace_scaled_ns(replay->scenario->jobs.trace_runtime_scale, runtime_ns));
}

int64_t job_replay_runtime_ns(const struct job_replay *replay, double unit)
{
    return runtime_scaled_ns(replay, replay->runtimes_ns[(uint32_t)(unit * replay->runtimes_count)]);
}

/* By its class, where that has the name of a kind; else by luck. */
static uint32_t kind_of(const struct job_replay *replay, const struct job_draw *draw, const struct job_luck *luck)
{
    uint32_t kind = replay->row.queue[0] != '\0' ? job_kind_named(replay->scenario, replay->row.queue) : NONE_INDEX;

    return kind != NONE_INDEX ? kind : job_draw_kind(draw, luck->kind);
}

static void take_size(const struct job_replay *replay, struct job_arrival *job)
{
    const struct job_row *row = &replay->row;

    if (row->runtime_ns >= 0) {
        job->runtime_ns = runtime_scaled_ns(replay, row->runtime_ns);
        job->tokens = job->stage == STAGE_INTERACTIVE ? 0 : job->tokens;
    }
    if ((replay->has & JOB_HAS_GPUS) == 0)
        return;
    job->gpus = (uint16_t)max_u32(row->gpus, 1);
    job->gpu_milli = (uint16_t)row->gpu_milli;
    if (job->gpus > 1)
        job->isolation = ISOLATION_EXCLUSIVE;
}

enum status job_replay_take(struct job_replay *replay, const struct job_draw *draw, const struct job_luck *luck,
                            struct job_arrival *ret_job, char *ret_message)
{
    uint32_t known = replay->users.count;
    uint32_t tenant = job_draw_tenant(draw, luck->tenant);

    if (replay->status != STATUS_OK) {
        snprintf(ret_message, TRACE_MESSAGE_MAX, "%s", job_trace_message(replay->trace));
        return replay->status;
    }
    /* The same rows were read before: a new name means another file. */
    if ((replay->has & JOB_HAS_USER) != 0 &&
        (names_number(&replay->users, replay->row.user, &tenant) != STATUS_OK || replay->users.count != known)) {
        snprintf(ret_message, TRACE_MESSAGE_MAX, "%s:%llu: the file has changed while it was read", replay->path,
                 (unsigned long long)replay->row.line);
        return STATUS_CORRUPT;
    }
    job_draw_fill(draw, kind_of(replay, draw, luck), luck, replay->row_at_ns, ret_job);
    ret_job->tenant = tenant;
    take_size(replay, ret_job);
    look_ahead(replay);
    return STATUS_OK;
}

static void say_left_out(struct notes *notes, uint64_t count, const char *why)
{
    char number[NUMBER_TEXT_MAX];

    if (count > 0)
        notes_say(notes, "Jobs of the trace left out because %s: %s.", why, count_text(count, number));
}

void job_replay_say(const struct job_replay *replay, struct notes *notes)
{
    const struct keys_jobs *keys = &replay->scenario->jobs;
    struct trace_info info = job_trace_info(replay->trace);
    char number[NUMBER_TEXT_MAX];

    if (replay->fell_back)
        notes_say(notes, "Jobs come from the trace %s, since %s does not exist.", keys->trace_path_fallback,
                  keys->trace_path);
    else
        notes_say(notes, "Jobs come from the trace %s.", keys->trace_path);
    if (!job_replay_has_arrivals(replay))
        notes_say(notes, "It has no arrivals: they are generated, and run times are drawn from its %s.",
                  count_text(replay->runtimes_count, number));
    if (replay->runtimes_cut)
        notes_say(notes, "It has more run times than are held; the rest was not read.");
    if (keys->trace_time_scale < 1 || keys->trace_time_scale > 1)
        notes_say(notes, "Its times are multiplied by %s.", notes_real(keys->trace_time_scale, number));
    if (keys->trace_runtime_scale < 1 || keys->trace_runtime_scale > 1)
        notes_say(notes, "Its run times are multiplied by %s.", notes_real(keys->trace_runtime_scale, number));
    if ((replay->has & JOB_HAS_RUNTIME) == 0)
        notes_say(notes, "The trace has no run times: the tokens of the kinds of jobs give them.");
    if (job_replay_has_arrivals(replay) && (replay->has & JOB_HAS_USER) != 0)
        notes_say(notes, "The trace names the tenants: %s of them.", count_text(replay->users.count, number));
    say_left_out(notes, replay->without_gpu, "they ask for no GPU");
    say_left_out(notes, replay->too_large, "they ask for more GPUs than jobs.trace_gpus_max");
    say_left_out(notes, replay->never_ran, "they were cancelled before they ran");
    trace_say_skips(&info, notes);
}
