/* A model server's inside: one base on one device, the replica core that decides its batches, the node core that decides what stays in
 * host memory, a thread that reads and packs adapters. Single-threaded for its caller: everything happens in worker_pump().
 *
 * Order of a request's calls: token() for each token, then end() once. Of what changes the worker they may call worker_cancel() alone. */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "crypto/names.h"
#include "engine/model/forward.h"
#include "engine/safetensors/safetensors.h"
#include "engine/sample/sample.h"
#include "replica/replica.h"

struct worker;

#define WORKER_NAME_MAX 64

struct worker_adapter {
    const char *name;
    const uint8_t *digest;        /* DIGEST_BYTES; of a sealed object: its key */
    int32_t rank;
    int64_t packed_bytes;
    enum tier tier;               /* GPU slot, host memory, or store */
    enum status fetched;          /* of its last fetch; STATUS_OK also where there was none */
};

struct worker_config {
    const char *model_directory;
    const char *merged_as;        /* the name of the adapter that is folded into the weights (worker/merged.h); NULL: a base */
    const struct device *device;
    bool device_chosen;           /* by its name: no other is looked for */
    const char *base_socket;      /* of a holder of this base on the device (hold/hold.h); NULL: its own copy */
    enum kernel_set kernels;
    bool mode_chosen;             /* otherwise the base's default */
    enum mode mode;
    uint32_t threads;
    bool deterministic;
    uint32_t positions_max;       /* of a sequence; 0: the model's, at most 8192 */
    uint32_t requests_max;        /* waiting and running */
    uint32_t sequences_max;       /* in a batch */
    uint32_t token_budget;        /* a step */
    uint32_t max_loras;           /* distinct adapters a step */
    uint32_t slots;               /* adapters on the device at once */
    uint32_t rank_max;            /* of an adapter */
    uint32_t adapters_max;        /* registered at once; not over a lifetime */
    uint64_t pool_bytes;          /* of packed adapters on the device; 0: `slots` times the largest possible, at most 1 GiB */
    uint64_t host_bytes;          /* of packed adapters in host memory */
    uint64_t kv_bytes;            /* 0: as many as requests_max sequences need, at most 1 GiB */
    /* Told when a registered adapter has come or gone somewhere, or could not be fetched; changes nothing here. NULL: nobody. */
    void (*moved)(void *watcher, const struct worker_adapter *adapter);
    void *watcher;
};
void worker_config_init(struct worker_config *config);

enum status worker_open(const struct worker_config *config, struct worker **ret_worker, struct refusal *refusal);
void worker_close(struct worker *worker); /* NULL is fine; requests in flight end without a word */

/* --- adapters --------------------------------------------------------------------------------------------------------------- */

/* Letters, digits, '.', '_', '-', beginning with a letter or digit, at most WORKER_NAME_MAX bytes. */
bool worker_name_fine(const char *name);
/* Everything about the folder's files is checked now, so that a request never meets a bad adapter. The same name again: the same content
 * changes nothing; another content is another version, which new requests get while those in flight keep theirs.
 * STATUS_INVALID, STATUS_NOT_FOUND: refused; STATUS_FULL: adapters_max are registered. */
enum status worker_adapter_add(struct worker *worker, const char *name, const char *directory, struct refusal *refusal);
/* New requests are refused from now on, those in flight finish, then slot and memory are free. STATUS_NOT_FOUND: no such name. */
enum status worker_adapter_remove(struct worker *worker, const char *name);
/* One that lies sealed (crypto/envelope.h: tenant, id, purpose "adapter", version 0); its plaintext is one file (peft_open_bytes()). It is
 * called by its key in 64 hexadecimal digits. Nothing of it is read now: what is not the adapter that the key names, or of another rank,
 * fails when it is fetched, and with it the requests for it. `file` is taken over, whatever comes back; `secret` is copied into locked
 * memory. The same key again changes nothing. STATUS as worker_adapter_add(). */
