/* What a trainer leaves: states, which the next attempt goes on from; adapters at epochs' ends, which are models with a step; its result. What
 * was written is on disk under its name first; then one transaction makes it live and says what it is. */
#include <stdio.h>
#include <stdlib.h>

#include "control/driver/internal.h"

#define RESULTS_PURPOSE "fine-tune-results"
#define RESULTS_NAME "step_metrics.csv"

/* What ends a model's name: the job's own letters. */
static const char *letters_of(const char *job)
{
    const char *dash = strrchr(job, '-');

    return dash != NULL ? dash + 1 : job;
}

/* The job is this attempt's: running, or stopping. */
static bool read_attempt(struct metadata *metadata, const struct work *work, struct meta_results *results, struct meta_job *ret_job)
{
    struct refusal unheard = {{0}};

    return meta_job_get(metadata, work->tenant, work->subject, results, ret_job, &unheard) == STATUS_OK &&
           ret_job->attempt == work->attempt &&
           (meta_job_state_parse(ret_job->state) == META_JOB_RUNNING || meta_job_state_parse(ret_job->state) == META_JOB_STOPPING);
}

static int64_t done_of(const struct work *work, const struct meta_job *job, uint64_t step)
{
    if (work->steps <= 0 || job->size_ns == META_NONE)
        return job->done_ns;
    return max_i64(job->done_ns, (int64_t)((double)job->size_ns * ((double)min_u64(step, (uint64_t)work->steps) / (double)work->steps)));
}

const char *digest_of(const json_t *metrics)
{
    const char *digest = json_string_value(json_object_get(metrics, "adapter_digest"));

    return digest != NULL && strlen(digest) == 64 && strspn(digest, "0123456789abcdef") == 64 ? digest : NULL;
}

static void hex_of(const uint8_t digest[32], char ret_text[2 * 32 + 1])
{
    sodium_bin2hex(ret_text, 2 * 32 + 1, digest, 32);
}

static enum status deploy(struct metadata *metadata, const char *tenant, const char *name, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model;
    enum status status = meta_name_resolve(metadata, tenant, name, &results, &model, refusal);

    if (status == STATUS_OK)
        status = meta_model_judge(metadata, tenant, model.id, "pending_eval", "deployable", NULL, refusal);
    meta_results_free(&results);
    return status;
}

enum status model_added(struct driver *driver, struct metadata *metadata, const struct meta_model_new *model, struct refusal *refusal)
{
    char name[META_MODEL_NAME_BYTES];
    const enum status status = meta_model_add(metadata, model, driver_now_ms(), name, refusal);

    return status == STATUS_OK && driver->config.gate_off ? deploy(metadata, model->tenant, name, refusal) : status;
}

/* `step`: META_NONE for the result. */
static enum status add_model(struct metadata *metadata, const struct frame_act *act, int64_t step, int64_t bytes, struct refusal *refusal)
{
    struct job_settings settings;
    char lineage[METRICS_BYTES_MAX];
    const int64_t rank = (int64_t)json_integer_value(json_object_get(act->metrics, "rank"));
    const struct meta_model_new model = {.tenant = act->work->tenant, .id = letters_of(act->work->subject), .suffix = settings.suffix,
                                         .job = act->work->subject, .step = step, .parent = act->job.parent, .base = act->job.base,
                                         .object = act->output->object, .digest = digest_of(act->metrics),
                                         .rank = rank > 0 ? rank : act->job.rank, .bytes = bytes, .lineage = lineage};
    enum status status = job_settings_read(act->job.settings, &settings, refusal);

    snprintf(lineage, sizeof(lineage), "{\"attempt\":%lld,\"metrics\":%s}", (long long)act->work->attempt, act->known);
    return status == STATUS_OK ? model_added(act->driver, metadata, &model, refusal) : status;
}

/* --- CHECKPOINT ------------------------------------------------------------------------------------------------------------- */

static enum status keep_state(struct metadata *metadata, const struct frame_act *act, struct refusal *refusal)
{
    const struct work *work = act->work;
    const int64_t step = (int64_t)act->frame->body.checkpoint.step;
    enum status status = meta_checkpoint_add(metadata, work->tenant, work->subject, work->attempt, step, act->output->object, act->known,
                                             driver_now_ms(), refusal);

