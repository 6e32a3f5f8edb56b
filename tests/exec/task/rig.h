/* A worker of a task in a child process, and the control plane's end of its talk in the test: objects sealed for it, frames taken from it. */
#ifndef TESTS_EXEC_TASK_RIG_H
#define TESTS_EXEC_TASK_RIG_H

#include <jansson.h>
#include <sys/types.h>

#include "crypto/envelope.h"
#include "exec/scratch.h"
#include "link/fault.h"
#include "support.h"
#include "task/task.h"
#include "wire/socket.h"

#define TENANT "org-1"

/* A file without a name. */
struct object {
    char id[NAME_BYTES];
    uint8_t key[KEY_BYTES];
    int file;
};
struct object object_new(const char *id);
/* With these bytes sealed in it. */
struct object object_of(const char *id, const char *purpose, const void *bytes, size_t count);
/* free() it; fails the test when it does not open. */
char *object_text(const struct object *object, const char *purpose, size_t *ret_count);
int64_t object_size(const struct object *object);
void object_digest(const struct object *object, uint8_t ret_digest[32]); /* of its sealed bytes */

#define FRAMES_MAX 512
struct said {
    uint16_t kind;
    union wire_body body;        /* its views are gone */
    char *metrics;               /* of those that have any, or NULL */
    uint8_t sealed[FAULT_SEALED_MAX];
    uint32_t sealed_count;
};

struct control {
    struct wire *wire;
    void *memory;
    int socket;
    pid_t child;
    struct wire_inbox inbox;
    struct said said[FRAMES_MAX]; /* `must` frames but HELLO and INVENTORY, and PROGRESS */
    int count;
    uint64_t inventory_step;     /* of the last INVENTORY */
};

/* descriptors, grants: of the objects, in this order; base: a folder whose descriptor goes behind them, or NULL. */
extern const char *control_program; /* berth-exec, to run it as the keeper does; NULL: a fork of the test */
extern uint32_t control_lease_ms; /* of those that begin; nobody renews it */
struct control *control_begin(enum task_kind kind, const char *settings, const struct object *const *objects, int count, const char *base);
/* Another control plane takes it over. */
void control_restart(struct control *control);
/* Takes what comes until a frame of this kind, or the end of the process: NULL then. What was said stays the control's. */
const struct said *control_await(struct control *control, uint16_t kind);
/* Until its end; its exit code, or 128 and a signal's number. */
int control_wait(struct control *control);
void control_more(struct control *control, uint32_t deadline_ms, const struct object *const *objects, int count);
void control_kill(struct control *control);
void control_end(struct control *control); /* free() */

#endif
