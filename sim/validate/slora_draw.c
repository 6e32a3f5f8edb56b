#include "validate/slora_draw.h"

#include <gsl/gsl_rng.h>
#include <math.h>

/* 53 bits of two draws. */
static double draw_double(gsl_rng *rng)
{
    unsigned long high = gsl_rng_get(rng) >> 5;
    unsigned long low = gsl_rng_get(rng) >> 6;

    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0;
}

static double draw_exponential(gsl_rng *rng)
{
    return -log(1.0 - draw_double(rng));
}

/* from .. below - 1: masked draws until one is in range. */
static uint32_t draw_integer(gsl_rng *rng, uint32_t from, uint32_t below)
{
    uint32_t most = below - from - 1;
    uint32_t mask = most;
    uint32_t value;

    if (most == 0)
        return from;
    for (uint32_t shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    do
        value = (uint32_t)gsl_rng_get(rng) & mask;
    while (value > most);
    return from + value;
}

/* shape <= 1: exponential, or the rejection of Ahrens and Dieter's GS (1974) in numpy's arrangement. */
static double draw_gamma(gsl_rng *rng, double shape)
{
    check(shape > 0);
    check(shape <= 1);
    if (shape >= 1)
        return draw_exponential(rng);
    for (;;) {
        double unit = draw_double(rng);
        double limit = draw_exponential(rng);
        double value;

        if (unit <= 1.0 - shape) {
            value = pow(unit, 1.0 / shape);
            if (value <= limit)
                return value;
        } else {
            double rest = -log((1.0 - unit) / shape);

            value = pow(1.0 - shape + shape * rest, 1.0 / shape);
            if (value <= limit + rest)
                return value;
        }
    }
}

enum status slora_draw(const struct slora_row *row, struct slora_request *ret_requests)
{
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    uint32_t choices = max_u32(row->adapters, 1);
    double shape = 1 / (row->cv * row->cv);
    double scale = row->cv * row->cv / row->rate_per_s;
    double at_s = 0;

    if (rng == NULL)
        return STATUS_FULL;
    gsl_rng_set(rng, SLORA_SEED);
    for (uint32_t i = 0; i < row->requests; i++) {
        double place = pow(1 - exp(-draw_exponential(rng)), 1 / row->alpha);
        uint32_t adapter = min_u32((uint32_t)(place * choices), choices - 1) + 1;

        ret_requests[i].adapter = row->adapters > 0 ? adapter : 0;
    }
    for (uint32_t i = 0; i < row->requests; i++)
        ret_requests[i].prompt_tokens = draw_integer(rng, row->prompt_from, row->prompt_below);
    for (uint32_t i = 0; i < row->requests; i++)
        ret_requests[i].output_tokens = draw_integer(rng, row->output_from, row->output_below);
    for (uint32_t i = 0; i < row->requests; i++) {
        at_s += scale * draw_gamma(rng, shape);
        ret_requests[i].at_ns = (int64_t)rint(at_s * (double)NS_PER_S);
    }
    gsl_rng_free(rng);
    return STATUS_OK;
}
