/* Who asks, and what is answered when it cannot be done. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/api/internal.h"
#include "control/metadata/tenant.h"

int64_t api_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

/* --- faults ----------------------------------------------------------------------------------------------------------------- */

void fault_set(struct fault *fault, unsigned status, const char *code, const char *param, const char *format, ...)
{
    va_list arguments;

    *fault = (struct fault){.status = status, .code = code, .param = param};
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
}

void fault_missing(struct fault *fault)
{
    fault_set(fault, 404, "not_found", NULL, "there is no such thing, or it is not yours");
}

static void tell_log(struct api *api, enum status status, const char *why)
{
    char line[REFUSAL_MAX + 64];

    if (api->config.log == NULL)
        return;
    snprintf(line, sizeof(line), "api failed status=\"%s\" why=\"%s\"", status_text(status), why);
    api->config.log(api->config.log_context, line);
}

void fault_from(struct api *api, struct fault *fault, enum status status, const struct refusal *refusal)
{
    switch (status) {
    case STATUS_NOT_FOUND:
        fault_missing(fault);
        return;
    case STATUS_FULL:
        fault_set(fault, 429, "rate_limit_exceeded", NULL, "%.200s", refusal->text);
        fault->retry_ms = 1000;
        return;
    case STATUS_CONFLICT:
        fault_set(fault, 409, "conflict", NULL, "%.200s", refusal->text);
        fault->never = true;
        return;
    case STATUS_IO:
        tell_log(api, status, refusal->text);
        fault_set(fault, 503, "unavailable", NULL, "the server's disk or vault refuses; try again");
        fault->retry_ms = 2000;
        return;
    default:
        tell_log(api, status, refusal->text);
        fault_set(fault, 500, "internal", NULL, "this could not be done, and it is the server's fault; its log says more");
    }
}

void fault_answer(struct http_request *request, const struct fault *fault)
{
    check(fault->status != 0);
    if (fault->status == 401)
        http_add_header(request, "www-authenticate", "Bearer");
    if (fault->retry_ms > 0)
        http_retry_after(request, fault->retry_ms);
    if (fault->never)
        http_add_header(request, "x-should-retry", "false");
    http_answer_error(request, fault->status, fault->code, fault->param, "%s", fault->text);
}

/* --- callers ---------------------------------------------------------------------------------------------------------------- */

static void refuse_standing(struct fault *fault, enum meta_standing standing)
{
    if (standing == META_KEY_SUSPENDED)
        fault_set(fault, 403, "organization_suspended", NULL, "your organization is suspended; ask its operator");
    else
        fault_set(fault, 401, "invalid_api_key", NULL, "your API key is %s", standing == META_KEY_EXPIRED ? "expired" : "revoked");
}

bool caller_find(struct api *api, struct metadata *metadata, const char *key, bool for_inference, struct meta_caller *ret_caller,
                 struct fault *fault)
{
    struct refusal refusal = {{0}};
    const enum status status = meta_key_check(metadata, key != NULL ? key : "", api_now_ms(), ret_caller, &refusal);

    if (status == STATUS_NOT_FOUND)
        fault_set(fault, 401, "invalid_api_key", NULL, "this is no API key of ours; `berth-exec key add` makes one");
    else if (status != STATUS_OK)
        fault_from(api, fault, status, &refusal);
    else if (ret_caller->standing != META_KEY_GOOD)
        refuse_standing(fault, ret_caller->standing);
    else if (ret_caller->tenant[0] == '\0' || (!for_inference && strcmp(ret_caller->role, "inference") == 0))
        fault_set(fault, 403, "insufficient_permissions", NULL, "a key of role %s may not do this", ret_caller->role);
    return fault->status == 0;
}

/* --- calls ------------------------------------------------------------------------------------------------------------------ */

static bool find_tenant(struct call *call, struct metadata *metadata, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_tenant tenant;
    const enum status status = meta_tenant_get(metadata, call->caller.tenant, &results, &tenant, &refusal);

    if (status != STATUS_OK) {
        fault_from(call->api, fault, status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status, &refusal);
    } else {
        snprintf(call->tenant.slug, sizeof(call->tenant.slug), "%s", tenant.slug);
        call->tenant.number = (uint32_t)tenant.number;
        call->tenant.requests_per_min = (uint64_t)tenant.requests_per_min_max;
        call->tenant.tokens_per_min = (uint64_t)tenant.tokens_per_min_max;
    }
    meta_results_free(&results);
    return fault->status == 0;
}

