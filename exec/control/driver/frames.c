/* What a trainer says: that it is there, how far it is, what went wrong; saves.c: what it saved and what came of it. Each is one transaction, fenced by its attempt, with
 * the number of the frame; what is said twice, or by an attempt that is over, changes nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "control/driver/internal.h"
#include "link/fault.h"
#include "wire/wire.h"

#define METRICS_EVERY_MS 1000

struct meta_job_move frame_move(const struct frame_act *act, enum meta_job_state from, enum meta_job_state to)
{
    return (struct meta_job_move){.tenant = act->work->tenant, .id = act->work->subject, .from = from, .attempt = act->work->attempt, .to = to,
                                  .target = META_JOB_NO_TARGET, .crash_step = META_NONE};
}

/* --- HELLO, PROGRESS, FAILED ------------------------------------------------------------------------------------------------ */

static enum status say_hello(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct frame_act *act = context;
    const struct meta_job_move move = frame_move(act, META_JOB_STARTING, META_JOB_RUNNING);
    const struct said said = {.code = "started", .level = "info"};
    enum status status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);

    if (status == STATUS_OK)
        status = event_add(act->driver, metadata, act->work->tenant, act->work->subject, &said, refusal);
    return status == STATUS_OK ? work_ack(metadata, act->work, act->frame->header.seq, refusal) : status;
}

static void hello(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    struct frame_act act = {.driver = driver, .work = work, .heard = heard, .frame = heard->frame};
    struct told_job *told = told_find(driver, work->subject);
    struct refusal unheard = {{0}};

    if (driver_act(driver, say_hello, &act, &unheard) != STATUS_OK) {
        job_look(driver, work->tenant, work->subject); /* it was stopped while it started */
        return;
    }
    work->is_running = true;
    if (told != NULL)
        fleet_started(driver, told, 0);
    (void)attempt_room(driver, work, UINT32_MAX);
}

static enum status add_metrics(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct frame_act *act = context;
    const struct said said = {.code = "metrics", .level = "info", .metrics = act->known};

    return event_add(act->driver, metadata, act->work->tenant, act->work->subject, &said, refusal);
}

/* By the steps that it took so far. */
static int64_t finish_of(const struct work *work, const struct core_heard *heard, int64_t now_ms)
{
    const int64_t taken = work->step - work->first_step;

    if (taken <= 0 || work->started_at_ns == 0)
        return META_NONE;
    return now_ms + (int64_t)((double)(heard->at_ns - work->started_at_ns) / 1e6 / (double)taken * (double)(work->steps - work->step));
}

char *metrics_text(const json_t *metrics, const struct work *work)
{
    json_t *known = metrics_known(metrics);
    char *text;

    check(json_object_set_new(known, "step", json_integer((json_int_t)work->step)) == 0);
    check(json_object_set_new(known, "total_steps", json_integer((json_int_t)work->steps)) == 0);
    text = json_dumps(known, JSON_COMPACT);
    check(text != NULL);
    json_decref(known);
    return text;
}

static void progress(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    const struct wire_progress *said = &heard->frame->body.progress;
    const int64_t now_ms = driver_now_ms();
    json_t *metrics = metrics_read(said->metrics, said->metrics_count);
    struct frame_act act = {.driver = driver, .work = work, .heard = heard, .frame = heard->frame};
    struct refusal unheard = {{0}};

    pthread_mutex_lock(&driver->views_lock);
    work->step = (int64_t)min_u64(said->step, INT64_MAX / 2);
    work->steps = (int64_t)min_u64(said->steps, INT64_MAX / 2);
    work->tokens = (int64_t)min_u64(said->tokens, INT64_MAX / 2);
    work->finish_at_ms = finish_of(work, heard, now_ms);
    pthread_mutex_unlock(&driver->views_lock);
    if (json_is_object(metrics) && json_object_size(metrics) > 0 && (now_ms - work->told_at_ms >= METRICS_EVERY_MS || work->step == work->steps)) {
        act.known = metrics_text(metrics, work);
        work->told_at_ms = now_ms;
        (void)driver_act(driver, add_metrics, &act, &unheard);
        free(act.known);
    }
    json_decref(metrics);
}

