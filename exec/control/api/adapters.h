/* Adapters that were made elsewhere, as vLLM's clients load them. adapters.c: the two endpoints and a load's life; adapters_read.c: what is asked
 * for, and the folder's two files, copied unread into a sealed bundle. */
#ifndef API_ADAPTERS_H
#define API_ADAPTERS_H

#include "control/api/repeat.h"

#define LOAD_PATH_BYTES 1024

struct load_file {
    int file;              /* -1: none */
    int64_t left_bytes;
};
/* What is asked for, and the copy of it. */
struct load {
    struct task task;
    struct api *api;
    struct http_request *request;
    struct meta_caller caller;
    char slug[NAME_BYTES];
    struct repeat repeat;
    struct driver_adoption asked;
    char path[LOAD_PATH_BYTES]; /* below the tenant's folder */
    int64_t now_ms;
    bool begun;
    bool is_placed;
    bool is_copied;
    bool is_made;          /* by an earlier try */
    bool is_taken;         /* its name */
    uint32_t place;        /* among transfers */
    struct load_file config, tensors;
    struct object bundle;

    pthread_mutex_t lock;  /* of what follows, which the driver tells */
    bool is_told;
    enum status told;
    char words[REFUSAL_MAX];
};

/* False: `fault`. */
bool load_read(const json_t *body, struct load *load, struct fault *fault);
/* Both files are opened and the bundle is begun. False: `fault`. */
bool load_open(struct load *load, struct metadata *metadata, struct fault *fault);
/* Some of it; the last of it is on disk when `is_copied`. False: `fault`. */
bool load_copy(struct load *load, struct fault *fault);
/* Its files and its bundle are gone. */
void load_close(struct load *load);
/* {"lora_name"}, by any name that it has. False: `fault`. */
bool unload_read(const json_t *body, const char **ret_name, struct fault *fault);

#endif
