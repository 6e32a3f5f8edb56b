/* The driver over a real database, vault and store, and a core that is played: it writes down what it is told, and says what the test has
 * it say. Workers are played too: they get the descriptors and keys that the driver granted, and write there. */
#ifndef TESTS_DRIVER_RIG_H
#define TESTS_DRIVER_RIG_H

#include "control/driver/driver.h"
#include "control/api/job_settings.h"
#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "control/objects/objects.h"
#include "exec/scratch.h"
#include "support.h"

/* A worker that the driver launched, as its START made it. */
struct played {
    struct launch launch;
    json_t *settings;
    uint8_t grants[64 * WIRE_GRANT_BYTES];
    uint32_t grants_count;
    int descriptors[64];
    uint32_t descriptors_count;
    uint64_t seq;
    uint32_t deadline_ms;  /* of the last CHECKPOINT_NOW */
    uint32_t asked;        /* how often */
    bool is_spare[64];     /* of a grant: it came with one, and nothing was written to it yet */
    bool is_adapter[64];
    uint64_t committed;
    bool ended, ended_at_once, forgotten;
};

struct rig {
    struct scratch scratch;
    char database[512], folder[512], keys[512], master[512], base[512];
    uint8_t *server_key;
    struct metadata *metadata, *writing;
    struct meta_writer *writer;
    struct vault *vault;
    pid_t vault_process;
    struct store *store;
    struct core_base bases[1];
    struct driver *driver;
    bool gate;
    bool dry_run; /* of jobs that are added */
    char acme[NAME_BYTES];
    char file[NAME_BYTES];
    char job[NAME_BYTES];
    struct meta_results results;
};

void rig_begin(struct rig *rig);
void rig_end(struct rig *rig);
/* The driver, as after a start of the control plane; workers that live are found. */
void rig_start(struct rig *rig);
/* As a kill would: what it had in memory is gone. */
void rig_stop(struct rig *rig);
/* And store and vault too. */
void rig_restart(struct rig *rig);

void rig_add_file(struct rig *rig, const char *text, char ret_file[NAME_BYTES]);
void rig_add_job(struct rig *rig, const char *file);

/* --- what the core was told; each waits until it is so --- */
/* The n-th worker (from 0) that was launched. */
struct played *rig_worker(uint32_t n);
uint32_t rig_workers(void);
/* Takes the next fleet event of that kind, passing over others. */
struct fleet_event rig_told(enum fleet_event_kind kind);
/* None of that kind waits. */
bool rig_told_none(enum fleet_event_kind kind);
struct core_fetch {
    enum status status;
    uint8_t key[32];
    int object;
    uint32_t count;
};
struct core_fetch rig_fetched(void);
void rig_wait_committed(struct played *played);
void rig_wait_forgotten(struct played *played);
void rig_wait_ended(struct played *played);
void rig_wait_asked(struct played *played, uint32_t times);

/* For what should not happen to happen. */
void rig_wait_a_moment(void);

/* --- what is in the rows; each waits until it is so --- */
void rig_wait_file(struct rig *rig, const char *file, const char *state);
void rig_wait_job(struct rig *rig, const char *state);
struct meta_job rig_job(struct rig *rig);
struct meta_file rig_file(struct rig *rig, const char *file);
bool rig_has_event(struct rig *rig, const char *code, char *ret_words);
/* Objects in that state. */
uint32_t rig_objects(struct rig *rig, const char *state);
uint32_t rig_models(struct rig *rig, struct meta_model ret_models[8]);

/* --- what the core says --- */
/* Who hears on the driver's thread what the core is told; NULL: nobody else. */
void rig_tell_also(void (*tell)(const struct fleet_event *event));
void rig_command(const struct fleet_command *command);
void rig_place(uint64_t command, job_id job);
void rig_stop_job(uint64_t command, job_id job, int64_t within_ns);
void rig_fetch(struct rig *rig, const char *object);

/* --- what workers say --- */
void played_runs(struct played *played);
void played_say(struct played *played, enum wire_kind kind, const void *body);
void played_hello(struct played *played);
void played_progress(struct played *played, uint64_t step, uint64_t steps);
/* Writes to the object that a START names so, or to the newest of that sort. Returns the bytes written. */
uint64_t played_write(struct rig *rig, struct played *played, const char *name, const char *purpose, const char *text, char ret_object[NAME_BYTES],
                      uint8_t ret_digest[32]);
void played_report(struct rig *rig, struct played *played, bool accepted, const char *report);
void played_state(struct rig *rig, struct played *played, uint64_t step);
void played_adapter(struct rig *rig, struct played *played, uint64_t step);
void played_result(struct rig *rig, struct played *played, uint64_t step);
void played_exits(struct played *played, int code);

/* Shorter: file judged, job validated, and in that state. */
void rig_check(struct rig *rig, const char *state);
/* Queued, told; its id. */
job_id rig_queue(struct rig *rig);
/* And placed, started, running. */
struct played *rig_run(struct rig *rig, uint64_t command);

#endif