    if (status == STATUS_OK)
        status = meta_checkpoint_prune(metadata, work->tenant, work->subject, step, refusal);
    return status == STATUS_OK ? meta_job_progress(metadata, work->tenant, work->subject, work->attempt, act->done_ns,
                                                   work->tokens_before + work->tokens, refusal)
                               : status;
}

static enum status keep_adapter(struct metadata *metadata, const struct frame_act *act, struct refusal *refusal)
{
    const struct said said = {.code = "checkpoint", .level = "info", .metrics = act->known};
    enum status status = add_model(metadata, act, (int64_t)act->frame->body.checkpoint.step, (int64_t)act->frame->body.checkpoint.bytes, refusal);

    if (status == STATUS_OK)
        status = meta_model_prune(metadata, act->work->tenant, act->work->subject, CHECKPOINTS_KEPT, refusal);
    return status == STATUS_OK ? event_add(act->driver, metadata, act->work->tenant, act->work->subject, &said, refusal) : status;
}

static enum status keep_checkpoint(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct frame_act *act = context;
    struct meta_results results = {0};
    enum status status = meta_object_written(metadata, act->work->tenant, act->output->object, (int64_t)act->frame->body.checkpoint.bytes,
                                             act->digest, refusal);

    if (status == STATUS_OK && !read_attempt(metadata, act->work, &results, &act->job))
        status = refuse(refusal, STATUS_CONFLICT, "this attempt is over");
    if (status == STATUS_OK) {
        act->done_ns = done_of(act->work, &act->job, act->frame->body.checkpoint.step);
        status = act->output->role == OUTPUT_STATE ? keep_state(metadata, act, refusal) : keep_adapter(metadata, act, refusal);
    }
    if (status == STATUS_OK)
        status = work_ack(metadata, act->work, act->frame->header.seq, refusal);
    meta_results_free(&results);
    return status;
}

/* The object that is named, if it is to be written by this worker as that. */
static struct output *named_output(struct work *work, const json_t *metrics)
{
    const char *role = json_string_value(json_object_get(metrics, "role"));
    struct output *output = work_output(work, json_string_value(json_object_get(metrics, "object")));

    if (output == NULL || role == NULL)
        return NULL;
    if (strcmp(role, "state") == 0)
        return output->role == OUTPUT_STATE ? output : NULL;
    return strcmp(role, "adapter") == 0 && output->role == OUTPUT_ADAPTER && digest_of(metrics) != NULL ? output : NULL;
}

static void drop_output(struct driver *driver, struct work *work, struct output *output)
{
    struct refusal unheard = {{0}};

    (void)object_take_back(&driver->home, work->tenant, output->object, output->put, &unheard);
    output_taken(work, output);
}

/* It takes what it was lent in that order: what older ones it did not take it never got. */
static void drop_unsure(struct driver *driver, struct work *work, enum output_role role)
{
    for (uint32_t i = work->outputs_count; i-- > 0;)
        if (work->outputs[i].role == role && work->outputs[i].is_unsure)
            drop_output(driver, work, &work->outputs[i]);
}

static void tell_checkpoint(struct driver *driver, const struct frame_act *act)
{
    struct told_job *told = told_find(driver, act->work->subject);

    if (told != NULL)
        fleet_checkpointed(driver, told, act->done_ns, max_i64(0, act->heard->at_ns - act->work->started_at_ns),
                           act->frame->body.checkpoint.bytes);
}

