/* What a kind of store is made of, and the parts of the local one. */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <pthread.h>

#include "store/store.h"

/* Each of store.h's calls without its prefix; names are valid and ranges lie within when they come here. */
struct store_kind {
    enum status (*put_begin)(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                             struct store_put **ret_put, struct refusal *refusal);
    enum status (*put_lend)(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                            struct store_put **ret_put, struct refusal *refusal);
    void (*put_leave)(struct store_put *put);
    enum status (*put_write)(struct store_put *put, const void *bytes, size_t count, struct refusal *refusal);
    int (*put_descriptor)(struct store_put *put);
    enum status (*put_commit)(struct store_put *put, uint64_t *ret_bytes, struct refusal *refusal);
    void (*put_abandon)(struct store_put *put);
    enum status (*get_open)(struct store *store, const char *tenant, const char *object, struct store_get **ret_get,
                            struct refusal *refusal);
    enum status (*get_read)(struct store_get *get, uint64_t offset, void *ret_bytes, size_t count, struct refusal *refusal);
    int (*get_descriptor)(struct store_get *get);
    void (*get_close)(struct store_get *get);
    enum status (*remove)(struct store *store, const char *tenant, const char *object, struct refusal *refusal);
    enum status (*list)(struct store *store, store_visit *visit, void *context, struct refusal *refusal);
    uint64_t (*used_bytes)(struct store *store, const char *tenant);
    void (*close)(struct store *store);
};

/* The first fields of every kind's own. */
struct store {
    const struct store_kind *kind;
};
struct store_put {
    struct store *store;
};
struct store_get {
    struct store *store;
    uint64_t bytes;
};

/* How much each tenant has; one lock. Grows with the number of tenants, which the operator makes. */
struct usage {
    char tenant[NAME_BYTES];
    uint64_t bytes;
};
struct usages {
    pthread_mutex_t mutex;
    struct usage *rows; /* by name */
    size_t count;
    size_t room;
};
void usages_init(struct usages *usages);
void usages_free(struct usages *usages);
/* STATUS_FULL: more than the quota together, and nothing was added. STATUS_IO: no memory. */
enum status usages_add(struct usages *usages, const char *tenant, uint64_t bytes, uint64_t quota_bytes, struct refusal *refusal);
void usages_subtract(struct usages *usages, const char *tenant, uint64_t bytes);
uint64_t usages_of(struct usages *usages, const char *tenant);

/* In a name in writing/: what stands between tenant and object, and in no other. */
#define LENT "."

struct local_store {
    struct store store;
    struct usages usages;
    pthread_mutex_t folders_mutex; /* held while folders are made: one that is there is then on disk */
    _Atomic uint64_t puts;         /* begun, to name what they write */
    int folder;
    int lock;
    int objects;
    int writing;
};

/* TENANT/xx, and TENANT/xx/OBJECT. */
#define PLACE_BYTES (2 * NAME_BYTES + 8)
struct place {
    char folder[PLACE_BYTES];
    char path[PLACE_BYTES];
};
void place_of(const char *tenant, const char *object, struct place *ret_place);

/* The folder under `parent`, made and on disk if it wasn't there; -1: errno. */
int local_make_folder(int parent, const char *name);
enum status local_list(struct store *store, store_visit *visit, void *context, struct refusal *refusal);
void local_close(struct store *store);
/* What the operating system's error means to a person. */
enum status local_refuse(struct refusal *refusal, int code, const char *what);

extern const struct store_kind local_kind;

#endif
