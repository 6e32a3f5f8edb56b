/* What a job takes, before it runs: the fleet core plans with it, and a wrong figure makes a worse plan, not a wrong result.
 *
 *   size   tokens of all epochs * 6 * the base's parameters / the device's rate: 2 FLOPs a parameter and token forward and 4 back
 *          (Kaplan et al. 2020, 2.1). The gradients of frozen weights, a third of it, are not made; layers made again cost about as much.
 *   bytes  shared/model/training.h's for one job at the rank, passes of up to 2,048 tokens, layers made again from their inputs: what
 *          the trainer falls back to before it refuses. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/driver/internal.h"
#include "engine/model/config.h"
#include "engine/train/plan.h"
#include "engine/train/run/choose.h"
#include "model/lora_modules.h"

#define ROWS_MAX 2048u
#define RANK_STEP 16u
#define HEAD_ROWS 512u
/* Of one core: `berth-exec train --threads 1` did 0.7e11 on the million parameters of a tiny base (f32), 1.5e11 on 15 million (bf16). A
 * share of a CPU has more cores when others idle, and is done sooner. */
#define DEVICE_FLOPS_PER_S 1e11

static enum status read_config(const struct core_base *base, struct model_config *ret_config, struct refusal *refusal)
{
    const int file = openat(base->folder, "config.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *text = malloc(CONFIG_BYTES_MAX);
    ssize_t count = file >= 0 && text != NULL ? pread(file, text, CONFIG_BYTES_MAX, 0) : -1;
    const enum status status = count > 0 && count < CONFIG_BYTES_MAX
                                   ? model_config_parse(text, (size_t)count, base->name, ret_config, refusal)
                                   : refuse(refusal, STATUS_IO, "%s: its config.json cannot be read", base->name);

    free(text);
    if (file >= 0)
        close(file);
    return status;
}

enum status job_need(const struct driver *driver, uint32_t base, int64_t tokens, const struct job_settings *settings, struct job_need *ret_need,
                     struct refusal *refusal)
{
    const double rate = driver->config.flops_per_s > 0 ? driver->config.flops_per_s : DEVICE_FLOPS_PER_S;
    struct model_config config;
    const enum status status = read_config(&driver->config.bases[base], &config, refusal);
    struct training_plan plan = {.act_bytes = 2, .kept = TRAINING_KEEPS_INPUTS, .samples = 64, .jobs = 1, .head_rows = HEAD_ROWS};
    struct shape shape;
    double size_ns;

    if (status != STATUS_OK)
        return status;
    shape = plan_shape(&config, config.dtype);
    plan.rows = min_u32(ROWS_MAX, (uint32_t)config.positions_max);
    plan.sample_rows = plan.rows;
    plan.rank = (uint32_t)div_up_u64((uint64_t)settings->rank, RANK_STEP) * RANK_STEP;
    plan.normed_heads = config.qk_norm;
    size_ns = (double)tokens * 6 * (double)model_parameters(&config) / rate * 1e9;
    ret_need->size_ns = size_ns < 1 ? 1 : size_ns < 9e18 ? (int64_t)size_ns : INT64_MAX / 2;
    ret_need->gpu_bytes = (int64_t)(training_memory(&shape, &plan).total + training_job_bytes(&shape, LORA_ALL_LINEAR, (uint32_t)settings->rank));
    ret_need->rate = run_rate(settings->preferences ? RUN_DPO : RUN_SUPERVISED, &config);
    return STATUS_OK;
}

int64_t price_nano(int64_t size_ns, int64_t price_nano_per_hour)
{
    const uint128 hour_ns = (uint128)3600 * NS_PER_S;
    uint128 price;

    check(size_ns >= 0 && price_nano_per_hour >= 0);
    price = ((uint128)size_ns * (uint128)price_nano_per_hour + hour_ns - 1) / hour_ns;
    return price < INT64_MAX ? (int64_t)price : INT64_MAX;
}
