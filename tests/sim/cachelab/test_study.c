/* Whole studies: a trace in a file, cells dealt to processes, and the lines that are printed. */
#include "cachelab/study.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hdf5.h>

#include "base/hash.h"
#include "results/file.h"
#include "sim/cachelab/zipf_trace.h"
#include "support.h"

static volatile sig_atomic_t stop;

/* --- traces in files --- */

static void put(unsigned char *at, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* As libCacheSim keeps them; the next request is never told. */
static void oracle_write(const char *path, const struct zipf_trace *trace)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    for (uint32_t i = 0; i < trace->count; i++) {
        unsigned char record[24];

        put(record, i / 1000, 4);
        put(record + 4, trace->ids[i], 8);
        put(record + 12, trace->sizes[i], 4);
        put(record + 16, UINT64_MAX, 8);
        assert_int_equal(fwrite(record, sizeof(record), 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static void text_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/lab-%d-%s", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", (int)getpid(), name);
    return path;
}

/* --- studies --- */

static struct lab_study study_of(const char *policies, const char *sizes)
{
    struct lab_study study = {.load = {50e-6, 50e9}, .seed = 1, .jobs = 1, .stop = &stop};
    char message[SPEC_MESSAGE_MAX];

    assert_int_equal(spec_admission("always", 6, &study.admissions[study.admissions_count++], message), STATUS_OK);
    for (const char *at = policies; *at != 0; at += strspn(at, ",")) {
        assert_int_equal(spec_policy(at, strcspn(at, ","), &study.policies[study.policies_count++], message), STATUS_OK);
        at += strcspn(at, ",");
    }
    for (const char *at = sizes; *at != 0; at += strspn(at, ",")) {
        assert_int_equal(spec_size(at, strcspn(at, ","), &study.sizes[study.sizes_count++], message), STATUS_OK);
        at += strcspn(at, ",");
    }
    return study;
}

static char *taken(FILE *file)
{
    char *text = calloc(1, 1 << 20);
    size_t count;

    rewind(file);
    count = fread(text, 1, (1 << 20) - 1, file);
    assert_true(count < (1 << 20) - 1);
    fclose(file);
    return text;
}

/* The lines, and the series behind them; to be freed. */
/* Memory follows the sizes of structures, which a golden hash shall not. */
static char *without_memory(char *lines)
{
    static const char memory[] = "\"memory_bytes\": ";

    for (char *at = lines; (at = strstr(at, memory)) != NULL;)
        for (at += strlen(memory); *at >= '0' && *at <= '9'; at++)
            *at = '0';
    return lines;
}

static char *lines_of(const struct lab_study *study, const char *path)
{
    FILE *out = tmpfile();
    struct lab_outcome *outcome;

    assert_int_equal(lab_study_run(study, path, stderr, &outcome), STATUS_OK);
    outcome->trace = "trace"; /* its path is another one each time */
    lab_print_json(out, outcome);
    for (uint32_t i = 0; i < outcome->cells_count; i++)
        for (uint64_t j = 0; j < outcome->series[i].count; j++)
            fprintf(out, "%u %llu %llu\n", i, (unsigned long long)outcome->series[i].intervals[j].misses,
                    (unsigned long long)outcome->series[i].intervals[j].miss_bytes);
    lab_outcome_free(outcome);
    return without_memory(taken(out));
}

static void what_is_said(const struct lab_study *study, const char *path, const char *format, enum status status, const char *said)
{
    struct lab_study own = *study;
    FILE *errors = tmpfile();
    struct lab_outcome *outcome = NULL;
    char *text;

    own.format = format;
    assert_int_equal(lab_study_run(&own, path, errors, &outcome), status);
    text = taken(errors);
    if (strstr(text, said) == NULL)
        fail_msg("no \"%s\" in: %s", said, text);
    free(text);
}

/* --- tests --- */

static void lines_are_equal_for_any_number_of_processes(void **state)
{
    const struct object_options options = {.ignore_next = true}; /* found out in a first pass */
    struct lab_study study = study_of("fifo,lru,sieve,gdsf,pfoo,belady-size,belady", "1%,10%,40obj,5%obj,1GiB");
    struct zipf_trace trace = zipf_trace_create(500, 20000, 1.0, 7, true);
    char *path = strdup(path_of("a.oracleGeneral"));
    char *lines[4];

    (void)state;
    study.warmup = 1500;
    study.interval = 3000;
    study.in_flight = 3;
    study.options = &options;
    oracle_write(path, &trace);
    for (uint32_t i = 0; i < 4; i++) {
        study.jobs = (const uint32_t[]){1, 2, 3, 64}[i];
        lines[i] = lines_of(&study, path);
        assert_string_equal(lines[i], lines[0]);
    }
    /* And in every mode. */
    assert_int_equal(hash_bytes(0, lines[0], strlen(lines[0])), UINT64_C(0xbb42156801ef91be));
    for (uint32_t i = 0; i < 4; i++)
        free(lines[i]);
    unlink(path);
    free(path);
    zipf_trace_free(&trace);
}

static void counts_begin_after_the_warm_up_and_add_up(void **state)
{
    struct lab_study study = study_of("lru,sieve", "3%,50obj");
    struct zipf_trace trace = zipf_trace_create(300, 10000, 0.9, 3, true);
    const char *path = path_of("b.oracleGeneral");
    struct lab_outcome *whole;
    struct lab_outcome *late;

    (void)state;
    oracle_write(path, &trace);
    study.interval = 2500;
    assert_int_equal(lab_study_run(&study, path, stderr, &whole), STATUS_OK);
    study.warmup = 5000;
    assert_int_equal(lab_study_run(&study, path, stderr, &late), STATUS_OK);
    for (uint32_t i = 0; i < whole->cells_count; i++) {
        const struct lab_counts *counts = &whole->results[i].counts;
        const struct lab_interval *parts = whole->series[i].intervals;
        uint64_t misses = 0;
        uint128 miss_bytes = 0;

        assert_int_equal(whole->series[i].count, 4);
        for (uint32_t j = 0; j < 4; j++) {
            assert_int_equal(parts[j].requests, 2500);
            misses += parts[j].misses;
            miss_bytes += parts[j].miss_bytes;
        }
        assert_int_equal(misses, lab_misses(counts));
        assert_true(miss_bytes == counts->miss_bytes);
        assert_int_equal(late->results[i].counts.requests, 5000);
        assert_int_equal(lab_misses(&late->results[i].counts), parts[2].misses + parts[3].misses);
        assert_int_equal(late->series[i].intervals[0].misses, parts[0].misses);
    }
    lab_outcome_free(late);
    study.warmup = 10001; /* longer than the trace: nothing is counted */
    assert_int_equal(lab_study_run(&study, path, stderr, &late), STATUS_OK);
    assert_int_equal(late->results[0].counts.requests, 0);
    lab_outcome_free(late);
    lab_outcome_free(whole);
    unlink(path);
    zipf_trace_free(&trace);
}

/* And its misses by cause add up, as everybody's do. */
static void nobody_has_fewer_misses_than_pfoo(void **state)
{
    const struct object_options options = {.ignore_next = true};
    struct lab_study study = study_of("pfoo,belady,belady-size,gdsf,lru", "1%,5%,20%,100%,10obj,80obj");
    struct zipf_trace trace = zipf_trace_create(300, 10000, 0.9, 3, true);
    const char *path = path_of("i.oracleGeneral");
    struct lab_outcome *outcome;

    (void)state;
    oracle_write(path, &trace);
    study.options = &options;
    study.jobs = 3;
    study.warmup = 1000;
    assert_int_equal(lab_study_run(&study, path, stderr, &outcome), STATUS_OK);
    for (uint32_t i = 0; i < outcome->cells_count; i++) {
        const struct lab_counts *bound = &outcome->results[i % study.sizes_count].counts;
        const struct lab_counts *counts = &outcome->results[i].counts;

        assert_int_equal(counts->requests, 9000);
        assert_true(counts->bytes == bound->bytes);
        assert_int_equal(counts->misses[LAB_MISS_COMPULSORY], bound->misses[LAB_MISS_COMPULSORY]);
        assert_true(lab_misses(counts) >= lab_misses(bound));
        assert_true(counts->miss_bytes >= bound->miss_bytes);
        if (outcome->setups[i].size->millionths == 100000000) /* all fits: only first requests miss */
            assert_int_equal(lab_misses(counts), counts->misses[LAB_MISS_COMPULSORY]);
    }
    lab_outcome_free(outcome);
    unlink(path);
    zipf_trace_free(&trace);
}

static void places_are_by_misses_bytes_and_seconds_within_a_size(void **state)
{
    struct lab_study study = study_of("fifo,lru,lru", "100obj,20obj");
    struct zipf_trace trace = zipf_trace_create(300, 10000, 0.9, 3, true);
    const char *path = path_of("c.oracleGeneral");
    struct lab_outcome *outcome;

    (void)state;
    oracle_write(path, &trace);
    assert_int_equal(lab_study_run(&study, path, stderr, &outcome), STATUS_OK);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(outcome->ranks[i].misses, i < 2 ? 3 : 1); /* equal ones share a place */
        assert_int_equal(outcome->ranks[i].miss_bytes, i < 2 ? 3 : 1);
        assert_int_equal(outcome->ranks[i].load, i < 2 ? 3 : 1);
    }
    lab_outcome_free(outcome);
    unlink(path);
    zipf_trace_free(&trace);
}

/* notes: what the field's own tools get wrong in silence. */
static void traces_that_are_odd_are_counted_and_those_that_are_broken_refused(void **state)
{
    struct lab_study study = study_of("lru,gdsf", "10B,50%,1obj,100%obj");
    const char *path = path_of("d");
    char *lines;

    (void)state;
    what_is_said(&study, "/nowhere/at/all", "csv", STATUS_IO, "/nowhere/at/all");
    text_write(path, "");
    what_is_said(&study, path, "csv", STATUS_CORRUPT, "empty");
    text_write(path, "12345678901234567890123456789012345678901234567");
    what_is_said(&study, path, "oracleGeneral", STATUS_CORRUPT, "record 1 at byte 24");
    text_write(path, "id,size,time\n7,3,0\n8,-5,1\n");
    what_is_said(&study, path, "csv", STATUS_CORRUPT, "");
    text_write(path, "id,size,time\n7,3,0\n8,18446744073709551615,1\n");
    what_is_said(&study, path, "csv", STATUS_CORRUPT, "");
    what_is_said(&study, "/dev/null", "csv", STATUS_INVALID, "can be read once only");
    /* One request; one object; a size of nothing, times that go back, sizes that change. */
    study.format = "csv";
    text_write(path, "id,size,time\n7,3,0\n");
    lines = lines_of(&study, path);
    assert_non_null(strstr(lines, "\"requests\": 1, \"miss_ratio\": 1.0,"));
    free(lines);
    text_write(path, "id,size,time\n7,3,5\n7,3,4\n7,4,3\n7,4,2\n8,0,9\n8,0,1\n7,4,0\n");
    lines = lines_of(&study, path);
    assert_non_null(strstr(lines, "\"size\": \"10B\", \"capacity\": 10, \"unit\": \"bytes\", \"requests\": 7, \"miss_ratio\": 0.428571428571"));
    assert_non_null(strstr(lines, "\"size\": \"50%\", \"capacity\": 2, \"unit\": \"bytes\", \"requests\": 7, \"miss_ratio\": 0.857142857143"));
    assert_non_null(strstr(lines, "\"size\": \"100%obj\", \"capacity\": 2, \"unit\": \"objects\", \"requests\": 7, \"miss_ratio\": 0.285714285714"));
    assert_non_null(strstr(lines, "\"misses_changed\": 1"));
    free(lines);
    unlink(path);
}

/* How long it will be is told by how much of the file there is. */
static void a_trace_says_about_how_many_requests_it_has(void **state)
{
    struct zipf_trace trace = zipf_trace_create(300, 200000, 0.9, 3, true);
    const char *path = path_of("j.oracleGeneral");
    struct object_request rows[256];
    char message[TRACE_MESSAGE_MAX];
    struct object_trace *opened;
    uint32_t count;

    (void)state;
    oracle_write(path, &trace);
    assert_int_equal(object_trace_open(path, NULL, NULL, &opened, message), STATUS_OK);
    for (uint64_t requests = 0; requests < 200000; requests += count)
        assert_int_equal(object_trace_read(opened, rows, 256, &count), STATUS_OK);
    assert_in_range(object_trace_expected(opened), 199000, 201000);
    object_trace_close(opened);
    unlink(path);
    zipf_trace_free(&trace);
}

static void what_is_stopped_ends_with_all_its_processes(void **state)
{
    struct lab_study study = study_of("lru,fifo,lfu", "10obj,20obj");
    struct zipf_trace trace = zipf_trace_create(100, 1000, 0.9, 3, true);
    const char *path = path_of("e.oracleGeneral");
    struct lab_outcome *outcome = NULL;

    (void)state;
    oracle_write(path, &trace);
    study.jobs = 4;
    stop = 1;
    assert_int_equal(lab_study_run(&study, path, stderr, &outcome), STATUS_END);
    stop = 0;
    assert_null(outcome);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* there are no children */
    unlink(path);
    zipf_trace_free(&trace);
}

static double attribute_of(hid_t object, const char *name)
{
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    double value = -1;

    assert_true(attribute >= 0);
    assert_true(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value) >= 0);
    H5Aclose(attribute);
    return value;
}

