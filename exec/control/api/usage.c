/* What a tenant used, by model and hour: tokens of answers, and device time of trainings. */
#include "control/metadata/usage.h"

#include <stdlib.h>

#include "control/api/internal.h"

#define HOUR_S 3600
#define DAY_HOURS 24
#define ROWS_MAX 10000

/* Seconds since 1970 as an hour's number; `otherwise` where it is not given. False: answered 400. */
static bool hour_of(struct http_request *request, const char *name, int64_t otherwise, int64_t *ret_hour)
{
    const char *text = http_query(request, name);

    *ret_hour = otherwise;
    if (text == NULL)
        return true;
    if (text[0] == '\0' || strlen(text) > 11 || text[strspn(text, "0123456789")] != '\0') {
        http_answer_error(request, 400, NULL, name, "%s must be seconds since 1970", name);
        return false;
    }
    *ret_hour = strtoll(text, NULL, 10) / HOUR_S;
    return true;
}

static json_t *sum_json(const struct meta_usage_sum *sum)
{
    json_t *json = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f}", "object", "usage", "model", sum->model, "start_time",
                             (json_int_t)(sum->hour * HOUR_S), "end_time", (json_int_t)((sum->hour + 1) * HOUR_S), "requests",
                             (json_int_t)sum->records, "prompt_tokens", (json_int_t)sum->tokens_in, "completion_tokens",
                             (json_int_t)sum->tokens_out, "trainings", (json_int_t)sum->jobs, "trained_tokens",
                             (json_int_t)sum->trained_tokens, "gpu_seconds", (double)sum->gpu_ms / 1000);

    check(json != NULL);
    return json;
}

/* start_time and end_time, the last day where they are not given; whole hours. */
void usage_list(struct call *call, struct metadata *metadata)
{
    const int64_t now_hour = api_now_ms() / 1000 / HOUR_S;
    struct meta_results results = {0};
    struct meta_usage_sum *sums = NULL;
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    uint32_t count = 0;
    bool more = false;
    int64_t from;
    int64_t until;
    json_t *data;
    enum status status;

    if (!hour_of(call->request, "start_time", now_hour - DAY_HOURS + 1, &from) || !hour_of(call->request, "end_time", now_hour + 1, &until))
        return;
    status = meta_usage_sums(metadata, call->caller.tenant, from, until, ROWS_MAX, &results, &sums, &count, &more, &refusal);
    data = json_array();
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        json_array_append_new(data, sum_json(&sums[i]));
    meta_results_free(&results);
    if (status == STATUS_OK) {
        http_answer_json(call->request, 200, json_pack("{s:s,s:o,s:b}", "object", "list", "data", data, "has_more", more));
        return;
    }
    json_decref(data);
    fault_from(call->api, &fault, status, &refusal);
    fault_answer(call->request, &fault);
}
