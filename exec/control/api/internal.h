/* The API inside. api.c: routes, the beginning and the end. call.c: who asks, and what is answered when it cannot be. models.c,
 * files.c: what is asked. upload.c, download.c: contents as streams. sweep.c: what was left.
 * chat.h: models that answer. */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include <pthread.h>
#include <sodium.h>

#include "control/api/api.h"
#include "control/api/limits.h"
#include "control/api/pool.h"
#include "control/metadata/file.h"
#include "control/metadata/key.h"
#include "control/metadata/model.h"
#include "control/objects/objects.h"

struct call;
/* On a thread of the pool; answers, or hands the request on. */
typedef void api_serve(struct call *call, struct metadata *metadata);

struct endpoint {
    struct api *api;
    api_serve *serve;
    bool for_inference; /* keys of that role may call it too */
};

struct transfer {
    char tenant[NAME_BYTES]; /* "": free */
};

struct api {
    struct api_config config;
    struct object_home home;
    struct http_server *_Atomic http; /* NULL for a moment at first, in which requests may come */
    struct pool *pool;
    struct sweeper *sweeper;
    struct endpoint endpoints[HTTP_ROUTES_MAX];
    struct http_route routes[HTTP_ROUTES_MAX];
    uint32_t routes_count;
    uint8_t once_key[32]; /* what repeated requests are known by: hashes under it */
    struct limits *limits;
    struct chats *chats;
    pthread_mutex_t lock; /* of transfers */
    struct transfer transfers[API_TRANSFERS_MAX];
};

struct call {
    struct task task;
    struct api *api;
    struct http_request *request;
    const struct endpoint *endpoint;
    struct meta_caller caller;
    struct call_tenant {
        char slug[NAME_BYTES];
        uint32_t number;
        uint64_t requests_per_min, tokens_per_min; /* that it may take */
    } tenant;
};

/* --- call.c ---- */
int64_t api_now_ms(void);
/* Why a request is not done; zero: it is. */
struct fault {
    unsigned status; /* HTTP's */
    const char *code;
    const char *param;
    uint32_t retry_ms;  /* 0: none is said */
    bool never;         /* the client's own retries would be in vain */
    char text[512];
};
void fault_set(struct fault *fault, unsigned status, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* From what metadata, vault or store said; their words for faults of ours go to the log, not to the client. */
void fault_from(struct api *api, struct fault *fault, enum status status, const struct refusal *refusal);
/* The same 404 for whatever the caller has not. */
void fault_missing(struct fault *fault);
void fault_answer(struct http_request *request, const struct fault *fault);
/* Who it is, and whether this is for its role. */
bool caller_find(struct api *api, struct metadata *metadata, const char *key, bool for_inference, struct meta_caller *ret_caller,
                 struct fault *fault);
/* x-ratelimit-{limit,remaining,reset}-KIND */
void call_limit_headers(struct http_request *request, const char *kind, const struct limits_state *state);
/* http_handler: to the pool. `context` is an endpoint. */
void api_handle(void *context, struct http_request *request);
/* A place among what runs at once; false: `fault` says 429. */
bool transfer_begin(struct api *api, const char *tenant, uint32_t *ret_place, struct fault *fault);
void transfer_end(struct api *api, uint32_t place);
uint32_t transfers_open(struct api *api);

/* A request that needs no key, on a thread of the pool. */
struct api_look {
    struct task task;
    struct api *api;
    struct http_request *request;
};
void api_look(struct api *api, struct http_request *request, bool (*run)(struct task *task, struct metadata *metadata));

/* --- metrics.c ---- */
void metrics_get(void *context, struct http_request *request);

/* --- models.c ---- */
api_serve models_list;
/* What a name answers with. False: `fault`, the same for what is not there, what is another's, and what may not answer. Free `results`
 * in either case. */
bool model_find(struct api *api, struct metadata *metadata, const char *tenant, const char *name, struct meta_results *results,
                struct meta_model *ret_model, struct fault *fault);
api_serve models_get;
api_serve models_delete;

/* --- adapters.c ---- */
api_serve lora_load;
api_serve lora_unload;

/* --- usage.c ---- */
api_serve usage_list;

/* --- files.c ---- */
#define FILE_PURPOSE "fine-tune" /* of files: the one there is */
#define FILE_NAME "file-name"    /* the purpose that names are sealed for */
api_serve files_list;
api_serve files_get;
api_serve files_delete;
/* As OpenAI has it. */
json_t *file_json_named(const struct meta_file *file, const char *name);
/* The same, its name opened. NULL: `fault`. */
json_t *file_json(struct api *api, const struct meta_file *file, struct fault *fault);

/* --- upload.c, download.c ---- */
void upload_accept(void *context, struct http_request *request);
void upload_handle(void *context, struct http_request *request);
api_serve download_begin;
api_serve report_begin;

/* --- sweep.c ---- */
/* Destroys what was left half-made, then begins to look now and then for what is doomed still. */
enum status sweeper_start(struct api *api, struct refusal *refusal);
void sweeper_stop(struct sweeper *sweeper);

#endif
