/* The thread: it takes one thing after the other, and now and then looks at all rows, which finds what nobody said. */
#include "control/driver/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/driver/internal.h"

/* What the keeper's list may take. */
#define LIST_NS (30 * NS_PER_S)

int64_t driver_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

int64_t driver_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void driver_log(struct driver *driver, const char *format, ...)
{
    char line[512];
    va_list values;

    if (driver->config.log == NULL)
        return;
    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    driver->config.log(driver->config.log_context, line);
}

static bool is_stopping(struct driver *driver)
{
    bool stopping;

    pthread_mutex_lock(&driver->inbox.lock);
    stopping = driver->inbox.stopping;
    pthread_mutex_unlock(&driver->inbox.lock);
    return stopping;
}

bool driver_again(struct driver *driver, enum status status)
{
    const struct timespec moment = {0, NS_PER_MS};

    if (status != STATUS_FULL || is_stopping(driver))
        return false;
    nanosleep(&moment, NULL);
    return true;
}

enum status driver_act(struct driver *driver, meta_act *act, void *context, struct refusal *refusal)
{
    const struct timespec moment = {0, 100 * NS_PER_MS};
    enum status status;

    for (;;) {
        refusal->text[0] = '\0';
        status = meta_writer_call(driver->config.writer, act, context, refusal);
        if (status != STATUS_IO && status != STATUS_FULL)
            return status;
        driver_log(driver, "driver: act=keep code=%s", status == STATUS_IO ? "io" : "full");
        if (is_stopping(driver))
            return STATUS_END;
        nanosleep(&moment, NULL);
    }
}

enum status driver_act_once(struct driver *driver, meta_act *act, void *context, struct refusal *refusal)
{
    return meta_writer_call(driver->config.writer, act, context, refusal);
}

void driver_look(struct driver *driver)
{
    pthread_mutex_lock(&driver->inbox.lock);
    driver->inbox.look = true;
    pthread_cond_broadcast(&driver->inbox.come);
    pthread_mutex_unlock(&driver->inbox.lock);
}

/* --- what comes ------------------------------------------------------------------------------------------------------------- */

struct acking {
    struct work *work;
    uint64_t seq;
};

static enum status only_ack(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct acking *acking = context;

    return work_ack(metadata, acking->work, acking->seq, refusal);
}

/* It is on disk that the worker has said this, whatever came of it: what it lets go of is asked for by no later control plane. Of a worker
 * that has ended nothing counts any more. */
static void commit_frame(struct driver *driver, struct work *work, const struct core_heard *heard)
{
    struct acking acking = {work, heard->frame->header.seq};
    struct refusal unheard = {{0}};
    enum status status;

    if (acking.seq == 0 || is_stopping(driver))
        return;
    if (work != NULL && work->acked_seq < acking.seq && driver_act(driver, only_ack, &acking, &unheard) == STATUS_END)
        return;
    do
        status = core_commit(driver->core, heard->launch.worker, acking.seq);
    while (driver_again(driver, status));
}

static void frame_heard(struct driver *driver, const struct core_heard *heard)
{
    struct work *work = work_find(driver, heard->launch.worker);

    if (work != NULL && work->is_trainer)
        attempt_heard(driver, work, heard);
    else if (work != NULL && work->adoption != NULL)
        adoption_heard(driver, work, heard->frame);
    else if (work != NULL && work->of_job)
        check_heard(driver, work, heard->frame);
    else if (work != NULL)
        file_heard(driver, work, heard->frame);
    commit_frame(driver, work, heard);
}

static void heard(struct driver *driver, const struct core_heard *heard)
{
    struct work *work;

    switch (heard->kind) {
    case CORE_HEARD_COMMAND:
        fleet_command(driver, heard);
        break;
    case CORE_HEARD_STARTED:
        work = work_find(driver, heard->launch.worker);
        if (work != NULL)
            work->started_at_ns = heard->at_ns;
        break;
    case CORE_HEARD_FRAME:
        frame_heard(driver, heard);
        break;
    case CORE_HEARD_REFUSED:
    case CORE_HEARD_EXITED:
        work_exited(driver, heard);
        break;
    case CORE_HEARD_FETCH:
        fetch_answer(driver, heard);
        break;
    case CORE_HEARD_FOUND:
    case CORE_HEARD_LISTED:
        break; /* the inbox's */
    }
}

static void read_letter(struct driver *driver, const struct letter *letter)
{
    struct refusal refusal = {{0}};

    switch (letter->kind) {
    case LETTER_HEARD:
        heard(driver, &letter->heard);
        break;
    case LETTER_FILE:
        files_look(driver);
        break;
    case LETTER_JOB:
        job_look(driver, letter->tenant, letter->id);
        break;
    case LETTER_TENANT:
        if (fleet_tenants(driver, letter->tenant, &refusal) != STATUS_OK)
            driver_log(driver, "driver: act=tenant tenant=%s code=unread", letter->tenant);
        jobs_look(driver);
        break;
    }
}

/* --- the thread ------------------------------------------------------------------------------------------------------------- */

