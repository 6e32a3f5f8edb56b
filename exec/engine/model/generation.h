/* generation_config.json: at which ids a model's answers end. */
#ifndef MODEL_GENERATION_H
#define MODEL_GENERATION_H

#include "engine/model/config.h"

/* The file's eos_token_id; where there is no file, or it says none, config.json's. ret_ids has MODEL_EOS_MAX. */
enum status generation_ends(const char *directory, const struct model_config *config, int32_t *ret_ids, int32_t *ret_count,
                            struct refusal *refusal);

#endif
