#include "validate/slora_print.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static double error_of(const struct slora_row *row, const struct slora_outcome *outcome, uint32_t metric)
{
    return outcome->predicted.of[metric] / row->measured.of[metric] - 1;
}

struct slora_error slora_error_of(const struct slora_rows *rows, const struct slora_outcome *outcomes, enum slora_gpu gpu,
                                  enum slora_setting setting, enum slora_metric metric, bool only_kept_up)
{
    struct slora_error error = {0};
    double sum = 0;

    for (uint32_t i = 0; i < rows->count; i++) {
        const struct slora_row *row = &rows->items[i];
        double one = error_of(row, &outcomes[i], metric);

        if (row->gpu != gpu || row->setting != setting || slora_is_calibration(row) ||
            (only_kept_up && slora_is_overloaded(row)))
            continue;
        sum += fabs(one);
        if (error.count == 0 || fabs(one) > fabs(error.worst)) {
            error.worst = one;
            error.worst_row = i;
        }
        error.count++;
    }
    error.mean = error.count > 0 ? sum / error.count : 0;
    return error;
}

static void print_row(FILE *out, const struct slora_row *row, const struct slora_outcome *outcome)
{
    fprintf(out, "%-7s %s %5u %5.1f %2.0f %4.0f %c%c", slora_gpu_name(row->gpu), slora_setting_name(row->setting),
            row->adapters, row->rate_per_s, row->cv, row->duration_s, slora_is_calibration(row) ? 'c' : ' ',
            slora_is_overloaded(row) ? 'o' : ' ');
    for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++)
        fprintf(out, m == SLORA_METRIC_THROUGHPUT ? " | %6.3f %6.3f %+6.1f%%" : " | %6.2f %6.2f %+6.1f%%", row->measured.of[m],
                outcome->predicted.of[m], error_of(row, outcome, m) * 100);
    fputc('\n', out);
}

static void print_head(FILE *out, const char *file)
{
    fprintf(out, "\n%s\n", file);
    fprintf(out, "gpu         count  rate cv secs    | throughput, req/s       | latency, s              | TTFT, s\n");
    fprintf(out, "                                   | meas.  pred.   error    | meas.  pred.   error    | meas.  pred.   error\n");
}

static void print_errors(FILE *out, const struct slora_rows *rows, const struct slora_outcome *outcomes, uint32_t gpu,
                         uint32_t setting)
{
    for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++) {
        struct slora_error all = slora_error_of(rows, outcomes, (enum slora_gpu)gpu, (enum slora_setting)setting,
                                                (enum slora_metric)m, false);
        struct slora_error kept_up = slora_error_of(rows, outcomes, (enum slora_gpu)gpu, (enum slora_setting)setting,
                                                    (enum slora_metric)m, true);
        const struct slora_row *worst = &rows->items[all.worst_row];

        if (all.count == 0)
            continue;
        fprintf(out, "%-7s %s %-10s %4u %8.1f%%", slora_gpu_name((enum slora_gpu)gpu),
                slora_setting_name((enum slora_setting)setting), slora_metric_name((enum slora_metric)m), all.count,
                all.mean * 100);
        if (kept_up.count > 0)
            fprintf(out, " %8.1f%% (%u)", kept_up.mean * 100, kept_up.count);
        else
            fprintf(out, "       -      ");
        fprintf(out, "   %+6.1f%%  %u adapters, %g/s, cv %g, %g s\n", all.worst * 100, worst->adapters, worst->rate_per_s,
                worst->cv, worst->duration_s);
    }
}

static bool same_run(const struct slora_row *a, const struct slora_row *b)
{
    return a->gpu == b->gpu && (a->setting == b->setting || a->adapters == 0) && a->adapters == b->adapters &&
           fabs(a->rate_per_s - b->rate_per_s) < 1e-9 && fabs(a->cv - b->cv) < 1e-9 && fabs(a->alpha - b->alpha) < 1e-9 &&
           fabs(a->duration_s - b->duration_s) < 1e-9;
}

/* How far the authors' own repetitions of one configuration lie apart. */
static void print_repeats(FILE *out, const struct slora_rows *rows)
{
    double most[SLORA_METRIC_COUNT] = {0};
    uint32_t pairs = 0;

    for (uint32_t i = 0; i < rows->count; i++)
        for (uint32_t j = 0; j < i; j++) {
            if (!same_run(&rows->items[i], &rows->items[j]))
                continue;
            pairs++;
            for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++) {
                double apart = fabs(log(rows->items[i].measured.of[m] / rows->items[j].measured.of[m]));

                most[m] = apart > most[m] ? apart : most[m];
            }
        }
    if (pairs == 0)
        return;
    fprintf(out, "\nThe measurements themselves: %u pairs of rows repeat one configuration; they differ by at most", pairs);
    for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++)
        fprintf(out, "%s %.1f%% in %s", m > 0 ? "," : "", most[m] * 100, slora_metric_name((enum slora_metric)m));
    fprintf(out, ".\n");
}

