/* What OpenAI's lists and retries have in common. */
#include "control/http/http.h"
#include "control/http/target.h"

bool http_page_of(struct http_request *request, uint32_t limit_default, uint32_t limit_max, struct http_page *ret_page)
{
    const char *limit = http_query(request, "limit");
    const char *after = http_query(request, "after");
    const char *order = http_query(request, "order");
    struct http_page page = {.limit = limit_default};

    if (limit != NULL) {
        page.limit = 0;
        for (const char *digit = limit; *digit >= '0' && *digit <= '9' && page.limit <= limit_max; digit++)
            page.limit = page.limit * 10 + (uint32_t)(*digit - '0');
        if (limit[strspn(limit, "0123456789")] != '\0' || page.limit == 0 || page.limit > limit_max) {
            http_answer_error(request, 400, NULL, "limit", "limit must be a number from 1 to %u", limit_max);
            return false;
        }
    }
    if (after != NULL && after[0] != '\0') {
        if (!http_id_is_sound(after)) {
            http_answer_error(request, 400, NULL, "after", "after must be the id of an object of this list");
            return false;
        }
        page.after = after;
    }
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        http_answer_error(request, 400, NULL, "order", "order must be asc or desc");
        return false;
    }
    page.ascending = order != NULL && strcmp(order, "asc") == 0;
    *ret_page = page;
    return true;
}

json_t *http_page_json(json_t *data, bool has_more)
{
    const size_t count = json_array_size(data);
    json_t *first = count == 0 ? NULL : json_object_get(json_array_get(data, 0), "id");
    json_t *last = count == 0 ? NULL : json_object_get(json_array_get(data, count - 1), "id");
    json_t *page = json_pack("{s:s,s:O?,s:O?,s:b,s:o}", "object", "list", "first_id", first, "last_id", last, "has_more", has_more, "data",
                             data);

    check(page != NULL);
    return page;
}

bool http_retry_of(struct http_request *request, struct http_retry *ret_retry)
{
    const char *key = http_header(request, "idempotency-key");
    const char *count = http_header(request, "x-stainless-retry-count");
    struct http_retry retry = {.key = key};
    size_t bytes = 0;

    for (; key != NULL && key[bytes] > 0x20 && key[bytes] < 0x7f; bytes++)
        continue;
    if (key != NULL && (bytes == 0 || bytes > 255 || key[bytes] != '\0')) {
        http_answer_error(request, 400, NULL, NULL, "Idempotency-Key must be 1 to 255 printable ASCII characters without spaces");
        return false;
    }
    if (count != NULL && strlen(count) <= 3 && count[strspn(count, "0123456789")] == '\0')
        for (; *count != '\0'; count++)
            retry.count = retry.count * 10 + (uint32_t)(*count - '0');
    *ret_retry = retry;
    return true;
}
