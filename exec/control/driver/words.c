/* What is said of a job: events, whose words are sealed, and numbers that are known by name. What a worker says may hold a tenant's words,
 * so nothing of it reaches a row or a log but by these two ways. */
#include <stdio.h>
#include <stdlib.h>

#include "control/driver/internal.h"
#include "crypto/envelope.h"

#define METRICS(X)                                                                                                                        \
    X(step) X(total_steps) X(epoch) X(train_loss) X(train_mean_token_accuracy) X(valid_loss) X(valid_mean_token_accuracy)                 \
    X(full_valid_loss) X(full_valid_mean_token_accuracy) X(rate) X(examples) X(lines) X(tokens) X(trained_tokens) X(epochs) X(batch)      \
    X(steps) X(errors) X(warnings) X(best_step)
static const char *const known[] = {
#define X(name) #name,
    METRICS(X)
#undef X
};

json_t *metrics_known(const json_t *metrics)
{
    json_t *kept = json_object();

    check(kept != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        json_t *value = json_object_get(metrics, known[i]);

        if (json_is_number(value))
            check(json_object_set(kept, known[i], value) == 0);
    }
    return kept;
}

json_t *metrics_read(const uint8_t *bytes, size_t count)
{
    return count <= METRICS_BYTES_MAX ? json_loadb((const char *)bytes, count, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

/* --- events ----------------------------------------------------------------------------------------------------------------- */

/* Words are sealed to the event's number, which is the next one: nobody else writes before this transaction ends. */
static enum status seal(struct driver *driver, struct metadata *metadata, const char *tenant, const char *job, const char *words,
                        uint8_t *ret_sealed, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_event *last = NULL;
    char id[2 * NAME_BYTES];
    uint32_t count = 0;
    bool more;
    enum status status = meta_event_list(metadata, tenant, job, INT64_MAX, 1, &results, &last, &count, &more, refusal);

    if (status == STATUS_OK) {
        snprintf(id, sizeof(id), "%s-%lld", job, (long long)(count > 0 ? last->n + 1 : 1));
        status = vault_text_seal(driver->config.vault, tenant, "event", id, words, strlen(words), ret_sealed, refusal);
    }
    meta_results_free(&results);
    return status;
}

enum status event_add(struct driver *driver, struct metadata *metadata, const char *tenant, const char *job, const struct said *said,
                      struct refusal *refusal)
{
    uint8_t sealed[REPORT_WORDS_BYTES + VAULT_SEALED_EXTRA];
    struct meta_bytes bytes = {NULL, 0};
    enum status status = STATUS_OK;

    if (said->words != NULL && said->words[0] != '\0') {
        check(strlen(said->words) < REPORT_WORDS_BYTES);
        status = seal(driver, metadata, tenant, job, said->words, sealed, refusal);
        bytes = (struct meta_bytes){sealed, strlen(said->words) + VAULT_SEALED_EXTRA};
    }
    return status == STATUS_OK
               ? meta_event_add(metadata, tenant, job, said->level, said->code, said->metrics, bytes, driver_now_ms(), NULL, refusal)
               : status;
}

/* --- reports ---------------------------------------------------------------------------------------------------------------- */

#define REPORT_BYTES_MAX (4u << 20)

static enum status read_object(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    struct refusal unheard = {{0}};

    return store_get_read(context, offset, ret_bytes, count, &unheard);
}

/* free() it; NULL: it cannot be opened. */
static char *open_report(struct driver *driver, const char *tenant, const char *object, const uint8_t *key, size_t *ret_count)
{
    const struct envelope_label label = {.tenant = tenant, .object = object, .purpose = OBJECT_REPORT};
    struct refusal unheard = {{0}};
    struct store_get *get = NULL;
    struct opener *opener = NULL;
    char *text = NULL;

    if (store_get_open(driver->config.store, tenant, object, &get, &unheard) == STATUS_OK &&
        opener_open(&label, key, store_get_bytes(get), read_object, get, &opener) == STATUS_OK && opener_bytes(opener) <= REPORT_BYTES_MAX)
        text = malloc(opener_bytes(opener) + 1);
    if (text != NULL) {
        *ret_count = opener_bytes(opener);
        if (opener_read(opener, 0, text, *ret_count) != STATUS_OK) {
            free(text);
            text = NULL;
        }
    }
    opener_close(opener);
    store_get_close(get);
    return text;
}

static void first_fault(const json_t *report, char ret_words[REPORT_WORDS_BYTES])
{
    const json_t *issues = json_object_get(report, "issues");

    for (size_t i = 0; i < json_array_size(issues); i++) {
        const json_t *issue = json_array_get(issues, i);
        const char *severity = json_string_value(json_object_get(issue, "severity"));
        const char *message = json_string_value(json_object_get(issue, "message"));
        const char *hint = json_string_value(json_object_get(issue, "hint"));
        const long long line = json_integer_value(json_object_get(issue, "line"));

        if (severity == NULL || strcmp(severity, "error") != 0 || message == NULL)
            continue;
        if (line > 0)
            snprintf(ret_words, REPORT_WORDS_BYTES, "line %lld: %.280s %.160s", line, message, hint != NULL ? hint : "");
        else
            snprintf(ret_words, REPORT_WORDS_BYTES, "%.280s %.160s", message, hint != NULL ? hint : "");
        return;
    }
}

void report_words(struct driver *driver, const char *tenant, const char *object, char ret_words[REPORT_WORDS_BYTES])
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct refusal unheard = {{0}};
    json_t *report = NULL;
    char *text = NULL;
    size_t count = 0;

    ret_words[0] = '\0';
    if (key != NULL && object != NULL && vault_key_give(driver->config.vault, tenant, object, key, &unheard) == STATUS_OK)
        text = open_report(driver, tenant, object, key, &count);
    if (text != NULL)
        report = json_loadb(text, count, 0, NULL);
    first_fault(report, ret_words);
    json_decref(report);
    free(text);
    secret_free(key);
}
