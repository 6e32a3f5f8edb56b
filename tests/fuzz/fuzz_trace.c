/* Any bytes as a trace of any format: it ends, or it says why not, and time never goes back. The first byte chooses the
 * format and whether to be lenient. Built for libFuzzer with FUZZ_TRACE defined; the test of mutations calls the same
 * function; everywhere else this file is empty. */
#include "reader.h"

#ifdef FUZZ_TRACE

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_columns columns = {"arrived_s", "prompt_tokens", "output_tokens", "adapter, if any", "customer",
                                                 TRACE_TIME_S};
    static const struct trace_columns numbers = {"1", "4", "5", "3", "2", TRACE_TIME_MS};
    static const char *const formats[] = {"azure", "burstgpt", "mooncake", "alibaba-lora", "csv", "csv", NULL};
    unsigned choice = size > 0 ? data[0] : 0;
    size_t format = choice / 2 % ARRAY_COUNT(formats);
    const struct trace_options options = {.lenient = choice % 2 == 1, .backward_tolerance_ns = choice % 2 * NS_PER_S,
                                          .columns = format == 4 ? &columns : format == 5 ? &numbers : NULL};
    char message[TRACE_MESSAGE_MAX] = "";
    struct trace *trace;
    struct trace_row row;
    int64_t last_ns = 0;
    enum status status;

    if (size == 0)
        return 0;
    status = trace_open_bytes(data + 1, size - 1, formats[format], &options, &trace, message);
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
        check((status == STATUS_END) == (message[0] == 0));
        trace_close(trace);
    }
    check(status == STATUS_END || message[0] != 0);
    for (const char *at = message; *at != 0; at++)
        check((unsigned char)*at >= 0x20 && *at != 0x7f);
    return 0;
}

#endif
