/* A job's settings to JSON and back. "auto" is said for 0. */
#include "control/api/job_settings.h"

#include <string.h>

static const struct {
    const char *name;
    size_t offset;
    bool is_real;
} table[] = {
#define IS_REAL_INT false
#define IS_REAL_REAL true
#define X(kind, name, about) {#name, offsetof(struct job_settings, name), IS_REAL_##kind},
    JOB_SETTINGS(X)
#undef X
};

const char *job_method(const struct job_settings *settings)
{
    return settings->preferences ? "dpo" : "supervised";
}

static json_t *value_of(const struct job_settings *settings, size_t i)
{
    const void *at = (const char *)settings + table[i].offset;
    const double real = table[i].is_real ? *(const double *)at : (double)*(const int64_t *)at;

    if (!(real < 0 || real > 0))
        return json_string("auto");
    return table[i].is_real ? json_real(real) : json_integer((json_int_t)*(const int64_t *)at);
}

json_t *job_settings_json(const struct job_settings *settings)
{
    json_t *json = json_pack("{s:s,s:s,s:s}", "method", job_method(settings), "schedule", settings->schedule, "suffix", settings->suffix);

    check(json != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        check(json_object_set_new(json, table[i].name, value_of(settings, i)) == 0);
    return json;
}

static bool read_text(const json_t *json, const char *name, char *ret_text, size_t size)
{
    const char *text = json_string_value(json_object_get(json, name));

    if (text == NULL || strlen(text) >= size)
        return false;
    memcpy(ret_text, text, strlen(text) + 1);
    return true;
}

static bool read_value(const json_t *json, size_t i, struct job_settings *settings)
{
    const json_t *value = json_object_get(json, table[i].name);
    void *at = (char *)settings + table[i].offset;

    if (json_is_string(value))
        return strcmp(json_string_value(value), "auto") == 0;
    if (table[i].is_real && json_is_number(value))
        *(double *)at = json_number_value(value);
    else if (!table[i].is_real && json_is_integer(value))
        *(int64_t *)at = (int64_t)json_integer_value(value);
    else
        return false;
    return true;
}

enum status job_settings_read(const char *text, struct job_settings *ret_settings, struct refusal *refusal)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    struct job_settings settings = {0};
    char method[16];
    bool good = read_text(json, "method", method, sizeof(method)) && read_text(json, "schedule", settings.schedule, sizeof(settings.schedule)) &&
                read_text(json, "suffix", settings.suffix, sizeof(settings.suffix)) &&
                (strcmp(method, "dpo") == 0 || strcmp(method, "supervised") == 0);

    for (size_t i = 0; good && i < ARRAY_COUNT(table); i++)
        good = read_value(json, i, &settings);
    json_decref(json);
    if (!good)
        return refuse(refusal, STATUS_CORRUPT, "a job's settings are not as they were written");
    settings.preferences = strcmp(method, "dpo") == 0;
    *ret_settings = settings;
    return STATUS_OK;
}
