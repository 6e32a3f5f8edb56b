/* Bounds are those of cases.c: 4 sqrt(k) 2^-24 of the sum of k products' sizes, and half an ulp a side. */
#include "cases_train.h"

#include <math.h>
#include <stdlib.h>

#include "both.h"
#include "cases.h"
#include "cases_back.h"
#include "engine/ops/ref/train.h"

#define EPS 1e-5f

/* Ids of outputs' targets, on both sides. */
static struct both targets_drawn(struct world *world)
{
    struct both both = {.bytes = (size_t)world->host.max.outputs * sizeof(int32_t)};
    int32_t *ids = calloc((size_t)world->host.max.outputs + 1, sizeof(*ids));

    for (int32_t i = 0; i < world->host.max.outputs; i++)
        ids[i] = (int32_t)(world_draw(&world->draws) % (uint64_t)world->ask.dims.vocabulary);
    both.host = ids;
    both.device = world_give(world, ids, both.bytes);
    return both;
}

/* As it is drawn, and with ties, numbers that are none, and nothing else. */
static struct both logits_drawn(struct world *world)
{
    const int32_t vocabulary = world->ask.dims.vocabulary;
    struct both logits = both_drawn(world, DTYPE_F32, (int64_t)world->host.max.outputs * vocabulary);

    for (int32_t output = 0; output < world->now.outputs; output++) {
        float *row = (float *)logits.host + (int64_t)output * vocabulary;

        if (output % 4 == 1)
            row[vocabulary / 2] = row[vocabulary / 3] = 2;
        for (int32_t i = 0; i < vocabulary && output % 8 == 6; i++)
            row[i] = i % 3 == 0 ? NAN : output % 16 == 6 ? -INFINITY : row[i];
    }
    world->device->put(world->dev, LANE_COMPUTE, logits.device, logits.host, logits.bytes);
    return logits;
}

static const char *best_compare(struct world *world, const struct both *best)
{
    int32_t *got = fetched(world, best);
    const char *answer = NULL;

    for (int32_t i = 0; i < world->host.max.outputs && answer == NULL; i++)
        if (got[i] != ((int32_t *)best->host)[i])
            answer = wrong("loss's best of output %d: got %d, want %d", i, got[i], ((int32_t *)best->host)[i]);
    free(got);
    return answer;
}

/* A row with a number that is none has no loss, which must show. */
static const char *logp_compare(struct world *world, const struct both *logp, double sums)
{
    const float *want = logp->host, bound = 1;
    float *got = fetched(world, logp);
    const char *answer = still_nan("loss", DTYPE_F32, got, world->now.outputs, world->host.max.outputs, 1);

    for (int32_t i = 0; i < world->now.outputs && answer == NULL; i++)
        answer = isnan(want[i]) ? still_nan("loss", DTYPE_F32, got, i, i + 1, 1) : compare("loss", DTYPE_F32, got + i, want + i, &bound, sums, 1, 1);
    free(got);
    return answer;
}

static const char *loss_compare(struct world *world, const struct both *logp, const struct both *dlogits, const float *coef,
                                const int32_t *target)
{
    const int32_t vocabulary = world->ask.dims.vocabulary, outputs = world->now.outputs, most = world->host.max.outputs;
    /* exp's argument is rounded, its sum too, which is a relative error of p and one of log p without regard to its size. */
    const double sums = (4 * sqrt(vocabulary) + 16) * 0x1p-24;
    float *bound = malloc(((size_t)most * (size_t)vocabulary + 1) * sizeof(*bound));
    void *got = fetched(world, dlogits);
    const char *answer = logp_compare(world, logp, sums);

    for (int64_t i = 0; coef != NULL && i < (int64_t)outputs * vocabulary; i++)
        bound[i] = i % vocabulary == target[i / vocabulary] ? coef[i / vocabulary] : dtype_load(world_act(world), dlogits->host, (size_t)i);
    for (int32_t i = 0; i < outputs && coef != NULL && answer == NULL; i++) {
        const size_t at = (size_t)i * (size_t)vocabulary;

        if (!isnan(((float *)logp->host)[i]))
            answer = compare("loss's dlogits", world_act(world), (char *)got + at * dtype_bytes(world_act(world)),
                             (char *)dlogits->host + at * dtype_bytes(world_act(world)), bound + at, sums, vocabulary, vocabulary);
    }
    if (answer == NULL)
        answer = still_nan("loss's dlogits", world_act(world), got, coef == NULL ? 0 : (int64_t)outputs * vocabulary,
                           (int64_t)most * vocabulary, vocabulary);
    free(got);
    free(bound);
    return answer;
}