void call_limit_headers(struct http_request *request, const char *kind, const struct limits_state *state)
{
    const struct {
        const char *name;
        unsigned long long value;
        const char *unit;
    } headers[] = {{"limit", state->limit, ""}, {"remaining", state->remaining, ""}, {"reset", state->reset_ms, "ms"}};

    for (size_t i = 0; i < ARRAY_COUNT(headers); i++) {
        char name[64];
        char text[32];

        snprintf(name, sizeof(name), "x-ratelimit-%s-%s", headers[i].name, kind);
        snprintf(text, sizeof(text), "%llu%s", headers[i].value, headers[i].unit);
        http_add_header(request, name, text);
    }
}

/* One request of what the tenant may send in a minute. */
static bool take_request(struct call *call, struct fault *fault)
{
    struct limits_state state;
    const bool taken = limits_take(call->api->limits, call->caller.tenant, LIMITS_REQUESTS, call->tenant.requests_per_min, 1, api_now_ms(), &state);

    call_limit_headers(call->request, "requests", &state);
    if (taken)
        return true;
    fault_set(fault, 429, "rate_limit_exceeded", NULL, "more than %llu requests a minute: this is your organization's limit",
              (unsigned long long)state.limit);
    fault->retry_ms = state.retry_ms;
    return false;
}

static bool call_run(struct task *task, struct metadata *metadata)
{
    struct call *call = (struct call *)task;
    struct fault fault = {0};
    const bool known = caller_find(call->api, metadata, http_key(call->request), call->endpoint->for_inference, &call->caller, &fault);

    http_wipe_key(call->request);
    http_set_key_id(call->request, call->caller.key);
    if (known && find_tenant(call, metadata, &fault) && take_request(call, &fault)) {
        http_add_header(call->request, "openai-organization", call->tenant.slug);
        call->endpoint->serve(call, metadata);
    } else {
        fault_answer(call->request, &fault);
    }
    return true;
}

void api_handle(void *context, struct http_request *request)
{
    const struct endpoint *endpoint = context;
    struct call *call = calloc(1, sizeof(*call));

    check(call != NULL);
    *call = (struct call){.task = {.run = call_run}, .api = endpoint->api, .request = request, .endpoint = endpoint};
    pool_begin(endpoint->api->pool, &call->task);
}

/* --- transfers -------------------------------------------------------------------------------------------------------------- */

bool transfer_begin(struct api *api, const char *tenant, uint32_t *ret_place, struct fault *fault)
{
    uint32_t place = API_TRANSFERS_MAX;
    uint32_t own = 0;

    pthread_mutex_lock(&api->lock);
    for (uint32_t i = 0; i < API_TRANSFERS_MAX; i++) {
        if (api->transfers[i].tenant[0] == '\0')
            place = i;
        else if (strcmp(api->transfers[i].tenant, tenant) == 0)
            own++;
    }
    if (place < API_TRANSFERS_MAX && own < API_TENANT_TRANSFERS_MAX)
        snprintf(api->transfers[place].tenant, NAME_BYTES, "%s", tenant);
    pthread_mutex_unlock(&api->lock);
    if (place < API_TRANSFERS_MAX && own < API_TENANT_TRANSFERS_MAX) {
        *ret_place = place;
        return true;
    }
    fault_set(fault, 429, "rate_limit_exceeded", NULL, "too many uploads and downloads run at once (%d of yours, %d in all may)",
              API_TENANT_TRANSFERS_MAX, API_TRANSFERS_MAX);
    fault->retry_ms = 1000;
    return false;
}

void transfer_end(struct api *api, uint32_t place)
{
    pthread_mutex_lock(&api->lock);
    api->transfers[place].tenant[0] = '\0';
    pthread_mutex_unlock(&api->lock);
}

uint32_t transfers_open(struct api *api)
{
    uint32_t count = 0;

    pthread_mutex_lock(&api->lock);
    for (uint32_t i = 0; i < API_TRANSFERS_MAX; i++)
        count += api->transfers[i].tenant[0] != '\0';
    pthread_mutex_unlock(&api->lock);
    return count;
}
