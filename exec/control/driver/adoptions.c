/* Adapters that were made elsewhere. What is asked waits in a table, not as rows: who asks waits for the answer on an open connection, so a kill
 * ends both, and the bundle, whose row says "writing", is swept at the next start with all that was lent. A validator looks into the bundle and
 * writes an adapter; one transaction then makes that live, a model with a verdict, and its name. */
#include <stdio.h>

#include "control/driver/internal.h"
#include "control/metadata/audit.h"
#include "link/fault.h"

/* --- asked for, by other threads ---------------------------------------------------------------------------------------------- */

enum status driver_adopt(struct driver *driver, const struct driver_adoption *asked, driver_adopted *done, void *context)
{
    struct adoption *adoption = NULL;

    pthread_mutex_lock(&driver->adoptions_lock);
    for (uint32_t i = 0; i < ADOPTIONS_MAX && adoption == NULL; i++)
        if (!driver->adoptions[i].used)
            adoption = &driver->adoptions[i];
    if (adoption != NULL)
        *adoption = (struct adoption){.used = true, .asked = *asked, .done = done, .context = context};
    pthread_mutex_unlock(&driver->adoptions_lock);
    driver_look(driver);
    return adoption != NULL ? STATUS_OK : STATUS_FULL;
}

void driver_leave(struct driver *driver, const char *bundle)
{
    pthread_mutex_lock(&driver->adoptions_lock);
    for (uint32_t i = 0; i < ADOPTIONS_MAX; i++)
        if (driver->adoptions[i].used && strcmp(driver->adoptions[i].asked.bundle, bundle) == 0)
            driver->adoptions[i].done = NULL;
    pthread_mutex_unlock(&driver->adoptions_lock);
}

static void finish(struct driver *driver, struct adoption *adoption, enum status status, const char *words)
{
    driver_log(driver, "driver: act=adopt tenant=%s bundle=%s model=%s code=%d", adoption->asked.tenant, adoption->asked.bundle, adoption->asked.model,
               (int)status);
    pthread_mutex_lock(&driver->adoptions_lock);
    if (adoption->done != NULL)
        adoption->done(adoption->context, status, words);
    adoption->used = false;
    pthread_mutex_unlock(&driver->adoptions_lock);
}

/* --- begun -------------------------------------------------------------------------------------------------------------------- */

static void add_settings(const struct driver *driver, struct start *start, const struct driver_adoption *asked)
{
    json_t *others = json_array();

    for (uint32_t i = 0; i < driver->config.bases_count; i++)
        if (strcmp(driver->config.bases[i].name, asked->base) != 0)
            json_array_append_new(others, json_string(driver->config.bases[i].name));
    check(json_object_set_new(start->settings, "task", json_string("adopt")) == 0);
    check(json_object_set_new(start->settings, "tenant", json_string(asked->tenant)) == 0);
    check(json_object_set_new(start->settings, "others", others) == 0);
}

static enum status launch(struct driver *driver, struct work *work, const struct driver_adoption *asked, struct refusal *refusal)
{
    const uint32_t base = base_index(driver, asked->base);
    struct start start = {0};
    enum status status = base != NONE_INDEX ? start_begin(&start, refusal) : refuse(refusal, STATUS_INVALID, "the base is not served here");

    if (status == STATUS_OK) {
        add_settings(driver, &start, asked);
        status = start_base(driver, &start, base, refusal);
    }
    if (status == STATUS_OK)
        status = start_input(driver, &start, "bundle", asked->tenant, asked->bundle, refusal);
    if (status == STATUS_OK)
        status = start_output(driver, &start, "result", work, OUTPUT_RESULT, refusal);
    if (status == STATUS_OK)
        status = start_launch(driver, &start, work, 0, 0, refusal);
    start_end(&start);
    return status;
}

static void begin(struct driver *driver, struct adoption *adoption)
{
    struct refusal refusal = {{0}};
    struct work *work = work_begin(driver, CORE_VALIDATOR, adoption->asked.tenant, adoption->asked.bundle);
    enum status status;

    if (work == NULL)
        return;
    adoption->begun = true;
    work->adoption = adoption;
    work->kill_at_ns = driver_clock_ns() + ADOPTER_MS * NS_PER_MS;
    status = validation_open(driver, work, &refusal);
    if (status == STATUS_OK) {
        status = launch(driver, work, &adoption->asked, &refusal);
        if (status != STATUS_OK)
            validation_abandon(driver, work);
    }
    if (status != STATUS_OK) /* a conflict here is none of names */
        finish(driver, adoption, status == STATUS_CONFLICT ? STATUS_IO : status, refusal.text);
}

static uint32_t adopters_count(const struct driver *driver)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < WORKS_MAX; i++)
        count += driver->works[i].used && driver->works[i].adoption != NULL;
    return count;
}

static bool waits(struct driver *driver, const struct adoption *adoption)
{
    bool does;

    pthread_mutex_lock(&driver->adoptions_lock);
    does = adoption->used && !adoption->begun;
    pthread_mutex_unlock(&driver->adoptions_lock);
    return does;
}

