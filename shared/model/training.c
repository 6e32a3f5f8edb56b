#include "model/training.h"

#include "model/footprint.h"

#define BLOCK_TOKENS 16 /* of keys and values, as in serving */

struct shape training_part(const struct shape *shape, uint32_t tp)
{
    struct shape part = *shape;

    check(!shape->averaged);
    check(tp >= 1 && shape->heads % tp == 0 && shape->kv_heads % tp == 0 && shape->ffn % tp == 0);
    part.heads /= tp;
    part.kv_heads /= tp;
    part.ffn /= tp;
    return part;
}

static uint64_t piece(uint64_t bytes)
{
    return div_up_u64(bytes, 256) * 256;
}

static uint64_t matrix(uint64_t rows, uint64_t columns, const struct training_plan *plan)
{
    return div_up_u64(rows * columns * plan->act_bytes, 64) * 64;
}

/* A layer's packed matrices: A of modules that share an input lies together; each run begins at a multiple of 64. */
static uint64_t packed_layer(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t query = (uint64_t)shape->heads * shape->head_dim;
    const uint64_t key = (uint64_t)shape->kv_heads * shape->head_dim;
    const uint64_t rank = plan->rank;
    const uint64_t a = matrix(3 * rank, shape->hidden, plan) + matrix(rank, query, plan) + matrix(2 * rank, shape->hidden, plan) +
                       matrix(rank, shape->ffn, plan);
    const uint64_t b = matrix(rank, query, plan) + 2 * matrix(rank, key, plan) + 2 * matrix(rank, shape->hidden, plan) +
                       2 * matrix(rank, shape->ffn, plan);

    return a + b;
}

static uint64_t stream_bytes(const struct shape *shape, const struct training_plan *plan)
{
    return shape->layers * piece((uint64_t)plan->rows * shape->hidden * 4);
}

static uint64_t kept_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t rows = plan->rows;
    const uint64_t query = (uint64_t)shape->heads * shape->head_dim;
    const uint64_t key = (uint64_t)shape->kv_heads * shape->head_dim;
    const uint64_t tokens = (1 + rows / BLOCK_TOKENS + plan->samples) * BLOCK_TOKENS; /* in blocks, one of them for padding */
    const uint64_t dear = (plan->normed_heads ? piece(rows * (query + 2 * key) * 4) : 0) + 2 * piece(rows * query * plan->act_bytes) +
                          2 * piece(tokens * key * plan->act_bytes) + piece(rows * shape->hidden * 4) +
                          piece(rows * 2 * shape->ffn * 4);
    const uint64_t cheap = 2 * piece(rows * shape->hidden * plan->act_bytes) + piece(rows * shape->ffn * plan->act_bytes);
    const uint64_t dear_copies = plan->kept == TRAINING_KEEPS_INPUTS ? 1 : shape->layers;
    const uint64_t cheap_copies = plan->kept == TRAINING_KEEPS_ALL ? shape->layers : 1;

    return dear_copies * dear + cheap_copies * cheap;
}

static uint64_t working_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t rows = plan->rows;
    const uint64_t hidden = shape->hidden;
    const uint64_t query = (uint64_t)shape->heads * shape->head_dim;
    const uint64_t qkv = query + 2 * (uint64_t)shape->kv_heads * shape->head_dim;

    return 2 * piece(rows * hidden * 4) + 2 * piece(rows * hidden * plan->act_bytes) +            /* the last stream, the gradient's */
           piece(rows * max_u64(qkv, hidden) * 4) +                                              /* what a linear layer gives */
           piece(rows * max_u64(max_u64(shape->ffn, query), hidden) * 4) +                       /* gradient of its input */
           piece(rows * max_u64(2 * (uint64_t)shape->ffn, qkv) * plan->act_bytes) +              /* and of its output */
           piece((uint64_t)plan->sample_rows * shape->head_dim * 4);                             /* angles of positions */
}

static uint64_t batch_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t rows = plan->rows;
    const uint64_t tiles = rows / 16 + plan->jobs + 1;

    return 7 * piece(rows * 4) +                                                 /* token, position, output; target, weight, log p, best */
           piece((uint64_t)plan->samples * div_up_u64(plan->sample_rows, BLOCK_TOKENS) * 4) + /* tables of blocks */
           piece((uint64_t)plan->samples * 16) + piece(((uint64_t)plan->jobs + 1) * 12) + piece(tiles * 12) +
           piece((rows / plan->head_rows + 1) * 20) + piece(20) + piece(8) + piece(32) + /* counts; sums */
           piece((uint64_t)shape->layers * 7 * plan->jobs * 24) + piece((uint64_t)plan->jobs * 24);
}

/* --- ops -------------------------------------------------------------------------------------------------------------------- */

/* As devices count: never nothing. */
static uint64_t taken(uint64_t bytes)
{
    return (bytes / 256 + 1) * 256;
}

