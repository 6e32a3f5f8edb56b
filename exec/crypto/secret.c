#include "crypto/secret.h"

#include <errno.h>
#include <sodium.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static atomic_bool unlocked;

void *secret_alloc(size_t bytes)
{
    void *secret;

    check(sodium_init() >= 0);
    secret = sodium_malloc(bytes);
    if (secret == NULL)
        return NULL;
    /* sodium_malloc() locks too, but keeps to itself whether that worked. */
    if (sodium_mlock(secret, bytes) != 0)
        atomic_store(&unlocked, true);
    memset(secret, 0, bytes);
    return secret;
}

void secret_free(void *secret)
{
    sodium_free(secret);
}

bool secrets_are_locked(void)
{
    return !atomic_load(&unlocked);
}

enum status secrets_harden_process(struct refusal *refusal)
{
    const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return refuse(refusal, STATUS_IO, "core dumps cannot be turned off: %s", strerror(errno));
    return STATUS_OK;
}
