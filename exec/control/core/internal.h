/* The inside of core/: one struct, changed by the loop's thread alone but for what `lock` guards. Events for the fleet core are queued
 * and delivered one after the other, since performing a command may bring the next. */
#ifndef CORE_INTERNAL_H
#define CORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/table.h"
#include "control/core/core.h"
#include "control/core/gpus.h"
#include "control/metadata/job.h"
#include "control/metadata/model.h"
#include "control/metadata/usage.h"
#include "fleet/fleet.h"
#include "journal/journal.h"
#include "journal/turn.h"
#include "wire/socket.h"

#define WORKERS_MAX 256
#define FETCHES_MAX 64
#define UNCOMMITTED_MAX 64            /* of a trainer or validator */
#define SERVER_UNCOMMITTED_MAX 2048   /* two seconds of the disk at a thousand answers a second: beyond, nothing of the server is read */
#define TELLS_TOGETHER_MAX 256        /* in one commit */
#define TELLS_NS (20 * NS_PER_MS)     /* from one commit to the next of a server that has fewer to tell */

struct worker_link;
struct server;
struct request;

/* --- calls: what other threads say ------------------------------------------------------------------------------------------------ */

#define CALLS(X) \
    X(TELL) X(RESTORED) X(LAUNCH) X(SAY) X(COMMIT) X(END) X(FORGET) X(FETCHED) X(ASK) X(NOTICE) X(ACT)
enum call_kind {
#define X(name) CALL_##name,
    CALLS(X)
#undef X
};

/* A frame to say, encoded, since what it was made of is gone by then. */
struct said {
    struct said *next;
    enum wire_kind kind;
    int descriptors[WIRE_DESCRIPTORS_MAX];
    uint32_t descriptors_count;
    size_t bytes;
    uint8_t body[];
};
/* NULL: no frame has room for it, or no memory. */
struct said *said_create(enum wire_kind kind, const void *body, const int *descriptors, uint32_t descriptors_count);
/* Wiped; its descriptors are closed unless they were given on. */
void said_free(struct said *said, bool descriptors_too);

struct call {
    struct call *next;
    enum call_kind kind;
    uint64_t number;         /* worker, fetch, devices */
    uint64_t seq;
    enum status status;
    bool at_once;
    uint32_t after_ms;
    int descriptor;
    uint8_t key[32];
    struct launch launch;
    struct said *said;
    struct request *request;
    struct act *act;
    struct fleet_event event;
};

/* --- acts: what the metadata's writer is to do, and the loop goes on after ---------------------------------------------------------- */

/* One frame of a server's that must be kept. */
struct tell {
    uint64_t seq;
    int64_t at_ns;           /* it came */
    bool is_usage;
    int64_t hour;
    int64_t tokens_in;
    int64_t tokens_out;
    char tenant[NAME_BYTES];
    char model[META_MODEL_NAME_BYTES];
};

struct act {
    struct call call;        /* comes back to the loop in it */
    struct act *next;        /* waits to be tried again */
    struct core *core;
    meta_act *run;
    void (*then)(struct core *core, struct act *act); /* on the loop's thread, of an answer that trying again would not change */
    enum status status;
    uint64_t worker;
    char id[NAME_BYTES];
    char text[128];          /* placement; how it ended */
    int64_t now_ms;
    int64_t acked_seq;
    bool ended;              /* the row's */
    uint32_t refused;        /* tells that no account is there for */
    struct tell *tells;
    uint32_t tells_count;
    uint64_t *known;         /* workers that are there */
    uint32_t known_count;
};
struct act *act_create(struct core *core, meta_act *run, void (*then)(struct core *core, struct act *act), uint64_t worker);
void act_free(struct act *act);
/* The act is freed after then(). */
void act_submit(struct core *core, struct act *act);
void act_came_back(struct core *core, struct act *act);
void acts_retry(struct core *core);

/* --- workers ------------------------------------------------------------------------------------------------------------------------ */

