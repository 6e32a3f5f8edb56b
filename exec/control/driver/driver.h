/* What takes time in the life of files and jobs: one thread with a connection to the metadata, the vault and the store. It moves jobs
 * through their states, makes the objects that workers read and write, starts validators and trainers through the core, commits what they
 * say, and answers the core's fetches. The database is the truth: whatever it is told, it reads the row again, and each act may be
 * killed and done anew. */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include "control/core/core.h"
#include "crypto/vault.h"
#include "store/store.h"

struct driver;

struct driver_config {
    uint64_t epoch;              /* meta_epoch_open()'s */
    struct meta_options metadata;   /* for a connection of its own; its key is not kept */
    struct meta_writer *writer;     /* what follows outlives the driver */
    struct vault *vault;
    struct store *store;
    const struct core_base *bases;
    uint32_t bases_count;
    uint32_t devices;
    const struct core_gpus *gpus;   /* what they are shares of; NULL: the CPU */
    uint32_t tenants_max;           /* as the core's; 0: 1024 */
    double flops_per_s;             /* of one, for estimates; 0: a CPU's */
    int64_t price_nano_per_hour;    /* of one, for estimates */
    bool gate_off;                  /* what was trained may answer without evaluation */
    void (*log)(void *context, const char *line);
    void *log_context;
};
/* It listens (driver_hears() may be called) and does nothing yet. */
enum status driver_open(const struct driver_config *config, struct driver **ret_driver, struct refusal *refusal);
/* core_config.hears; `context` is the driver. */
core_hears driver_hears;
/* The core is there: it is told what the database holds, then all goes on. */
enum status driver_start(struct driver *driver, struct core *core, struct refusal *refusal);
/* Ends after the act in hand; the core must still be there. */
void driver_stop(struct driver *driver);
void driver_close(struct driver *driver); /* NULL is fine */

/* From any thread, after the commit: look at this row again. Never refused: what does not fit is found by a look at all rows. */
void driver_file_changed(struct driver *driver, const char *tenant, const char *file);
void driver_job_changed(struct driver *driver, const char *tenant, const char *job);
void driver_tenant_changed(struct driver *driver, const char *tenant);

/* An adapter that was made elsewhere, as a sealed bundle (link/bundle.h) that is whole in the store and whose row says that it is being
 * written. A validator reads it; then object, model with its verdict, alias and audit entry come in one transaction, or nothing does. */
struct driver_adoption {
    char tenant[NAME_BYTES];
    char bundle[NAME_BYTES];        /* the caller's, before and after */
    char base[NAME_BYTES];
    char model[NAME_BYTES];         /* the id that it gets; one that is there already was made by an earlier try */
    char name[NAME_BYTES];          /* the alias */
    char key[NAME_BYTES];           /* who asks, for the audit log */
};
/* OK; STATUS_INVALID: it does not fit, in the tenant's words; STATUS_CONFLICT: the name was taken meanwhile; others: for another time. Called once,
 * on the driver's thread, under a lock that driver_leave() takes too. */
typedef void driver_adopted(void *context, enum status status, const char *words);
/* STATUS_FULL: too many wait. */
enum status driver_adopt(struct driver *driver, const struct driver_adoption *adoption, driver_adopted *done, void *context);
/* Nobody is told any more when this returns; the adoption goes on. */
void driver_leave(struct driver *driver, const char *bundle);

/* Codes of the events that it adds to a job: validated, started, metrics, checkpoint, requeued, crashed, model_created, succeeded; and why a
 * job failed, or an attempt did: the row's reason or a fault's code (link/fault.h), with sealed words. The last event of a job that has
 * failed is its error. */

/* Beside the row; false: nothing is known (any more). */
struct driver_job {
    uint32_t queue_position;        /* from 1; 0: it does not wait */
    int64_t estimated_finish_at_ms; /* META_NONE: not known */
    int64_t step;
    int64_t steps;
};
bool driver_job_view(struct driver *driver, const char *job, struct driver_job *ret_view);
/* The id of the file that a job's table of results becomes, if it has one. */
void driver_results_file(const char *job, char ret_file[NAME_BYTES]);

#endif