const char *case_loss(struct world *world)
{
    const int32_t vocabulary = world->ask.dims.vocabulary, most = world->host.max.outputs;
    struct both logits = logits_drawn(world), coef = both_drawn(world, DTYPE_F32, most);
    struct both target = targets_drawn(world);
    const char *answer = NULL;

    for (int with_coef = 0; with_coef < 2 && answer == NULL; with_coef++) {
        struct both logp = both_nan(world, DTYPE_F32, most), dlogits = both_nan(world, world_act(world), (int64_t)most * vocabulary);
        struct both best = both_nan(world, DTYPE_F32, most);

        train_ops_ref.loss(&world->host_dev, logp.host, best.host, dlogits.host, logits.host, target.host, with_coef ? coef.host : NULL, &world->host);
        world->train->loss(world->dev, logp.device, best.device, dlogits.device, logits.device, target.device,
                           with_coef ? coef.device : NULL, &world->batch);
        answer = loss_compare(world, &logp, &dlogits, with_coef ? coef.host : NULL, target.host);
        answer = answer != NULL ? answer : best_compare(world, &best);
        both_free(world, &best);
        both_free(world, &logp);
        both_free(world, &dlogits);
    }
    both_free(world, &logits);
    both_free(world, &coef);
    both_free(world, &target);
    return answer;
}