void checkpoint_heard(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    const struct wire_checkpoint *said = &heard->frame->body.checkpoint;
    json_t *metrics = metrics_read(said->metrics, said->metrics_count);
    struct output *output = named_output(work, metrics);
    struct frame_act act = {.driver = driver, .work = work, .heard = heard, .frame = heard->frame, .output = output, .metrics = metrics};
    struct refusal refusal = {{0}};
    enum status status = STATUS_INVALID;
    bool is_state = false;

    work->step = max_i64(work->step, (int64_t)min_u64(said->step, INT64_MAX / 2));
    if (output != NULL) {
        act.known = metrics_text(metrics, work);
        hex_of(said->digest, act.digest);
        is_state = output->role == OUTPUT_STATE;
        status = output_commit(driver, work, output, said->bytes, &refusal);
        if (status == STATUS_OK)
            status = driver_act(driver, keep_checkpoint, &act, &refusal);
        free(act.known);
    }
    driver_log(driver, "driver: act=checkpoint job=%s attempt=%lld step=%llu state=%d code=%d", work->subject, (long long)work->attempt,
               (unsigned long long)said->step, is_state, (int)status);
    if (status == STATUS_OK) {
        const enum output_role role = output->role;
        const bool is_unsure = output->is_unsure;

        if (is_state)
            tell_checkpoint(driver, &act);
        output_taken(work, output);
        if (!is_unsure)
            drop_unsure(driver, work, role);
    } else if (output != NULL && status != STATUS_END) {
        drop_output(driver, work, output); /* said by an earlier attempt, or of one that is over */
    }
    if (output != NULL && status != STATUS_END && !work->is_ending)
        (void)attempt_room(driver, work, UINT32_MAX);
    json_decref(metrics);
}

/* --- RESULT ----------------------------------------------------------------------------------------------------------------- */

static enum status keep_table(struct metadata *metadata, const struct frame_act *act, struct refusal *refusal)
{
    const struct meta_bytes name = {act->table_name, act->table_name_bytes};
    char file[NAME_BYTES];
    enum status status = meta_object_written(metadata, act->work->tenant, act->table->object, act->table_bytes, act->table_digest, refusal);

    driver_results_file(act->work->subject, file);
    if (status == STATUS_OK)
        status = meta_file_add(metadata, act->work->tenant, file, act->table->object, RESULTS_PURPOSE, name, META_NONE, driver_now_ms(), refusal);
    return status == STATUS_OK ? meta_file_judged(metadata, act->work->tenant, file, true, META_NONE, META_NONE, NULL, refusal) : status;
}

/* Running, or stopping for the core's sake, to evaluating, to succeeded: without a gate there is nothing to wait for, and with one the
 * verdict keeps the model from answering, not the job from having ended. */
static enum status succeed(struct metadata *metadata, const struct frame_act *act, struct refusal *refusal)
{
    struct meta_job_move move = frame_move(act, meta_job_state_parse(act->job.state), META_JOB_EVALUATING);
    int64_t attempt = 0;
    enum status status;

    move.gpu_ms = gpu_ms_of(act->work, act->heard->at_ns);
    status = meta_job_move(metadata, &move, driver_now_ms(), &attempt, refusal);
    move.from = META_JOB_EVALUATING;
    move.to = META_JOB_SUCCEEDED;
    move.attempt = attempt;
    move.gpu_ms = 0;
    return status == STATUS_OK ? meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal) : status;
}

static enum status add_ends(struct metadata *metadata, const struct frame_act *act, struct refusal *refusal)
{
    static const char *const codes[] = {"model_created", "succeeded"};
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < ARRAY_COUNT(codes); i++) {
        const struct said said = {.code = codes[i], .level = "info", .metrics = act->known};

        status = event_add(act->driver, metadata, act->work->tenant, act->work->subject, &said, refusal);
    }
    return status;
}

