/* Reads the results file by hyperslabs of 65,536 rows, column by column, and keeps only sums and histograms. */
#include "report/extract.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>

#include "report/extract_jobs.h"
#include "report/table_reader.h"
#include "results/file.h"
#include "results/results.h"


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
    reader_text(extract->file, "format", format, sizeof(format));
    if (strcmp(format, "berth-results-1") != 0) {
        fprintf(errors, "%s: its format is \"%s\", not berth-results-1\n", path, format);
        extract_close(extract);
        return STATUS_CORRUPT;
    }
    reader_text(extract->file, "berth_version", extract->version, sizeof(extract->version));
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

static void requests_extract(struct extract *extract, hid_t variant, int64_t warmup_until_ns, FILE *errors,
                            struct extracted *extracted)
{
    enum { AT, FIRST_TOKEN, DONE, STATUS, COLUMNS };
    static const char *const columns[COLUMNS] = {"at_ns", "first_token_ns", "done_ns", "status"};
    struct table_reader table;

    if (!reader_open(extract, variant, "requests", columns, COLUMNS, errors, &table))
        return;
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!reader_slab(&table, first, rows)) {
            fprintf(errors, "requests from row %llu on cannot be read\n", (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++) {
            int64_t at_ns = reader_integer(&table, AT, i);
            int64_t first_token_ns = reader_integer(&table, FIRST_TOKEN, i);
            int64_t done_ns = reader_integer(&table, DONE, i);

            if (at_ns < warmup_until_ns || reader_integer(&table, STATUS, i) != REQUEST_DONE)
                continue;
            if (first_token_ns >= at_ns)
                histogram_add(&extracted->ttft, first_token_ns - at_ns);
            if (done_ns >= at_ns)
                histogram_add(&extracted->e2e, done_ns - at_ns);
        }
    }
    reader_close(&table);
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

    if (!reader_open(extract, variant, "replicas", columns, COLUMNS, errors, &table))
        return false;
    memset(extract->replica_seen, 0, sizeof(extract->replica_seen));
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!reader_slab(&table, first, rows))
            break;
        for (uint64_t i = 0; i < rows; i++) {
            uint64_t replica = reader_count(&table, REPLICA, i) % REPLICAS_MAX;
            int64_t at_ns = max_i64(reader_integer(&table, AT, i), 0);

            first_ns = min_i64(first_ns, at_ns);
            last_ns = max_i64(last_ns, at_ns);
            extracted->replicas += !extract->replica_seen[replica];
            extract->replica_seen[replica] = true;
        }
        read += rows;
    }
    reader_close(&table);
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
    double kv_share = reader_real(table, KV, row);
    double slots_share = reader_real(table, SLOTS, row);

    bin->samples++;
    bin->waiting += reader_real(table, WAITING, row);
    bin->running += reader_real(table, RUNNING, row);
    bin->kv_share += kv_share;
    bin->kv_share_max = fmax(bin->kv_share_max, kv_share);
    bin->slots_share += slots_share;
    bin->slots_share_max = fmax(bin->slots_share_max, slots_share);
    bin->loads += reader_count(table, LOADS, row);
    bin->hits += reader_count(table, HITS, row);
    bin->misses += reader_count(table, MISSES, row);
}

static void replicas_extract(struct extract *extract, hid_t variant, FILE *errors, struct extracted *extracted)
{
    static const char *const columns[] = {"at_ns", "waiting", "running", "kv_share", "slots_share",
                                          "loads", "hits",    "misses"};
    struct table_reader table;

    if (!bins_plan(extract, variant, errors, extracted) ||
        !reader_open(extract, variant, "replicas", columns, ARRAY_COUNT(columns), errors, &table))
        return;
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!reader_slab(&table, first, rows)) {
            fprintf(errors, "samples from row %llu on cannot be read\n", (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++) {
            /* A sample stands at the end of its interval, the border of a bin: its middle is safely inside. */
            double at_s = (double)reader_integer(&table, 0, i) / 1e9 - extracted->series_start_s - extracted->sample_s / 2;
            uint32_t index = (uint32_t)fmin(fmax(at_s / extracted->bin_s, 0), EXTRACT_BINS_MAX - 1);

            bin_add(&table, i, &extracted->bins[index]);
            extracted->bins_count = max_u32(extracted->bins_count, index + 1);
        }
    }
    reader_close(&table);
}

static void tenants_extract(struct extract *extract, hid_t variant, FILE *errors, struct extracted *extracted)
{
    enum { REQUESTS, COMPLETED, E2E_MEAN, COLUMNS };
    static const char *const columns[COLUMNS] = {"requests", "completed", "e2e_mean_ns"};
    struct table_reader table;

    extracted->tenants_stride = 1;
    if (!reader_open(extract, variant, "tenants", columns, COLUMNS, errors, &table))
        return;
    extracted->tenants_stride = max_u64(1, div_up_u64(table.rows, EXTRACT_TENANTS_MAX));
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!reader_slab(&table, first, rows)) {
            fprintf(errors, "tenants from row %llu on cannot be read\n", (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++) {
            int64_t e2e_mean_ns = reader_integer(&table, E2E_MEAN, i);

            if ((first + i) % extracted->tenants_stride != 0 || reader_count(&table, COMPLETED, i) == 0 || e2e_mean_ns <= 0)
                continue;
            check(extracted->tenants_count < EXTRACT_TENANTS_MAX);
            extracted->tenants[extracted->tenants_count++] = (struct tenant_point){
                .requests = reader_count(&table, REQUESTS, i),
                .e2e_mean_s = (double)e2e_mean_ns / 1e9,
            };
        }
    }
    reader_close(&table);
}

void extract_variant(struct extract *extract, const struct summary *summary, FILE *errors, struct extracted *ret_extracted)
{
    char name[VARIANT_NAME_MAX];
    hid_t variants = H5Lexists(extract->file, "variants", H5P_DEFAULT) > 0
                         ? H5Gopen2(extract->file, "variants", H5P_DEFAULT) : -1;
    hid_t variant;

    results_group_name(summary->variant, name, sizeof(name));
    variant = variants >= 0 && H5Lexists(variants, name, H5P_DEFAULT) > 0 ? H5Gopen2(variants, name, H5P_DEFAULT) : -1;
    memset(ret_extracted, 0, sizeof(*ret_extracted));
    histogram_init(&ret_extracted->ttft);
    histogram_init(&ret_extracted->e2e);
    extracted_jobs_init(&ret_extracted->jobs);
    if (variant < 0)
        fprintf(errors, "variant %s is not in the results file; its figures are left out\n", summary->variant);
    if (variant >= 0 && !summary->without_requests) {
        ret_extracted->objective_ttft_s = reader_attribute(variant, "slo_ttft_ms") / 1e3;
        ret_extracted->objective_e2e_s = reader_attribute(variant, "slo_e2e_s");
        requests_extract(extract, variant, summary->facts.warmup_until_ns, errors, ret_extracted);
        replicas_extract(extract, variant, errors, ret_extracted);
        tenants_extract(extract, variant, errors, ret_extracted);
    }
    if (variant >= 0 && summary->jobs.present)
        extract_jobs(extract, variant, summary, errors, &ret_extracted->jobs);
    if (variant >= 0)
        H5Gclose(variant);
    if (variants >= 0)
        H5Gclose(variants);
}