/* Whether `both` is as its definition up to `now` and as it was beyond. */
static const char *compare_rows(struct world *world, const char *op, enum dtype dtype, const struct both *both, float bound, double factor,
                                int64_t now, int32_t width)
{
    float *bounds = malloc(((size_t)now + 1) * sizeof(*bounds));
    void *got = fetched(world, both);
    const char *answer;

    for (int64_t i = 0; i < now; i++)
        bounds[i] = bound;
    answer = compare(op, dtype, got, both->host, bounds, factor, now, width);
    if (answer == NULL && memcmp((char *)got + (size_t)now * dtype_bytes(dtype), (char *)both->host + (size_t)now * dtype_bytes(dtype),
                                 both->bytes - (size_t)now * dtype_bytes(dtype)) != 0)
        answer = wrong("%s: what is beyond the batch was written", op);
    free(got);
    free(bounds);
    return answer;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */
/* dx, its rounded copy and dgain, each where it is wanted. */
static const char *norm_back_try(struct world *world, bool with_act, bool with_gain)
{
    const int32_t hidden = world->ask.dims.hidden;
    const int64_t count = (int64_t)world->host.max.rows * hidden, now = (int64_t)world->now.rows * hidden;
    struct both dx = both_drawn(world, DTYPE_F32, count), dy = both_drawn(world, DTYPE_F32, count), x = both_drawn(world, DTYPE_F32, count);
    struct both ret_dx = both_nan(world, world_act(world), count), dgain = both_drawn(world, DTYPE_F32, hidden);
    struct weight host, device;
    const char *answer;
    /* x, gain and dy are below 1 and a norm of them below 2: so is every term. A row of small numbers makes them larger by 1 / rms. */
    const double sums = 4 * sqrt(hidden) * 0x1p-24;

    world_weight(world, world->ask.dtype, 1, hidden, false, &host, &device);
    train_ops_ref.norm_back(&world->host_dev, with_act ? ret_dx.host : NULL, dx.host, dy.host, x.host, &host, EPS,
                            with_gain ? dgain.host : NULL, &world->host);
    world->train->norm_back(world->dev, with_act ? ret_dx.device : NULL, dx.device, dy.device, x.device, &device, EPS,
                            with_gain ? dgain.device : NULL, &world->batch);
    answer = compare_rows(world, "norm_back", DTYPE_F32, &dx, 8, sums, now, hidden);
    if (answer == NULL)
        answer = compare_rows(world, "norm_back's rounded dx", world_act(world), &ret_dx, 8, sums, with_act ? now : 0, hidden);
    /* A sum over rows of sums over columns. */
    if (answer == NULL)
        answer = compare_rows(world, "norm_back's dgain", DTYPE_F32, &dgain, 4 * (float)(world->now.rows + 1),
                              sums + 4 * sqrt(world->now.rows) * 0x1p-24, hidden, hidden);
    both_free(world, &dx);
    both_free(world, &dy);
    both_free(world, &x);
    both_free(world, &ret_dx);
    both_free(world, &dgain);
    world_weight_free(&host);
    return answer;
}

const char *case_norm_back(struct world *world)
{
    const char *answer = norm_back_try(world, true, false);

    return answer != NULL ? answer : norm_back_try(world, false, true);
}

/* Without gains, with gains that are frozen, with gains that learn. */
static const char *rope_back_try(struct world *world, bool with_gains, bool learns)
{
    const struct dims *dims = &world->ask.dims;
    const int32_t d = dims->head_dim, width = (dims->heads + 2 * dims->kv_heads) * d;
    const int64_t count = (int64_t)world->host.max.rows * width, now = (int64_t)world->now.rows * width;
    struct both dturned = both_drawn(world, DTYPE_F32, count), qkv = both_drawn(world, DTYPE_F32, count);
    struct both angles = both_drawn(world, DTYPE_F32, (int64_t)world->positions_max * d), dqkv = both_nan(world, world_act(world), count);
    struct both dgain[2] = {both_drawn(world, DTYPE_F32, d), both_drawn(world, DTYPE_F32, d)};
    struct weight gain[2] = {{.data = NULL}, {.data = NULL}}, device_gain[2] = {{.data = NULL}, {.data = NULL}};
    const char *answer;

    for (int i = 0; i < 2 && with_gains; i++)
        world_weight(world, world->ask.dtype, 1, d, false, &gain[i], &device_gain[i]);
    train_ops_ref.rope_back(&world->host_dev, dqkv.host, dturned.host, with_gains ? qkv.host : NULL, &gain[0], &gain[1], EPS, angles.host,
                            learns ? dgain[0].host : NULL, learns ? dgain[1].host : NULL, &world->host);
    world->train->rope_back(world->dev, dqkv.device, dturned.device, with_gains ? qkv.device : NULL, &device_gain[0], &device_gain[1], EPS,
                            angles.device, learns ? dgain[0].device : NULL, learns ? dgain[1].device : NULL, &world->batch);
    /* A pair's two products may cancel; each is below 1, and a head's norm makes it larger by 1 / rms at most. */
    answer = compare_rows(world, "rope_back", world_act(world), &dqkv, with_gains ? 8 : 2, (with_gains ? 4 * sqrt(d) : 8) * 0x1p-24, now, d);
    for (int i = 0; i < 2 && answer == NULL; i++) {
        const float terms = (float)(world->now.rows * (i == 0 ? dims->heads : dims->kv_heads) + 1);

        answer = compare_rows(world, i == 0 ? "rope_back's dq_gain" : "rope_back's dk_gain", DTYPE_F32, &dgain[i], 8 * terms,
                              4 * (sqrt(d) + sqrt((double)terms)) * 0x1p-24, d, d);
    }
    for (int i = 0; i < 2 && with_gains; i++)
        world_weight_free(&gain[i]);
    both_free(world, &dgain[0]);
    both_free(world, &dgain[1]);
    both_free(world, &dturned);
    both_free(world, &qkv);
    both_free(world, &angles);
    both_free(world, &dqkv);
    return answer;
}

const char *case_rope_back(struct world *world)
{
    const char *answer = rope_back_try(world, false, false);

    answer = answer != NULL ? answer : rope_back_try(world, true, false);
    return answer != NULL ? answer : rope_back_try(world, true, true);
}

const char *case_swiglu_back(struct world *world)
{
    const int32_t ffn = world->ask.dims.ffn;
    const int64_t rows = world->host.max.rows;
    struct both dy = both_drawn(world, DTYPE_F32, rows * ffn), gate_up = both_drawn(world, DTYPE_F32, rows * 2 * ffn);
    struct both dgate_up = both_nan(world, world_act(world), rows * 2 * ffn);
    const char *answer;

    train_ops_ref.swiglu_back(&world->host_dev, dgate_up.host, dy.host, gate_up.host, &world->host);
    world->train->swiglu_back(world->dev, dgate_up.device, dy.device, gate_up.device, &world->batch);
    answer = compare_rows(world, "swiglu_back", world_act(world), &dgate_up, 1, 16 * 0x1p-24, (int64_t)world->now.rows * 2 * ffn, 2 * ffn);
    both_free(world, &dy);
    both_free(world, &gate_up);
    both_free(world, &dgate_up);
    return answer;
}

/* Rows are added in order, in float on both sides: equal bits. */
const char *case_embed_back(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    struct both dtable = both_drawn(world, DTYPE_F32, (int64_t)dims->vocabulary * dims->hidden);
    struct both dx = both_drawn(world, DTYPE_F32, (int64_t)world->host.max.rows * dims->hidden);
    const char *answer = NULL;
    void *got;

    train_ops_ref.embed_back(&world->host_dev, dtable.host, dx.host, &world->host);
    world->train->embed_back(world->dev, dtable.device, dx.device, &world->batch);
    got = fetched(world, &dtable);
    if (memcmp(got, dtable.host, dtable.bytes) != 0)
        answer = wrong("embed_back has other bits");
    free(got);
    both_free(world, &dtable);
    both_free(world, &dx);
    return answer;
}

/* --- updates ------------------------------------------------------------------------------------------------------ */
static const char *sumsq_try(struct world *world, int64_t n)
{
    struct both g = both_drawn(world, DTYPE_F32, n);
    double want = NAN, got = NAN;
    void *sum = world_give(world, NULL, sizeof(double));
    const char *answer = NULL;

    train_ops_ref.sumsq(&world->host_dev, &want, g.host, n);
    world->train->sumsq(world->dev, sum, g.device, n);
    world_fetch(world, &got, sum, sizeof(got));
    if (!(fabs(got - want) <= (world->ask.integers ? 0 : 4 * sqrt((double)n) * 0x1p-53 * want)))
        answer = wrong("sumsq of %lld: got %.17g, want %.17g", (long long)n, got, want);
    world->device->release(world->dev, sum);
    both_free(world, &g);
    return answer;
}

static const char *adamw_try(struct world *world, int64_t n)
{
    const struct adamw step = {.rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .decay = 0.1f, .gradient_scale = 0.25f,
                               .correction1 = 0.1f, .correction2 = 1e-3f};
    struct both p = both_drawn(world, DTYPE_F32, n), m = both_drawn(world, DTYPE_F32, n), v = both_drawn(world, DTYPE_F32, n);
    struct both g = both_drawn(world, DTYPE_F32, n);
    const char *answer;

    world_absolute(DTYPE_F32, v.host, n);
    world->device->put(world->dev, LANE_COMPUTE, v.device, v.host, v.bytes);
    train_ops_ref.adamw(&world->host_dev, p.host, m.host, v.host, g.host, n, &step);
    world->train->adamw(world->dev, p.device, m.device, v.device, g.device, n, &step);
    answer = compare_rows(world, "adamw's m", DTYPE_F32, &m, 1, 4 * 0x1p-24, n, 1);
    answer = answer != NULL ? answer : compare_rows(world, "adamw's v", DTYPE_F32, &v, 1, 4 * 0x1p-24, n, 1);
    /* A step is at most 0.01 |m| / sqrt(v / 1e-3), and v is 1e-3 g'^2 at least: below 0.32 / 0.25 times what m and g are in size. */
    answer = answer != NULL ? answer : compare_rows(world, "adamw's p", DTYPE_F32, &p, 1, 16 * 0x1p-24, n, 1);
    both_free(world, &p);
    both_free(world, &m);
    both_free(world, &v);
    both_free(world, &g);
    return answer;
}

static const char *round_try(struct world *world, int64_t n)
{
    struct both x = both_drawn(world, DTYPE_F32, n), y = both_nan(world, world_act(world), n + 5);
    const size_t bytes = (size_t)n * dtype_bytes(world_act(world));
    const char *answer = NULL;
    void *got;

    train_ops_ref.round(&world->host_dev, y.host, x.host, n);
    world->train->round(world->dev, y.device, x.device, n);
    got = fetched(world, &y);
    if (memcmp(got, y.host, y.bytes) != 0)
        answer = wrong("round of %lld has other bits", (long long)n);
    free(got);
    world->train->zero(world->dev, y.device, (int64_t)(bytes / sizeof(float)));
    memset(y.host, 0, bytes / sizeof(float) * sizeof(float));
    got = fetched(world, &y);
    if (answer == NULL && memcmp(got, y.host, y.bytes) != 0)
        answer = wrong("zero of %lld has other bits", (long long)(bytes / sizeof(float)));
    free(got);
    both_free(world, &x);
    both_free(world, &y);
    return answer;
}

const char *case_sumsq_long(struct world *world)
{
    return sumsq_try(world, INT64_C(1026) * SUMSQ_PIECE + 5);
}

const char *case_update(struct world *world)
{
    static const int64_t lengths[] = {0, 1, SUMSQ_PIECE - 1, 3 * SUMSQ_PIECE + 77};
    const char *answer = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(lengths) && answer == NULL; i++) {
        answer = sumsq_try(world, lengths[i]);
        answer = answer != NULL ? answer : adamw_try(world, lengths[i]);
        answer = answer != NULL ? answer : round_try(world, lengths[i]);
    }
    return answer;
}

const char *case_train_all(struct world *world)
{
    typedef const char *run_case(struct world *);
    static run_case *const all[] = {case_attend, case_loss, case_head_back, case_linear_back, case_norm_back, case_rope_back,
                                    case_attend_back, case_swiglu_back, case_embed_back, case_update};
    const char *answer = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(all) && answer == NULL; i++)
        answer = all[i](world);
    return answer;
}
