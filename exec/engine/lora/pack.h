/* From matrices to the one blob that lies in a pool: lora_layout_of() in ops/values.h says where everything is. Rank is
 * padded to a multiple of 16 with zeros, a pair of smaller rank likewise, an absent pair is all zeros. Each value of B
 * is multiplied by its pair's scale in f32, then rounded once; A is rounded once. */
#ifndef LORA_PACK_H
#define LORA_PACK_H

#include "engine/lora/source.h"

/* lora_packed_bytes() of the source's padded rank and modules. */
int64_t lora_pack_bytes(const struct lora_source *source, const struct dims *dims, enum mode mode);

/* ret_blob: lora_pack_bytes() bytes, every one of which is written. b_in_pairs (struct device): B of bf16 is
 * [r/2][out][2]; in exact mode it is [out][r] whatever that says. */
void lora_pack(const struct lora_source *source, const struct dims *dims, enum mode mode, bool b_in_pairs, void *ret_blob);

#endif
