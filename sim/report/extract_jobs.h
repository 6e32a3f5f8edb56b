/* What the figures of jobs need of one variant: distributions, the pool over time, and the bars of some GPUs over some time. */
#ifndef REPORT_EXTRACT_JOBS_H
#define REPORT_EXTRACT_JOBS_H

#include <hdf5.h>
#include <stdio.h>

#include "base/histogram.h"
#include "results/summary.h"

#define EXTRACT_BINS_MAX 160
/* Rows and bars that can still be told apart on 700 points of height and 1,100 of width. */
#define GANTT_GPUS_MAX 64
#define GANTT_BARS_PER_GPU 30
#define GANTT_BARS_MAX 16384

/* Sums of samples over the time they stand for, all flavors together. */
struct capacity_bin {
    double flavor_s[8];         /* covered, by flavor */
    double pending_s;           /* jobs x seconds; the first flavor's samples, as it is of all */
    double pending_gpus_s;
    double gpu_s;               /* up */
    double claimed_gpu_s;
    double computing_gpu_s;
};

enum gantt_kind { GANTT_LOADING, GANTT_RESIDENT, GANTT_CLAIM };
struct gantt_bar {
    double from_s;
    double until_s;
    uint16_t row;
    uint16_t base;
    enum gantt_kind kind;
};

struct extracted_jobs {
    /* Of jobs submitted after the warm-up. */
    struct histogram wait[JOBS_SUMMARY_KINDS]; /* of those that computed */
    struct histogram wait_all;
    struct histogram completion;    /* of those done */
    struct histogram rho_micro;     /* completion over size, in millionths */
    double bin_s;
    uint32_t bins_count;
    struct capacity_bin bins[EXTRACT_BINS_MAX];
    /* Gantt: some GPUs, from the end of the warm-up. */
    uint32_t gpus_seen;
    uint32_t rows_count;            /* the first of them */
    uint32_t row_gpu[GANTT_GPUS_MAX]; /* node * 16 + GPU */
    double window_from_s;
    double window_until_s;
    uint32_t bars_count;
    uint32_t bars_left_out;         /* there was no room */
    struct gantt_bar bars[GANTT_BARS_MAX];
};

struct extract;

void extracted_jobs_init(struct extracted_jobs *jobs);
void extract_jobs(struct extract *extract, hid_t variant, const struct summary *summary, FILE *errors,
                  struct extracted_jobs *ret_jobs);

#endif
