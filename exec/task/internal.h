/* The inside of tasks, for task/ only. */
#ifndef TASK_INTERNAL_H
#define TASK_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <signal.h>

#include "crypto/envelope.h"
#include "link/fault.h"
#include "link/link.h"
#include "task/task.h"

#define GRANTS_MAX WIRE_DESCRIPTORS_MAX
#define SPARES_MAX 16
#define DIGEST_SEALED_BYTES 32

/* An object that was granted: a descriptor, a key, a name. */
struct grant {
    int file;                  /* -1: none */
    uint32_t index;            /* in its frame */
    char object[NAME_BYTES];
    uint8_t key[KEY_BYTES];
};

/* What is in locked memory: keys. */
struct grants {
    struct grant start[GRANTS_MAX];
    uint32_t start_count;
    struct grant spare[SPARES_MAX]; /* outputs for when they are needed; the first of each sort goes first */
    bool is_adapter[SPARES_MAX];
    uint32_t spare_count;
};

enum spare { SPARE_STATE, SPARE_ADAPTER };

struct task {
    const struct task_config *config;
    enum task_kind kind;       /* the config's until START says more */
    struct link *link;
    pthread_mutex_t mutex;     /* over link, grants->spare and what follows; never held while something is waited for */
    pthread_cond_t changed;    /* spares came, or it is stopped */
    int wake;                  /* an eventfd: the working thread has said something */
    bool is_over;              /* the working thread has ended */
    volatile sig_atomic_t stop; /* save and end */
    uint64_t step;             /* for INVENTORY: 0 before START was read, then what was done, at least 1 */
    bool has_failed;           /* of the thread that said so; read when it has ended */
    int64_t settled_by_ns;     /* NEVER_NS: it works */
    int64_t lost_at_ns;        /* when its lease was over; NEVER_NS: it has one */
    struct grants *grants;     /* secret_alloc() */
    struct wire_start start;   /* its views are not to be used */
    json_t *settings;
    char tenant[NAME_BYTES];
    int files[GRANTS_MAX];     /* that came with START; -1: none */
    bool is_unfiltered;        /* it computes on a GPU */
    void *work;                /* the task's own */
};

/* --- what comes and goes ------------------------------------------------------------------------------------------------------ */

/* Waits for START and takes it: settings, descriptors, keys. OK, or what FAILED is to say. */
enum fault task_start(struct task *task, struct refusal *refusal);
/* Of the thread that holds the link: until the working thread has ended and all that was said is committed. False: nobody came for it. */
bool task_attend(struct task *task);
/* From any thread; a `must` frame waits for room. */
void task_say(struct task *task, enum wire_kind kind, const void *body);
void task_say_failed(struct task *task, uint64_t step, enum fault fault, const char *text);
/* An output to write to; STATUS_NOT_FOUND: none there. `waits`: until one comes, or the task is stopped. Its place is the caller's from
 * then on; grant_close() it. */
enum status task_take_spare(struct task *task, enum spare sort, bool waits, struct grant *ret_grant);
void grant_close(struct grant *grant);
/* One of START's, before there is a working thread. */
void task_add_spare(struct task *task, enum spare sort, const struct grant *grant);

/* --- objects ------------------------------------------------------------------------------------------------------------------ */

/* The grant that settings[name] means; NULL: it is null or missing. INVALID: no such grant. */
enum status task_grant(const struct task *task, const char *name, struct grant **ret_grant, struct refusal *refusal);
/* The descriptor of the base's folder; -1: there is none. */
int task_base(const struct task *task);
/* free() it; there is a '\0' behind its end. */
enum status sealed_read(const struct task *task, const struct grant *grant, const char *purpose, int64_t bytes_max, void **ret_data,
                        int64_t *ret_bytes, struct refusal *refusal);
/* Piece by piece; false from `take` ends it early. */
typedef bool sealed_take(void *context, const void *bytes, size_t count);
enum status sealed_stream(const struct task *task, const struct grant *grant, const char *purpose, sealed_take *take, void *context,
                          struct refusal *refusal);

struct sealing {
    struct sealer *sealer;
    int file;
    uint64_t bytes;            /* sealed */
    uint8_t digest[DIGEST_SEALED_BYTES]; /* of them, after the end */
    void *hash;
};
enum status sealing_begin(const struct task *task, const struct grant *grant, const char *purpose, struct sealing *writing,
                         struct refusal *refusal);
enum status sealing_put(struct sealing *writing, const void *bytes, int64_t count, struct refusal *refusal);
/* On disk when it returns. */
enum status sealing_end(struct sealing *writing, struct refusal *refusal);
void sealing_close(struct sealing *writing); /* all zero is fine */
enum status seal_whole(const struct task *task, const struct grant *grant, const char *purpose, const void *bytes, int64_t count,
                         struct sealing *ret_written, struct refusal *refusal);

/* --- settings ----------------------------------------------------------------------------------------------------------------- */

/* A number or null; "auto" too is `otherwise`. */
int64_t whole_of(const json_t *object, const char *name, int64_t otherwise);
double real_of(const json_t *object, const char *name, double otherwise);

/* --- the tasks: on a thread of their own, in the sandbox ---------------------------------------------------------------------- */

/* Before the sandbox: what has to be opened by name, or asked of the machine. */
enum fault validate_open(struct task *task, struct refusal *refusal);
void validate_work(struct task *task);
void validate_close(struct task *task);
enum fault adopt_open(struct task *task, struct refusal *refusal);
void adopt_work(struct task *task);
void adopt_close(struct task *task);
enum fault train_open(struct task *task, struct refusal *refusal);
void train_work(struct task *task);
void train_close(struct task *task);

#endif
