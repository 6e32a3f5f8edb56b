/* Reads the results file by hyperslabs of 65,536 rows, column by column, and keeps only sums and histograms. */
#include "report/extract.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>

#include "results/results.h"

#define SLAB_ROWS 65536
#define COLUMNS_MAX 12
#define REPLICAS_MAX 65536

struct extract {
    hid_t file;
    H5E_auto2_t error_printer; /* HDF5 prints its own stack otherwise; ours are one line each */
    void *error_printer_data;
    char version[64];
    /* One slab of each column; what is in it is the column's type: int64_t or double. */
    union {
        int64_t integers[SLAB_ROWS];
        double reals[SLAB_ROWS];
    } slabs[COLUMNS_MAX];
    bool replica_seen[REPLICAS_MAX];
};

/* A table is a group of equally long columns, opened together. */
struct table_reader {
    struct extract *extract;
    hid_t columns[COLUMNS_MAX];
    bool real[COLUMNS_MAX];
    uint32_t columns_count;
    uint64_t rows;
};

static void text_attribute(hid_t object, const char *name, char *ret_text, size_t bytes)
{
    hid_t attribute = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : -1;
    hid_t memory_type = H5Tcopy(H5T_C_S1);
    char *text = NULL;

    if (type >= 0 && H5Tis_variable_str(type) > 0) {
        H5Tset_size(memory_type, H5T_VARIABLE);
        H5Tset_cset(memory_type, H5Tget_cset(type));
        if (H5Aread(attribute, memory_type, &text) >= 0 && text != NULL) {
            snprintf(ret_text, bytes, "%s", text);
            H5free_memory(text);
        }
    }
    H5Tclose(memory_type);
    if (type >= 0)
        H5Tclose(type);
    if (attribute >= 0)
        H5Aclose(attribute);
}

/* 0 where there is none. */
static double real_attribute(hid_t object, const char *name)
{
    double value = 0;

    if (H5Aexists(object, name) > 0) {
        hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);

        if (attribute >= 0) {
            if (H5Aread(attribute, H5T_NATIVE_DOUBLE, &value) < 0 || !isfinite(value))
                value = 0;
            H5Aclose(attribute);
        }
    }
    return value;
}

enum status extract_open(const char *path, FILE *errors, struct extract **ret_extract)
{
    struct extract *extract = calloc(1, sizeof(*extract));
    char format[64] = "";

