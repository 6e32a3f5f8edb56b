/* safetensors: eight bytes of length N (little-endian), N bytes of JSON, then the tensors' bytes. The format's rules are those of
 * huggingface/safetensors, safetensors/src/tensor.rs; we hold them all and these besides: the header begins with '{', no key stands
 * twice, names are of [A-Za-z0-9_.-] without an empty part between dots. Every number is checked before it is used; a file that is
 * refused leaves nothing behind. Tensors lie at any alignment. */
#ifndef SAFETENSORS_SAFETENSORS_H
#define SAFETENSORS_SAFETENSORS_H

#include <signal.h>

#include "engine/device/dtype.h"
#include "engine/files/refusal.h"

/* What files may hold; only those of enum dtype can be weights. Name in the file, bytes an element. */
#define TENSOR_TYPES(X)                                                                                              \
    X(F64, "F64", 8) X(F32, "F32", 4) X(F16, "F16", 2) X(BF16, "BF16", 2) X(F8_E4M3, "F8_E4M3", 1)                   \
    X(F8_E5M2, "F8_E5M2", 1) X(I64, "I64", 8) X(U64, "U64", 8) X(I32, "I32", 4) X(U32, "U32", 4) X(I16, "I16", 2)    \
    X(U16, "U16", 2) X(I8, "I8", 1) X(U8, "U8", 1) X(BOOL, "BOOL", 1)
enum tensor_type {
#define X(name, text, bytes) TENSOR_##name,
    TENSOR_TYPES(X)
#undef X
    TENSOR_TYPE_COUNT
};
const char *tensor_type_name(enum tensor_type type);
size_t tensor_type_bytes(enum tensor_type type);

#define TENSOR_DIMS_MAX 8

struct tensor {
    const char *name;
    const void *data;
    enum tensor_type type;
    int32_t dims;                   /* 0: one number */
    int64_t shape[TENSOR_DIMS_MAX];
    int64_t count;                  /* product of shape */
    int64_t bytes;
    uint32_t file;                  /* of safetensors_path() */
};

/* False when it is no enum dtype. */
bool tensor_dtype(const struct tensor *tensor, enum dtype *ret_dtype);
/* "[64, 172]"; ret_text has TENSOR_SHAPE_TEXT_MAX bytes and is returned. */
#define TENSOR_SHAPE_TEXT_MAX 128
const char *tensor_shape_text(const struct tensor *tensor, char *ret_text);

/* What a file may hold at most. */
struct safetensors_limits {
    int64_t header_bytes_max;
    int64_t file_bytes_max;
    uint32_t tensors_max;
    uint32_t name_bytes_max;
    bool matrices_only; /* two dimensions, each >= 1, and a dtype of weights */
};
extern const struct safetensors_limits safetensors_limits_base;
extern const struct safetensors_limits safetensors_limits_adapter; /* a tenant's: 1 MiB of header, 8192 matrices, 2 GiB */

struct safetensors; /* one file, or all shards of a model */

/* Mapped read-only: for files of the operator, who does not cut them while they are open. */
enum status safetensors_map(const char *path, const struct safetensors_limits *limits, struct safetensors **ret,
                            struct refusal *refusal);
/* A private copy: for files of tenants. `directory` as in file_open(). */
enum status safetensors_copy(int directory, const char *name, const char *shown, const struct safetensors_limits *limits,
                             struct safetensors **ret, struct refusal *refusal);
/* Bytes that the caller keeps alive and unchanged. */
enum status safetensors_parse(const void *data, int64_t bytes, const char *shown, const struct safetensors_limits *limits,
                              struct safetensors **ret, struct refusal *refusal);
/* A model's folder: model.safetensors.index.json with its shards if it is there, else model.safetensors. Mapped. Every
 * tensor must stand in exactly the shard that the index names, and each shard holds nothing else. */
enum status safetensors_map_model(const char *directory, struct safetensors **ret, struct refusal *refusal);
void safetensors_close(struct safetensors *file); /* NULL is fine */

uint32_t safetensors_count(const struct safetensors *file);
const struct tensor *safetensors_at(const struct safetensors *file, uint32_t index); /* rising by name, bytewise */
const struct tensor *safetensors_find(const struct safetensors *file, const char *name); /* NULL: none */
uint32_t safetensors_files(const struct safetensors *file);
const char *safetensors_path(const struct safetensors *file, uint32_t index);
int64_t safetensors_file_bytes(const struct safetensors *file); /* of all shards */
const char *safetensors_metadata(const struct safetensors *file, const char *key); /* of one file's __metadata__; NULL: none */

/* SHA-256 over the bytes of the files, one after the other in rising order of their names: what `sha256sum` says of one file. Reads
 * all of it, some 1.8 GB a second. `stop` may be NULL; once it is not 0 the digest is given up and STATUS_END comes back. */
#define DIGEST_BYTES 32
enum status safetensors_digest(const struct safetensors *file, const volatile sig_atomic_t *stop, uint8_t ret_digest[DIGEST_BYTES]);
/* 64 hexadecimal digits and a zero; ret_text is returned. */
#define DIGEST_TEXT_MAX 65
const char *digest_text(const uint8_t digest[DIGEST_BYTES], char ret_text[DIGEST_TEXT_MAX]);

/* `fill` writes `bytes` bytes of a tensor, beginning at its byte `offset`; false: stop, something is wrong (or the user
 * wants no more). */
typedef bool safetensors_fill(void *context, const struct tensor *tensor, int64_t offset, void *ret_data, size_t bytes);

/* Names, types and shapes of `tensors` count; where `data` is not NULL it is written, else `fill` is asked, a piece of
 * at most 1 MiB (a multiple of 64 bytes but for the last) at a time, in order. Written sorted by name, the header
 * padded with spaces to a multiple of 8, under a temporary name, then fsync and rename: `path` is either as it was, or
 * whole. STATUS_END: fill stopped it. */
enum status safetensors_write(const char *path, const struct tensor *tensors, uint32_t count, safetensors_fill *fill, void *context,
                              struct refusal *refusal);
/* The same bytes in memory, to be freed; each tensor has its `data`. `__metadata__` says `text` under `key` too; NULL: nothing more. */
enum status safetensors_make(const struct tensor *tensors, uint32_t count, const char *key, const char *text, const char *shown,
                             void **ret_data, size_t *ret_bytes, struct refusal *refusal);

#endif
