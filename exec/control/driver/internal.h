/* The driver inside. inbox.c: what comes from other threads. driver.c: the thread. fleet.c: what the fleet core knows of jobs. works.c:
 * validators and trainers, and the objects that they write. files.c: a file's life. checks.c, jobs.c: a job's, before and around its
 * attempts. adoptions.c: adapters that were made elsewhere.
 * attempts.c, frames.c, saves.c, ends.c: an attempt's beginning, words, fruits and end. size.c: what a job takes. words.c: events and sealed
 * texts. restore.c: after a start. fetch.c: adapters for servers.
 *
 * Order of effects, each of which finds what was done before it if a kill comes between (what is not done then is done by a look at the
 * rows, or by the worker, which says again what was not committed):
 *   an attempt   row (state, attempt + 1, worker) > objects' rows, keys, places > launch > HELLO: running > JOB_STARTED to the core
 *   an object    place's commit (on disk under its name) > one transaction: object live, what it means, the worker's acked seq > commit
 *                to the worker > the core is told > older objects are destroyed by the sweeper, from their rows
 *   an end       one transaction: worker ended, job moved, crash and device time counted > what it was lent is taken back > the core is
 *                told > the launcher forgets it
 * So a worker's row is live until it is reaped, and while one is live no other attempt begins (metadata/job.h). */
#ifndef DRIVER_INTERNAL_H
#define DRIVER_INTERNAL_H

#include <jansson.h>
#include <pthread.h>

#include "control/api/job_settings.h"
#include "control/driver/driver.h"
#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "control/objects/objects.h"

#define WORKS_MAX 256       /* validators and trainers at once */
#define VALIDATORS_MAX 4
#define ADOPTERS_MAX 2      /* validators that read strangers' adapters, beside those */
#define ADOPTIONS_MAX 64    /* that wait for one */
#define ADOPTER_MS 120000   /* then it is ended */
#define OUTPUTS_MAX 16      /* objects that a worker has and did not write yet */
#define JOBS_TOLD_MAX 4096  /* known to the core at once; the rest waits as rows */
#define TENANTS_TOLD_MAX 65536
#define FOUND_MAX 256
#define INBOX_MAX 65536     /* beyond it the control plane ends: nothing that it took may be lost */
#define INBOX_LATEST 256    /* with more that waits, frames that may be dropped are, and rows are found by a look at all */
#define METRICS_BYTES_MAX 4096
#define LOOK_MS 2000        /* between two looks at all rows */
#define AGAIN_MS 1000       /* after an attempt that could not begin */
#define STOP_MS 60000       /* for a checkpoint on which nothing presses */
#define STOP_EXTRA_MS 10000 /* beyond its time it is ended */
#define CRASHES_MAX 3       /* of validators of one file or job */
#define CHECKPOINTS_KEPT 3

/* --- inbox.c --- */
enum letter_kind { LETTER_HEARD, LETTER_FILE, LETTER_JOB, LETTER_TENANT };
struct letter {
    struct letter *next;
    enum letter_kind kind;
    struct core_heard heard;       /* its pointers lead to what follows */
    struct fleet_command command;
    struct core_adapter adapter;
    struct wire_frame frame;
    char tenant[NAME_BYTES];
    char id[NAME_BYTES];
    size_t bytes_count;
    uint8_t bytes[];
};
struct inbox {
    pthread_mutex_t lock; /* of all here */
    pthread_cond_t come;
    struct letter *first;
    struct letter *last;
    uint32_t count;
    bool look;            /* at all rows */
    bool stopping;
    bool listed;          /* all workers of before are known */
    struct launch found[FOUND_MAX];
    uint32_t found_count;
};
void inbox_init(struct inbox *inbox);
void inbox_free(struct inbox *inbox);
/* NULL: nothing until then (CLOCK_MONOTONIC), or it is to stop. */
struct letter *inbox_take(struct inbox *inbox, int64_t until_ns);
bool inbox_is_empty(struct inbox *inbox);
/* False: not within the time. */
bool inbox_wait_listed(struct inbox *inbox, int64_t until_ns);
void inbox_stop(struct inbox *inbox);

