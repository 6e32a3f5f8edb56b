/* A model's shape out of the config.json that lies beside its weights, as Hugging Face's transformers write it.
 * Knows decoders of the Llama family (gated FFN, multi-head or grouped-query attention, dense), also nested under
 * "text_config"; refuses by name what it would reckon wrongly: experts, latent attention, ungated FFNs, encoders. */
#ifndef ESTIMATE_CONFIG_JSON_H
#define ESTIMATE_CONFIG_JSON_H

#include <stdio.h>

#include "model/shape.h"

/* On failure says on `errors` which file and field, and why. STATUS_IO: unreadable; STATUS_CORRUPT: not JSON;
 * STATUS_INVALID: not a shape. The name is the file's "_name_or_path", its "model_type", or its path; no nominal size is stated. */
enum status config_json_read(const char *path, FILE *errors, struct shape *ret_shape);

/* The same from text; `path` is for messages. */
enum status config_json_parse(const char *text, const char *path, FILE *errors, struct shape *ret_shape);

#endif
