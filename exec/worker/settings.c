#include "worker/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/device/cuda_load.h"

uint32_t worker_threads_here(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count < 1 ? 1 : count > 256 ? 256 : (uint32_t)count;
}

static enum status read_u32(const struct options *options, uint32_t option, const char *value, uint32_t most, uint32_t *ret)
{
    int64_t count;

    if (!options_whole(options, option, value, 1, most, &count))
        return STATUS_INVALID;
    *ret = (uint32_t)count;
    return STATUS_OK;
}

static enum status read_mb(const struct options *options, uint32_t option, const char *value, uint64_t *ret_bytes)
{
    int64_t count;

    if (!options_whole(options, option, value, 1, 16000000, &count))
        return STATUS_INVALID;
    *ret_bytes = (uint64_t)count * 1000000;
    return STATUS_OK;
}

static enum status read_mode(struct worker_config *config, const struct options *options, uint32_t option, const char *value)
{
    config->mode_chosen = true;
    config->mode = strcmp(value, "fast") == 0 ? MODE_FAST : MODE_EXACT;
    if (strcmp(value, "fast") == 0 || strcmp(value, "exact") == 0)
        return STATUS_OK;
    options_complain(options, option, value, "exact or fast");
    return STATUS_INVALID;
}

void worker_choose_device(struct worker_config *config)
{
    char why[256];

    if (!config->device_chosen && cuda_runs_here(why, sizeof(why)))
        config->device = cuda_load(why, sizeof(why));
}

enum status worker_use_device(struct worker_config *config, const char *kind, const char *gpu, struct refusal *refusal)
{
    char why[256];

    if (kind == NULL)
        worker_choose_device(config);
    if (kind == NULL || config->device_chosen)
        return STATUS_OK;
    config->device = &device_cpu;
    config->device_chosen = true;
    if (strcmp(kind, "cpu") == 0)
        return STATUS_OK;
    if (strcmp(kind, "cuda") != 0)
        return refuse(refusal, STATUS_INVALID, "START: device is cpu or cuda");
    if (gpu != NULL)
        cuda_see(gpu);
    if (!cuda_runs_here(why, sizeof(why)))
        return refuse(refusal, STATUS_INVALID, "START: GPU %s: %s", gpu != NULL ? gpu : "any", why);
    config->device = cuda_load(why, sizeof(why));
    return STATUS_OK;
}

static enum status read_device(struct worker_config *config, const struct options *options, uint32_t option, const char *value)
{
    char why[256];

    config->device = &device_cpu;
    config->device_chosen = strcmp(value, "auto") != 0;
    if (!config->device_chosen)
        return STATUS_OK;
    if (strcmp(value, "cpu") == 0)
        return STATUS_OK;
    if (strcmp(value, "cuda") != 0) {
        options_complain(options, option, value, "auto, cpu or cuda");
        return STATUS_INVALID;
    }
    if (cuda_runs_here(why, sizeof(why)))
        config->device = cuda_load(why, sizeof(why));
    if (config->device != &device_cpu)
        return STATUS_OK;
    options_complain(options, option, value, why);
    return STATUS_INVALID;
}

static enum status read_kernels(struct worker_config *config, const struct options *options, uint32_t option, const char *value)
{
    enum status status = kernel_set_find(value, &config->kernels);

    if (status == STATUS_OK)
        return STATUS_OK;
    options_complain(options, option, value,
                     status == STATUS_INVALID ? "this machine's CPU lacks it; berth-exec devices lists what runs here"
                                              : "there is no such set; berth-exec devices lists them");
    return STATUS_INVALID;
}

enum status worker_option(struct worker_config *config, const struct options *options, uint32_t option, const char *value)
{
    const char *name = options->table[option].name;

#define TAKE(text, read)           \
    if (strcmp(name, text) == 0) \
        return read
    TAKE("merged_as", (config->merged_as = value, STATUS_OK));
    TAKE("base_socket", (config->base_socket = value, STATUS_OK));
    TAKE("device", read_device(config, options, option, value));
    TAKE("mode", read_mode(config, options, option, value));
    TAKE("kernels", read_kernels(config, options, option, value));
    TAKE("threads", read_u32(options, option, value, 256, &config->threads));
    TAKE("deterministic", (config->deterministic = true, STATUS_OK));
    TAKE("context", read_u32(options, option, value, 1 << 20, &config->positions_max));
    TAKE("sequences", read_u32(options, option, value, 4096, &config->sequences_max));
    TAKE("token_budget", read_u32(options, option, value, 1 << 16, &config->token_budget));
    TAKE("max_loras", read_u32(options, option, value, 4096, &config->max_loras));
    TAKE("slots", read_u32(options, option, value, 4096, &config->slots));
    TAKE("rank_max", read_u32(options, option, value, LORA_RANK_MAX, &config->rank_max));
    TAKE("pool_mb", read_mb(options, option, value, &config->pool_bytes));
    TAKE("host_mb", read_mb(options, option, value, &config->host_bytes));
    TAKE("kv_mb", read_mb(options, option, value, &config->kv_bytes));
#undef TAKE
    return STATUS_NOT_FOUND;
}
