#include "model/training_work.h"

#include "model/footprint.h"

#define F32 4.0

/* What all counts are made of. */
struct widths {
    double rows;
    double hidden, query, key, ffn, vocabulary;
    double act, weight;    /* bytes */
    double layers;
    double ranks;          /* of all jobs: what of A and B is read */
    double rank;           /* of one: what a token is multiplied with */
};

static struct widths widths_of(const struct shape *shape, const struct training_plan *plan)
{
    return (struct widths){
        .rows = plan->rows,
        .hidden = shape->hidden,
        .query = (double)shape->heads * shape->head_dim,
        .key = (double)shape->kv_heads * shape->head_dim,
        .ffn = shape->ffn,
        .vocabulary = shape->vocabulary,
        .act = plan->act_bytes,
        .weight = shape->weight_bits / 8.0,
        .layers = shape->layers,
        .ranks = (double)plan->jobs * plan->rank,
        .rank = plan->rank,
    };
}

static void add(struct training_cost *to, double flops, double bytes)
{
    to->flops += flops;
    to->bytes += bytes;
}

/* Weights that share an input, and their modules. */
struct group { double in, out, modules; };
enum { GROUPS = 4, GROUPS_AGAIN = 3 };

static void groups_of(const struct widths *w, struct group ret_group[GROUPS])
{
    ret_group[0] = (struct group){w->hidden, w->query + 2 * w->key, 3};
    ret_group[1] = (struct group){w->query, w->hidden, 1};
    ret_group[2] = (struct group){w->hidden, 2 * w->ffn, 2};
    ret_group[3] = (struct group){w->ffn, w->hidden, 1};
}

/* y f32 = W x, and y += B (A x). */
static void linear_there(const struct widths *w, const struct group *group, struct training_cost *ret_cost)
{
    const double narrow = group->modules * group->in; /* A's columns, all modules' */

    add(&ret_cost[TRAINING_LINEAR], w->layers * 2 * w->rows * group->in * group->out,
        w->layers * (group->in * group->out * w->weight + w->rows * (group->in * w->act + group->out * F32)));
    add(&ret_cost[TRAINING_ADAPTERS], w->layers * 2 * w->rows * w->rank * (narrow + group->out),
        w->layers * (w->ranks * (narrow + group->out) * w->act + w->rows * (group->in * w->act + group->out * 2 * F32)));
}

/* dx f32 = dy W; du = dy B, dx += du A, A x again, and the two gradients, f32, added to. */
static void linear_back(const struct widths *w, const struct group *group, struct training_cost *ret_cost)
{
    const double narrow = group->modules * group->in;

    add(&ret_cost[TRAINING_LINEAR], w->layers * 2 * w->rows * group->in * group->out,
        w->layers * (group->in * group->out * w->weight + w->rows * (group->out * w->act + group->in * F32)));
    add(&ret_cost[TRAINING_ADAPTERS], w->layers * 2 * w->rows * w->rank * (3 * narrow + 2 * group->out),
        w->layers * (w->ranks * ((2 * narrow + group->out) * w->act + (narrow + group->out) * 2 * F32) +
                     w->rows * (2 * group->out * w->act + group->in * (2 * w->act + 2 * F32))));
}

static void attend(const struct widths *w, double keys, struct training_cost *ret_there, struct training_cost *ret_back)
{
    const double product = w->layers * w->rows * 2 * w->query * keys;
    const double turned = w->query + 2 * w->key;

    *ret_there = (struct training_cost){2 * product, w->layers * w->rows * (turned + w->query) * w->act};
    *ret_back = (struct training_cost){5 * product, w->layers * w->rows * (turned * (w->act + F32) + w->query * F32)};
}