/* --- works.c --- */
/* An object that is lent says in its name to whom, so that who finds its row knows: worker, number. */
#define WORK_OBJECT "work-%016llx-%u"
enum output_role { OUTPUT_REPORT, OUTPUT_RESULT, OUTPUT_RESULTS, OUTPUT_STATE, OUTPUT_ADAPTER };
struct output {
    enum output_role role;
    char object[NAME_BYTES];
    struct store_put *put; /* NULL: it was committed by a process that was killed before its row was */
    bool is_unsure;        /* a process before this one lent it, and the worker may never have heard of it */
};
struct work {
    bool used;
    bool is_trainer;
    bool is_done;          /* its RESULT was kept */
    bool is_refused;       /* it was not, and never will be: the base is retired, say */
    bool is_ending;        /* told to end, or to yield: what it leaves undone is no crash */
    bool is_running;       /* its HELLO was kept */
    bool is_killed;        /* it was not asked to save first */
    bool is_adopted;       /* from before this process */
    uint16_t gpu_mask;     /* of a trainer: where it stands */
    struct launch launch;
    char id[NAME_BYTES];   /* its row's */
    char tenant[NAME_BYTES];
    char subject[NAME_BYTES]; /* a job's or file's */
    bool of_job;           /* or a file */
    struct adoption *adoption; /* NULL: it is none's, or no more */
    int64_t attempt;       /* the row's; of a job's validator below 0 */
    int64_t started_at_ns; /* the core's clock; 0: it was not */
    int64_t kill_at_ns;    /* CLOCK_MONOTONIC; NEVER_NS */
    int64_t told_at_ms;    /* of its last event with metrics */
    int64_t first_step, step, steps;
    int64_t tokens_before; /* trained by the attempts that this one goes on from */
    int64_t tokens;        /* by this one */
    int64_t finish_at_ms;  /* an estimate; META_NONE */
    int64_t failed_step;   /* that FAILED named; META_NONE */
    uint32_t fault;        /* its code */
    uint64_t acked_seq;    /* of its frames, on disk */
    uint32_t objects;      /* lent so far: they are numbered */
    struct output outputs[OUTPUTS_MAX];
    uint32_t outputs_count;
};

/* --- fleet.c --- */
enum told { TOLD_NOTHING, TOLD_PENDING, TOLD_PLACED, TOLD_RUNNING, TOLD_LEFT };
struct told_job {
    enum told told;
    char tenant[NAME_BYTES];
    char job[NAME_BYTES];
    job_id id;
    int64_t told_done_ns;  /* what was durable when the core was told: its size is of the rest */
    int64_t durable_ns;    /* since, as it was told last */
    uint64_t place;        /* JOB_PLACE that is to be answered; 0 */
    uint64_t stop;         /* JOB_STOP */
    int64_t lost_at_ns;    /* CLOCK_MONOTONIC: it is told then that the place was not taken; NEVER_NS */
    int64_t free_at_ns;    /* LEFT: its number may be given again then */
};

/* --- adoptions.c --- */
struct adoption {
    bool used;
    bool begun;            /* the driver's thread alone */
    struct driver_adoption asked;
    driver_adopted *done;  /* NULL: nobody listens */
    void *context;
};

struct driver {
    struct driver_config config;
    struct object_home home;
    struct metadata *metadata;
    struct core *core;
    struct inbox inbox;
    pthread_t thread;
    bool runs;
    struct work works[WORKS_MAX];
    struct told_job jobs[JOBS_TOLD_MAX];
    uint32_t jobs_top;     /* all beyond are free */
    uint64_t tenants_told[TENANTS_TOLD_MAX / 64];
    struct adoption adoptions[ADOPTIONS_MAX];
    pthread_mutex_t adoptions_lock; /* of the above but for what the thread has to itself */
    pthread_mutex_t views_lock; /* of works and jobs, for driver_job_view(); writers are this thread alone */
};