static uint64_t lines(uint64_t bytes)
{
    return div_up_u64(bytes, 64) * 64;
}

#define PIECE_ROWS 64          /* whose gradients are summed at once */
#define PANEL_COLUMNS 32
#define PANELS_BYTES 540672    /* of a weight's rows, packed, and of a piece of gradients */
#define SERVING_PART_BYTES 56  /* bookkeeping of one module of one segment, there and back */
#define BACK_PART_BYTES 88

/* One thread's: the most of attention there, attention back, and linear layers back. */
static uint64_t thread_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t d = shape->head_dim;
    const uint64_t d16 = div_up_u64(d, 16) * 16;
    const uint64_t d32 = div_up_u64(d, PANEL_COLUMNS) * PANEL_COLUMNS;
    const uint64_t keys = div_up_u64(plan->sample_rows, PANEL_COLUMNS) * PANEL_COLUMNS;
    const uint64_t out = max_u64(max_u64((uint64_t)shape->heads * d, shape->ffn), shape->hidden);
    const uint64_t serving = 4 * max_u64(32 * d16 + 32 * (d16 + 48), PIECE_ROWS * (uint64_t)plan->rank);
    const uint64_t linear = 4 * PIECE_ROWS * max_u64(plan->rank, PIECE_ROWS) + max_u64(PANELS_BYTES, 4 * plan->rank * out);
    const uint64_t attend = 6 * lines(4 * keys * d) + lines(4 * keys * d32) + 4 * lines(4 * PIECE_ROWS * keys) +
                            2 * lines(4 * PIECE_ROWS * d) + lines(4 * PIECE_ROWS * d32);

    return piece(max_u64(max_u64(serving, linear), attend));
}

static uint64_t cpu_ops_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t rows = plan->rows;

    return taken(plan->threads * thread_bytes(shape, plan)) +
           taken((uint64_t)plan->head_rows * shape->hidden * plan->act_bytes) + taken((uint64_t)plan->head_rows * shape->hidden * 4) +
           4 * taken(rows * 3 * plan->rank * plan->act_bytes) +  /* A x and dy B, each as it is and turned over */
           taken(3 * rows * SERVING_PART_BYTES) + taken(3 * rows * BACK_PART_BYTES) + taken(rows * 4) + taken(1024 * 8);
}

#define SPLIT_KEYS 512         /* of attention; each split of a row leaves a result to be joined */
#define SPLITS_BYTES ((uint64_t)64 << 20)

static uint64_t gpu_ops_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t rows = plan->rows;
    const uint64_t item = (uint64_t)shape->heads * div_up_u64(plan->sample_rows, SPLIT_KEYS);
    const uint64_t items = min_u64(max_u64(SPLITS_BYTES / (item * shape->head_dim * 4), 1), rows);
    const uint64_t heads = rows * shape->heads;

    return taken(items * item * shape->head_dim * 4) + taken(items * item * 8) + taken(8 * rows * 3 * plan->rank * 4) +
           2 * taken(rows * 3 * plan->rank * plan->act_bytes) + taken((uint64_t)plan->head_rows * shape->hidden * plan->act_bytes) +
           taken(heads * 8) + taken(plan->act_bytes == 2 ? heads * shape->head_dim * 2 : 0) + /* attention's way back */
           taken((uint64_t)4 << 20) + taken(0) + taken(1024 * 8);
}

struct training_memory training_memory(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t logits = (uint64_t)plan->head_rows * shape->vocabulary;
    struct training_memory memory = {
        .adapters = piece(plan->jobs * piece(shape->layers * packed_layer(shape, plan))),
        .stream = stream_bytes(shape, plan),
        .kept = kept_bytes(shape, plan),
        .working = working_bytes(shape, plan),
        .head = piece(logits * 4) + piece(logits * plan->act_bytes),
        .batch = batch_bytes(shape, plan),
        .ops = plan->threads == 0 ? gpu_ops_bytes(shape, plan) : cpu_ops_bytes(shape, plan),
    };

    check(!shape->averaged);
    check(plan->rows >= 1 && plan->head_rows >= 1);
    memory.total = memory.adapters + memory.stream + memory.kept + memory.working + memory.head + memory.batch + memory.ops;
    return memory;
}

uint64_t training_job_bytes(const struct shape *shape, uint32_t modules, uint32_t rank)
{
    return 4 * piece(4 * footprint_adapter_parameters(shape, modules, rank));
}

uint64_t training_host_bytes(const struct shape *shape, uint32_t modules, uint32_t rank, uint32_t act_bytes)
{
    return 5 * 4 * footprint_adapter_parameters(shape, modules, rank) + footprint_adapter_packed_bytes(shape, modules, rank, act_bytes);
}

uint64_t training_full_bytes(const struct shape *shape, const struct training_plan *plan)
{
    const uint64_t parameters = footprint_parameters(shape);

    return 4 * piece(4 * parameters) + (plan->act_bytes == 2 ? piece(2 * parameters) : 0);
}
