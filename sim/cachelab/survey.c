#include "cachelab/survey.h"

#include <stdio.h>
#include <stdlib.h>

#include "cachelab/intern.h"

struct object {
    uint64_t size_bytes;
    uint32_t last;      /* number of its last request so far */
};

struct survey {
    struct lab_survey seen;
    struct object_trace *trace;
    struct intern *intern;
    struct object *objects; /* [objects_max], known up to seen.objects */
    uint64_t objects_max;
    uint64_t next_max;
    uint64_t at;
    bool with_next;
};

/* Twice as many as before, at least `wanted`; NULL when there is no memory. */
static void *grown(void *array, uint64_t *max, uint64_t wanted, size_t item_bytes)
{
    uint64_t to = max_u64(*max, 1024);
    void *larger;

    if (wanted <= *max)
        return array;
    while (to < wanted)
        to *= 2;
    larger = to <= SIZE_MAX / item_bytes ? realloc(array, to * item_bytes) : NULL;
    if (larger != NULL)
        *max = to;
    return larger;
}

static enum status room(struct survey *survey, uint32_t count)
{
    void *objects = grown(survey->objects, &survey->objects_max, intern_count(survey->intern), sizeof(*survey->objects));

    if (objects == NULL && intern_count(survey->intern) > 0)
        return STATUS_FULL;
    survey->objects = objects;
    if (survey->with_next) {
        void *next;

        if (survey->at + count >= NONE_INDEX)
            return STATUS_FULL;
        next = grown(survey->seen.next, &survey->next_max, survey->at + count, sizeof(*survey->seen.next));

        if (next == NULL)
            return STATUS_FULL;
        survey->seen.next = next;
    }
    return STATUS_OK;
}

static enum status requests_add(struct survey *survey, const uint64_t *ids, const uint64_t *sizes_bytes, uint32_t count)
{
    uint32_t numbers[INTERN_BATCH_MAX];

    if (intern_ids(survey->intern, ids, count, numbers) != STATUS_OK || room(survey, count) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++, survey->at++) {
        struct object *object = &survey->objects[numbers[i]];

        if (numbers[i] == survey->seen.objects)
            survey->seen.objects++;
        else if (survey->with_next)
            survey->seen.next[object->last] = (uint32_t)survey->at;
        *object = (struct object){sizes_bytes[i], (uint32_t)survey->at};
        if (survey->with_next)
            survey->seen.next[survey->at] = NONE_INDEX;
    }
    return STATUS_OK;
}

static enum status requests_read(struct survey *survey, uint64_t requests_max, bool (*progress)(void *, uint64_t, uint64_t), void *context,
                             char *ret_message)
{
    uint64_t ids[INTERN_BATCH_MAX];
    uint64_t sizes_bytes[INTERN_BATCH_MAX];
    struct object_columns_read to = {.ids = ids, .sizes_bytes = sizes_bytes};

    for (uint64_t batches = 0; requests_max == 0 || survey->at < requests_max; batches++) {
        const uint64_t most = requests_max == 0 ? INTERN_BATCH_MAX : min_u64(INTERN_BATCH_MAX, requests_max - survey->at);
        uint32_t count;
        enum status status;

        if (batches % 256 == 0 && !progress(context, survey->at, object_trace_expected(survey->trace)))
            return STATUS_END;
        status = object_trace_read_columns(survey->trace, &to, (uint32_t)most, &count);
        if (status == STATUS_END)
            break;
        if (status != STATUS_OK) {
            snprintf(ret_message, TRACE_MESSAGE_MAX, "%s", object_trace_message(survey->trace));
            return status;
        }
        if (requests_add(survey, ids, sizes_bytes, count) != STATUS_OK) {
            snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to look ahead over %llu requests, or they are 2^32 - 1 or more",
                     (unsigned long long)survey->at);
            return STATUS_FULL;
        }
    }
    return STATUS_OK;
}

enum status lab_survey_run(const struct lab_trace *trace, bool with_next, uint64_t requests_max,
                           bool (*progress)(void *context, uint64_t requests, uint64_t expected), void *context, struct lab_survey *ret_survey,
                           char *ret_message)
{
    struct survey survey = {.with_next = with_next};
    enum status status = intern_create(&survey.intern);

    if (status != STATUS_OK)
        snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to begin with");
    else
        status = object_trace_open(trace->path, trace->format, trace->options, &survey.trace, ret_message);
    if (status == STATUS_OK)
        status = requests_read(&survey, requests_max, progress, context, ret_message);
    if (status == STATUS_OK) {
        for (uint64_t i = 0; i < survey.seen.objects; i++)
            survey.seen.bytes += survey.objects[i].size_bytes;
        survey.seen.info = object_trace_info(survey.trace);
        *ret_survey = survey.seen;
    } else {
        free(survey.seen.next);
    }
    intern_free(survey.intern);
    object_trace_close(survey.trace);
    free(survey.objects);
    return status;
}