/* --- driver.c --- */
int64_t driver_now_ms(void);
int64_t driver_clock_ns(void);
/* "act=... id=... code=...": ids, codes and counts. */
void driver_log(struct driver *driver, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What was full is asked again after a moment, until the driver stops. */
bool driver_again(struct driver *driver, enum status status);
/* A transaction of the writer's, insisted upon: only what the rows themselves refuse comes back, or STATUS_END when it is to stop. */
enum status driver_act(struct driver *driver, meta_act *act, void *context, struct refusal *refusal);
/* The same, asked once. */
enum status driver_act_once(struct driver *driver, meta_act *act, void *context, struct refusal *refusal);
void driver_look(struct driver *driver);

/* --- works.c --- */
extern const char *const output_kinds[];
struct work *work_begin(struct driver *driver, enum core_worker_kind kind, const char *tenant, const char *subject);
void work_end(struct driver *driver, struct work *work);  /* what it was lent has been taken back */
struct work *work_find(struct driver *driver, uint64_t worker);
struct work *work_of(struct driver *driver, const char *subject);
uint32_t validators_count(const struct driver *driver); /* of files and jobs */
/* A new object for it to write; `ret_key` of secret_alloc(). */
enum status work_lend(struct driver *driver, struct work *work, enum output_role role, uint8_t ret_key[KEY_BYTES], struct output **ret_output,
                      struct refusal *refusal);
/* Inside the act that keeps what a frame says. */
enum status work_ack(struct metadata *metadata, struct work *work, uint64_t seq, struct refusal *refusal);
struct output *work_holds(struct work *work, enum output_role role, const char *object, struct store_put *put);
/* NULL: it has none of that name, or surely to spare. */
struct output *work_output(struct work *work, const char *object);
struct output *work_spare(struct work *work, enum output_role role);
/* On disk under its name; STATUS_INVALID: not as long as was said. */
enum status output_commit(struct driver *driver, struct work *work, struct output *output, uint64_t bytes, struct refusal *refusal);
void output_taken(struct work *work, struct output *output);
void work_take_back(struct driver *driver, struct work *work);
void work_leave(struct work *work); /* for the next process */

/* What a START is made of; zero it before. */
struct start {
    json_t *settings;
    int descriptors[WIRE_DESCRIPTORS_MAX];
    uint32_t descriptors_count;
    uint8_t *grants; /* of secret_alloc() */
    uint32_t grants_count;
};
enum status start_begin(struct start *start, struct refusal *refusal);
void start_end(struct start *start);
/* NAME: {"fd", "grant", "object", "bytes"}. */
enum status start_input(struct driver *driver, struct start *start, const char *name, const char *tenant, const char *object,
                        struct refusal *refusal);
enum status start_output(struct driver *driver, struct start *start, const char *name, struct work *work, enum output_role role,
                         struct refusal *refusal);
enum status start_base(struct driver *driver, struct start *start, uint32_t base, struct refusal *refusal);
enum status start_launch(struct driver *driver, struct start *start, struct work *work, uint64_t job, uint64_t step, struct refusal *refusal);
/* The same with CHECKPOINT_NOW. */
enum status start_say(struct driver *driver, struct start *start, const struct work *work, uint32_t deadline_ms, uint32_t adapters,
                      struct refusal *refusal);
/* NONE_INDEX: it isn't served here. */
uint32_t base_index(const struct driver *driver, const char *name);

/* --- words.c --- */
struct said {
    const char *code;
    const char *level;
    const char *metrics;   /* or NULL */
    const char *words;     /* a tenant's, to be sealed; or NULL */
};
/* Inside an act. */
enum status event_add(struct driver *driver, struct metadata *metadata, const char *tenant, const char *job, const struct said *said,
                      struct refusal *refusal);
/* The numbers of a result's line that are known by name; json_decref() it. */
json_t *metrics_known(const json_t *metrics);
/* What a frame says beside its numbers; NULL: too much, or no JSON. */
json_t *metrics_read(const uint8_t *bytes, size_t count);
/* The first fault of a report, for a person; "": it cannot be read. */
#define REPORT_WORDS_BYTES 512
void report_words(struct driver *driver, const char *tenant, const char *object, char ret_words[REPORT_WORDS_BYTES]);

/* --- adoptions.c --- */
void adoptions_look(struct driver *driver);
void adoption_heard(struct driver *driver, struct work *work, const struct wire_frame *frame);
void adoption_exited(struct driver *driver, struct work *work);

/* --- files.c, checks.c, jobs.c --- */
void files_look(struct driver *driver);
void file_heard(struct driver *driver, struct work *work, const struct wire_frame *frame);
/* The row of a validator's attempt. Refused, the work is no more. */
enum status validation_open(struct driver *driver, struct work *work, struct refusal *refusal);
void validation_abandon(struct driver *driver, struct work *work);
void validation_settings(struct start *start, const char *tenant, const char *method, const struct job_settings *settings, int examples_min);
/* Validators have crashed on it as often as they may. */
bool subject_crashes(struct driver *driver, const char *subject);
void check_begin(struct driver *driver, const struct meta_job *job);
void check_heard(struct driver *driver, struct work *work, const struct wire_frame *frame);
void job_look(struct driver *driver, const char *tenant, const char *id);
void jobs_look(struct driver *driver);
/* The core says that it can never run. */
void job_unplaceable(struct driver *driver, const struct told_job *told, const struct fleet_command *refusal);
/* Validating to failed. */
void job_refuse_files(struct driver *driver, const char *tenant, const char *job, const char *reason, const char *words);
struct job_need {
    int64_t size_ns;
    int64_t gpu_bytes;
    double rate;   /* that the rules choose for such a job */
};
/* `tokens`: of all epochs; settings' rank is chosen. */
enum status job_need(const struct driver *driver, uint32_t base, int64_t tokens, const struct job_settings *settings, struct job_need *ret_need,
                     struct refusal *refusal);
/* Of device time, rounded up; INT64_MAX is the most. */
int64_t price_nano(int64_t size_ns, int64_t price_nano_per_hour);

/* --- attempts.c, frames.c, saves.c, ends.c --- */
void attempt_begin(struct driver *driver, struct told_job *told, const struct fleet_command *place);
void attempt_stop(struct driver *driver, struct work *work, enum meta_job_state target, int64_t within_ms);
/* Room for the next checkpoint; with a time by which it is to have saved and ended. False: it could not be lent now. */
bool attempt_room(struct driver *driver, struct work *work, uint32_t deadline_ms);
void attempt_heard(struct driver *driver, struct work *work, const struct core_heard *heard);
/* One frame's act. */
struct frame_act {
    struct driver *driver;
    struct work *work;
    const struct core_heard *heard;
    const struct wire_frame *frame;
    const struct output *output;
    const json_t *metrics;      /* as it came */
    char *known;                /* of those, the numbers */
    const char *words;          /* FAILED: the tenant's */
    char digest[2 * 32 + 1];    /* of the sealed bytes */
    const struct output *table; /* RESULT: results.csv, or NULL */
    char table_digest[2 * 32 + 1];
    int64_t table_bytes;
    uint8_t *table_name;        /* sealed */
    size_t table_name_bytes;
    struct meta_job job;
    int64_t done_ns;
};
struct meta_job_move frame_move(const struct frame_act *act, enum meta_job_state from, enum meta_job_state to);
/* With step and total_steps; free() it. */
char *metrics_text(const json_t *metrics, const struct work *work);
/* What FAILED says, opened by the object of START's first grant; "": it does not open. */
void fault_words_of(struct driver *driver, const char *tenant, const char *object, const struct wire_failed *said, char ret_words[REFUSAL_MAX]);
/* The same of a job's worker. */
void fault_words(struct driver *driver, const struct work *work, const struct wire_failed *said, char ret_words[REFUSAL_MAX]);
/* A content digest as peft's, from the worker: 64 hex digits, or it is NULL. */
const char *digest_of(const json_t *metrics);
/* Where no gate stands it may answer at once. */
enum status model_added(struct driver *driver, struct metadata *metadata, const struct meta_model_new *model, struct refusal *refusal);
void checkpoint_heard(struct driver *driver, struct work *work, const struct core_heard *heard);
void result_heard(struct driver *driver, struct work *work, const struct core_heard *heard);
/* A worker is gone. */
void work_exited(struct driver *driver, const struct core_heard *heard);
/* One that never ran, or of which nothing is known any more: no crash. */
void attempt_lost(struct driver *driver, const char *tenant, const char *job, const char *worker, const char *how, int64_t gpu_ms);
/* A worker's row alone. */
void worker_lost(struct driver *driver, const char *worker);
int64_t gpu_ms_of(const struct work *work, int64_t until_ns);

/* --- fleet.c --- */
struct told_job *told_find(struct driver *driver, const char *job);
struct told_job *told_at(struct driver *driver, job_id id);
void fleet_submit(struct driver *driver, const struct meta_job *job);
/* While all is restored: its trainer was found and runs. False: the core cannot be told of it. */
bool fleet_found(struct driver *driver, const struct meta_job *job, const struct work *work);
void fleet_withdraw(struct driver *driver, struct told_job *told);
void fleet_started(struct driver *driver, struct told_job *told, int64_t done_ns);
void fleet_checkpointed(struct driver *driver, struct told_job *told, int64_t done_ns, int64_t compute_ns, uint64_t bytes);
/* `stays`: it waits in the queue again; otherwise the core forgets it. */
void fleet_left(struct driver *driver, struct told_job *told, bool stays, bool succeeded, int64_t done_ns, int64_t compute_ns);
void fleet_command(struct driver *driver, const struct core_heard *heard);
void fleet_due(struct driver *driver, int64_t now_ns);
void fleet_tenant(struct driver *driver, const struct meta_tenant *tenant, uint32_t cohort);
void fleet_cohort(struct driver *driver, uint32_t number);
void fleet_usage(struct driver *driver, const struct meta_tenant *tenant);

/* --- restore.c, fetch.c --- */
/* All cohorts, and this tenant; NULL: all. */
enum status fleet_tenants(struct driver *driver, const char *tenant, struct refusal *refusal);
enum status driver_restore(struct driver *driver, struct refusal *refusal);
void fetch_answer(struct driver *driver, const struct core_heard *heard);

#endif
