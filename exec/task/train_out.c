/* What a trainer hands over: a line a step, states, adapters at epochs' ends, the result. */
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/run/checkpoint.h"
#include "task/train.h"

/* --- numbers ------------------------------------------------------------------------------------------------------------------ */

static void set_number(json_t *object, const char *name, double value)
{
    if (isfinite(value))
        json_object_set_new(object, name, json_real(value));
}

static void set_losses(json_t *object, const struct run_row *row)
{
    set_number(object, "train_loss", row->loss);
    set_number(object, "train_mean_token_accuracy", row->accuracy);
    set_number(object, "valid_loss", row->valid_loss);
    set_number(object, "valid_mean_token_accuracy", row->valid_accuracy);
}

static int64_t epoch_of(const struct training *training, int64_t step)
{
    const struct run_settings *settings = &training->run.settings;
    const int64_t units = training->data->count / (settings->method == RUN_DPO ? 2 : 1);

    return 1 + max_i64(step - 1, 0) / ((units + settings->batch - 1) / settings->batch);
}

void train_stepped(void *listener, const struct run_step *step)
{
    struct training *training = listener;
    const struct run_row row = {step->loss, step->accuracy, step->valid_loss, step->valid_accuracy};
    struct wire_progress progress = {.step = (uint64_t)step->step, .steps = (uint64_t)step->steps};
    json_t *metrics = json_pack("{s:I, s:i}", "step", (json_int_t)step->step, "epoch", (int)step->epoch);
    char *text;

    training->has_stepped = true;
    training->step = step->step;
    training->steps = step->steps;
    training->tokens += step->tokens;
    training->compute_ns += step->step_ns;
    set_losses(metrics, &row);
    text = json_dumps(metrics, JSON_COMPACT | JSON_REAL_PRECISION(9));
    progress.tokens = (uint64_t)training->tokens;
    progress.compute_ns = (uint64_t)training->compute_ns;
    progress.metrics = (const uint8_t *)text;
    progress.metrics_count = text != NULL ? (uint32_t)strlen(text) : 0;
    task_say(training->task, WIRE_PROGRESS, &progress);
    free(text);
    json_decref(metrics);
}

/* `metrics` is used up. */
static void say_checkpoint(struct training *training, const struct grant *grant, const char *role, int64_t step, const struct sealing *written,
                           json_t *metrics)
{
    struct wire_checkpoint checkpoint = {.step = (uint64_t)step, .bytes = written->bytes, .grant = grant->index};
    char *text;

    json_object_update_new(metrics, json_pack("{s:s, s:s, s:I}", "object", grant->object, "role", role, "epoch", (json_int_t)epoch_of(training, step)));
    text = json_dumps(metrics, JSON_COMPACT | JSON_REAL_PRECISION(9));
    memcpy(checkpoint.digest, written->digest, sizeof(checkpoint.digest));
    checkpoint.metrics = (const uint8_t *)text;
    checkpoint.metrics_count = text != NULL ? (uint32_t)strlen(text) : 0;
    task_say(training->task, WIRE_CHECKPOINT, &checkpoint);
    free(text);
    json_decref(metrics);
}

/* --- states ------------------------------------------------------------------------------------------------------------------- */

static enum status put_piece(void *context, const void *data, int64_t bytes, struct refusal *refusal)
{
    return sealing_put(context, data, bytes, refusal);
}

static enum status write_state(struct training *training, const struct grant *grant, const struct checkpoint *checkpoint, struct sealing *written,
                               struct refusal *refusal)
{
    const uint8_t due = training->epoch_due;
    enum status status = sealing_begin(training->task, grant, "state", written, refusal);

    if (status == STATUS_OK)
        status = checkpoint_write(checkpoint, put_piece, written, refusal);
    if (status == STATUS_OK)
        status = sealing_put(written, &due, 1, refusal);
    if (status == STATUS_OK)
        status = sealing_end(written, refusal);
    sealing_close(written);
    return status;
}

enum status train_save(void *owner, const struct checkpoint *checkpoint, struct refusal *refusal)
{
    struct training *training = owner;
    const struct run_row none = {NAN, NAN, NAN, NAN};
    struct grant grant;
    struct sealing written;
    json_t *metrics;
    enum status status;

    /* Nowhere to put it: the one before is what is gone on from. */
    if (task_take_spare(training->task, SPARE_STATE, false, &grant) != STATUS_OK)
        return STATUS_OK;
    status = write_state(training, &grant, checkpoint, &written, refusal);
    if (status == STATUS_OK) {
        metrics = json_object();
        set_losses(metrics, checkpoint->head.step > 0 ? &checkpoint->rows[checkpoint->head.step - 1] : &none);
        say_checkpoint(training, &grant, "state", checkpoint->head.step, &written, metrics);
    }
    grant_close(&grant);
    return status;
}

