/* A database in a folder of its own, with two tenants who have one of everything; and a file system for SQLite that kills the
 * process, or refuses, at a call of one's choice. */
#ifndef TESTS_METADATA_RIG_H
#define TESTS_METADATA_RIG_H

#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/metadata.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "exec/scratch.h"
#include "support.h"

#define NOW 1700000000000

struct tenant_world {
    char id[NAME_BYTES];
    char object[NAME_BYTES];
    char file[NAME_BYTES];
    char job[NAME_BYTES];
    char model[NAME_BYTES];
    char model_name[META_MODEL_NAME_BYTES];
};

struct world {
    struct scratch scratch;
    char place[512];
    char schema[NAME_BYTES]; /* of PostgreSQL */
    struct metadata *metadata;
    struct refusal refusal;
    struct meta_results results;
    struct tenant_world acme;
    struct tenant_world other;
};

/* Without tenants. */
void world_begin(struct world *world);
/* With base "tiny" and both tenants. */
void world_populate(struct world *world);
void world_end(struct world *world);
/* Another connection; meta_close() it. */
struct metadata *world_open(const struct world *world);
enum status open_place(const char *place, bool first, struct metadata **ret_metadata, struct refusal *refusal);

void world_object(struct world *world, const char *tenant, char ret_id[NAME_BYTES]);
void world_file(struct world *world, const char *tenant, char ret_id[NAME_BYTES]);
void world_job(struct world *world, const char *tenant, const char *file, char ret_id[NAME_BYTES]);
struct meta_job world_get_job(struct world *world, const char *tenant, const char *job);
/* Brings a new job to this state, by moves that are allowed; its attempt is in what world_get_job() says. */
void world_bring(struct world *world, const char *tenant, const char *job, enum meta_job_state state, enum meta_job_state target);
enum status world_move(struct metadata *metadata, const char *tenant, const char *job, enum meta_job_state from, int64_t attempt,
                       enum meta_job_state to, enum meta_job_state target, struct refusal *refusal);
/* Runs a statement past all rules, on a connection of its own. */
void world_execute(const struct world *world, const char *sql);

#define OK(world, call)                                                      \
    do {                                                                     \
        if ((call) != STATUS_OK)                                             \
            fail_msg("%s: %s", #call, (world)->refusal.text);                \
    } while (0)

/* Calls that write, sync or cut a file, counted from vfs_begin() on. At number `at` (1 is the first) the process kills itself, loses
 * its power (what no sync had covered is lost as well: all of it at odd numbers, some of it at even ones), or the call is refused for a
 * full disk, alone or with all later ones; 0: never. */
enum vfs_deed { VFS_KILL, VFS_POWER, VFS_FULL, VFS_FULL_ONCE };
void vfs_begin(enum vfs_deed deed, uint64_t at);
uint64_t vfs_calls(void);
uint64_t vfs_syncs(void); /* of them */

#endif
