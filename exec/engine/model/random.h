/* Models and adapters of random numbers, in the formats of real ones: for benchmarks, and for tests that must not wait
 * for a download. They say nothing sensible, but their activations and logits are of the size that real ones have. A
 * number depends on the seed, its tensor's name and its place, and on nothing else. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include "engine/files/file.h"
#include "engine/model/config.h"

/* name, layers, hidden, heads, kv heads, head size, ffn, vocabulary, positions, tied, what it is like */
#define RANDOM_PRESETS(X)                                                                                   \
    X("15m", 6, 288, 6, 6, 48, 768, 32000, 2048, true, "15 million parameters")                             \
    X("110m", 12, 768, 12, 12, 64, 2048, 32000, 2048, true, "110 million")                                  \
    X("250m", 16, 1024, 16, 8, 64, 2816, 32000, 4096, false, "254 million, grouped-query attention")        \
    X("1b", 22, 2048, 32, 4, 64, 5632, 32000, 4096, false, "1.1 billion, grouped-query attention")

/* A Llama of that size; false: there is no such preset. */
bool random_preset(const char *name, struct model_config *ret_config);

/* Writes config.json, model.safetensors and, where the vocabulary has room for all bytes (259), a byte-level
 * tokenizer.json into a folder that exists. STATUS_END: progress stopped it. progress may be NULL. */
enum status random_model_write(const char *directory, const struct model_config *config, uint64_t seed, enum dtype dtype,
                               file_progress *progress, void *context, struct refusal *refusal);

/* A PEFT adapter of `modules` (bits of enum lora_module) into a folder that exists; alpha is 2 * rank. Its effect is
 * about a tenth of the base's. */
enum status random_adapter_write(const char *directory, const struct model_config *config, int32_t rank,
                                 uint32_t modules, uint64_t seed, enum dtype dtype, const char *base,
                                 struct refusal *refusal);

/* config.json as Hugging Face would write it; free() it. What model_config_parse() makes of it equals `config`. */
char *model_config_text(const struct model_config *config, enum dtype dtype);

#endif
