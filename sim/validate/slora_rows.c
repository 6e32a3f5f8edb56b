#include "validate/slora_rows.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#define LINE_MAX_BYTES 8192

static const char *const gpu_names[] = {
#define X(name, text) text,
    SLORA_GPU_LIST(X)
#undef X
};
static const char *const setting_names[] = {
#define X(name, text, ranks) text,
    SLORA_SETTING_LIST(X)
#undef X
};
static const struct {
    const char *text;
    const char *key;
} metrics[] = {
#define X(name, key, text, unit, about) {text, #key},
    SLORA_METRIC_LIST(X)
#undef X
};

const char *slora_gpu_name(enum slora_gpu gpu)
{
    return gpu_names[gpu];
}

const char *slora_setting_name(enum slora_setting setting)
{
    return setting_names[setting];
}

const char *slora_metric_name(enum slora_metric metric)
{
    return metrics[metric].text;
}

bool slora_is_overloaded(const struct slora_row *row)
{
    return row->measured.of[SLORA_METRIC_TTFT] > SLORA_OVERLOAD_TTFT_S;
}

/* S-LoRA with a part taken out: without the unified pool, or with padded batched products instead of its kernels. */
static bool is_ablation(const char *name)
{
    return strstr(name, "no_mem") != NULL || strstr(name, "bmm") != NULL;
}

/* The word between underscores, so that a100-80 is not a100-800. */
static bool has_word(const char *name, const char *word)
{
    size_t count = strlen(word);

    for (const char *at = strstr(name, word); at != NULL; at = strstr(at + 1, word))
        if ((at == name || at[-1] == '_') && (at[count] == '_' || at[count] == '.'))
            return true;
    return false;
}

static bool name_says(const char *name, struct slora_row *row)
{
    uint32_t gpu = 0;
    uint32_t setting = 0;

    while (gpu < SLORA_GPU_COUNT && !has_word(name, gpu_names[gpu]))
        gpu++;
    while (setting < SLORA_SETTING_COUNT && !has_word(name, setting_names[setting]))
        setting++;
    row->gpu = (enum slora_gpu)gpu;
    row->setting = (enum slora_setting)setting;
    return gpu < SLORA_GPU_COUNT && setting < SLORA_SETTING_COUNT;
}

struct place {
    const char *path;
    uint32_t line;
    FILE *errors;
};

static enum status refuse(const struct place *place, const char *field, const char *why)
{
    fprintf(place->errors, "%s:%u: %s: %s\n", place->path, place->line, field, why);
    return STATUS_INVALID;
}