enum status train_take_state(struct training *training, int64_t bytes, struct refusal *refusal)
{
    const uint8_t *state = training->state;

    if (bytes < 1 || state[bytes - 1] > 1)
        return refuse(refusal, STATUS_CORRUPT, "the state to go on from is not whole");
    training->epoch_due = state[bytes - 1] == 1;
    training->memory.state = state;
    training->memory.state_bytes = bytes - 1;
    training->memory.epoch_due = training->epoch_due;
    return STATUS_OK;
}

/* --- adapters ----------------------------------------------------------------------------------------------------------------- */

static enum status write_adapter(struct training *training, const struct grant *grant, const struct run_made *made, struct sealing *ret_written,
                                 char ret_digest[DIGEST_TEXT_MAX], struct refusal *refusal)
{
    struct peft *peft = NULL;
    void *bytes = NULL;
    size_t count;
    enum status status = peft_write_bytes(made->adapter, "the adapter", &bytes, &count, refusal);

    if (status == STATUS_OK)
        status = peft_open_bytes(bytes, (int64_t)count, "the adapter", &training->model->config, LORA_RANK_MAX, &peft, refusal);
    if (status == STATUS_OK) {
        digest_text(peft->digest, ret_digest);
        status = seal_whole(training->task, grant, "adapter", bytes, (int64_t)count, ret_written, refusal);
    }
    peft_close(peft);
    free(bytes);
    return status;
}

static void set_outcome(json_t *metrics, const struct run_outcome *outcome)
{
    const struct run_row row = {outcome->loss, outcome->accuracy, outcome->valid_loss, outcome->valid_accuracy};

    set_losses(metrics, &row);
}

enum status train_epoch(void *owner, const struct run_made *made, struct refusal *refusal)
{
    struct training *training = owner;
    char digest[DIGEST_TEXT_MAX];
    struct grant grant;
    struct sealing written;
    json_t *metrics;
    enum status status;

    training->epoch_due = task_take_spare(training->task, SPARE_ADAPTER, true, &grant) != STATUS_OK;
    if (training->epoch_due)
        return refuse(refusal, STATUS_END, "stopped while the adapter of an epoch waited for its place");
    status = write_adapter(training, &grant, made, &written, digest, refusal);
    if (status == STATUS_OK) {
        metrics = json_pack("{s:s, s:I}", "adapter_digest", digest, "rank", (json_int_t)made->adapter->source->rank);
        set_outcome(metrics, made->outcome);
        say_checkpoint(training, &grant, "adapter", made->outcome->steps, &written, metrics);
    }
    grant_close(&grant);
    return status;
}

static json_t *results_json(const struct training *training)
{
    char digest[2 * DIGEST_SEALED_BYTES + 1];

    if (training->results == NULL)
        return json_null();
    sodium_bin2hex(digest, sizeof(digest), training->results_written.digest, DIGEST_SEALED_BYTES);
    return json_pack("{s:s, s:I, s:s}", "object", training->results->object, "bytes", (json_int_t)training->results_written.bytes, "digest", digest);
}

static void say_result(struct training *training, const struct run_made *made, const struct sealing *written, const char *adapter_digest)
{
    const struct run_outcome *outcome = made->outcome;
    json_t *metrics = json_pack("{s:s, s:I, s:o, s:I, s:I, s:b}", "adapter_digest", adapter_digest, "rank", (json_int_t)made->adapter->source->rank,
                                "results", results_json(training), "steps", (json_int_t)outcome->steps, "best_step", (json_int_t)outcome->best_step,
                                "stopped_early", (int)outcome->stopped_early);
    struct wire_result result = {.step = (uint64_t)outcome->steps, .bytes = written->bytes, .grant = training->result->index};
    char *text;

    set_outcome(metrics, outcome);
    text = json_dumps(metrics, JSON_COMPACT | JSON_REAL_PRECISION(9));
    memcpy(result.digest, written->digest, sizeof(result.digest));
    result.tokens = (uint64_t)training->tokens;
    result.compute_ns = (uint64_t)training->compute_ns;
    result.metrics = (const uint8_t *)text;
    result.metrics_count = text != NULL ? (uint32_t)strlen(text) : 0;
    task_say(training->task, WIRE_RESULT, &result);
    free(text);
    json_decref(metrics);
}

enum status train_finish(void *owner, const struct run_made *made, struct refusal *refusal)
{
    struct training *training = owner;
    char digest[DIGEST_TEXT_MAX];
    struct sealing written;
    enum status status = write_adapter(training, training->result, made, &written, digest, refusal);

    if (status == STATUS_OK && training->results != NULL)
        status = seal_whole(training->task, training->results, "file", made->results, (int64_t)made->results_bytes, &training->results_written, refusal);
    if (status == STATUS_OK)
        say_result(training, made, &written, digest);
    return status;
}