/* In pieces, each of which reads the weights; the loss reads logits and writes their gradient. */
static void head(const struct widths *w, double pieces, struct training_cost *ret_there, struct training_cost *ret_back)
{
    const double flops = 2 * w->rows * w->hidden * w->vocabulary;
    const double weights = pieces * w->hidden * w->vocabulary * w->weight;

    *ret_there = (struct training_cost){flops, weights + w->rows * (w->hidden * w->act + w->vocabulary * (2 * F32 + w->act))};
    *ret_back = (struct training_cost){flops, weights + w->rows * (w->vocabulary * w->act + w->hidden * F32)};
}

/* Bytes of one layer's row by row: two norms, SwiGLU; and what else a whole layer has, turning and the stream's copies. */
static double norms_bytes(const struct widths *w)
{
    return w->rows * (2 * w->hidden * (3 * F32 + w->act) + w->ffn * (2 * F32 + w->act));
}

static double turning_bytes(const struct widths *w)
{
    return w->rows * ((w->query + 2 * w->key) * (F32 + w->act) + 2 * w->hidden * 2 * F32);
}

static double rows_back_bytes(const struct widths *w)
{
    const double norms = 2 * w->hidden * (4 * F32 + w->act);
    const double swiglu = w->ffn * (3 * F32 + 2 * w->act);

    return w->rows * (norms + swiglu + (w->query + 2 * w->key) * (F32 + w->act));
}

struct training_work training_work(const struct shape *shape, const struct training_plan *plan)
{
    const struct widths w = widths_of(shape, plan);
    struct training_work work = {0};
    struct training_cost *there = work.cost[TRAINING_THERE];
    struct training_cost *again = work.cost[TRAINING_AGAIN];
    struct training_cost *back = work.cost[TRAINING_BACK];
    struct group group[GROUPS];

    check(!shape->averaged);
    check(plan->rows >= 1 && plan->sample_rows >= 1 && plan->head_rows >= 1);
    groups_of(&w, group);
    for (int i = 0; i < GROUPS; i++) {
        linear_there(&w, &group[i], there);
        linear_back(&w, &group[i], back);
    }
    attend(&w, (plan->sample_rows + 1) / 2.0, &there[TRAINING_ATTEND], &back[TRAINING_ATTEND]);
    head(&w, (double)div_up_u64(plan->rows, plan->head_rows), &there[TRAINING_HEAD], &back[TRAINING_HEAD]);
    there[TRAINING_ROWS].bytes = w.layers * (norms_bytes(&w) + turning_bytes(&w));
    back[TRAINING_ROWS].bytes = w.layers * rows_back_bytes(&w);
    /* Parameter, two moments: read and written; gradient: read. */
    back[TRAINING_UPDATE].bytes = 7 * F32 * plan->jobs * (double)footprint_adapter_parameters(shape, LORA_ALL_LINEAR, plan->rank);
    if (plan->kept == TRAINING_KEEPS_DEAR)
        again[TRAINING_ROWS].bytes = w.layers * norms_bytes(&w);
    if (plan->kept == TRAINING_KEEPS_INPUTS) {
        for (int i = 0; i < GROUPS_AGAIN; i++)
            linear_there(&w, &group[i], again);
        again[TRAINING_ATTEND] = there[TRAINING_ATTEND];
        again[TRAINING_ROWS] = there[TRAINING_ROWS];
    }
    return work;
}

double training_work_s(const struct training_work *work, double flops_per_s, double bytes_per_s)
{
    double all_s = 0;

    check(flops_per_s > 0 && bytes_per_s > 0);
    for (int way = 0; way < TRAINING_WAYS_COUNT; way++)
        for (int op = 0; op < TRAINING_OPS_COUNT; op++) {
            const double flops_s = work->cost[way][op].flops / flops_per_s;
            const double bytes_s = work->cost[way][op].bytes / bytes_per_s;

            all_s += flops_s > bytes_s ? flops_s : bytes_s;
        }
    return all_s;
}

double training_work_flops(const struct training_work *work)
{
    double flops = 0;

    for (int way = 0; way < TRAINING_WAYS_COUNT; way++)
        for (int op = 0; op < TRAINING_OPS_COUNT; op++)
            flops += work->cost[way][op].flops;
    return flops;
}