static enum status read_real(const struct place *place, const json_t *object, const char *field, double least, double most,
                             double *ret_value)
{
    const json_t *value = json_object_get(object, field);

    if (!json_is_number(value))
        return refuse(place, field, value == NULL ? "missing" : "must be a number");
    *ret_value = json_number_value(value);
    if (!(*ret_value >= least && *ret_value <= most)) {
        fprintf(place->errors, "%s:%u: %s: %g is not within %g to %g\n", place->path, place->line, field, *ret_value, least,
                most);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

/* [from, below): numpy's randint leaves the upper end out. */
static enum status read_range(const struct place *place, const json_t *config, const char *field, uint32_t *ret_from,
                              uint32_t *ret_below)
{
    const json_t *range = json_object_get(config, field);
    json_int_t from = json_integer_value(json_array_get(range, 0));
    json_int_t below = json_integer_value(json_array_get(range, 1));

    if (json_array_size(range) != 2 || from < 1 || below <= from || below > 1000000)
        return refuse(place, field, "must be [from, below] with 1 <= from < below");
    *ret_from = (uint32_t)from;
    *ret_below = (uint32_t)below;
    return STATUS_OK;
}

static enum status read_config(const struct place *place, const json_t *config, struct slora_row *row)
{
    double adapters = 0;

    if (!json_is_object(config))
        return refuse(place, "config", "missing, or not an object");
    if (read_real(place, config, "num_adapters", 0, 1e6, &adapters) != STATUS_OK ||
        read_real(place, config, "alpha", 0.001, 10, &row->alpha) != STATUS_OK ||
        read_real(place, config, "req_rate", 1e-6, 1e6, &row->rate_per_s) != STATUS_OK ||
        read_real(place, config, "cv", 1, 100, &row->cv) != STATUS_OK ||
        read_real(place, config, "duration", 1e-3, 1e6, &row->duration_s) != STATUS_OK ||
        read_range(place, config, "input_range", &row->prompt_from, &row->prompt_below) != STATUS_OK ||
        read_range(place, config, "output_range", &row->output_from, &row->output_below) != STATUS_OK)
        return STATUS_INVALID;
    if (adapters > floor(adapters))
        return refuse(place, "num_adapters", "must be a whole number");
    if (row->rate_per_s * row->duration_s < 1 || row->rate_per_s * row->duration_s > SLORA_REQUESTS_MAX)
        return refuse(place, "req_rate", "req_rate x duration must be 1 to 100000 requests");
    row->adapters = (uint32_t)adapters;
    row->requests = (uint32_t)(row->rate_per_s * row->duration_s);
    return STATUS_OK;
}

static enum status read_result(const struct place *place, const json_t *result, struct slora_row *row)
{
    const json_t *aborted = json_object_get(result, "num_abort");
    double total_s = 0;

    if (!json_is_object(result))
        return refuse(place, "result", "missing, or not an object");
    for (uint32_t i = 0; i < SLORA_METRIC_COUNT; i++)
        if (read_real(place, result, metrics[i].key, 1e-9, 1e9, &row->measured.of[i]) != STATUS_OK)
            return STATUS_INVALID;
    if (read_real(place, result, "total_time", 1e-9, 1e9, &total_s) != STATUS_OK)
        return STATUS_INVALID;
    if (json_integer_value(aborted) != 0)
        return refuse(place, "num_abort", "some requests were given up; only runs that finished all can be compared");
    if (fabs(row->measured.of[SLORA_METRIC_THROUGHPUT] * total_s - row->requests) > 0.5)
        return refuse(place, "throughput", "throughput x total_time is not req_rate x duration requests");
    return STATUS_OK;
}

static enum status read_line(const struct place *place, const char *text, struct slora_row *row)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    enum status status;

    if (root == NULL) {
        fprintf(place->errors, "%s:%u:%d: %s\n", place->path, place->line, error.column, error.text);
        return STATUS_CORRUPT;
    }
    status = read_config(place, json_object_get(root, "config"), row);
    if (status == STATUS_OK)
        status = read_result(place, json_object_get(root, "result"), row);
    json_decref(root);
    return status;
}

static enum status read_lines(FILE *file, const char *name, struct place *place, struct slora_rows *rows)
{
    static char line[LINE_MAX_BYTES];

    while (fgets(line, sizeof(line), file) != NULL) {
        struct slora_row row = {.line = ++place->line};

        if (strchr(line, '\n') == NULL && !feof(file))
            return refuse(place, "line", "longer than a result can be");
        if (line[strspn(line, " \t\r\n")] == '\0')
            return refuse(place, "line", "blank; one JSON object a line");
        if (rows->count == SLORA_ROWS_MAX)
            return refuse(place, "line", "more rows than 256 in the folder");
        if (!name_says(name, &row))
            return refuse(place, "file name", "must hold a GPU (a10g, a100-80) and a setting (S1, S2) between underscores");
        snprintf(row.file, sizeof(row.file), "%s", name);
        if (read_line(place, line, &row) != STATUS_OK)
            return STATUS_INVALID;
        rows->items[rows->count++] = row;
    }
    return STATUS_OK;
}

static enum status read_file(const char *directory, const char *name, FILE *errors, struct slora_rows *rows)
{
    char path[4096];
    struct place place = {.path = path, .errors = errors};
    FILE *file;
    enum status status;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "r");
    if (file == NULL) {
        fprintf(errors, "%s: cannot be opened: %s\n", path, strerror(errno));
        return STATUS_IO;
    }
    status = read_lines(file, name, &place, rows);
    if (status == STATUS_OK && ferror(file)) {
        fprintf(errors, "%s: cannot be read: %s\n", path, strerror(errno));
        status = STATUS_IO;
    }
    fclose(file);
    return status;
}

static int is_jsonl(const struct dirent *entry)
{
    size_t count = strlen(entry->d_name);

    return count > 6 && strcmp(entry->d_name + count - 6, ".jsonl") == 0;
}

static void leave_out(struct slora_rows *rows, const char *name)
{
    size_t used = strlen(rows->left_out);

    snprintf(rows->left_out + used, sizeof(rows->left_out) - used, "%s%s", used > 0 ? ", " : "", name);
}

enum status slora_rows_read(const char *directory, FILE *errors, struct slora_rows *ret_rows)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_jsonl, alphasort);
    enum status status = STATUS_OK;

    memset(ret_rows, 0, sizeof(*ret_rows));
    if (count < 0) {
        fprintf(errors, "%s: cannot be read as a folder: %s\n", directory, strerror(errno));
        return STATUS_NOT_FOUND;
    }
    for (int i = 0; i < count; i++) {
        if (is_ablation(entries[i]->d_name))
            leave_out(ret_rows, entries[i]->d_name);
        else if (status == STATUS_OK)
            status = read_file(directory, entries[i]->d_name, errors, ret_rows);
        free(entries[i]);
    }
    free(entries);
    if (status == STATUS_OK && ret_rows->count == 0) {
        fprintf(errors, "%s: holds no rows (*.jsonl of the S-LoRA benchmarks)\n", directory);
        status = STATUS_NOT_FOUND;
    }
    return status;
}
