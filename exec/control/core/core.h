/* The control plane's core loop: one thread that hosts the fleet core and does what it says. It speaks to the launcher and over the
 * workers' sockets, holds the requests that are under way, and never waits: no disk, no vault, no database. What must be kept goes to the
 * metadata's writer; what takes time is the driver's (control/driver). All times of the fleet core are this loop's.
 *
 * Whose is what: model servers (start, drain, residency, requests, usage) are the loop's own. Validators and trainers are the driver's:
 * it has them launched, is told each of their frames, says what they are told, and commits.
 *
 * A model server is told START, then LOAD of adapters and REQUESTs; ready, and after each WELCOME, it says INVENTORY with all adapters that
 * it knows, wherever they lie (tier: enum tier). A LOAD has a generation of its own, which REQUEST, UNLOAD and UNLOADED name; an
 * UNLOADED that nobody asked for is a load that failed, whose requests have been said DONE before. DONE.finish is STOP, LENGTH,
 * CANCELLED or REFUSED of enum core_end_reason; of REFUSED, `text` says why and `code` is an enum status: FULL is BUSY here. A prompt
 * that fills no frame comes as a descriptor of a sealed memory file: its ids, four bytes each, little-endian. USAGE comes before DONE.
 * START comes again from the next control plane, and a server that has begun passes over it. Drained, a server exits with code 0 when
 * all that it has to tell is committed.
 *
 * Calls come from any thread unless said otherwise and are queued: STATUS_FULL when the queue is (nothing was taken; a client is
 * answered 429), STATUS_END when the loop has ended. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "control/metadata/writer.h"
#include "fleet/event.h"
#include "keeper/launcher.h"
#include "wire/wire.h"

struct core;
struct core_gpus;

/* Rows of the launcher's table of programs. */
enum core_worker_kind { CORE_SERVER, CORE_TRAINER, CORE_VALIDATOR };

/* A base by its index here: the fleet's base_id. What it names outlives the core. */
struct core_base {
    char name[NAME_BYTES];
    uint8_t digest[32];
    int folder;                  /* a directory's descriptor, for workers */
    uint64_t bytes;              /* of its weights on a device */
    int64_t load_ns;             /* an estimate */
    uint32_t positions_max;      /* tokens of a sequence: prompt and answer */
    uint16_t replicas_floor;     /* >= 1 */
    uint16_t replicas_ceiling;
};

/* A worker that the driver had launched, or found; or a command about jobs; or a fetch. */
#define CORE_HEARDS(X)                                                                                                         \
    X(COMMAND)  /* of the fleet core's: JOB_PLACE, JOB_STOP, JOB_REFUSE, BASE_LOAD and BASE_DROP apart, which are the loop's */     \
    X(STARTED)  /* the process runs; what it is told is what core_launch() gave */                                              \
    X(REFUSED)  /* the launcher could not: `status` */                                                                          \
    X(FOUND)    /* a trainer or validator from before this control plane; its frames come like any other's */                   \
    X(LISTED)   /* no more of those come */                                                                                     \
    X(FRAME)    /* one of its `must` or `latest` frames; a `must` one is committed with core_commit() when it is on disk */      \
    X(EXITED)   /* reaped, all its frames came before; core_forget() when that is on disk */                                     \
    X(FETCH)    /* a server needs an adapter: answered by core_fetched() */
enum core_heard_kind {
#define X(name) CORE_HEARD_##name,
    CORE_HEARDS(X)
#undef X
};

/* An adapter as a server knows it. */
struct core_adapter {
    uint8_t key[32];             /* of tenant and content: core_adapter_key() */
    char tenant[NAME_BYTES];     /* whose object it is */
    char object[NAME_BYTES];
    uint32_t rank;
    uint64_t bytes;              /* of the object, sealed */
};
/* SHA-256("berth adapter 1\n" + tenant's id + '\0' + content digest as text). */
void core_adapter_key(const char *tenant, const char *digest, uint8_t ret_key[32]);

