/* A base with an adapter folded into its weights: W + scale * B A, reckoned in double and rounded once to the base's dtype, so that
 * such a model needs no adapter any more, and can carry others. */
#ifndef LORA_MERGE_H
#define LORA_MERGE_H

#include "engine/files/file.h"
#include "engine/lora/peft.h"
#include "engine/model/weights.h"

/* Writes all tensors of the base, the adapted ones merged, as one safetensors file. progress may be NULL. STATUS_END:
 * it said stop. */
enum status lora_merge(const struct model *model, const struct lora_source *source, const char *path,
                       file_progress *progress, void *context, struct refusal *refusal);

/* What a folder of a model holds beside its weights (configuration, tokenizer), copied; what is not there is passed over. */
enum status lora_merge_copy(const char *from_directory, const char *to_directory, struct refusal *refusal);

#endif