struct worker_object {
    uint8_t key[DIGEST_BYTES];    /* core_adapter_key() */
    char tenant[NAME_BYTES];
    char id[NAME_BYTES];
    uint32_t rank;
    int file;                     /* for reading */
    const uint8_t *secret;        /* its data key, KEY_BYTES */
};
enum status worker_object_add(struct worker *worker, const struct worker_object *object, struct refusal *refusal);

/* By rising name; false past the end. */
bool worker_adapter_at(const struct worker *worker, uint32_t index, struct worker_adapter *ret_adapter);

/* --- requests --------------------------------------------------------------------------------------------------------------- */

struct worker_token {
    int32_t id;
    uint32_t index;               /* of the answer, from 0 */
    float logprob;
    bool ends;                    /* an end-of-sequence id: not part of the text */
    float lse;                    /* for log-probabilities of the best ones: logit - lse */
    const float *best_logits;     /* [best_count], falling */
    const int32_t *best_ids;
    uint32_t best_count;
};

#define WORKER_ENDS(X)                                                                    \
    X(STOP, "stop")           /* an end-of-sequence id, or token() said so */             \
    X(LENGTH, "length")       /* max_tokens */                                            \
    X(CANCELLED, "cancelled")                                                             \
    X(FAILED, "error")        /* text says why */
enum worker_end_reason {
#define X(name, text) WORKER_END_##name,
    WORKER_ENDS(X)
#undef X
};
const char *worker_end_name(enum worker_end_reason reason);

struct worker_end {
    enum worker_end_reason reason;
    const char *text;             /* FAILED: for the client */
    uint32_t prompt_tokens;
    uint32_t output_tokens;
    uint32_t recomputed_tokens;
    enum tier tier_found;
    int64_t first_token_ns;       /* since it was submitted; 0: none came */
    int64_t total_ns;
    int64_t compute_ns;
};

struct worker_request {
    const char *adapter;          /* NULL: the base alone, bit for bit as if no adapter were here */
    uint32_t tenant;              /* below WORKER_TENANTS_MAX */
    const int32_t *prompt;        /* copied */
    uint32_t prompt_tokens;       /* >= 1 */
    uint32_t max_tokens;          /* >= 1; prompt + max <= positions_max */
    bool ignore_eos;
    const struct sample_params *sample; /* copied */
    void *owner;
    /* True: the answer ends with this token (a stop string). */
    bool (*token)(void *owner, const struct worker_token *token);
    void (*end)(void *owner, const struct worker_end *end);
};
#define WORKER_TENANTS_MAX 1024

typedef struct {
    uint64_t value; /* 0: none */
} worker_handle;

/* STATUS_NOT_FOUND: no such adapter; STATUS_FULL: requests_max are here, or it drains; STATUS_INVALID: refusal says what. No call follows a refusal. */
enum status worker_submit(struct worker *worker, const struct worker_request *request, worker_handle *ret_handle, struct refusal *refusal);
/* end() follows, within a step. Of a request that has ended: nothing. */
void worker_cancel(struct worker *worker, worker_handle handle);
/* New requests are refused, the rest is finished. */
void worker_drain(struct worker *worker);
bool worker_drained(const struct worker *worker);

/* --- time ------------------------------------------------------------------------------------------------------------------- */

/* Does what is due, at most one engine step. True: more can be done at once. */
bool worker_pump(struct worker *worker);
/* Readable when worker_pump() has something new to do while it said false. */
int worker_fd(const struct worker *worker);

struct worker_state {
    struct replica_state replica;
    uint32_t adapters;
    uint64_t host_used_bytes;
    uint64_t pool_used_bytes;
    uint64_t steps;
    uint64_t pool_moves;
    uint64_t loads;               /* into slots */
    uint64_t fetches;             /* from files */
    int64_t load_host_ns;         /* the last load that found its adapter in host memory: asked to ready */
    int64_t load_store_ns;        /* the last that read files */
};
struct worker_state worker_state(const struct worker *worker);
const struct model *worker_model(const struct worker *worker);
enum mode worker_mode(const struct worker *worker);
uint32_t worker_positions_max(const struct worker *worker);
/* Every invariant, the cores' included; for tests. */
void worker_check(const struct worker *worker);

#endif