static void a_file_has_the_numbers_and_the_series_of_every_cell(void **state)
{
    struct lab_study study = study_of("lru,sieve", "100obj,3%");
    struct zipf_trace trace = zipf_trace_create(300, 10000, 0.9, 3, true);
    char *path = strdup(path_of("f.oracleGeneral"));
    char *out = strdup(path_of("f.h5"));
    struct results_file *file = NULL;
    struct lab_outcome *outcome;
    uint64_t misses[4];
    hid_t opened, cell, set;
    char name[512];

    (void)state;
    study.interval = 3000;
    oracle_write(path, &trace);
    assert_int_equal(lab_study_run(&study, path, stderr, &outcome), STATUS_OK);
    assert_int_equal(lab_store_open(out, "a command", 1, stderr, &file), STATUS_OK);
    assert_int_equal(lab_store_add(file, outcome, stderr), STATUS_OK);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);
    opened = H5Fopen(out, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(opened >= 0);
    snprintf(name, sizeof(name), "/variants/%s/0003 sieve always 3%%", strrchr(path, '/') + 1);
    cell = H5Gopen2(opened, name, H5P_DEFAULT);
    assert_true(cell >= 0);
    assert_true(attribute_of(cell, "misses") == (double)lab_misses(&outcome->results[3].counts));
    assert_true(attribute_of(cell, "miss_ratio") == lab_miss_ratio(&outcome->results[3].counts));
    assert_true(attribute_of(cell, "misses_compulsory") == (double)outcome->results[3].counts.misses[LAB_MISS_COMPULSORY]);
    set = H5Dopen2(cell, "misses", H5P_DEFAULT);
    assert_true(set >= 0);
    assert_int_equal(outcome->series[3].count, 4);
    assert_true(H5Dread(set, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, misses) >= 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(misses[i], outcome->series[3].intervals[i].misses);
    H5Dclose(set);
    H5Gclose(cell);
    H5Fclose(opened);
    lab_outcome_free(outcome);
    unlink(out);
    unlink(path);
    free(out);
    free(path);
    zipf_trace_free(&trace);
}

static void a_file_that_is_abandoned_leaves_nothing(void **state)
{
    const char *out = path_of("g.h5");
    struct results_file *file = NULL;
    char temporary[320];

    (void)state;
    snprintf(temporary, sizeof(temporary), "%s.part%d", out, (int)getpid());
    assert_int_equal(lab_store_open(out, "a command", 1, stderr, &file), STATUS_OK);
    assert_int_equal(access(temporary, F_OK), 0);
    results_file_abandon(file);
    assert_int_equal(access(temporary, F_OK), -1);
    assert_int_equal(access(out, F_OK), -1);
}

static void folder_remove(const char *folder)
{
    char command[512];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void a_report_has_a_point_a_size_and_a_column_a_policy(void **state)
{
    struct lab_study study = study_of("lru,sieve,fifo,lfu,gdsf", "100obj,20obj,0obj,3%,10%");
    struct zipf_trace trace = zipf_trace_create(300, 10000, 0.9, 3, true);
    char *path = strdup(path_of("h.oracleGeneral"));
    char *folder = strdup(path_of("h-report"));
    char name[512], line[512];
    struct lab_outcome *outcome;
    FILE *data;

    (void)state;
    study.interval = 3000;
    oracle_write(path, &trace);
    assert_int_equal(lab_study_run(&study, path, stderr, &outcome), STATUS_OK);
    assert_int_equal(lab_report(folder, outcome, stderr), STATUS_OK);
    snprintf(name, sizeof(name), "%s/data/mrc-objects.dat", folder);
    data = fopen(name, "r");
    assert_non_null(data);
    assert_non_null(fgets(line, sizeof(line), data));
    for (uint32_t i = 0; i < 2; i++) { /* the smaller first; a cache of nothing has no place on the axis */
        double at, value;
        int used, more;

        assert_non_null(fgets(line, sizeof(line), data));
        assert_int_equal(sscanf(line, "%lf%n", &at, &used), 1);
        assert_true(at == (i == 0 ? 20 : 100));
        for (uint32_t policy = 0; policy < 5; policy++, used += more) {
            const double ratio = lab_miss_ratio(&outcome->results[policy * 5 + (i == 0 ? 1 : 0)].counts);

            assert_int_equal(sscanf(line + used, "%lf%n", &value, &more), 1);
            assert_true(value > 100 * ratio - 1e-6 && value < 100 * ratio + 1e-6);
        }
    }
    assert_null(fgets(line, sizeof(line), data));
    fclose(data);
    for (uint32_t i = 0; i < 6; i++) {
        static const char *const files[] = {"index.html", "data/mrc-bytes.dat", "data/mrc-byte-misses.dat", "data/mrc-loads.dat",
                                            "data/drift.dat", "data/plot.gp"};

        snprintf(name, sizeof(name), "%s/%s", folder, files[i]);
        if (access(name, F_OK) != 0)
            fail_msg("no %s", name);
    }
    lab_outcome_free(outcome);
    folder_remove(folder);
    unlink(path);
    free(folder);
    free(path);
    zipf_trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_equal_for_any_number_of_processes),
        cmocka_unit_test(counts_begin_after_the_warm_up_and_add_up),
        cmocka_unit_test(nobody_has_fewer_misses_than_pfoo),
        cmocka_unit_test(places_are_by_misses_bytes_and_seconds_within_a_size),
        cmocka_unit_test(traces_that_are_odd_are_counted_and_those_that_are_broken_refused),
        cmocka_unit_test(a_file_has_the_numbers_and_the_series_of_every_cell),
        cmocka_unit_test(a_file_that_is_abandoned_leaves_nothing),
        cmocka_unit_test(a_report_has_a_point_a_size_and_a_column_a_policy),
        cmocka_unit_test(a_trace_says_about_how_many_requests_it_has),
        cmocka_unit_test(what_is_stopped_ends_with_all_its_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