enum worker_phase {
    WORKER_ROW,      /* its row is being written */
    WORKER_ASKED,    /* the launcher was asked */
    WORKER_READ,     /* found, its row is being read */
    WORKER_TALKS
};
struct worker_link {
    struct launch launch;
    enum worker_phase phase;
    int socket;              /* -1: none, or all was read */
    uint32_t watched;        /* epoll's events */
    struct wire *wire;       /* NULL: not yet */
    bool is_found;
    bool is_dead;
    bool is_held;            /* a server that was found: nothing is read until it has its place again, or none */
    uint32_t found_base;
    uint16_t found_mask;
    uint32_t found_replica;
    bool is_over;            /* a fault, or ended by us: nothing more is read */
    bool end_wanted;         /* the launcher took no more just now: asked again each turn */
    bool end_at_once;
    bool forget_wanted;
    bool has_exited;
    bool is_gone;            /* its exit and all its frames were heard */
    bool wants_output;
    struct launch_end end;
    struct said *says;       /* wait for HELLO, or for room */
    struct said **says_end;
    uint32_t says_count;
    /* A model server's. */
    uint32_t server;         /* index of the replica; NONE_INDEX: another kind, or no longer */
    struct tell *tells;      /* in order; what a wire leaves uncommitted, and what a dead one is billed */
    uint32_t tells_count;
    uint32_t tells_max;
    bool is_telling;
    int64_t tells_due_ns;    /* fewer than TELLS_TOGETHER_MAX wait until then */
    bool is_ending;          /* its row's end is being written */
};

/* NULL: unknown. */
struct worker_link *worker_link_find(struct core *core, uint64_t worker);
/* NULL: WORKERS_MAX are there. */
struct worker_link *worker_link_add(struct core *core, const struct launch *launch, enum worker_phase phase);
void worker_link_free(struct core *core, struct worker_link *worker);
/* STATUS_IO: the launcher is gone. */
enum status launcher_hear(struct core *core);
void worker_link_hear(struct core *core, struct worker_link *worker);
/* Says what waits, sends, watches. */
void worker_link_turn(struct core *core, struct worker_link *worker);
void worker_link_end(struct core *core, struct worker_link *worker, bool at_once);
/* Behind what waits already; owns it. */
void worker_link_say(struct core *core, struct worker_link *worker, struct said *said);
/* At the launcher, and here. */
void worker_link_forget(struct core *core, struct worker_link *worker);
int64_t worker_link_due_ns(const struct core *core, const struct worker_link *worker);
void found_settle(struct core *core);

/* The driver's workers. */
void driven_heard(struct core *core, struct core_heard *heard);
void driven_frame(struct core *core, struct worker_link *worker, const struct wire_frame *frame);
void driven_call(struct core *core, struct call *call);

/* --- the fleet core ------------------------------------------------------------------------------------------------------------------ */

TURN(fleet)

struct fleet_told {
    struct fleet_event *events; /* a ring that grows: what one turn makes is bounded by the tables */
    uint32_t first;
    uint32_t count;
    uint32_t max;
    bool delivering;
};

enum status host_open(struct core *core, struct refusal *refusal);
void host_close(struct core *core);
void host_tell(struct core *core, const struct fleet_event *event);
void host_tick(struct core *core);
struct fleet_event host_event(enum fleet_event_kind kind);
void host_restored(struct core *core);
void host_notice(struct core *core, uint32_t devices, uint32_t after_ms);
/* What of a notice is due. */
void host_notice_turn(struct core *core);
int64_t host_notice_due_ns(const struct core *core);

/* --- model servers ------------------------------------------------------------------------------------------------------------------ */

enum known_state {
    KNOWN_NOT,
    KNOWN_WANTED,    /* in the server's queue for a fetch */
    KNOWN_FETCHED,   /* by one of core.fetches: asked, or waits for room to be said */
    KNOWN_LOADED     /* said */
};
/* An adapter at a server. */
struct known {
    uint8_t state;
    bool on_device;
    bool in_host;
    uint32_t refs;           /* requests there that name it */
    uint32_t prev;           /* LOADED: by use, the longest unused first; WANTED: in order */
    uint32_t next;
    uint64_t generation;
};
struct known_list {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};
struct request_list {
    struct request *first;
    struct request *last;
    uint32_t count;
};
enum server_state { SERVER_NONE, SERVER_STARTING, SERVER_UP };
struct server {
    enum server_state state;
    uint32_t index;
    uint32_t base;
    replica_id replica;
    uint16_t gpu_mask;
    uint64_t worker;
    uint64_t ask;            /* the fleet's command that waits for its answer; 0: none */
    bool is_ready;           /* INVENTORY came */
    bool is_draining;
    bool drain_said;
    uint32_t kv_free_permille; /* as its beat said */
    struct known *known;     /* [adapters_max + 1] */
    struct known_list loaded;
    struct known_list wanted;
    struct request_list parked; /* wait for their adapter */
    struct request_list ready;  /* wait for room */
    struct request_list sent;
    struct request_list owing;  /* of those sent: credit or an abort is to be said */
};

