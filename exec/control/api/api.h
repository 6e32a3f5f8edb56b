/* The control plane's API: OpenAI's paths over the HTTP floor, on metadata, vault and store. A request is answered by a thread of a pool,
 * which may wait for the disk; the HTTP thread never does. Whoever asks is known by key, and gets what is the own tenant's alone:
 * another's thing and no thing are one 404. Keys, names and contents of tenants are in no log. */
#ifndef API_API_H
#define API_API_H

#include "control/driver/driver.h"
#include "control/http/http.h"
#include "control/metadata/writer.h"
#include "crypto/vault.h"
#include "engine/tokenizer/tokenizer.h"
#include "store/store.h"

/* Of one file. */
#define API_FILE_BYTES_MAX (UINT64_C(512) << 20)
/* Uploads and downloads that run at once; of one tenant. */
#define API_TRANSFERS_MAX 64
#define API_TENANT_TRANSFERS_MAX 16

struct api_config {
    const char *address;
    uint16_t port;
    int listener;                 /* as http_config.listener; 0: none */
    const char *certificate_file; /* both or neither */
    const char *key_file;
    struct meta_options metadata; /* for connections that read; its key is not kept */
    struct meta_writer *writer;   /* what follows outlives the API */
    struct vault *vault;
    struct store *store;
    struct driver *driver;        /* NULL: files and jobs wait for one */
    struct core *core;            /* NULL: no model answers */
    const struct core_base *bases; /* the core's, by its index */
    const struct tokenizer *const *tokenizers; /* [bases_count] */
    uint32_t bases_count;
    int adapters_folder;          /* open; adapters of a tenant's lie in a folder of its slug there. 0: such that were made elsewhere are not taken */
    void (*log)(void *context, const char *line); /* as http_config.log, and for what failed here */
    void *log_context;
};
struct api;
/* Objects that a killed predecessor left half-made are destroyed first; it answers when this returns. */
enum status api_open(const struct api_config *config, struct api **ret_api, struct refusal *refusal);
uint16_t api_port(const struct api *api);
/* Lets what runs end for `within_ms`. NULL is fine. */
void api_close(struct api *api, uint32_t within_ms);

#endif
