#include "validate/slora_fit.h"

#include <gsl/gsl_multimin.h>
#include <math.h>

#define EVALUATIONS_MAX 1000

/* The rows fitted on. The A10G's: the base alone, a load it keeps up with, an overload. The A100's: few adapters and many. */
struct calibration_row {
    enum slora_gpu gpu;
    uint32_t adapters;
    double rate_per_s;
};
static const struct calibration_row calibration_rows[] = {
    {SLORA_GPU_A10G, 0, 2.5},
    {SLORA_GPU_A10G, 200, 1},
    {SLORA_GPU_A10G, 200, 2.5},
    {SLORA_GPU_A100_80, 5, 10},
    {SLORA_GPU_A100_80, 1000, 10},
};

/* X(field, it is a share of 1, where the search starts, GPUs that fit it). fixed_us is the host's work in a step, the same
 * software on both machines: two rows of the A100 could not tell it from slora_fixed_us, so it keeps the A10G's. The A10G's
 * rows are fitted equally well by any slora_rank_us near its profile's, which is kept. */
enum { ON_A10G = 1 << SLORA_GPU_A10G, ON_A100_80 = 1 << SLORA_GPU_A100_80, ON_BOTH = ON_A10G | ON_A100_80 };
#define FIT_FIELDS(X)                                                                              \
    X(fixed_us, 0, 5000, ON_A10G)                                                                  \
    X(kv_efficiency, 1, 0.7, ON_BOTH)                                                              \
    X(flops_efficiency, 1, 0.55, ON_BOTH)                                                          \
    X(slora_fixed_us, 0, 2000, ON_BOTH)                                                            \
    X(slora_rank_us, 0, 4, ON_A100_80)

struct fit_field {
    const char *name;
    size_t offset;
    bool is_share; /* 0 .. 1; otherwise 0 .. */
    double start;
    uint32_t gpus;
};
static const struct fit_field fit_fields[] = {
#define X(field, share, start, gpus) {#field, offsetof(struct gpu_profile, field), share, start, gpus},
    FIT_FIELDS(X)
#undef X
};

static double *field_at(struct gpu_profile *profile, const struct fit_field *field)
{
    return (double *)(void *)((char *)profile + field->offset);
}

/* Unbounded coordinates: no step of the simplex can leave what is physical. */
static double to_line(const struct fit_field *field, double value)
{
    return field->is_share ? log(value / (1 - value)) : log(value);
}

static double from_line(const struct fit_field *field, double x)
{
    return field->is_share ? 1 / (1 + exp(-x)) : exp(x);
}

static bool equal(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

bool slora_is_calibration(const struct slora_row *row)
{
    for (size_t i = 0; i < ARRAY_COUNT(calibration_rows); i++) {
        const struct calibration_row *known = &calibration_rows[i];

        if (row->gpu == known->gpu && row->adapters == known->adapters && equal(row->rate_per_s, known->rate_per_s) &&
            equal(row->cv, 1) && equal(row->alpha, 1) && (row->setting == SLORA_SETTING_S1 || row->adapters == 0))
            return true;
    }
    return false;
}

struct fitting {
    struct slora_fit *fit;
    struct slora_case cases[SLORA_FIT_ROWS];
    FILE *errors;
    enum status status;
};

static void profile_at(const struct fitting *fitting, const gsl_vector *x, struct gpu_profile *ret_profile)
{
    uint32_t at = 0;

    *ret_profile = fitting->fit->profile;
    for (size_t i = 0; i < ARRAY_COUNT(fit_fields); i++)
        if (fit_fields[i].gpus & (1u << fitting->fit->gpu))
            *field_at(ret_profile, &fit_fields[i]) = from_line(&fit_fields[i], gsl_vector_get(x, at++));
}

/* S-LoRA looks at its queue once in ten decode steps. Where it keeps up that wait is most of the TTFT, and not of the
 * hardware, so no hardware number is bent to it. */
static bool counts(const struct slora_row *row, uint32_t metric)
{
    return metric != SLORA_METRIC_TTFT || slora_is_overloaded(row);
}

static double squares_of(const struct slora_row *row, const struct slora_outcome *outcome, uint32_t *count)
{
    double sum = 0;

    for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++) {
        double difference = log(outcome->predicted.of[m] / row->measured.of[m]);

        if (!counts(row, m))
            continue;
        sum += difference * difference;
        ++*count;
    }
    return sum;
}

