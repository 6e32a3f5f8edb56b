/* Tensor parallel: one rank's part of a model, as views into the same files. q, k, v, gate, up are cut by rows, o and down by columns
 * (their sums are the only thing ranks exchange); embedding, norms and head are whole on each. Biases of o and down count once, so only
 * rank 0 has them. */
#ifndef MODEL_SHARD_H
#define MODEL_SHARD_H

#include "engine/lora/source.h"
#include "engine/model/weights.h"

struct model_shard {
    struct model_weights weights; /* layer is owned */
};

bool shard_fits(const struct dims *dims, int32_t tp);
struct dims shard_dims(const struct dims *dims, int32_t tp);
enum status shard_open(struct model_shard *shard, const struct model *model, int32_t rank, int32_t tp);
void shard_close(struct model_shard *shard);

/* Whether the module's weight, and with it its A, is cut by columns and its B is whole; else A is whole and B is cut by rows. */
bool shard_by_columns(enum lora_module module);
/* One rank's part of an adapter: A whole and B cut by rows where the weight is cut by rows, A cut by columns and B whole where it is
 * cut by columns. A's columns are copied, the rest are views; `dims` are the whole model's. */
struct lora_shard {
    struct lora_source source;
    struct lora_pair *pairs;
    void *columns;
};
enum status lora_shard_open(struct lora_shard *shard, const struct lora_source *source, const struct dims *dims, int32_t rank, int32_t tp);
void lora_shard_close(struct lora_shard *shard);

#endif