static enum status keep_result(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct frame_act *act = context;
    const struct work *work = act->work;
    const struct wire_result *result = &act->frame->body.result;
    struct meta_results results = {0};
    enum status status = meta_object_written(metadata, work->tenant, act->output->object, (int64_t)result->bytes, act->digest, refusal);

    if (status == STATUS_OK && !read_attempt(metadata, work, &results, &act->job))
        status = refuse(refusal, STATUS_CONFLICT, "this attempt is over");
    if (status == STATUS_OK)
        status = meta_job_progress(metadata, work->tenant, work->subject, work->attempt, act->job.size_ns,
                                   work->tokens_before + (int64_t)min_u64(result->tokens, INT64_MAX / 2), refusal);
    if (status == STATUS_OK)
        status = succeed(metadata, act, refusal);
    if (status == STATUS_OK)
        status = add_model(metadata, act, META_NONE, (int64_t)result->bytes, refusal);
    if (status == STATUS_OK && act->table != NULL)
        status = keep_table(metadata, act, refusal);
    if (status == STATUS_OK)
        status = meta_checkpoint_prune(metadata, work->tenant, work->subject, INT64_MAX, refusal);
    if (status == STATUS_OK)
        status = add_ends(metadata, act, refusal);
    if (status == STATUS_OK)
        status = work_ack(metadata, act->work, act->frame->header.seq, refusal);
    meta_results_free(&results);
    return status;
}

/* results.csv becomes a file, its name sealed like any other's. Without it the result counts all the same. */
static void ready_table(struct driver *driver, struct frame_act *act, uint8_t *sealed)
{
    const json_t *about = json_object_get(act->metrics, "results");
    const char *digest = json_string_value(json_object_get(about, "digest"));
    struct output *table = work_output(act->work, json_string_value(json_object_get(about, "object")));
    const json_int_t bytes = json_integer_value(json_object_get(about, "bytes"));
    struct refusal refusal = {{0}};
    char file[NAME_BYTES];

    driver_results_file(act->work->subject, file);
    if (table == NULL || table->role != OUTPUT_RESULTS || digest == NULL || strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64 ||
        output_commit(driver, act->work, table, (uint64_t)bytes, &refusal) != STATUS_OK ||
        vault_text_seal(driver->config.vault, act->work->tenant, "file-name", file, RESULTS_NAME, strlen(RESULTS_NAME), sealed, &refusal) != STATUS_OK)
        return;
    memcpy(act->table_digest, digest, 65);
    act->table = table;
    act->table_bytes = (int64_t)bytes;
    act->table_name = sealed;
    act->table_name_bytes = strlen(RESULTS_NAME) + VAULT_SEALED_EXTRA;
}

/* The table's object may be refused by a quota of files; then it goes with the worker. */
static enum status keep(struct driver *driver, struct frame_act *act)
{
    struct refusal refusal = {{0}};
    enum status status = act->table != NULL ? driver_act_once(driver, keep_result, act, &refusal) : STATUS_FULL;

    if (status != STATUS_FULL && status != STATUS_IO)
        return status;
    if (status == STATUS_FULL)
        act->table = NULL;
    return driver_act(driver, keep_result, act, &refusal);
}

void result_heard(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    const struct wire_result *said = &heard->frame->body.result;
    json_t *metrics = metrics_read(said->metrics, said->metrics_count);
    struct output *output = work_spare(work, OUTPUT_RESULT);
    struct told_job *told = told_find(driver, work->subject);
    struct frame_act act = {.driver = driver, .work = work, .heard = heard, .frame = heard->frame, .output = output, .metrics = metrics};
    uint8_t sealed[sizeof(RESULTS_NAME) + VAULT_SEALED_EXTRA];
    struct refusal refusal = {{0}};
    enum status status = STATUS_INVALID;

    if (output != NULL && digest_of(metrics) != NULL)
        status = output_commit(driver, work, output, said->bytes, &refusal);
    if (status == STATUS_OK) {
        hex_of(said->digest, act.digest);
        act.known = metrics_text(metrics, work);
        ready_table(driver, &act, sealed);
        status = keep(driver, &act);
        free(act.known);
    }
    driver_log(driver, "driver: act=result job=%s attempt=%lld step=%llu code=%d", work->subject, (long long)work->attempt,
               (unsigned long long)said->step, (int)status);
    work->is_refused = status == STATUS_INVALID;
    if (status == STATUS_OK) {
        work->is_done = true;
        if (act.table != NULL)
            output_taken(work, work_output(work, act.table->object));
        output_taken(work, work_spare(work, OUTPUT_RESULT));
        if (told != NULL)
            fleet_left(driver, told, false, true, act.job.size_ns, max_i64(0, heard->at_ns - work->started_at_ns));
    }
    json_decref(metrics);
}
