#include "engine/train/run/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_TOKENS 2048

static enum status choose_rate(const struct run_wishes *wishes, const struct model_config *model, double *ret_rate, struct refusal *refusal)
{
    double rate = wishes->rate > 0 ? wishes->rate : wishes->settings.method == RUN_DPO ? RUN_RATE_DPO : RUN_RATE;

    if (wishes->rate_auto && !rate_fitted(model->family, model->dims.hidden, &rate))
        return refuse(refusal, STATUS_INVALID, "--learning-rate auto is fitted to Llama and Qwen, and this model is of the family %s: give a "
                                               "rate, or leave the option out for %g", model_family_name(model->family), RUN_RATE);
    *ret_rate = rate * wishes->rate_multiplier;
    return STATUS_OK;
}

double run_rate(enum run_method method, const struct model_config *model)
{
    double rate = RUN_RATE;

    if (method == RUN_DPO)
        return RUN_RATE_DPO;
    (void)rate_fitted(model->family, model->dims.hidden, &rate);
    return rate;
}

enum status run_choose(const struct run_wishes *wishes, const struct model_config *model, enum dtype dtype, struct run_settings *ret_settings,
                       struct refusal *refusal)
{
    struct run_settings settings = wishes->settings;
    const int32_t positions = model->positions_max;

    if (settings.row_tokens > positions)
        return refuse(refusal, STATUS_INVALID, "--context %lld is more than the model's %d positions", (long long)settings.row_tokens, positions);
    if (settings.row_tokens == 0)
        settings.row_tokens = positions < ROW_TOKENS ? positions : ROW_TOKENS;
    if (settings.method == RUN_DPO && !wishes->beta_chosen)
        settings.beta = RUN_BETA;
    if (settings.alpha <= 0)
        settings.alpha = 2 * (double)settings.rank;
    if (!wishes->mode_chosen)
        settings.mode = dtype == DTYPE_BF16 ? MODE_FAST : MODE_EXACT;
    *ret_settings = settings;
    return choose_rate(wishes, model, &ret_settings->rate, refusal);
}

void run_choose_data(struct run_settings *settings, const struct data_set *data)
{
    if (settings->epochs == 0)
        settings->epochs = data_epochs(data->examples);
    if (settings->batch == 0)
        settings->batch = data_batch(data->count / (settings->method == RUN_DPO ? 2 : 1));
}

/* --- the host --------------------------------------------------------------------------------------------------------------- */

/* The number behind `name` in a file of the kernel's, 0: none. */
static int64_t number_in(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char line[256];
    int64_t number = 0;

    while (file != NULL && number == 0 && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            number = strtoll(line + strlen(name), NULL, 10);
    if (file != NULL)
        fclose(file);
    return number;
}

int64_t run_host_memory(void)
{
    const int64_t there = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    const int64_t most = number_in("/sys/fs/cgroup/memory.max", "");
    const int64_t taken = number_in("/sys/fs/cgroup/memory.current", "") - number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");

    return most > 0 && most - taken < there ? most - taken : there;
}

/* --- texts ------------------------------------------------------------------------------------------------------------------ */

enum status run_tokenizer(const char *folder, struct tokenizer **ret_tokenizer, struct refusal *refusal)
{
    char error[TOKENIZER_ERROR_MAX] = "";

    return tokenizer_open(folder, ret_tokenizer, error) == STATUS_OK ? STATUS_OK : refuse(refusal, STATUS_INVALID, "%s", error);
}

enum status run_source(const char *shown, const struct tokenizer *tokenizer, const struct model_config *model, const struct run_settings *settings,
                       struct data_source *ret_source, struct refusal *refusal)
{
    int32_t eos = tokenizer_special(tokenizer, TOKENIZER_EOS);

    if (eos == TOKENIZER_NO_ID && model->eos_count > 0)
        eos = model->eos[0];
    if (eos == TOKENIZER_NO_ID)
        return refuse(refusal, STATUS_INVALID, "%s: names no token that ends a text: put eos_token into tokenizer_config.json", shown);
    *ret_source = (struct data_source){.tokenizer = tokenizer, .eos = eos, .vocabulary = model->dims.vocabulary,
                                       .tokens_max = (int32_t)settings->row_tokens, .preferences = settings->method == RUN_DPO};
    return STATUS_OK;
}