void slora_print_table(FILE *out, const struct slora_rows *rows, const struct slora_outcome *outcomes)
{
    fprintf(out,
            "S-LoRA, predicted against measured. Llama-7B, adapters on q k v o; S1: rank 8; S2: ranks 64, 32, 16, 8 in turn.\n"
            "The requests are those of the benchmark, drawn again from its generator. Throughput counts the drain.\n"
            "c: calibration row, or one that repeats its configuration: in no error below. o: overloaded (mean TTFT above\n"
            "%g s as measured): the queue grows, so TTFT and latency magnify a small error of capacity; there throughput is\n"
            "what can be compared.\n",
            SLORA_OVERLOAD_TTFT_S);
    for (uint32_t i = 0; i < rows->count; i++) {
        if (i == 0 || strcmp(rows->items[i].file, rows->items[i - 1].file) != 0)
            print_head(out, rows->items[i].file);
        print_row(out, &rows->items[i], &outcomes[i]);
    }
    fprintf(out, "\nMean absolute error of the predicted rows:\n"
                 "gpu     setting          rows      all   kept up (rows)  worst row\n");
    for (uint32_t gpu = 0; gpu < SLORA_GPU_COUNT; gpu++)
        for (uint32_t setting = 0; setting < SLORA_SETTING_COUNT; setting++)
            print_errors(out, rows, outcomes, gpu, setting);
    print_repeats(out, rows);
    if (rows->left_out[0] != '\0')
        fprintf(out, "Left out, as they are S-LoRA with a part removed: %s.\n", rows->left_out);
}

static json_t *numbers_json(const struct slora_numbers *numbers)
{
    json_t *object = json_object();

    for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++)
        json_object_set_new(object, slora_metric_name((enum slora_metric)m), json_real(numbers->of[m]));
    return object;
}

static void print_object(FILE *out, json_t *object)
{
    check(object != NULL);
    (void)json_dumpf(object, out, JSON_REAL_PRECISION(6));
    fputc('\n', out);
    json_decref(object);
}

void slora_print_json(FILE *out, const struct slora_rows *rows, const struct slora_outcome *outcomes)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct slora_row *row = &rows->items[i];
        struct slora_numbers errors;

        for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++)
            errors.of[m] = error_of(row, &outcomes[i], m);
        print_object(out, json_pack("{s:s, s:i, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:b, s:b, s:o, s:o, s:o}", "file", row->file,
                                    "line", (int)row->line, "gpu", slora_gpu_name(row->gpu), "setting",
                                    slora_setting_name(row->setting), "adapters", (int)row->adapters, "alpha", row->alpha,
                                    "rate_per_s", row->rate_per_s, "cv", row->cv, "duration_s", row->duration_s, "calibration",
                                    slora_is_calibration(row), "overloaded", slora_is_overloaded(row), "measured",
                                    numbers_json(&row->measured), "predicted", numbers_json(&outcomes[i].predicted), "error",
                                    numbers_json(&errors)));
    }
}

void slora_print_fit(FILE *out, const struct slora_fit *fit)
{
    fprintf(out, "\n# %s: fitted to %u rows of S1 (root mean square of the logarithms' differences %.3f, %u evaluations):\n",
            slora_gpu_name(fit->gpu), fit->rows_count, fit->error, fit->evaluations);
    for (uint32_t i = 0; i < fit->rows_count; i++) {
        fprintf(out, "#   %s:%u, %u adapters, %g/s:", fit->rows[i]->file, fit->rows[i]->line, fit->rows[i]->adapters,
                fit->rows[i]->rate_per_s);
        for (uint32_t m = 0; m < SLORA_METRIC_COUNT; m++)
            fprintf(out, " %s %+.1f%%", slora_metric_name((enum slora_metric)m),
                    error_of(fit->rows[i], &fit->outcomes[i], m) * 100);
        fputc('\n', out);
    }
    fprintf(out, "  step:\n");
    for (uint32_t i = 0; i < fit->fields_count; i++)
        fprintf(out, "    %s: %.4g\n", fit->fields[i], fit->values[i]);
}
