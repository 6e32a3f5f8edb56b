/* The dimensions of a model from a Hugging Face config.json, with the defaults that Hugging Face gives absent keys. */
#ifndef SCENARIO_CONFIG_JSON_H
#define SCENARIO_CONFIG_JSON_H

#include <stdio.h>

#include "model/shape.h"

/* Dense decoders only: mixtures of experts, latent attention and encoder-decoders are refused, since their bytes and
 * FLOPs follow other formulas. STATUS_NOT_FOUND, STATUS_IO or STATUS_INVALID with one message on `errors`. */
enum status shape_from_config_json(const char *path, FILE *errors, struct shape *ret_shape);

#endif