void server_start(struct core *core, const struct fleet_command *command);
void server_drain(struct core *core, const struct fleet_command *command);
void server_refused(struct core *core, struct worker_link *worker);
void server_frame(struct core *core, struct worker_link *worker, const struct wire_frame *frame);
/* All it had to say was heard, and it was reaped. */
void server_gone(struct core *core, struct worker_link *worker);
void server_found(struct core *core, struct worker_link *worker, const char *placement);
/* To the fleet core, which is restoring; one that has no place is ended. */
void servers_tell_found(struct core *core);
/* Says what it owes, its tells to the writer. */
void server_turn(struct core *core, struct worker_link *worker);
void server_tell(struct core *core, struct worker_link *worker, const struct tell *tell);
/* "tenant model"; false: it is nothing of the kind. */
bool server_account(struct tell *tell, const char *account, size_t bytes);
void server_tells_turn(struct core *core, struct worker_link *worker);
/* `how`: a code. The launcher forgets it after that, and so do we. */
void server_end_row(struct core *core, struct worker_link *worker, const char *how);
void servers_end_rows(struct core *core);
struct server *server_of(struct core *core, const struct worker_link *worker); /* NULL: none any more */

/* --- adapters ------------------------------------------------------------------------------------------------------------------------ */

struct adapter {
    struct core_adapter info;
    uint32_t version;
    bool used;
    uint32_t refs;           /* requests under way */
    uint32_t prev;           /* refs 0: by use, the longest unused first */
    uint32_t next;
};
struct fetch {
    uint64_t number;         /* 0: free */
    uint32_t server;         /* NONE_INDEX: nobody wants it any more */
    uint32_t adapter;
    bool answered;
    int object;
    uint8_t key[32];
};

/* STATUS_FULL: all that are known are in use; STATUS_INVALID: another has its hash. One more request names it. */
enum status adapter_take(struct core *core, const struct core_adapter *info, uint32_t *ret_index);
void adapter_give(struct core *core, uint32_t index);
/* A request was routed there; true: its adapter is there already. */
bool adapter_want(struct core *core, struct server *server, uint32_t index);
void adapter_unwant(struct core *core, struct server *server, uint32_t index);
void adapter_resident(struct core *core, struct server *server, const struct wire_resident *resident, bool is_inventory);
void adapter_unloaded(struct core *core, struct server *server, const struct wire_unloaded *unloaded);
/* False: the server has no room to hear of it now. */
bool adapter_unload(struct core *core, struct server *server, uint32_t index);
/* Nobody waits for it there any more. */
void adapter_fetch_leave(struct core *core, uint32_t server, uint32_t adapter);
void adapter_fetches_leave(struct core *core, uint32_t server);
void adapters_fetched(struct core *core, struct call *call);
/* Loads what was fetched, asks for what is wanted. */
void adapters_turn(struct core *core);
void adapters_server_up(struct core *core, struct server *server);
void adapters_forget_server(struct core *core, struct server *server);
void known_push(struct known *known, struct known_list *list, uint32_t index);
void known_remove(struct known *known, struct known_list *list, uint32_t index);

/* --- requests ------------------------------------------------------------------------------------------------------------------------ */

enum request_state { REQUEST_ASKED, REQUEST_WAITING, REQUEST_PARKED, REQUEST_READY, REQUEST_SENT };
struct request {
    /* Under the lock. */
    uint64_t taken;          /* by the client, not yet seen by the loop */
    bool abort_asked;
    bool is_touched;
    struct request *next_touched;
    /* The loop's. */
    request_id id;
    _Atomic enum request_state state; /* read under the lock by who looks */
    struct request *prev;
    struct request *next;
    struct request *next_owing;
    bool is_owing;
    bool is_aborted;
    bool abort_said;
    bool is_billed;          /* its USAGE came */
    uint32_t server;         /* PARKED, READY, SENT */
    uint32_t adapter;        /* 0: none */
    uint32_t base;
    uint32_t tenant;
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    uint32_t sent_tokens;    /* to its owner */
    uint32_t credited;
    uint64_t credit_owed;
    int64_t give_up_at_ns;   /* WAITING */
    void *owner;
    void (*tokens)(void *owner, const struct wire_tokens *tokens);
    void (*end)(void *owner, const struct core_end *end);
    bool has_adapter;
    struct core_adapter info;
    const int32_t *prompt;
    const char *settings;
    const char *account;
};