void adoptions_look(struct driver *driver)
{
    for (uint32_t i = 0; i < ADOPTIONS_MAX; i++)
        if (waits(driver, &driver->adoptions[i]) && adopters_count(driver) < ADOPTERS_MAX)
            begin(driver, &driver->adoptions[i]);
}

/* --- what came of it ---------------------------------------------------------------------------------------------------------- */

struct keeping {
    struct driver *driver;
    struct work *work;
    const struct driver_adoption *asked;
    const struct wire_frame *frame;
    const char *object;
    const char *digest;      /* of what it computes */
    char sealed[2 * 32 + 1]; /* of its sealed bytes */
    int64_t rank;
    bool is_there;           /* by an earlier try of the same request */
};

static enum status find_name(struct metadata *metadata, struct keeping *keeping, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model;
    enum status status = meta_name_resolve(metadata, keeping->asked->tenant, keeping->asked->name, &results, &model, refusal);

    keeping->is_there = status == STATUS_OK && model.id != NULL && strcmp(model.id, keeping->asked->model) == 0;
    meta_results_free(&results);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status == STATUS_OK ? refuse(refusal, STATUS_CONFLICT, "the name is taken") : status;
}

/* Its name is a part of the model's where it may be. */
static enum status add_model(struct metadata *metadata, const struct keeping *keeping, struct refusal *refusal)
{
    const struct driver_adoption *asked = keeping->asked;
    const struct meta_model_new model = {.tenant = asked->tenant, .id = asked->model, .suffix = meta_slug_is_valid(asked->name) ? asked->name : "",
                                         .step = META_NONE, .base = asked->base, .object = keeping->object, .digest = keeping->digest,
                                         .rank = keeping->rank, .bytes = (int64_t)keeping->frame->body.result.bytes,
                                         .lineage = "{\"loaded\":true}"};

    return model_added(keeping->driver, metadata, &model, refusal);
}

static enum status keep_rows(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct keeping *keeping = context;
    const struct driver_adoption *asked = keeping->asked;
    enum status status = find_name(metadata, keeping, refusal);

    if (status == STATUS_OK)
        status = meta_object_written(metadata, asked->tenant, keeping->object, (int64_t)keeping->frame->body.result.bytes, keeping->sealed, refusal);
    if (status == STATUS_OK)
        status = add_model(metadata, keeping, refusal);
    if (status == STATUS_OK)
        status = meta_alias_set(metadata, asked->tenant, asked->name, asked->model, NULL, refusal);
    if (status == STATUS_OK)
        status = meta_audit_add(metadata, asked->tenant, asked->key, "model.load", asked->model, driver_now_ms(), refusal);
    return status == STATUS_OK ? work_ack(metadata, keeping->work, keeping->frame->header.seq, refusal) : status;
}

static enum status keep(struct driver *driver, struct work *work, const struct wire_frame *frame, const json_t *metrics, struct refusal *refusal)
{
    struct output *output = work_spare(work, OUTPUT_RESULT);
    struct keeping keeping = {.driver = driver, .work = work, .asked = &work->adoption->asked, .frame = frame, .digest = digest_of(metrics),
                              .rank = (int64_t)json_integer_value(json_object_get(metrics, "rank"))};
    enum status status;

    if (output == NULL || keeping.digest == NULL || keeping.rank <= 0)
        return refuse(refusal, STATUS_IO, "the adapter's reader said no result");
    status = output_commit(driver, work, output, frame->body.result.bytes, refusal);
    if (status != STATUS_OK)
        return STATUS_IO;
    keeping.object = output->object;
    sodium_bin2hex(keeping.sealed, sizeof(keeping.sealed), frame->body.result.digest, 32);
    status = driver_act(driver, keep_rows, &keeping, refusal);
    if (status == STATUS_OK)
        output_taken(work, output);
    return keeping.is_there ? STATUS_OK : status;
}

static void finish_work(struct driver *driver, struct work *work, enum status status, const char *words)
{
    finish(driver, work->adoption, status, words);
    work->adoption = NULL;
}

static void failed(struct driver *driver, struct work *work, const struct wire_failed *said)
{
    char words[REFUSAL_MAX];

    if (said->code != FAULT_ADAPTER)
        return; /* its end is told next */
    fault_words_of(driver, work->tenant, work->subject, said, words);
    work->is_done = true;
    finish_work(driver, work, STATUS_INVALID, words);
}

void adoption_heard(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    struct refusal refusal = {{0}};
    json_t *metrics;
    enum status status;

    if (frame->header.kind == WIRE_FAILED)
        failed(driver, work, &frame->body.failed);
    if (frame->header.kind != WIRE_RESULT)
        return;
    metrics = metrics_read(frame->body.result.metrics, frame->body.result.metrics_count);
    status = keep(driver, work, frame, metrics, &refusal);
    json_decref(metrics);
    work->is_done = true;
    finish_work(driver, work, status, refusal.text);
}

void adoption_exited(struct driver *driver, struct work *work)
{
    finish_work(driver, work, STATUS_IO, "");
}
