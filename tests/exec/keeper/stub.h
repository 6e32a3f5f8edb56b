/* A control plane and workers that the keeper starts in tests: the test program itself, under another first argument. What the control
 * plane has promised lies on a disk, a file to which whole records are appended; a plan says what it starts and where it is killed. */
#ifndef TESTS_KEEPER_STUB_H
#define TESTS_KEEPER_STUB_H

#include <stdint.h>

/* Programs that are workers: rows of the keeper's table. */
#define STUB_WORKERS(X)                                                            \
    X(STEADY)      /* says USAGE 1 ... n, numbered, and waits */                   \
    X(EXITS)       /* says as many and leaves with exit code 7, acked or not */    \
    X(LEAVES)      /* the same, once all of it is committed */                     \
    X(STUBBORN)    /* as STEADY; hears no SIGTERM */                               \
    X(GARBAGE)     /* random packets */                                            \
    X(COUNTS)      /* an INVENTORY of four billion */                              \
    X(OLD_ATTEMPT) /* of another attempt */                                        \
    X(FLOODS)      /* BEATs and unknown kinds without end, reads nothing */        \
    X(DESCRIPTORS) /* frames with descriptors */                                   \
    X(MISSING)     /* a program that is not there */
enum stub_worker {
#define X(name) STUB_##name,
    STUB_WORKERS(X)
#undef X
    STUB_WORKER_COUNT
};

/* Where the control plane is killed. */
#define STUB_POINTS(X)                                                                                            \
    X(NOWHERE) X(BEGUN) X(LISTED) X(START_ASKED) X(STARTED_TOLD) X(WELCOME_OWED) X(WELCOME_SENT) X(TAKEN) X(COMMITTED) \
    X(ACK_OWED) X(ACK_SENT) X(EXIT_TOLD) X(EXIT_COMMITTED) X(EXIT_FORGOTTEN)
enum stub_point {
#define X(name) STUB_AT_##name,
    STUB_POINTS(X)
#undef X
    STUB_POINT_COUNT
};

#define STUB_WORKERS_MAX 12

struct stub_plan {
    uint32_t workers;                    /* numbers 1 ... */
    uint32_t kinds[STUB_WORKERS_MAX];
    uint32_t usages;                     /* that each STEADY is to be charged for */
    uint32_t die_at;                     /* enum stub_point */
    uint32_t die_after;                  /* as often passed */
    uint32_t deaths;                     /* so many control planes die there */
    uint32_t fails;                      /* 1: exits with 3 at once */
};

#define STUB_RECORDS(X) X(EPOCH) X(PROCESS) X(FRAME) X(EXIT) X(FAULT) X(HEARD_EXIT) X(DONE)
enum stub_record_kind {
#define X(name) STUB_DISK_##name,
    STUB_RECORDS(X)
#undef X
};
/* FRAME: seq, the request (0: no USAGE). EXIT, HEARD_EXIT (not a promise: what was told): code, 128 and more: a signal. PROCESS: the
 * number it was told for a worker, 0: the control plane's own. FAULT: which. Epoch: of the control plane that wrote it. */
struct stub_record {
    uint32_t kind;
    uint32_t epoch;
    uint64_t worker;
    uint64_t seq;
    uint64_t value;
};

int stub_control(const char *folder);
int stub_worker(enum stub_worker kind);
int stub_vault(const char *folder);
/* Reads the whole disk; returns how many. */
uint32_t stub_disk(const char *folder, struct stub_record *ret_records, uint32_t max);
void stub_append(const char *folder, struct stub_record record);

#endif