struct request *request_create(const struct core_ask *ask);
void request_asked(struct core *core, struct request *request);
void request_touched(struct core *core, struct request *request, uint64_t taken, bool abort_asked);
void request_routed(struct core *core, const struct fleet_command *command);
void request_refused(struct core *core, const struct fleet_command *command);
/* The adapter has come, or will not. */
void requests_adapter_there(struct core *core, struct server *server, uint32_t adapter);
void requests_adapter_failed(struct core *core, struct server *server, uint32_t adapter, enum status status);
/* Those that wait for a replica of this base; NONE_INDEX: all. Before core_restored() nobody asks. */
void requests_ask_again(struct core *core, uint32_t base);
void requests_give_up(struct core *core, bool all);
int64_t requests_due_ns(const struct core *core);
void requests_say(struct core *core, struct server *server, struct wire *wire);
void request_tokens(struct core *core, struct server *server, const struct wire_tokens *tokens);
void request_done(struct core *core, struct server *server, const struct wire_done *done);
void request_used(struct core *core, uint64_t request);
/* The server is gone: what had tokens is lost, the rest asks again; what is to be billed goes to the worker's tells. */
void requests_server_gone(struct core *core, struct request_list *sent, struct request_list *others, struct worker_link *worker);
void requests_end_all(struct core *core);
void request_ask(struct core *core, struct request *request);
/* Of one that no server has begun. */
void request_end_early(struct core *core, struct request *request, enum core_end_reason reason, const char *why);
/* The last that is heard of it; it stands in no list. */
void request_finish(struct core *core, struct request *request, const struct core_end *end);
void request_leave_server(struct core *core, struct request *request);
void request_tell_done(struct core *core, const struct request *request, const struct wire_done *done); /* NULL: nothing came of it */
void request_unlink(struct request_list *list, struct request *request);
struct request *request_find(struct core *core, uint64_t id);

/* --- all ----------------------------------------------------------------------------------------------------------------------------- */

struct core {
    struct core_config config; /* defaults filled in */
    struct core_base *bases;
    pthread_t thread;
    bool has_thread;
    int epoll;
    int wake;                /* an eventfd */
    int64_t boot_first_ns;
    int64_t now_ns;          /* of this turn */
    int64_t stop_at_ns;      /* 0: runs */
    bool launcher_gone;

    pthread_mutex_t lock;
    struct call *calls;      /* a queue */
    struct call **calls_end;
    uint32_t calls_count;    /* of others' */
    bool is_woken;
    bool is_closed;          /* nothing is taken any more */
    uint32_t stop_within_ms; /* before stop_asked, which the loop reads without the lock */
    atomic_bool stop_asked;
    atomic_uint wakers;      /* threads that have let go of the lock and are about to wake the loop */
    struct request **slots;  /* [requests_max] */
    uint32_t *slots_free;
    uint32_t slots_free_count;
    uint64_t ordinal;
    struct request *touched;
    struct core_counts public_counts;
    struct core_base_counts *base_counts; /* [bases_count] */

    struct core_counts counts;
    struct fleet *fleet;
    void *fleet_memory;
    struct fleet_host fleet_host;
    struct fleet_commands commands;
    struct fleet_told told;
    struct fleet_told held;  /* of the driver's, until it runs */
    uint64_t fleet_seq;
    int64_t fleet_wakeup_at_ns;
    FILE *journal;
    uint64_t journal_chain;
    bool is_restored;        /* the driver has said so */
    bool is_running;         /* and all that was found is told */
    uint16_t noticed_mask;
    uint16_t gone_mask;
    int64_t gone_at_ns;
    bool wanted_back;

    struct worker_link *workers[WORKERS_MAX];
    struct table worker_of;
    void *worker_of_memory;
    bool is_listed;
    bool told_listed;
    uint32_t found_reading;  /* rows of found ones */
    struct wire_inbox inbox;

    struct server *servers;  /* [replicas] */
    uint32_t replicas;
    uint32_t *replica_first; /* [bases_count] */

    struct adapter *adapters; /* [adapters_max + 1] */
    uint32_t adapters_used;
    struct known_list adapters_unused;
    struct table adapter_of;
    void *adapter_of_memory;
    struct fetch fetches[FETCHES_MAX];
    uint64_t fetches_asked;
    uint64_t generation;

    struct request_list waiting;

    uint32_t acts_in_flight;
    struct act *acts_waiting;
    int64_t acts_again_at_ns;
};

/* A call's own copy is made by the caller; STATUS_FULL, STATUS_END: it was not taken. */
enum status calls_push(struct core *core, struct call *call, bool bounded);
struct call *calls_take(struct core *core);
struct request *calls_take_touched(struct core *core);
void core_slot_free(struct core *core, struct request *request);
void *core_loop(void *context);
void core_log(struct core *core, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t core_wall_ms(void);

#endif
