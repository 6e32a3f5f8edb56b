#include "objects.h"

#include "support.h"

static void read_all(struct object_trace *trace, uint32_t max, struct objects *objects)
{
    static struct object_request rows[4096];
    uint32_t count;

    assert_in_range(max, 1, ARRAY_COUNT(rows));
    objects->opened = true;
    while ((objects->status = object_trace_read(trace, rows, max, &count)) == STATUS_OK) {
        assert_in_range(count, 1, max);
        for (uint32_t i = 0; i < count && objects->count + i < OBJECTS_KEPT; i++)
            objects->rows[objects->count + i] = rows[i];
        objects->count += count;
    }
    assert_int_equal(count, 0);
    assert_int_equal(object_trace_read(trace, rows, max, &count), objects->status); /* an end is an end */
    objects->info = object_trace_info(trace);
    assert_int_equal(objects->info.requests, objects->count);
    memcpy(objects->message, object_trace_message(trace), TRACE_MESSAGE_MAX);
}

/* In columns, which have no times: those stay as they are. With `next` and without is the same. */
static void read_columns(struct object_trace *trace, uint32_t max, bool with_next, struct objects *objects)
{
    static uint64_t ids[4096], sizes_bytes[4096];
    static int64_t next[4096];
    struct object_columns_read to = {ids, sizes_bytes, with_next ? next : NULL, 1};
    uint32_t count;

    objects->count = 0;
    while ((objects->status = object_trace_read_columns(trace, &to, max, &count)) == STATUS_OK) {
        uint128 bytes = 0;

        assert_in_range(count, 1, max);
        for (uint32_t i = 0; i < count; i++)
            bytes += sizes_bytes[i];
        assert_true(bytes == to.bytes);
        for (uint32_t i = 0; i < count && objects->count + i < OBJECTS_KEPT; i++) {
            struct object_request *row = &objects->rows[objects->count + i];

            *row = (struct object_request){ids[i], sizes_bytes[i], row->at_ns, with_next ? next[i] : row->next};
        }
        objects->count += count;
    }
    assert_int_equal(count, 0);
    objects->info = object_trace_info(trace);
    memcpy(objects->message, object_trace_message(trace), TRACE_MESSAGE_MAX);
}

struct objects objects_of_bytes(const void *bytes, size_t count, const char *format, const struct object_options *options,
                                uint32_t max)
{
    struct objects objects = {0};
    struct objects again = {0};
    struct object_trace *trace;

    objects.status = object_trace_open_bytes(bytes, count, format, options, &trace, objects.message);
    if (objects.status != STATUS_OK)
        return objects;
    read_all(trace, max, &objects);
    /* The second time is as the first. */
    assert_int_equal(object_trace_rewind(trace), STATUS_OK);
    read_all(trace, max, &again);
    assert_memory_equal(&objects, &again, sizeof(again));
    for (uint32_t with_next = 0; with_next < 2; with_next++) {
        assert_int_equal(object_trace_rewind(trace), STATUS_OK);
        read_columns(trace, max, with_next == 1, &again);
        assert_memory_equal(&objects, &again, sizeof(again));
    }
    object_trace_close(trace);
    return objects;
}

struct objects objects_of_text(const char *text, const char *format, const struct object_options *options)
{
    struct objects small = objects_of_bytes(text, strlen(text), format, options, 1);
    struct objects objects = objects_of_bytes(text, strlen(text), format, options, 1000);

    assert_memory_equal(&small, &objects, sizeof(small)); /* the batch makes no difference */
    return objects;
}

struct objects objects_of_file(const char *path, const char *format, const struct object_options *options)
{
    struct objects objects = {0};
    struct object_trace *trace;

    objects.status = object_trace_open(path, format, options, &trace, objects.message);
    if (objects.status != STATUS_OK)
        return objects;
    read_all(trace, 1000, &objects);
    object_trace_close(trace);
    return objects;
}

void assert_objects_refuse(const struct objects *objects, enum status status, uint64_t count, const char *message)
{
    assert_int_equal(objects->status, status);
    assert_int_equal(objects->count, count);
    if (strncmp(objects->message, message, strlen(message)) != 0)
        fail_msg("said  \"%s\"\nwanted \"%s\"", objects->message, message);
    assert_non_null(strchr(objects->message, ';'));
    for (const char *at = objects->message; *at != 0; at++)
        assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
}

void assert_objects_good(const struct objects *objects, uint64_t count)
{
    assert_string_equal(objects->message, "");
    assert_int_equal(objects->status, STATUS_END);
    assert_int_equal(objects->count, count);
}

void assert_request(const struct object_request *request, uint64_t id, uint64_t size_bytes, int64_t at_ns, int64_t next)
{
    assert_int_equal(request->id, id);
    assert_int_equal(request->size_bytes, size_bytes);
    assert_int_equal(request->at_ns, at_ns);
    assert_int_equal(request->next, next);
}

size_t oracle_bytes(const struct oracle_record *records, uint32_t count, char *ret_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        char *at = ret_bytes + (size_t)i * 24;

        memcpy(at, &records[i].time_s, 4);
        memcpy(at + 4, &records[i].id, 8);
        memcpy(at + 12, &records[i].size_bytes, 4);
        memcpy(at + 16, &records[i].next, 8);
    }
    return (size_t)count * 24;
}