    if (extract == NULL) {
        fprintf(errors, "%s: no memory to read it\n", path);
        return STATUS_FULL;
    }
    H5Eget_auto2(H5E_DEFAULT, &extract->error_printer, &extract->error_printer_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    extract->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (extract->file < 0) {
        fprintf(errors, "%s: cannot be read as an HDF5 file\n", path);
        extract_close(extract);
        return STATUS_IO;
    }
    text_attribute(extract->file, "format", format, sizeof(format));
    if (strcmp(format, "berth-results-1") != 0) {
        fprintf(errors, "%s: its format is \"%s\", not berth-results-1\n", path, format);
        extract_close(extract);
        return STATUS_CORRUPT;
    }
    text_attribute(extract->file, "berth_version", extract->version, sizeof(extract->version));
    *ret_extract = extract;
    return STATUS_OK;
}

void extract_close(struct extract *extract)
{
    if (extract == NULL)
        return;
    if (extract->file >= 0)
        H5Fclose(extract->file);
    H5Eset_auto2(H5E_DEFAULT, extract->error_printer, extract->error_printer_data);
    free(extract);
}

const char *extract_version(const struct extract *extract) { return extract->version; }

static void table_close(struct table_reader *table)
{
    for (uint32_t i = 0; i < table->columns_count; i++)
        H5Dclose(table->columns[i]);
    table->columns_count = 0;
}

/* Columns of a file cut short may differ in length: rows that are whole in all of them count. */
static bool column_open(struct table_reader *table, hid_t group, const char *name)
{
    hid_t column = H5Lexists(group, name, H5P_DEFAULT) > 0 ? H5Dopen2(group, name, H5P_DEFAULT) : -1;
    hid_t space = column >= 0 ? H5Dget_space(column) : -1;
    hid_t type = column >= 0 ? H5Dget_type(column) : -1;
    H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    hssize_t rows = space >= 0 && H5Sget_simple_extent_ndims(space) == 1 ? H5Sget_simple_extent_npoints(space) : -1;
    bool fine = rows >= 0 && (class == H5T_INTEGER || class == H5T_FLOAT);

    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (!fine) {
        if (column >= 0)
            H5Dclose(column);
        return false;
    }
    table->rows = table->columns_count == 0 ? (uint64_t)rows : min_u64(table->rows, (uint64_t)rows);
    table->columns[table->columns_count] = column;
    table->real[table->columns_count++] = class == H5T_FLOAT;
    return true;
}

static bool table_open(struct extract *extract, hid_t variant, const char *name, const char *const *columns,
                       uint32_t columns_count, FILE *errors, struct table_reader *ret_table)
{
    hid_t group = H5Lexists(variant, name, H5P_DEFAULT) > 0 ? H5Gopen2(variant, name, H5P_DEFAULT) : -1;
    bool fine = group >= 0;

    check(columns_count <= COLUMNS_MAX);
    *ret_table = (struct table_reader){.extract = extract};
    if (!fine)
        fprintf(errors, "the results file has no table %s; its figures are left out\n", name);
    for (uint32_t i = 0; fine && i < columns_count; i++) {
        fine = column_open(ret_table, group, columns[i]);
        if (!fine)
            fprintf(errors, "the results file has no numbers in %s/%s; its figures are left out\n", name, columns[i]);
    }
    if (!fine)
        table_close(ret_table);
    if (group >= 0)
        H5Gclose(group);
    return fine;
}

/* Rows first .. first + rows - 1 of every column into the slabs. */
static bool table_read(struct table_reader *table, uint64_t first, uint64_t rows)
{
    hsize_t start[1] = {first};
    hsize_t count[1] = {rows};
    hid_t memory = H5Screate_simple(1, count, NULL);
    bool fine = memory >= 0;

    check(rows <= SLAB_ROWS);
    for (uint32_t i = 0; fine && i < table->columns_count; i++) {
        hid_t space = H5Dget_space(table->columns[i]);

        fine = space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
               H5Dread(table->columns[i], table->real[i] ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, memory, space,
                       H5P_DEFAULT, &table->extract->slabs[i]) >= 0;
        if (space >= 0)
            H5Sclose(space);
    }
    if (memory >= 0)
        H5Sclose(memory);
    return fine;
}

static int64_t integer_at(const struct table_reader *table, uint32_t column, uint64_t row)
{
    return table->real[column] ? (int64_t)table->extract->slabs[column].reals[row]
                               : table->extract->slabs[column].integers[row];
}

static double real_at(const struct table_reader *table, uint32_t column, uint64_t row)
{
    return table->real[column] ? table->extract->slabs[column].reals[row]
                               : (double)table->extract->slabs[column].integers[row];
}

/* Counts are never negative; a damaged file must not make them so. */
static uint64_t count_at(const struct table_reader *table, uint32_t column, uint64_t row)
{
    return (uint64_t)max_i64(integer_at(table, column, row), 0);
}

static void requests_extract(struct extract *extract, hid_t variant, int64_t warmup_until_ns, FILE *errors,
                            struct extracted *extracted)
{
    enum { AT, FIRST_TOKEN, DONE, STATUS, COLUMNS };
    static const char *const columns[COLUMNS] = {"at_ns", "first_token_ns", "done_ns", "status"};
    struct table_reader table;

    if (!table_open(extract, variant, "requests", columns, COLUMNS, errors, &table))
        return;
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!table_read(&table, first, rows)) {
            fprintf(errors, "requests from row %llu on cannot be read\n", (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++) {
            int64_t at_ns = integer_at(&table, AT, i);
            int64_t first_token_ns = integer_at(&table, FIRST_TOKEN, i);
            int64_t done_ns = integer_at(&table, DONE, i);

            if (at_ns < warmup_until_ns || integer_at(&table, STATUS, i) != REQUEST_DONE)
                continue;
            if (first_token_ns >= at_ns)
                histogram_add(&extracted->ttft, first_token_ns - at_ns);
            if (done_ns >= at_ns)
                histogram_add(&extracted->e2e, done_ns - at_ns);
        }
    }
    table_close(&table);
}

/* First pass over the samples: how many replicas, from when to when; from these the bins. */
static bool bins_plan(struct extract *extract, hid_t variant, FILE *errors, struct extracted *extracted)
{
    enum { AT, REPLICA, COLUMNS };
    static const char *const columns[COLUMNS] = {"at_ns", "replica"};
    struct table_reader table;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = INT64_MIN;
    uint64_t read = 0;

    if (!table_open(extract, variant, "replicas", columns, COLUMNS, errors, &table))
        return false;
    memset(extract->replica_seen, 0, sizeof(extract->replica_seen));
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!table_read(&table, first, rows))
            break;
        for (uint64_t i = 0; i < rows; i++) {
            uint64_t replica = count_at(&table, REPLICA, i) % REPLICAS_MAX;
            int64_t at_ns = max_i64(integer_at(&table, AT, i), 0);

            first_ns = min_i64(first_ns, at_ns);
            last_ns = max_i64(last_ns, at_ns);
            extracted->replicas += !extract->replica_seen[replica];
            extract->replica_seen[replica] = true;
        }
        read += rows;
    }
    table_close(&table);
    if (read < 2 || extracted->replicas == 0 || last_ns <= first_ns)
        return false;

    /* A bin holds whole intervals, so that none has more samples than its neighbours by chance. */
    double intervals = (double)(read / extracted->replicas);

    extracted->sample_s = (double)(last_ns - first_ns) / 1e9 / (intervals > 1 ? intervals - 1 : 1);
    extracted->series_start_s = (double)first_ns / 1e9 - extracted->sample_s;
    extracted->bin_s = extracted->sample_s * ceil((intervals + 1) / EXTRACT_BINS_MAX);
    return true;
}

