/* A LoRA adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors in one folder. It may be a
 * tenant's, so it is read into memory of our own, once, and everything is checked before anything is used: what we
 * would compute differently from PEFT, or not at all, is refused with the whole list of what is wrong. An adapter that
 * is taken changes exactly the modules that it says.
 *
 * Taken: LORA with r, lora_alpha, use_rslora, rank_pattern, alpha_pattern, layers_to_transform (with layers_pattern
 * "layers" or none), exclude_modules as a list; target_modules as a list of names or path endings, a regular expression
 * (PCRE2), or "all-linear". Refused: DoRA, modules_to_save, bias, lora_bias, fan_in_fan_out, layer_replication,
 * target_parameters, trainable tokens, other tensors, pickles, modules other than the seven of LORA_MODULES, a rank
 * above the caller's maximum, numbers that are not finite. */
#ifndef LORA_PEFT_H
#define LORA_PEFT_H

#include "engine/lora/source.h"
#include "engine/model/config.h"
#include "engine/safetensors/safetensors.h"

#define PEFT_CONFIG_BYTES_MAX (256 << 10)
#define PEFT_BASE_BYTES 256

struct peft {
    struct lora_source source;
    int32_t rank_stated;         /* "r" */
    double alpha_stated;         /* "lora_alpha" */
    char base_stated[PEFT_BASE_BYTES]; /* "base_model_name_or_path"; "": none, or one that is longer */
    bool rslora;
    int32_t layers_adapted;
    uint32_t tensors;
    int64_t file_bytes;          /* of adapter_model.safetensors */
    int64_t tensor_bytes;
    uint8_t digest[DIGEST_BYTES];
    struct safetensors *file;
    struct lora_pair *pairs;     /* what source.pair points to */
};

/* rank_max: 1 .. LORA_RANK_MAX. STATUS_NOT_FOUND: no such folder, or no adapter in it. STATUS_INVALID: refused.
 *
 * The digest is the adapter's identity: two folders have the same one exactly if they change a base's numbers in the
 * same way by the same bytes. SHA-256 over "berth lora 1\n", then for each pair in order of layers and of LORA_MODULES,
 * little-endian: u32 layer, u32 module, u32 rank, u32 in, u32 out, u32 bits of the scale as f32, u32 a_dtype, u32
 * b_dtype, the bytes of A, the bytes of B. Names, order in the file, metadata and fields without effect on the numbers
 * are not in it. */
enum status peft_open(const char *directory, const struct model_config *config, int32_t rank_max, struct peft **ret_peft,
                      struct refusal *refusal);
/* The same of an open folder, which stays the caller's; `shown` is its name in messages. */
enum status peft_open_at(int directory, const char *shown, const struct model_config *config, int32_t rank_max,
                         struct peft **ret_peft, struct refusal *refusal);
/* One file in place of the two: the tensors', whose __metadata__ has adapter_config.json's text under this key. So an object of a store is
 * one adapter. `data` stays the caller's, unchanged until peft_close(); limits are those of a folder's file. */
#define PEFT_CONFIG_KEY "adapter_config"
enum status peft_open_bytes(const void *data, int64_t bytes, const char *shown, const struct model_config *config, int32_t rank_max,
                            struct peft **ret_peft, struct refusal *refusal);
/* The folder's two files as bytes, under the same rules. */
struct peft_parts {
    const char *config;
    int64_t config_bytes;
    const void *tensors;         /* the caller's until peft_close() */
    int64_t tensors_bytes;
};
enum status peft_open_parts(const struct peft_parts *parts, const struct model_config *config, int32_t rank_max, struct peft **ret_peft,
                            struct refusal *refusal);
void peft_close(struct peft *peft); /* NULL is fine */

/* The least dimensions that the tensors of an adapter fit, for looking at one without its base: layers up to the
 * highest named, heads of size 1. What no tensor tells is 1. Whether it all agrees is for peft_open to say. */
enum status peft_infer_dims(const char *directory, struct dims *ret_dims, struct refusal *refusal);

/* The scale as peft_open reckons it. */
double peft_scale(double alpha, int32_t rank, bool rslora);

/* Writes both files into a folder that exists, each under a temporary name first. Plain fields where they say it all: pairs that
 * have another rank or scale than the source's rank and `alpha` say have theirs in rank_pattern and alpha_pattern, by path, and where a module is not
 * adapted in all layers target_modules are paths. a_dtype and b_dtype are written as they are. `base`: base_model_name_or_path.
 */
struct peft_write {
    const struct lora_source *source;
    const struct dims *dims;
    double alpha;
    bool rslora;
    const char *base;
};
enum status peft_write(const char *directory, const struct peft_write *write, struct refusal *refusal);
/* As peft_open_bytes() reads it, in memory to be freed; `shown` is its name in messages. It has the folder's digest. */
enum status peft_write_bytes(const struct peft_write *write, const char *shown, void **ret_data, size_t *ret_bytes,
                             struct refusal *refusal);

#endif
