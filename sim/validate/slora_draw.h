/* The requests of an S-LoRA benchmark run, drawn again. Its generator is numpy's legacy RandomState with seed 42: MT19937,
 * the same stream for every row of results, so the very same arrivals, lengths and adapters can be had: what is left to
 * compare is the system. Adapters by the power law, then prompts, outputs and gaps, an array each. */
#ifndef VALIDATE_SLORA_DRAW_H
#define VALIDATE_SLORA_DRAW_H

#include "validate/slora_rows.h"

#define SLORA_SEED 42

struct slora_request {
    int64_t at_ns;
    uint32_t adapter; /* from 1; 0: the base */
    uint32_t prompt_tokens;
    uint32_t output_tokens;
};

/* Fills ret_requests[row->requests]. */
enum status slora_draw(const struct slora_row *row, struct slora_request *ret_requests);

#endif