struct core_heard {
    enum core_heard_kind kind;
    int64_t at_ns;
    enum status status;                  /* REFUSED */
    struct launch launch;                /* STARTED, REFUSED, FOUND, FRAME, EXITED */
    bool is_dead;                        /* FOUND */
    struct launch_end end;               /* EXITED */
    const struct fleet_command *command; /* COMMAND; lives until the call returns, as do those below */
    const struct wire_frame *frame;      /* FRAME; its bytes as they came are frame_bytes */
    const uint8_t *frame_bytes;
    size_t frame_count;
    uint64_t fetch;                      /* FETCH: its number */
    const struct core_adapter *adapter;  /* FETCH */
};
/* On the loop's thread; copies what it wants and returns at once. */
typedef void core_hears(void *context, const struct core_heard *heard);

struct core_config {
    struct launcher *launcher;           /* the core's from here on */
    struct meta_writer *writer;          /* what follows outlives the core */
    uint64_t epoch;                      /* meta_epoch_open()'s */
    int64_t first_at_ns;                 /* the clock's first value, above all before */
    const struct core_base *bases;
    uint32_t bases_count;                /* 0: files are validated, and nothing is served or trained */
    uint32_t devices;                    /* of this node, alike; 1 to 16 */
    const struct core_gpus *gpus;        /* what they are shares of (core/gpus.h); NULL: the CPU */
    uint64_t device_bytes;               /* usable, of each */
    int64_t price_nano_per_hour;         /* of one */
    uint32_t replica_target;             /* requests under way that one server is meant to have; 0: 32 */
    int64_t scale_up_ns;                 /* above 1.2 times that for so long: one more; 0: 10 s */
    int64_t scale_down_ns;               /* below 0.7 times that for so long: one fewer; 0: 300 s */
    uint32_t jobs_max;                   /* 0: 4096 */
    uint32_t tenants_max;                /* 0: 1024 */
    uint32_t adapters_max;               /* known at once; 0: 65536 */
    uint32_t requests_max;               /* under way at once; 0: 4096 */
    uint32_t queue_max;                  /* calls that wait for the loop; 0: 8192 */
    uint32_t server_requests_max;        /* under way at one server; 0: 256 */
    uint32_t server_adapters_max;        /* known to one server: more, and the one not used for longest is UNLOADed; 0: 8192 */
    uint32_t step_adapters_max;          /* distinct ones in a server's step; 0: 32 */
    const char *server_options;          /* a JSON object: of each server's START, beside "requests", "adapters" and "max_loras"; NULL: none */
    const char *journal;                 /* the fleet core's, a file that is made; NULL: none */
    core_hears *hears;
    void *hears_context;
    void (*log)(void *context, const char *line); /* ids, codes and counts only */
    void *log_context;
};
/* The fleet core is restoring until core_restored(): it commands nothing, and requests wait. */
enum status core_open(const struct core_config *config, struct core **ret_core, struct refusal *refusal);
/* No new requests; within `within_ms` those under way end, then all are ended with a fault. Workers live on for the next control plane. */
void core_stop(struct core *core, uint32_t within_ms);
void core_close(struct core *core); /* NULL is fine */

/* --- the driver's ------------------------------------------------------------------------------------------------------------- */

/* To the fleet core; at_ns and seq are the loop's to fill. */
enum status core_tell(struct core *core, const struct fleet_event *event);
/* All that is restored was told: COHORT, TENANT; for each trainer that was found JOB, JOB_KEPT, JOB_FOUND. Whatever else was told by then
 * comes after the fleet core's RESTORE_DONE. */
enum status core_restored(struct core *core);

/* `start`: what a START says, with descriptors that are the core's from STATUS_OK on; said when it has said HELLO. */
struct core_launch {
    struct launch launch;
    struct wire_start start;
    const int *descriptors;
    uint32_t descriptors_count;
};
enum status core_launch(struct core *core, const struct core_launch *launch);
/* As wire_say(); descriptors are the core's from STATUS_OK on. To one that is gone: nothing. */
enum status core_say(struct core *core, uint64_t worker, enum wire_kind kind, const void *body, const int *descriptors,
                     uint32_t descriptors_count);