/* What could not be lent when it was due: a trainer may wait for it. */
static void give_room(struct driver *driver)
{
    for (uint32_t i = 0; i < WORKS_MAX; i++) {
        struct work *work = &driver->works[i];

        if (work->used && work->is_running && !work->is_ending && !work->is_done)
            (void)attempt_room(driver, work, UINT32_MAX);
    }
}

static void end_late_ones(struct driver *driver, int64_t now_ns)
{
    for (uint32_t i = 0; i < WORKS_MAX; i++) {
        struct work *work = &driver->works[i];
        enum status status;

        if (!work->used || now_ns < work->kill_at_ns)
            continue;
        work->kill_at_ns = NEVER_NS;
        driver_log(driver, "driver: act=end worker=%s code=late", work->id);
        do
            status = core_end(driver->core, work->launch.worker, true);
        while (driver_again(driver, status));
    }
}

static bool take_look(struct driver *driver)
{
    bool look;

    pthread_mutex_lock(&driver->inbox.lock);
    look = driver->inbox.look;
    driver->inbox.look = false;
    pthread_mutex_unlock(&driver->inbox.lock);
    return look;
}

static void *run(void *context)
{
    struct driver *driver = context;
    int64_t look_at_ns = 0;

    while (!is_stopping(driver)) {
        const int64_t now_ns = driver_clock_ns();
        struct letter *letter;

        if (take_look(driver) || now_ns >= look_at_ns) {
            look_at_ns = now_ns + LOOK_MS * NS_PER_MS;
            adoptions_look(driver);
            files_look(driver);
            jobs_look(driver);
            give_room(driver);
        }
        end_late_ones(driver, now_ns);
        fleet_due(driver, now_ns);
        letter = inbox_take(&driver->inbox, min_i64(look_at_ns, now_ns + AGAIN_MS * NS_PER_MS));
        if (letter != NULL)
            read_letter(driver, letter);
        free(letter);
    }
    return NULL;
}

/* --- beginning and end ------------------------------------------------------------------------------------------------------ */

enum status driver_open(const struct driver_config *config, struct driver **ret_driver, struct refusal *refusal)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    enum status status;

    if (driver == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the driver");
    driver->config = *config;
    driver->home = (struct object_home){config->writer, config->vault, config->store};
    inbox_init(&driver->inbox);
    pthread_mutex_init(&driver->adoptions_lock, NULL);
    pthread_mutex_init(&driver->views_lock, NULL);
    status = meta_open(&config->metadata, &driver->metadata, refusal);
    driver->config.metadata.server_key = NULL;
    if (status == STATUS_OK)
        *ret_driver = driver;
    else
        driver_close(driver);
    return status;
}

enum status driver_start(struct driver *driver, struct core *core, struct refusal *refusal)
{
    enum status status;

    driver->core = core;
    if (!inbox_wait_listed(&driver->inbox, driver_clock_ns() + LIST_NS))
        return refuse(refusal, STATUS_IO, "the launcher did not say which workers there are; is the keeper alive?");
    status = driver_restore(driver, refusal);
    if (status != STATUS_OK)
        return status;
    driver->runs = pthread_create(&driver->thread, NULL, run, driver) == 0;
    return driver->runs ? STATUS_OK : refuse(refusal, STATUS_IO, "no thread for the driver");
}

void driver_stop(struct driver *driver)
{
    inbox_stop(&driver->inbox);
    if (driver->runs)
        pthread_join(driver->thread, NULL);
    driver->runs = false;
}

void driver_close(struct driver *driver)
{
    if (driver == NULL)
        return;
    driver_stop(driver);
    for (uint32_t i = 0; i < WORKS_MAX; i++)
        if (driver->works[i].used)
            work_leave(&driver->works[i]);
    meta_close(driver->metadata);
    inbox_free(&driver->inbox);
    pthread_mutex_destroy(&driver->adoptions_lock);
    pthread_mutex_destroy(&driver->views_lock);
    free(driver);
}

bool driver_job_view(struct driver *driver, const char *job, struct driver_job *ret_view)
{
    struct driver_job view = {.estimated_finish_at_ms = META_NONE};
    const struct told_job *told;
    const struct work *work;

    pthread_mutex_lock(&driver->views_lock);
    told = told_find(driver, job);
    work = work_of(driver, job);
    if (told != NULL && told->told == TOLD_PENDING)
        for (uint32_t i = 0; i < driver->jobs_top; i++)
            view.queue_position += driver->jobs[i].told == TOLD_PENDING && driver->jobs[i].id.value >> REQUEST_SLOT_BITS <= job_ordinal(told->id);
    if (work != NULL && work->is_trainer) {
        view.step = work->step;
        view.steps = work->steps;
        view.estimated_finish_at_ms = work->finish_at_ms;
    }
    pthread_mutex_unlock(&driver->views_lock);
    *ret_view = view;
    return told != NULL || work != NULL;
}

void driver_results_file(const char *job, char ret_file[NAME_BYTES])
{
    const char *dash = strrchr(job, '-');

    snprintf(ret_file, NAME_BYTES, "file-%.50s", dash != NULL ? dash + 1 : job);
}