static void bin_add(const struct table_reader *table, uint64_t row, struct series_bin *bin)
{
    enum { AT, WAITING, RUNNING, KV, SLOTS, LOADS, HITS, MISSES };
    double kv_share = real_at(table, KV, row);
    double slots_share = real_at(table, SLOTS, row);

    bin->samples++;
    bin->waiting += real_at(table, WAITING, row);
    bin->running += real_at(table, RUNNING, row);
    bin->kv_share += kv_share;
    bin->kv_share_max = fmax(bin->kv_share_max, kv_share);
    bin->slots_share += slots_share;
    bin->slots_share_max = fmax(bin->slots_share_max, slots_share);
    bin->loads += count_at(table, LOADS, row);
    bin->hits += count_at(table, HITS, row);
    bin->misses += count_at(table, MISSES, row);
}

static void replicas_extract(struct extract *extract, hid_t variant, FILE *errors, struct extracted *extracted)
{
    static const char *const columns[] = {"at_ns", "waiting", "running", "kv_share", "slots_share",
                                          "loads", "hits",    "misses"};
    struct table_reader table;

    if (!bins_plan(extract, variant, errors, extracted) ||
        !table_open(extract, variant, "replicas", columns, ARRAY_COUNT(columns), errors, &table))
        return;
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!table_read(&table, first, rows)) {
            fprintf(errors, "samples from row %llu on cannot be read\n", (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++) {
            /* A sample stands at the end of its interval, the border of a bin: its middle is safely inside. */
            double at_s = (double)integer_at(&table, 0, i) / 1e9 - extracted->series_start_s - extracted->sample_s / 2;
            uint32_t index = (uint32_t)fmin(fmax(at_s / extracted->bin_s, 0), EXTRACT_BINS_MAX - 1);

            bin_add(&table, i, &extracted->bins[index]);
            extracted->bins_count = max_u32(extracted->bins_count, index + 1);
        }
    }
    table_close(&table);
}

static void tenants_extract(struct extract *extract, hid_t variant, FILE *errors, struct extracted *extracted)
{
    enum { REQUESTS, COMPLETED, E2E_MEAN, COLUMNS };
    static const char *const columns[COLUMNS] = {"requests", "completed", "e2e_mean_ns"};
    struct table_reader table;

    extracted->tenants_stride = 1;
    if (!table_open(extract, variant, "tenants", columns, COLUMNS, errors, &table))
        return;
    extracted->tenants_stride = max_u64(1, div_up_u64(table.rows, EXTRACT_TENANTS_MAX));
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!table_read(&table, first, rows)) {
            fprintf(errors, "tenants from row %llu on cannot be read\n", (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++) {
            int64_t e2e_mean_ns = integer_at(&table, E2E_MEAN, i);

            if ((first + i) % extracted->tenants_stride != 0 || count_at(&table, COMPLETED, i) == 0 || e2e_mean_ns <= 0)
                continue;
            check(extracted->tenants_count < EXTRACT_TENANTS_MAX);
            extracted->tenants[extracted->tenants_count++] = (struct tenant_point){
                .requests = count_at(&table, REQUESTS, i),
                .e2e_mean_s = (double)e2e_mean_ns / 1e9,
            };
        }
    }
    table_close(&table);
}

void extract_variant(struct extract *extract, const struct summary *summary, FILE *errors, struct extracted *ret_extracted)
{
    hid_t variants = H5Lexists(extract->file, "variants", H5P_DEFAULT) > 0
                         ? H5Gopen2(extract->file, "variants", H5P_DEFAULT) : -1;
    hid_t variant = variants >= 0 && H5Lexists(variants, summary->variant, H5P_DEFAULT) > 0
                        ? H5Gopen2(variants, summary->variant, H5P_DEFAULT) : -1;

    memset(ret_extracted, 0, sizeof(*ret_extracted));
    histogram_init(&ret_extracted->ttft);
    histogram_init(&ret_extracted->e2e);
    if (variant < 0) {
        fprintf(errors, "variant %s is not in the results file; its figures are left out\n", summary->variant);
    } else {
        ret_extracted->objective_ttft_s = real_attribute(variant, "slo_ttft_ms") / 1e3;
        ret_extracted->objective_e2e_s = real_attribute(variant, "slo_e2e_s");
        requests_extract(extract, variant, summary->facts.warmup_until_ns, errors, ret_extracted);
        replicas_extract(extract, variant, errors, ret_extracted);
        tenants_extract(extract, variant, errors, ret_extracted);
        H5Gclose(variant);
    }
    if (variants >= 0)
        H5Gclose(variants);
}
