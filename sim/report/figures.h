/* The figures of a report, of requests and of jobs: one line each, from which the files, their questions on the page and the checks follow.
 * X(name, file, question, reading): plots/<file>.gp draws it; `reading` tells how to read it. */
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include <stdio.h>

#include "report/extract.h"
#include "results/summary.h"

#define FIGURE_LIST(X)                                                                                                  \
    X(TTFT_CDF, "ttft-cdf", "How long do users wait for the first token?",                                              \
      "Each line is one variant: so many percent of its requests had their first token within that time. "              \
      "Further left is better.")                                                                                        \
    X(E2E_CDF, "e2e-cdf", "How long does a whole answer take?",                                                         \
      "Each line is one variant: so many percent of its requests were answered in full within that time. "              \
      "Further left is better; long answers take long whatever the fleet does.")                                        \
    X(BLAME, "blame", "Where does a request's time go?",                                                                \
      "Each bar is the mean request of a band: all requests, or those around the median, the 90th and the 99th "        \
      "percentile of end-to-end latency. The parts add up to the latency written above the bar.")                       \
    X(TTFT_CLASS, "ttft-class", "What does a cold adapter cost the first token?",                                       \
      "Base requests need no adapter; warm ones found theirs in a GPU slot; host and store tell where the others' "     \
      "adapters came from. A line runs from the median to the 99th percentile.")                                        \
    X(HIT_RATIO, "hit-ratio", "How often is the adapter already on the GPU?",                                           \
      "Part of the lookups in the GPU slots that found their adapter there, over time. Higher is better.")              \
    X(LOADS, "loads", "How many adapters are loaded each second?",                                                      \
      "Adapters that arrived in GPU slots, over all replicas. Every load takes part of the link from the host.")        \
    X(QUEUE, "queue", "Does the fleet keep up with the requests?",                                                      \
      "Requests that wait and requests that run, summed over the replicas. A waiting line that climbs and does not "    \
      "come back means too few GPUs.")                                                                                  \
    X(MEMORY, "memory", "How full are KV memory and adapter slots?",                                                    \
      "Solid: mean of the replicas. Dotted: the fullest replica. Near 100 % requests lose their "                                \
      "KV memory and are computed again.")                                                                              \
    X(FAIRNESS, "fairness", "Do tenants with few requests wait for the busy ones?",                                     \
      "A point is a tenant: how much it asked for and how long its answers took on average. A flat cloud is fair; "     \
      "small tenants spread more because their means are of few requests.")

#define JOB_FIGURE_LIST(X)                                                                                              \
    X(GANTT, "gantt", "Which base is where, and who works on it?",                                                      \
      "A row is a GPU. Grey: a base is being loaded. Faint: it is there. Full: a job holds the GPU, fuller where jobs " \
      "share it. Much faint colour is memory that earns nothing; much grey is time lost to loads.")                     \
    X(JOB_QUEUE, "job-queue", "Do jobs pile up?",                                                                       \
      "Jobs that wait, and the GPUs they ask for (dotted: the GPUs there are), over time. A line that climbs and does " \
      "not come back means too few GPUs.")                                                                                                          \
    X(ALLOCATION, "allocation", "How much of what is held is used?",                                                    \
      "Solid: part of the GPUs that jobs hold. Dotted: part of the time in which a job computes. Between the two lie "  \
      "loads, checkpoints and starts.")                                                                                 \
    X(JOB_WAIT, "job-wait", "How long do jobs wait?",                                                                   \
      "Each line is one kind of job: so many percent of them computed within that time of being submitted. Further "    \
      "left is better.")                                                                                                \
    X(JOB_COMPLETION, "job-completion", "How soon is a job done?",                                                      \
      "Each line is one variant: so many percent of its jobs were done within that time of being submitted. Long jobs " \
      "take long whatever the scheduler does.")                                                                         \
    X(RHO, "rho", "Are all jobs slowed down alike?",                                                                    \
      "Finish-time fairness: the time from submission to done over what the job would have taken alone. A steep line "  \
      "is fair; a long tail to the right is paid for by the few.")                                                      \
    X(COST, "cost", "What does the pool cost, and what for?",                                                           \
      "Each bar is the bill of a variant, split as the ledger splits it. Idle and unused reservation are what nobody "  \
      "worked for.")                                                                                                    \
    X(TENANT_COST, "tenant-cost", "Who pays how much?",                                                                 \
      "Tenants in the order of what they pay, the largest first.")

enum figure {
#define X(name, file, question, reading) FIGURE_##name,
    FIGURE_LIST(X)
    JOB_FIGURE_LIST(X)
#undef X
    FIGURE_COUNT
};

static inline bool figure_of_jobs(enum figure figure) { return figure >= FIGURE_GANTT; }

/* More lines than this cannot be told apart; the tables have all variants. */
#define FIGURE_VARIANTS_MAX 8

/* Okabe and Ito's colours, which people with any colour vision can tell apart; a variant has the same in every figure
 * and table. Their black is a grey here, to be seen on dark pages too. Blame parts take them in the order of BLAME_LIST,
 * charges in that of CHARGE_COMPONENTS. */
#define VARIANT_COLOURS "#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #767676 #F0E442"
#define CHARGE_COLOURS "#E69F00 #CC79A7 #009E73 #56B4E9 #D55E00 #BBBBBB #F0E442 #0072B2"
#define BLAME_COLOURS "#999999 #F0E442 #D55E00 #E69F00 #CC79A7 #0072B2 #009E73 #56B4E9 #000000"

struct figure_state {
    bool applies;       /* there are requests, or jobs, that it could be about; otherwise it is left out */
    bool made;          /* both pictures of it are there */
    char why_not[160];  /* empty: as soon as gnuplot runs */
    char shown[64];     /* variants with data for it, numbered from 1, for gnuplot's `for [v in shown]` */
};

struct figures {
    uint32_t variants;  /* drawn: the first FIGURE_VARIANTS_MAX at most */
    struct figure_state items[FIGURE_COUNT];
};

const char *figure_file(enum figure figure);
const char *figure_question(enum figure figure);
const char *figure_reading(enum figure figure);

/* Writes the data files and plot.gp, which draws all, into `work`/data. The states tell which figures have anything to
 * show, and why not. */
enum status figures_write(const char *work, const struct summary *summaries, const struct extracted *extracted,
                          uint32_t count, FILE *errors, struct figures *ret_figures);

/* Copies the scripts of plots/ to `work`/data, so that a report can be drawn again from itself alone, and runs gnuplot on
 * plot.gp in `work`. What went wrong is said on `errors`; then no figure is made. */
enum status figures_draw(const char *work, FILE *errors, struct figures *figures);

#endif
