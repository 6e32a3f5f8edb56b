/* A folder of its own for a test, removed with all in it at the end; and a tiny model in it, so that no test depends on files from
 * elsewhere. */
#ifndef TESTS_EXEC_SCRATCH_H
#define TESTS_EXEC_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/files/file.h"
#include "engine/model/random.h"

struct scratch {
    char path[256];
    char at[8][512]; /* the last names made */
    unsigned next;
};

static inline void scratch_begin(struct scratch *scratch)
{
    const char *parent = getenv("TMPDIR");

    memset(scratch, 0, sizeof(*scratch));
    snprintf(scratch->path, sizeof(scratch->path), "%.200s/berth-test-XXXXXX", parent != NULL ? parent : "/tmp");
    check(mkdtemp(scratch->path) != NULL);
}

static inline void scratch_end(struct scratch *scratch)
{
    struct folder folder;

    memset(&folder, 0, sizeof(folder));
    snprintf(folder.temporary, sizeof(folder.temporary), "%s", scratch->path);
    folder_abandon(&folder);
}

/* PATH/NAME; the text lives until eight more were made. */
static inline const char *scratch_at(struct scratch *scratch, const char *name)
{
    char *at = scratch->at[scratch->next++ % 8];

    size_t length = strlen(scratch->path);

    check(length + strlen(name) + 2 <= sizeof(scratch->at[0]));
    memcpy(at, scratch->path, length);
    at[length] = '/';
    strcpy(at + length + 1, name);
    return at;
}

static inline const char *scratch_folder(struct scratch *scratch, const char *name)
{
    const char *at = scratch_at(scratch, name);

    check(mkdir(at, 0755) == 0);
    return at;
}

static inline void scratch_write(struct scratch *scratch, const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(scratch_at(scratch, name), "wb");

    check(file != NULL);
    check(fwrite(data, 1, bytes, file) == bytes);
    check(fclose(file) == 0);
}

static inline void scratch_text(struct scratch *scratch, const char *name, const char *text)
{
    scratch_write(scratch, name, text, strlen(text));
}

/* Grouped queries, sizes that are no multiple of anything, an own head. */
static inline struct model_config tiny_config(enum model_family family)
{
    struct model_config config = {
        .family = family,
        .dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 10, .ffn = 36, .vocabulary = 288, .layers = 3},
        .norm_eps = 1e-5f,
        .positions_max = 128,
        .rope = {.theta = 10000, .factor = 1},
        .bos = 1,
        .eos_count = 1,
        .eos = {2}};

    config.qkv_bias = family == FAMILY_QWEN2;
    config.qk_norm = family == FAMILY_QWEN3;
    return config;
}

static inline void tiny_model(const char *directory, const struct model_config *config, uint64_t seed, enum dtype dtype)
{
    struct refusal refusal;

    check(random_model_write(directory, config, seed, dtype, NULL, NULL, &refusal) == STATUS_OK);
}

static inline void tiny_adapter(const char *directory, const struct model_config *config, int32_t rank,
                                uint32_t modules, uint64_t seed, enum dtype dtype)
{
    struct refusal refusal;

    check(random_adapter_write(directory, config, rank, modules, seed, dtype, "tiny", &refusal) == STATUS_OK);
}

#endif