static enum status add_failure(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct frame_act *act = context;
    const char *code = fault_code(act->work->fault);
    const struct said said = {.code = code != NULL ? code : "unknown_fault", .level = fault_may_pass(act->work->fault) ? "warn" : "error", .metrics = act->known,
                              .words = act->words};
    enum status status = event_add(act->driver, metadata, act->work->tenant, act->work->subject, &said, refusal);

    return status == STATUS_OK ? work_ack(metadata, act->work, act->frame->header.seq, refusal) : status;
}

/* Cut where a character ends. */
static void cut_words(char *words)
{
    size_t count = strlen(words);

    if (count < REPORT_WORDS_BYTES)
        return;
    count = REPORT_WORDS_BYTES - 1;
    while (count > 0 && ((unsigned char)words[count] & 0xc0) == 0x80)
        count--;
    words[count] = '\0';
}

void fault_words_of(struct driver *driver, const char *tenant, const char *object, const struct wire_failed *said, char ret_words[REFUSAL_MAX])
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct refusal unheard = {{0}};

    if (key == NULL || vault_key_give(driver->config.vault, tenant, object, key, &unheard) != STATUS_OK ||
        fault_open(key, tenant, object, said->sealed, said->sealed_count, ret_words) != STATUS_OK)
        ret_words[0] = '\0';
    cut_words(ret_words);
    secret_free(key);
}

/* The words are under the key of the first grant, which is the training file's. */
void fault_words(struct driver *driver, const struct work *work, const struct wire_failed *said, char ret_words[REFUSAL_MAX])
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_job job;
    struct meta_file file;

    ret_words[0] = '\0';
    if (meta_job_get(driver->metadata, work->tenant, work->subject, &results, &job, &unheard) == STATUS_OK &&
        meta_file_get(driver->metadata, work->tenant, job.file, &results, &file, &unheard) == STATUS_OK)
        fault_words_of(driver, work->tenant, file.object, said, ret_words);
    meta_results_free(&results);
}

static void failed(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    const struct wire_failed *said = &heard->frame->body.failed;
    struct frame_act act = {.driver = driver, .work = work, .heard = heard, .frame = heard->frame};
    struct refusal unheard = {{0}};
    char words[REFUSAL_MAX];
    char known[64];

    work->failed_step = (int64_t)min_u64(said->step, INT64_MAX / 2);
    work->fault = said->code;
    fault_words(driver, work, said, words);
    snprintf(known, sizeof(known), "{\"step\":%lld}", (long long)work->failed_step);
    act.known = known;
    act.words = words;
    driver_log(driver, "driver: act=failed job=%s attempt=%lld step=%lld code=%u", work->subject, (long long)work->attempt,
               (long long)work->failed_step, (unsigned)said->code);
    (void)driver_act(driver, add_failure, &act, &unheard);
}

/* Its START was lost with the process that said it: it would wait for ever, and has done nothing. */
static void inventory(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    enum status status;

    if (!work->is_adopted || work->is_ending || frame->body.inventory.step > 0)
        return;
    work->is_ending = true;
    do
        status = core_end(driver->core, work->launch.worker, true);
    while (driver_again(driver, status));
}

void attempt_heard(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    switch (heard->frame->header.kind) {
    case WIRE_HELLO:
        hello(driver, work, heard);
        break;
    case WIRE_INVENTORY:
        inventory(driver, work, heard->frame);
        break;
    case WIRE_PROGRESS:
        progress(driver, work, heard);
        break;
    case WIRE_CHECKPOINT:
        checkpoint_heard(driver, work, heard);
        break;
    case WIRE_RESULT:
        result_heard(driver, work, heard);
        break;
    case WIRE_FAILED:
        failed(driver, work, heard);
        break;
    default:
        break;
    }
}
