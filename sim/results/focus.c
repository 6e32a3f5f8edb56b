/* Amounts are printed from integers, digit by digit; no floating point touches money. */
#include "results/focus.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fleet/ledger.h"

#define NANO INT64_C(1000000000)

/* X(column, how it is written) in the order of the columns. */
#define FOCUS_COLUMNS(X)                                                                                    \
    X(BilledCost, decimal_write(out, line->amount_nano))                                                    \
    X(EffectiveCost, decimal_write(out, line->amount_nano))                                                 \
    X(ListCost, decimal_write(out, line->component == CHARGE_DISCOUNT ? 0 : line->amount_nano))             \
    X(ContractedCost, decimal_write(out, line->amount_nano))                                                \
    X(ChargeCategory, text_write(out, category_word(line)))                                                 \
    X(ChargeDescription, text_write(out, component_text[line->component]))                                  \
    X(ChargePeriodStart, instant_write(out, line->from_ns / NS_PER_S))                                      \
    X(ChargePeriodEnd, instant_write(out, line->until_ns / NS_PER_S + (line->until_ns % NS_PER_S != 0)))    \
    X(ConsumedQuantity, quantity_write(out, line))                                                          \
    X(ConsumedUnit, text_write(out, line->consumed_unit))                                                   \
    X(ResourceId, text_write(out, line->resource))                                                          \
    X(SubAccountId, text_write(out, line->account))                                                         \
    X(AllocatedMethodId, text_write(out, component_method[line->component]))                                \
    X(AllocatedMethodDetails, details_write(out, line, ratio_nano))                                         \
    X(AllocatedResourceId, text_write(out, component_method[line->component] != NULL ? line->account : NULL))

static const char *const component_text[CHARGE_COUNT] = {
#define X(name, text) [CHARGE_##name] = text,
    CHARGE_COMPONENTS(X)
#undef X
};

/* How a component's part of the charge came about (fleet/ledger.h); NULL: not by a split. */
static const char *const component_method[CHARGE_COUNT] = {
    [CHARGE_RESIDENCY] = "equal-among-live-claims",
    [CHARGE_EXCLUSIVE] = "bytes-held",
    [CHARGE_COMPUTE] = "compute-used",
    [CHARGE_LOADING] = "equal-among-waiting-claims",
    [CHARGE_RESERVED_IDLE] = "pro-rata-to-unused-quota",
    [CHARGE_IDLE] = "remainder",
    [CHARGE_DISCOUNT] = NULL,
    [CHARGE_STORAGE] = "bytes-stored",
};
_Static_assert(CHARGE_COUNT == 8, "a component was added: say how it is split");

static const char *category_word(const struct focus_line *line)
{
    if (line->component != CHARGE_DISCOUNT)
        return "Usage";
    return line->amount_nano < 0 ? "Credit" : "Adjustment";
}

static void decimal_write(FILE *out, int64_t nano)
{
    uint64_t size = nano < 0 ? 0 - (uint64_t)nano : (uint64_t)nano;

    fprintf(out, "%s%" PRIu64 ".%09" PRIu64, nano < 0 ? "-" : "", size / (uint64_t)NANO, size % (uint64_t)NANO);
}

/* RFC 4180: quoted when it must be, quotes doubled. */
static void text_write(FILE *out, const char *text)
{
    if (text == NULL)
        return;
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void instant_write(FILE *out, int64_t at_s)
{
    time_t seconds = (time_t)at_s;
    struct tm parts;
    char text[32];

    check(gmtime_r(&seconds, &parts) != NULL);
    check(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) > 0);
    fputs(text, out);
}

static void quantity_write(FILE *out, const struct focus_line *line)
{
    if (line->consumed_unit != NULL)
        decimal_write(out, line->consumed_nano);
}

/* JSON, so its quotes are doubled; units are words of ours and need no escapes (checked). */
static void details_write(FILE *out, const struct focus_line *line, int64_t ratio_nano)
{
    if (component_method[line->component] == NULL)
        return;
    fputs("\"{\"\"Elements\"\":[{\"\"AllocatedRatio\"\":", out);
    decimal_write(out, ratio_nano);
    if (line->consumed_unit != NULL) {
        fprintf(out, ",\"\"UsageUnit\"\":\"\"%s\"\",\"\"UsageQuantity\"\":", line->consumed_unit);
        decimal_write(out, line->consumed_nano);
    }
    fputs("}]}\"", out);
}

static void line_write(FILE *out, const struct focus_line *line, int64_t ratio_nano)
{
    const char *separator = "";

#define X(column, write)      \
    fputs(separator, out);    \
    write;                    \
    separator = ",";
    FOCUS_COLUMNS(X)
#undef X
    fputc('\n', out);
}

