/* Reads a trace of objects to its end and keeps what a test wants to ask about. */
#ifndef TESTS_TRACES_OBJECTS_H
#define TESTS_TRACES_OBJECTS_H

#include "object_reader.h"

enum { OBJECTS_KEPT = 64 };

struct objects {
    enum status status; /* of the open that failed, or of the last read */
    bool opened;
    uint64_t count;
    struct object_request rows[OBJECTS_KEPT]; /* the first ones */
    struct object_trace_info info;
    char message[TRACE_MESSAGE_MAX];
};

/* In batches of `max`. */
struct objects objects_of_bytes(const void *bytes, size_t count, const char *format, const struct object_options *options,
                                uint32_t max);
struct objects objects_of_text(const char *text, const char *format, const struct object_options *options);
struct objects objects_of_file(const char *path, const char *format, const struct object_options *options);

/* The trace was refused, or ended so, after `count` requests, with a message that begins with `message` and has a remedy. */
void assert_objects_refuse(const struct objects *objects, enum status status, uint64_t count, const char *message);
void assert_objects_good(const struct objects *objects, uint64_t count);
void assert_request(const struct object_request *request, uint64_t id, uint64_t size_bytes, int64_t at_ns, int64_t next);

/* oracleGeneral records, next counted from 1. */
struct oracle_record {
    uint32_t time_s;
    uint64_t id;
    uint32_t size_bytes;
    int64_t next;
};
/* ret_bytes: 24 a record. Returns the number of bytes. */
size_t oracle_bytes(const struct oracle_record *records, uint32_t count, char *ret_bytes);

#endif
