/* Any bytes as a trace of any format: it ends, or it says why not; time never goes back, but in traces of objects, which are
 * the same the second time. The first byte chooses the format and whether to be lenient. Built for libFuzzer with FUZZ_TRACE defined; the test of mutations calls the same
 * function; everywhere else this file is empty. */
#include "object_reader.h"
#include "reader.h"
#include "spot.h"

#ifdef FUZZ_TRACE

#include <stdlib.h>

#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the first byte chooses among, times two. */
static const struct {
    enum { FUZZ_REQUESTS, FUZZ_JOBS, FUZZ_SPOT, FUZZ_OBJECTS } kind;
    const char *format;
    bool by_name; /* csv: columns by name, or by number */
} choices[] = {
    {FUZZ_REQUESTS, "azure", false}, {FUZZ_REQUESTS, "burstgpt", false}, {FUZZ_REQUESTS, "mooncake", false},
    {FUZZ_REQUESTS, "alibaba-lora", false}, {FUZZ_REQUESTS, "csv", true}, {FUZZ_REQUESTS, "csv", false},
    {FUZZ_REQUESTS, NULL, false},
    {FUZZ_JOBS, "swf", false}, {FUZZ_JOBS, "philly", false}, {FUZZ_JOBS, "gavel", false}, {FUZZ_JOBS, "openb", false},
    {FUZZ_JOBS, "sia", false}, {FUZZ_JOBS, "csv", true}, {FUZZ_JOBS, "csv", false}, {FUZZ_JOBS, NULL, false},
    {FUZZ_SPOT, NULL, false},
    {FUZZ_OBJECTS, "oracleGeneral", false}, {FUZZ_OBJECTS, "csv", true}, {FUZZ_OBJECTS, "csv", false},
    {FUZZ_OBJECTS, "txt", false}, {FUZZ_OBJECTS, NULL, false}, {FUZZ_OBJECTS, "lcs", false}, {FUZZ_OBJECTS, "requests", false},
};