static double cost(const gsl_vector *x, void *context)
{
    struct fitting *fitting = context;
    struct slora_fit *fit = fitting->fit;
    struct gpu_profile profile;
    uint32_t count = 0;
    double sum = 0;

    profile_at(fitting, x, &profile);
    fit->evaluations++;
    for (uint32_t i = 0; i < fit->rows_count && fitting->status == STATUS_OK; i++) {
        fitting->status = slora_case_run(&fitting->cases[i], &profile, fitting->errors, &fit->outcomes[i]);
        if (fitting->status == STATUS_OK)
            sum += squares_of(fit->rows[i], &fit->outcomes[i], &count);
    }
    return fitting->status == STATUS_OK ? sum / count : GSL_NAN;
}

static enum status choose_rows(const struct slora_rows *rows, struct fitting *fitting, const char *scenarios)
{
    struct slora_fit *fit = fitting->fit;

    for (size_t k = 0; k < ARRAY_COUNT(calibration_rows); k++) {
        const struct slora_row *found = NULL;

        if (calibration_rows[k].gpu != fit->gpu)
            continue;
        for (uint32_t i = 0; i < rows->count && found == NULL; i++)
            if (rows->items[i].setting == SLORA_SETTING_S1 && rows->items[i].gpu == fit->gpu &&
                rows->items[i].adapters == calibration_rows[k].adapters &&
                equal(rows->items[i].rate_per_s, calibration_rows[k].rate_per_s) && slora_is_calibration(&rows->items[i]))
                found = &rows->items[i];
        if (found == NULL) {
            fprintf(fitting->errors, "the folder has no row of S1 on %s with %u adapters at %g requests/s to calibrate on\n",
                    slora_gpu_name(fit->gpu), calibration_rows[k].adapters, calibration_rows[k].rate_per_s);
            return STATUS_NOT_FOUND;
        }
        if (slora_case_open(found, scenarios, fitting->errors, &fitting->cases[fit->rows_count]) != STATUS_OK)
            return STATUS_INVALID;
        fit->rows[fit->rows_count++] = found;
    }
    return STATUS_OK;
}

static void minimize(struct fitting *fitting, gsl_vector *start, gsl_vector *steps)
{
    gsl_multimin_function function = {.f = cost, .n = start->size, .params = fitting};
    gsl_multimin_fminimizer *simplex = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, start->size);

    check(simplex != NULL);
    gsl_multimin_fminimizer_set(simplex, &function, start, steps);
    while (fitting->status == STATUS_OK && fitting->fit->evaluations < EVALUATIONS_MAX &&
           gsl_multimin_fminimizer_iterate(simplex) == GSL_SUCCESS &&
           gsl_multimin_test_size(gsl_multimin_fminimizer_size(simplex), 1e-3) == GSL_CONTINUE)
        ;
    gsl_vector_memcpy(start, simplex->x);
    gsl_multimin_fminimizer_free(simplex);
}

static void search(struct fitting *fitting)
{
    struct slora_fit *fit = fitting->fit;
    gsl_vector *x;
    gsl_vector *steps;

    for (size_t i = 0; i < ARRAY_COUNT(fit_fields); i++)
        if (fit_fields[i].gpus & (1u << fit->gpu))
            fit->fields[fit->fields_count++] = fit_fields[i].name;
    x = gsl_vector_alloc(fit->fields_count);
    steps = gsl_vector_alloc(fit->fields_count);
    check(x != NULL && steps != NULL);
    for (size_t i = 0, at = 0; i < ARRAY_COUNT(fit_fields); i++)
        if (fit_fields[i].gpus & (1u << fit->gpu))
            gsl_vector_set(x, at++, to_line(&fit_fields[i], fit_fields[i].start));
    gsl_vector_set_all(steps, 0.3);
    minimize(fitting, x, steps);
    fit->error = sqrt(cost(x, fitting));
    profile_at(fitting, x, &fit->profile);
    for (size_t i = 0, at = 0; i < ARRAY_COUNT(fit_fields); i++)
        if (fit_fields[i].gpus & (1u << fit->gpu))
            fit->values[at++] = *field_at(&fit->profile, &fit_fields[i]);
    gsl_vector_free(x);
    gsl_vector_free(steps);
}

enum status slora_fit(const struct slora_rows *rows, enum slora_gpu gpu, const char *scenarios, FILE *errors,
                      struct slora_fit *ret_fit)
{
    struct fitting fitting = {.fit = ret_fit, .errors = errors};

    *ret_fit = (struct slora_fit){.gpu = gpu};
    fitting.status = choose_rows(rows, &fitting, scenarios);
    if (fitting.status == STATUS_OK) {
        ret_fit->profile = fitting.cases[0].set.items[0].pools[0].profile;
        search(&fitting);
    }
    for (uint32_t i = 0; i < SLORA_FIT_ROWS; i++)
        slora_case_close(&fitting.cases[i]);
    return fitting.status;
}
