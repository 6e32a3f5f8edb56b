/* object_trace: reading requests for objects, in batches, out of the page cache. Records, plain and through zstd -3; csv with
 * short columns, with hashed ids and parts of seconds, with ids that are texts, and in quotes (the careful way); bare keys. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <zstd.h>

#include "base/hash.h"
#include "bench/bench.h"
#include "object_trace.h"

enum { ROWS = 2000000, OBJECTS_BITS = 20, ROW_BYTES_MAX = 80, BATCH = 4096, PASSES = 3 };

static const struct {
    const char *name;
    const char *format;
    const char *head;
    enum { RECORDS, RECORDS_ZSTD, SHORT, HASHED, TEXTS, QUOTES, KEYS } kind;
} cases[] = {
    {"oracleGeneral", "oracleGeneral", "", RECORDS},
    {"oracleGeneral.zst", "oracleGeneral", "", RECORDS_ZSTD},
    {"csv", "csv", "time,id,size\n", SHORT},
    {"csv, 20 digits", "csv", "time,id,size\n", HASHED},
    {"csv, texts", "csv", "time,id,size\n", TEXTS},
    {"csv, quotes", "csv", "time,id,size\n", QUOTES},
    {"txt", "txt", "", KEYS},
};

static size_t put_row(char *at, size_t kind, uint32_t i, uint64_t id)
{
    static const int64_t never = -1;
    const uint32_t time_s = i / 1000;
    const uint32_t size_bytes = 1 + (uint32_t)(hash_mix(id) >> 42);

    switch (kind) {
    case SHORT: return (size_t)snprintf(at, ROW_BYTES_MAX, "%u,%llu,%u\n", time_s, (unsigned long long)id, size_bytes);
    case HASHED:
        return (size_t)snprintf(at, ROW_BYTES_MAX, "%u.%03u,%llu,%u\n", time_s, i % 1000, (unsigned long long)hash_mix(id), size_bytes);
    case TEXTS: return (size_t)snprintf(at, ROW_BYTES_MAX, "%u,object-%llu,%u\n", time_s, (unsigned long long)id, size_bytes);
    case QUOTES: return (size_t)snprintf(at, ROW_BYTES_MAX, "%u,\"%llu\",%u\n", time_s, (unsigned long long)id, size_bytes);
    case KEYS: return (size_t)snprintf(at, ROW_BYTES_MAX, "%llu\n", (unsigned long long)id);
    default:
        memcpy(at, &time_s, 4);
        memcpy(at + 4, &id, 8);
        memcpy(at + 12, &size_bytes, 4);
        memcpy(at + 16, &never, 8);
        return 24;
    }
}

/* About as popular as by Zipf's law: the logarithm of the rank is uniform. Ids have up to seven digits. */
static uint64_t draw_id(uint32_t i)
{
    const double rank = exp2((double)(hash_mix(i) >> 11) * 0x1p-53 * OBJECTS_BITS);

    return hash_mix((uint64_t)rank) % 9000000;
}

static void make_file(const char *path, size_t which)
{
    char *bytes = malloc((size_t)ROWS * ROW_BYTES_MAX);
    size_t count = strlen(cases[which].head);
    FILE *file = fopen(path, "wb");

    check(bytes != NULL);
    check(file != NULL);
    memcpy(bytes, cases[which].head, count);
    for (uint32_t i = 0; i < ROWS; i++)
        count += put_row(bytes + count, cases[which].kind, i, draw_id(i));
    if (cases[which].kind == RECORDS_ZSTD) {
        size_t bound = ZSTD_compressBound(count);
        char *packed = malloc(bound);

        check(packed != NULL);
        count = ZSTD_compress(packed, bound, bytes, count, 3);
        free(bytes);
        bytes = packed;
    }
    check(fwrite(bytes, 1, count, file) == count);
    fclose(file);
    free(bytes);
}

static void time_case(size_t which)
{
    static struct object_request rows[BATCH];
    char path[] = "/tmp/berth-bench-objects-XXXXXX";
    char message[TRACE_MESSAGE_MAX];
    struct object_trace *trace;
    double from_s;
    uint64_t requests = 0;
    uint32_t count;
    int fd = mkstemp(path);

    check(fd >= 0);
    close(fd);
    make_file(path, which);
    check(object_trace_open(path, cases[which].format, NULL, &trace, message) == STATUS_OK);
    from_s = bench_cpu_s();
    for (unsigned pass = 0; pass < PASSES; pass++) {
        check(object_trace_rewind(trace) == STATUS_OK);
        while (object_trace_read(trace, rows, BATCH, &count) == STATUS_OK)
            requests += count;
    }
    from_s = bench_cpu_s() - from_s;
    check(requests == (uint64_t)ROWS * PASSES);
    bench_print("object_trace", cases[which].name, from_s, requests);
    object_trace_close(trace);
    unlink(path);
}

int main(int argc, char **argv)
{
    if (!bench_wanted(argc, argv, "object_trace"))
        return 0;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        time_case(i);
    return 0;
}