static void check_message(enum status status, const char *message)
{
    check((status == STATUS_END) == (message[0] == 0));
    for (const char *at = message; *at != 0; at++)
        check((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void fuzz_requests(const uint8_t *data, size_t size, unsigned choice, bool lenient)
{
    static const struct trace_columns columns = {"arrived_s", "prompt_tokens", "output_tokens", "adapter, if any", "customer",
                                                 TRACE_TIME_S};
    static const struct trace_columns numbers = {"1", "4", "5", "3", "2", TRACE_TIME_MS};
    const char *format = choices[choice].format;
    const struct trace_options options = {
        .lenient = lenient, .backward_tolerance_ns = lenient * NS_PER_S,
        .columns = format == NULL || strcmp(format, "csv") != 0 ? NULL : choices[choice].by_name ? &columns : &numbers};
    char message[TRACE_MESSAGE_MAX] = "";
    struct trace *trace;
    struct trace_row row;
    int64_t last_ns = 0;
    enum status status = trace_open_bytes(data, size, format, &options, &trace, message);

    if (status == STATUS_OK) {
        while ((status = trace_next(trace, &row)) == STATUS_OK) {
            check(row.at_ns >= last_ns);
            check(row.prompt_tokens <= TRACE_TOKENS_MAX);
            check(row.output_tokens <= TRACE_TOKENS_MAX);
            check(memchr(row.tenant, 0, TRACE_ID_MAX) != NULL);
            check(memchr(row.adapter, 0, TRACE_ID_MAX) != NULL);
            last_ns = row.at_ns;
        }
        memcpy(message, trace_message(trace), sizeof(message));
        trace_close(trace);
    }
    check_message(status, message);
}

static void fuzz_jobs(const uint8_t *data, size_t size, unsigned choice, bool lenient)
{
    static const struct job_columns columns = {"submitted", "lasted_s", "limit_s", "gpus", "bytes", "outcome", "who",
                                               "what", "class", TRACE_TIME_DATETIME};
    static const struct job_columns numbers = {.runtime = "2", .gpus = "4", .user = "7"};
    const char *format = choices[choice].format;
    const struct job_trace_options options = {
        .lenient = lenient, .backward_tolerance_ns = lenient * NS_PER_S,
        .columns = format == NULL || strcmp(format, "csv") != 0 ? NULL : choices[choice].by_name ? &columns : &numbers};
    char message[TRACE_MESSAGE_MAX] = "";
    struct job_trace *trace;
    struct job_row row;
    int64_t last_ns = 0;
    enum status status = job_trace_open_bytes(data, size, format, &options, &trace, message);

    if (status == STATUS_OK) {
        while ((status = job_trace_next(trace, &row)) == STATUS_OK) {
            check(row.at_ns >= last_ns);
            check(row.runtime_ns >= -1);
            check(row.requested_ns >= -1);
            check(row.gpus <= JOB_GPUS_MAX);
            check(row.gpu_milli < 1000);
            check(row.gpus == 0 || row.gpu_milli == 0);
            check(row.status < JOB_ROW_STATUS_COUNT);
            check(memchr(row.user, 0, TRACE_ID_MAX) != NULL);
            check(memchr(row.name, 0, TRACE_ID_MAX) != NULL);
            check(memchr(row.queue, 0, TRACE_ID_MAX) != NULL);
            last_ns = row.at_ns;
        }
        memcpy(message, job_trace_message(trace), sizeof(message));
        job_trace_close(trace);
    }
    check_message(status, message);
}

static void fuzz_spot(const uint8_t *data, size_t size, enum spot_polarity polarity)
{
    char message[TRACE_MESSAGE_MAX] = "";
    struct spot_trace *trace;
    struct spot_step step;
    int64_t last_ns = -1;
    uint32_t last = UINT32_MAX;
    enum status status = spot_open_bytes(data, size, polarity, &trace, message);

    if (status == STATUS_OK) {
        while ((status = spot_next(trace, &step)) == STATUS_OK) {
            check(step.at_ns > last_ns);
            check(step.available != last);
            check(step.available <= spot_info(trace).available_max);
            last_ns = step.at_ns;
            last = step.available;
        }
        check(last_ns < spot_info(trace).duration_ns);
        spot_close(trace);
    }
    check_message(status, message);
}

/* Folds what is read; false at the end. */
static bool fuzz_batch(struct object_trace *trace, uint32_t max, uint64_t *digest, uint64_t *row, enum status *ret_status)
{
    struct object_request rows[64];
    uint32_t count;

    *ret_status = object_trace_read(trace, rows, max, &count);
    check((*ret_status == STATUS_OK) == (count > 0));
    for (uint32_t i = 0; i < count; i++, ++*row) {
        check(rows[i].size_bytes <= OBJECT_SIZE_MAX);
        check(rows[i].at_ns >= 0);
        check(rows[i].next == OBJECT_NEXT_UNKNOWN || rows[i].next > (int64_t)*row);
        *digest = hash_fold(*digest, rows[i].id);
        *digest = hash_fold(*digest, rows[i].size_bytes ^ (uint64_t)rows[i].at_ns);
    }
    return *ret_status == STATUS_OK;
}

static void fuzz_objects(const uint8_t *data, size_t size, unsigned choice, bool other)
{
    static const struct object_columns numbers = {"2", "3", "1", "3", TRACE_TIME_MS, 0};
    static const struct object_columns blanks = {"1", "2", "", "", TRACE_TIME_S, ' '};
    const struct object_options options = {.ignore_next = other,
                                           .columns = choices[choice].by_name ? NULL : other ? &blanks : &numbers};
    char message[TRACE_MESSAGE_MAX] = "";
    struct object_trace *trace;
    uint64_t digests[2] = {0, 0};
    enum status status = object_trace_open_bytes(data, size, choices[choice].format, &options, &trace, message);

    if (status == STATUS_OK) {
        for (unsigned time = 0; time < 2; time++) {
            uint64_t row = 0;

            while (fuzz_batch(trace, time == 0 ? 64 : 3, &digests[time], &row, &status))
                ;
            check(object_trace_info(trace).requests == row);
            memcpy(message, object_trace_message(trace), sizeof(message));
            if (time == 0)
                check(object_trace_rewind(trace) == STATUS_OK);
        }
        check(digests[0] == digests[1]);
        object_trace_close(trace);
    }
    check_message(status, message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned first = size > 0 ? data[0] : 0;
    unsigned choice = first / 2 % ARRAY_COUNT(choices);
    bool lenient = first % 2 == 1;

    if (size == 0)
        return 0;
    switch (choices[choice].kind) {
    case FUZZ_REQUESTS: fuzz_requests(data + 1, size - 1, choice, lenient); break;
    case FUZZ_JOBS: fuzz_jobs(data + 1, size - 1, choice, lenient); break;
    case FUZZ_SPOT: fuzz_spot(data + 1, size - 1, lenient ? SPOT_TAKEN : SPOT_AVAILABLE); break;
    case FUZZ_OBJECTS: fuzz_objects(data + 1, size - 1, choice, lenient); break;
    }
    return 0;
}

#endif
