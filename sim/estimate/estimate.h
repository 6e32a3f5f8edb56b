/* What a model, its adapters and its fine-tunes weigh and take: shared/model's formulas with the arithmetic written
 * out. A question goes in, a list of lines comes out; the table and the JSON are two ways to print the same list. */
#ifndef ESTIMATE_ESTIMATE_H
#define ESTIMATE_ESTIMATE_H

#include "model/footprint.h"
#include "model/merge.h"

#define ESTIMATE_DEMANDS_MAX 16

/* So many jobs a day, each of so many GPU-hours. */
struct estimate_demand {
    double jobs_per_day;
    double gpu_hours;
};

/* Zero means "not asked" wherever a question makes no sense at zero. */
struct estimate_question {
    struct shape shape;
    uint64_t parameters;   /* N for training and for the nominal weights; 0: the shape's nominal, or else its count */
    uint32_t rank;         /* >= 1 */
    uint32_t modules;      /* LORA_ALL_LINEAR ... */
    uint32_t tp;           /* >= 1 */
    uint64_t adapter_bytes; /* 0: reckoned; else taken as given for everything that counts adapters */
    uint64_t adapters;
    uint64_t slots_bytes;
    uint64_t host_bytes;
    double host_bytes_per_s;  /* host to GPU, > 0 */
    double store_bytes_per_s; /* object store to host, > 0 */
    double store_first_byte_ms;
    uint64_t train_tokens; /* of one epoch */
    uint32_t epochs;       /* >= 1 */
    bool full;             /* full fine-tuning, not LoRA */
    double flops_per_s;    /* of one GPU at peak; needed with train_tokens */
    uint32_t gpus;         /* >= 1 */
    double utilization;    /* MFU, (0, 1] */
    double memory_bytes;   /* of one GPU; 0: unknown */
    uint32_t resident_jobs;
    uint32_t batch_tokens; /* live in one training step; 0: activations left out */
    struct merge_steps merge; /* rows 0: not asked */
    uint32_t merge_adapters;  /* distinct ones in that step */
    uint32_t merge_context;   /* tokens that each row has behind it */
    double merge_prompts;     /* prompt tokens computed beside them for each token */
    struct estimate_demand demands[ESTIMATE_DEMANDS_MAX];
    uint32_t demands_count;
};

enum estimate_unit {
    ESTIMATE_COUNT,
    ESTIMATE_BYTES,
    ESTIMATE_SECONDS,
    ESTIMATE_FLOPS,
    ESTIMATE_GPU_HOURS,
    ESTIMATE_GPUS,
    ESTIMATE_PERCENT,
};

struct estimate_line {
    const char *group; /* "sizes" */
    const char *key;   /* "adapter_parameters": for machines */
    const char *label; /* "adapter parameters": for people */
    enum estimate_unit unit;
    bool whole; /* `count` is exact; otherwise `value` */
    uint64_t count;
    double value;
    char how[192]; /* "16 x 81,920 x 32"; empty when it is given, not reckoned */
};

#define ESTIMATE_LINES_MAX 48
#define ESTIMATE_NOTES_MAX 8
struct estimate {
    uint32_t count;
    struct estimate_line lines[ESTIMATE_LINES_MAX];
    uint32_t notes_count;
    char notes[ESTIMATE_NOTES_MAX][192]; /* what was assumed, in sentences */
};

void estimate_make(const struct estimate_question *question, struct estimate *ret_estimate);
/* NULL when there is no such line. */
const struct estimate_line *estimate_find(const struct estimate *estimate, const char *key);

/* "83.9 MB", "41,943,040", "2,427 s (40.4 min)": a few digits, except of counts, which are whole. Returns `text`. */
#define ESTIMATE_TEXT_MAX 48
const char *estimate_text(char text[ESTIMATE_TEXT_MAX], enum estimate_unit unit, double value);
const char *estimate_count_text(char text[ESTIMATE_TEXT_MAX], uint64_t count);

#endif