/* It is on disk, and the row says so: meta_worker_ack(). */
enum status core_commit(struct core *core, uint64_t worker, uint64_t seq);
enum status core_end(struct core *core, uint64_t worker, bool at_once);
enum status core_forget(struct core *core, uint64_t worker);
/* Answers a FETCH: the adapter's data key and a descriptor of its sealed object, which is the core's then; or why not (a status other
 * than STATUS_OK): its requests fail. */
enum status core_fetched(struct core *core, uint64_t fetch, enum status status, const uint8_t key[32], int object);

/* A new worker's number and the id of its row. */
uint64_t core_worker_draw(void);
void core_worker_id(uint64_t worker, char ret_id[NAME_BYTES]);

/* --- the API's ---------------------------------------------------------------------------------------------------------------- */

#define CORE_ENDS(X)                                                                                        \
    X(STOP)      /* an end-of-sequence id, or a stop string */                                              \
    X(LENGTH)                                                                                               \
    X(CANCELLED) /* core_abort() */                                                                         \
    X(REFUSED)   /* it cannot be served: too long, no such adapter any more; text says why */               \
    X(BUSY)      /* no replica takes it now */                                                              \
    X(LOST)      /* its server was lost after tokens had been sent */
enum core_end_reason {
#define X(name) CORE_END_##name,
    CORE_ENDS(X)
#undef X
};
struct core_end {
    enum core_end_reason reason;
    uint32_t prompt_tokens;
    uint32_t output_tokens;
    int64_t first_token_ns;
    const char *text;            /* what is left of the answer's text; of REFUSED: why, for the client */
    size_t text_bytes;
};

struct core_ask {
    uint32_t base;
    const struct core_adapter *adapter;  /* NULL: the base alone */
    uint32_t tenant;             /* its number */
    const int32_t *prompt;
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    const char *settings;        /* an object as worker/ask.h reads it, without prompt, adapter, tenant and max_tokens */
    const char *account;         /* whom to bill: the tenant's id, a space, the model's name */
    void *owner;
    /* On the loop's thread; quick. tokens->text is what may be shown now. */
    void (*tokens)(void *owner, const struct wire_tokens *tokens);
    void (*end)(void *owner, const struct core_end *end); /* once, the last call */
};
/* Everything is copied. The owner may be called before this returns; ret_request is there by then. */
enum status core_ask(struct core *core, const struct core_ask *ask, uint64_t *ret_request);
/* So many tokens were taken by the client; those ahead of it are at most CORE_CREDIT_TOKENS, the rest waits in the server. */
#define CORE_CREDIT_TOKENS 512
void core_taken(struct core *core, uint64_t request, uint32_t tokens);
/* Its client is gone; end() follows. */
void core_abort(struct core *core, uint64_t request);

struct core_counts {
    uint32_t requests, waiting, servers, servers_up, trainers, validators, adapters_resident;
    uint32_t devices, devices_leaving; /* of a spot notice, or gone with it */
    uint32_t tells_waiting;            /* records of usage that came and are not on disk */
    int64_t tells_lag_ns;              /* since the oldest of them came */
    uint64_t routed, refused, rerouted, lost, prompt_tokens, output_tokens, loads;
};
struct core_counts core_counts(struct core *core);
/* Of a base. */
struct core_base_counts {
    uint32_t up;                       /* replicas */
    uint32_t kv_used_permille;         /* the mean of those */
    uint32_t step_adapters_max;        /* in one step of each */
};
struct core_base_counts core_base_counts(struct core *core, uint32_t base);
/* Each request that is under way, under the core's lock: quick, and no call of the core's. */
struct core_seen {
    uint32_t base;
    bool at_server;                    /* it was told; else it waits for one, its adapter or room */
    const uint8_t *key;                /* of its adapter; NULL: the base alone */
};
void core_look(struct core *core, void (*see)(void *context, const struct core_seen *seen), void *context);
/* Spot: so many devices, from the highest number down, will be gone after `after_ms`; 0 devices: none any more. */
enum status core_notice(struct core *core, uint32_t devices, uint32_t after_ms);

#endif
