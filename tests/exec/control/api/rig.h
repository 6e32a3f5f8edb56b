/* The platform as processes of its own, over a folder with two tenants, and a client that says what it is told. The process can be
 * killed at a point: a sync of the disk, a frame that is sent or comes, whichever process it is in. */
#ifndef TESTS_API_RIG_H
#define TESTS_API_RIG_H

#include <jansson.h>
#include <sys/types.h>

#include "control/metadata/key.h"
#include "exec/scratch.h"
#include "support.h"

struct rig {
    struct scratch scratch;
    char state[512];
    char log[512];
    const char *more[8];       /* of the command line, up to a NULL; set after rig_begin() */
    pid_t process; /* the keeper; 0: none */
    uint16_t port;
    char ready[1024]; /* the line in which it said so */
    char acme[NAME_BYTES], other[NAME_BYTES]; /* tenants */
    char key[META_KEY_TEXT_BYTES];            /* acme's */
    char other_key[META_KEY_TEXT_BYTES];
};
struct answer {
    unsigned status; /* 0: the line was cut before one came */
    char *text;      /* head and body */
    const char *body;
    size_t body_bytes;
    json_t *json;    /* NULL: the body is none */
};

void rig_begin(struct rig *rig);
void rig_end(struct rig *rig);
void rig_start(struct rig *rig);
/* SIGTERM, and its exit code. */
int rig_stop(struct rig *rig);
/* The last process of this name that the keeper told of; 0: none. */
pid_t rig_process(const struct rig *rig, const char *name);
enum { RIG_CONTROL = 1, RIG_VAULT = 2, RIG_SERVER = 4, RIG_TRAINER = 8, RIG_VALIDATOR = 16 };
/* Before and after a sync of the disk, before and after a frame is sent, after one came. */
enum rig_moment { RIG_SYNC, RIG_SYNCED, RIG_SEND, RIG_SENT, RIG_CAME };
struct rig_point {
    const char *name;
    uint32_t roles;
    enum rig_moment moment;
    uint32_t kind;   /* enum wire_kind; 0: of a sync */
    uint32_t after;  /* counted from when such a frame came to it; 0: at once */
    uint32_t n;      /* the n-th time */
};
/* From now on: the process that comes there is killed. */
void rig_kill_there(const struct rig_point *point);
/* It has come there and is dead. */
bool rig_is_killed(void);
/* From now on: the n-th sync of control plane or vault kills that process; 0: none. */
void rig_kill_at(uint32_t n);
bool rig_was_killed(void); /* and no kill comes any more */
/* Kills the keeper, with which all of it ends. */
void rig_reap(struct rig *rig);
/* A key of a role; tenant NULL: the platform's. While nothing runs. */
void rig_key(struct rig *rig, const char *tenant, const char *role, int64_t expires_at_ms, char ret_key[META_KEY_TEXT_BYTES]);
/* Writes rows; the same. */
void rig_fill(struct rig *rig, void (*fill)(const struct rig *rig, struct metadata *metadata));
void rig_revoke(struct rig *rig, const char *key);
/* Files in a folder below the state's, in all its folders. */
uint32_t rig_files_below(const struct rig *rig, const char *folder);
/* How many files below the state folder, and the log, hold these bytes. */
uint32_t rig_files_with(const struct rig *rig, const char *words);

int client_connect(const struct rig *rig);
void client_send(int fd, const void *bytes, size_t count); /* a line that is cut meanwhile is fine */
void client_read(int fd, struct answer *answer);           /* to the end, and closes */
/* "GET /v1/models"; the answer is what was there before, freed. `more`: headers, each with its end. */
void client_ask(const struct rig *rig, const char *key, const char *line, const char *more, struct answer *answer);
/* A POST of JSON, sent; the answer is yet to be read. */
int client_begin_post(const struct rig *rig, const char *key, const char *path, const void *body, size_t bytes);
void client_post(const struct rig *rig, const char *key, const char *path, const char *body, struct answer *answer);
void client_post_with(const struct rig *rig, const char *key, const char *path, const char *more, const char *body, struct answer *answer);
/* Body of an upload: file first, as the official client has it. To free(). */
char *client_body(const char *name, const char *purpose, const void *content, size_t bytes, size_t *ret_bytes);
void client_upload(const struct rig *rig, const char *key, const char *more, const char *name, const void *content, size_t bytes,
                   struct answer *answer);
void answer_clear(struct answer *answer);
/* A text of the body's object; "" where there is none. */
const char *answer_text(const struct answer *answer, const char *name);
/* error.NAME */
const char *answer_error(const struct answer *answer, const char *name);

#endif