static void head_write(FILE *out)
{
    const char *separator = "";

#define X(column, write)                       \
    fprintf(out, "%s%s", separator, #column);  \
    separator = ",";
    FOCUS_COLUMNS(X)
#undef X
    fputc('\n', out);
}

static void lines_check(const struct focus_line *lines, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct focus_line *line = &lines[i];

        check(line->account != NULL);
        check(line->resource != NULL);
        check((uint32_t)line->component < CHARGE_COUNT);
        check(line->from_ns >= 0);
        check(line->until_ns >= line->from_ns);
        check(line->consumed_nano >= 0);
        check(line->consumed_unit == NULL || strpbrk(line->consumed_unit, "\"\\\r\n") == NULL);
    }
}

static int by_origin(const void *a, const void *b)
{
    const struct focus_line *one = *(const struct focus_line *const *)a;
    const struct focus_line *other = *(const struct focus_line *const *)b;
    int order = strcmp(one->resource, other->resource);

    if (order == 0)
        order = (one->from_ns > other->from_ns) - (one->from_ns < other->from_ns);
    if (order == 0)
        order = (one->until_ns > other->until_ns) - (one->until_ns < other->until_ns);
    return order != 0 ? order : (one > other) - (one < other);
}

static bool origin_equal(const struct focus_line *one, const struct focus_line *other)
{
    return one->from_ns == other->from_ns && one->until_ns == other->until_ns &&
           strcmp(one->resource, other->resource) == 0;
}

/* Billionths of its origin charge for every line. An origin that cost nothing goes to its first line. */
static void ratios_find(const struct focus_line *lines, uint32_t count, int64_t *ret_ratios)
{
    const struct focus_line **order = malloc((count + 1) * sizeof(*order));
    int64_t *weights = malloc((count + 1) * sizeof(*weights));
    int64_t *parts = malloc((count + 1) * sizeof(*parts));
    uint32_t split = 0;

    check(order != NULL && weights != NULL && parts != NULL);
    for (uint32_t i = 0; i < count; i++) {
        ret_ratios[i] = 0;
        if (component_method[lines[i].component] != NULL)
            order[split++] = &lines[i];
    }
    qsort(order, split, sizeof(*order), by_origin);
    for (uint32_t first = 0, last; first < split; first = last) {
        for (last = first; last < split && origin_equal(order[first], order[last]); last++)
            weights[last - first] = max_i64(order[last]->amount_nano, 0);
        ledger_split(NANO, weights, last - first, 0, parts);
        for (uint32_t i = first; i < last; i++)
            ret_ratios[order[i] - lines] = parts[i - first];
    }
    free(parts);
    free(weights);
    free(order);
}

static bool file_write(FILE *out, const struct focus_line *lines, uint32_t count, const int64_t *ratios)
{
    head_write(out);
    for (uint32_t i = 0; i < count && !ferror(out); i++)
        line_write(out, &lines[i], ratios[i]);
    return !ferror(out) && fflush(out) == 0;
}

static enum status refuse(FILE *errors, const char *path, const char *what, int error)
{
    fprintf(errors, "%s: %s: %s\n", path, what, strerror(error));
    return STATUS_IO;
}

/* The temporary name is taken exclusively, so that two runs never share one. */
static FILE *temporary_open(const char *temporary_path)
{
    int descriptor = open(temporary_path, O_CREAT | O_EXCL | O_WRONLY, 0666);

    return descriptor < 0 ? NULL : fdopen(descriptor, "w");
}

enum status focus_write(const char *path, const struct focus_line *lines, uint32_t count, FILE *errors)
{
    const size_t temporary_bytes = strlen(path) + 32;
    char *temporary_path;
    int64_t *ratios;
    enum status status = STATUS_OK;
    FILE *out;
    bool written;
    int error;

    lines_check(lines, count);
    temporary_path = malloc(temporary_bytes);
    ratios = malloc(((size_t)count + 1) * sizeof(*ratios));
    check(temporary_path != NULL && ratios != NULL);
    ratios_find(lines, count, ratios);
    snprintf(temporary_path, temporary_bytes, "%s.part%ld", path, (long)getpid());
    out = temporary_open(temporary_path);
    if (out == NULL) {
        status = refuse(errors, path, "cannot create the ledger", errno);
        goto free_memory;
    }
    written = file_write(out, lines, count, ratios);
    error = errno;
    if (fclose(out) != 0 && written) {
        written = false;
        error = errno;
    }
    if (!written)
        status = refuse(errors, path, "cannot write the ledger", error);
    else if (rename(temporary_path, path) != 0)
        status = refuse(errors, path, "the ledger cannot be put in place", errno);
    if (status != STATUS_OK)
        unlink(temporary_path);
free_memory:
    free(ratios);
    free(temporary_path);
    return status;
}
