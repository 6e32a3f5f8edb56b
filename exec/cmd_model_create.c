/* berth-exec model create-tiny: a chat model of a million numbers, taught from nothing on text made here, so that training, serving
 * and adapters can be tried without a download. All of its weights train; it knows a few words, and that answers end. */
#include "cmd_model.h"

#include <stdlib.h>

#include "engine/model/random.h"
#include "engine/train/data/data.h"
#include "engine/train/schedule.h"
#include "engine/train/train.h"
#include "worker/settings.h"

#define OPTIONS(X)                                                \
    X(out, "DIR", "where it goes; a new folder")                  \
    X(seed, "N", "same seed, same numbers (0)")                   \
    X(steps, "N", "of 32 chats each (750)")                         \
    X(threads, "N", "CPU threads (default: all)")                 \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    OPTIONS(X)
#undef X
};

enum { BATCH = 32, POSITIONS = 512, PASS = 2048, CHATS = 12000 };
#define RATE 3e-3

static const struct model_config size = {.family = FAMILY_LLAMA,
                                         .dims = {.hidden = 128, .heads = 8, .kv_heads = 4, .head_dim = 16, .ffn = 320, .vocabulary = 384,
                                                  .layers = 5},
                                         .norm_eps = 1e-5f,
                                         .positions_max = POSITIONS,
                                         .rope = {.theta = 10000, .factor = 1},
                                         .bos = 1,
                                         .eos_count = 1,
                                         .eos = {2}};
static const char tokenizer_config[] =
    "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"chat_template\": \"{{ bos_token }}{% for message in messages %}{{ message.role + '>' + "
    "message.content + eos_token }}{% endfor %}{{ 'assistant>' if add_generation_prompt }}\"}\n";

struct create {
    const char *out;
    uint64_t seed;
    int64_t steps;
    int64_t threads;
    struct folder folder;
    struct model *model;
    struct tokenizer *tokenizer;
    struct data_set *data;
    struct trainer *trainer;
};

/* --- the text --------------------------------------------------------------------------------------------------------------- */

static enum status open_data(struct create *create, struct refusal *refusal)
{
    const struct data_source source = {.tokenizer = create->tokenizer, .eos = size.eos[0], .vocabulary = size.dims.vocabulary,
                                       .tokens_max = POSITIONS};
    char *text = tiny_text(create->seed, CHATS);
    enum status status;

    if (text == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    status = data_open_text(text, (int64_t)strlen(text), "the text", &source, &create->data, refusal);
    free(text);
    /* A base learns all of a text, questions too. */
    for (int32_t i = 0; status == STATUS_OK && i < create->data->count; i++)
        memset(create->data->is_target + create->data->sample[i].at + 1, 1, (size_t)create->data->sample[i].tokens - 1);
    return status;
}

/* --- teaching --------------------------------------------------------------------------------------------------------------- */

static enum status open_trainer(struct create *create, struct refusal *refusal)
{
    struct optimizer optimizer = OPTIMIZER_DEFAULT;
    const struct trainer_config config = {.device = &device_cpu, .mode = MODE_EXACT, .threads = (uint32_t)create->threads,
                                          .kernels = kernel_set_best(), .rows_max = PASS, .job_rows_max = PASS,
                                          .samples_max = BATCH, .positions_max = POSITIONS, .jobs_max = 1, .head_rows = POSITIONS, .full = true};
    enum status status = trainer_open(create->model, &config, &create->trainer, refusal);

    optimizer.clip = 1;
    if (status == STATUS_OK && trainer_full_open(create->trainer, create->model, &optimizer) != STATUS_OK)
        return refuse(refusal, STATUS_FULL, "no memory");
    return status;
}

static enum status teach(struct create *create, struct refusal *refusal)
{
    const struct data_set *data = create->data;
    const int32_t per_epoch = (data->count + BATCH - 1) / BATCH;
    const struct schedule schedule = {.kind = SCHEDULE_COSINE, .peak = RATE, .warmup_steps = create->steps / 20, .steps = create->steps};
    int32_t *order = calloc((size_t)data->count, sizeof(*order));
    struct train_outcome outcome = {0};

    if (order == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    for (int64_t step = 0; step < schedule.steps && model_stop == 0; step++) {
        const double rate = schedule_rate(&schedule, step);
        const int32_t first = (int32_t)(step % per_epoch) * BATCH;
        struct train_sample samples[BATCH];
        int32_t count = 0;

        if (first == 0)
            data_order(create->seed, (int32_t)(step / per_epoch), data->count, order);
        for (; count < BATCH && first + count < data->count; count++) {
            const struct data_sample *sample = &data->sample[order[first + count]];

            samples[count] = (struct train_sample){.tokens = data->tokens + sample->at, .is_target = data->is_target + sample->at,
                                                   .rows = sample->tokens};
        }
        if (trainer_step(create->trainer, samples, count, &rate, &outcome) != STATUS_OK) {
            free(order);
            return refuse(refusal, STATUS_INVALID, "step %lld: the gradient is not finite", (long long)step + 1);
        }
        if (step + 1 == schedule.steps || step % 50 == 0)
            fprintf(stderr, "step %lld/%lld  loss %.4f\n", (long long)step + 1, (long long)schedule.steps, outcome.loss);
    }
    free(order);
    return model_stop == 0 ? STATUS_OK : refuse(refusal, STATUS_END, "stopped");
}

/* --- writing ---------------------------------------------------------------------------------------------------------------- */

/* The weights in the order of a full job's numbers. */
static uint32_t weights_in_order(const struct model *model, const struct weight **ret_weights)
{
    uint32_t count = 0;

    ret_weights[count++] = &model->weights.embed;
    for (int32_t i = 0; i < model->config.dims.layers; i++) {
        const struct layer_weights *layer = &model->weights.layer[i];
        const struct weight *const all[] = {&layer->attn_norm, &layer->qkv[0], &layer->qkv[1], &layer->qkv[2], &layer->o, &layer->mlp_norm,
                                            &layer->gate_up[0], &layer->gate_up[1], &layer->down};

        for (size_t k = 0; k < ARRAY_COUNT(all); k++)
            ret_weights[count++] = all[k];
    }
    ret_weights[count++] = &model->weights.norm;
    ret_weights[count++] = &model->weights.head;
    return count;
}

/* The same names and shapes with the numbers that were learned. */
static enum status write_weights(struct create *create, struct refusal *refusal)
{
    const struct safetensors *files = create->model->files;
    const uint32_t tensors = safetensors_count(files);
    float *values = calloc((size_t)trainer_parameters(create->trainer, 0), sizeof(float));
    struct tensor *written = calloc(tensors, sizeof(*written));
    const struct weight *order[3 + 9 * 8];
    const uint32_t count = weights_in_order(create->model, order);
    char path[4200];
    int64_t at = 0;
    enum status status = STATUS_FULL;

    snprintf(path, sizeof(path), "%.4090s/model.safetensors", create->folder.temporary);
    if (values != NULL && written != NULL) {
        trainer_get(create->trainer, 0, TRAIN_MATRICES, values);
        check(count == tensors);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < tensors; k++)
                if (safetensors_at(files, k)->data == order[i]->data) {
                    written[k] = *safetensors_at(files, k);
                    written[k].data = values + at;
                    at += written[k].count;
                    break;
                }
        check(at == trainer_parameters(create->trainer, 0));
        status = safetensors_write(path, written, tensors, NULL, NULL, refusal);
    } else {
        refuse(refusal, STATUS_FULL, "no memory");
    }
    free(values);
    free(written);
    return status;
}

/* Random weights, then what the text makes of them, in a folder that nobody sees yet. */
static enum status fill_folder(struct create *create, struct refusal *refusal)
{
    char path[4200];
    char error[TOKENIZER_ERROR_MAX] = "";
    enum status status = random_model_write(create->folder.temporary, &size, create->seed, DTYPE_F32, NULL, NULL, refusal);

    snprintf(path, sizeof(path), "%.4090s/tokenizer_config.json", create->folder.temporary);
    if (status == STATUS_OK)
        status = file_write(path, tokenizer_config, strlen(tokenizer_config), refusal);
    if (status == STATUS_OK)
        status = model_open(create->folder.temporary, &create->model, refusal);
    if (status == STATUS_OK && tokenizer_open(create->folder.temporary, &create->tokenizer, error) != STATUS_OK)
        status = refuse(refusal, STATUS_INVALID, "%s", error);
    if (status == STATUS_OK)
        status = open_data(create, refusal);
    if (status == STATUS_OK)
        status = open_trainer(create, refusal);
    if (status == STATUS_OK)
        status = teach(create, refusal);
    return status == STATUS_OK ? write_weights(create, refusal) : status;
}

static int make(struct create *create)
{
    struct refusal refusal = {{0}};
    enum status status = folder_begin(&create->folder, create->out, &refusal);

    if (status == STATUS_OK)
        status = fill_folder(create, &refusal);
    if (status == STATUS_OK)
        status = folder_commit(&create->folder, &refusal);
    folder_abandon(&create->folder);
    trainer_close(create->trainer);
    data_close(create->data);
    tokenizer_close(create->tokenizer);
    model_close(create->model);
    return status == STATUS_OK ? EXIT_OK : model_refused("create-tiny", &refusal);
}

/* --- the command line ------------------------------------------------------------------------------------------------------- */

static void print_help(void)
{
    puts("usage: berth-exec model create-tiny --out DIR [options]\n\n"
         "Teaches a small Llama some thousand chats from nothing, with a tokenizer and a chat template: a base that answers, and ends its\n"
         "answers, for trying train, generate and server.\n\n"
         "  berth-exec generate DIR --chat '[{\"role\": \"user\", \"content\": \"What does a cow say?\"}]' --temperature 0\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage, 130 stopped by Ctrl-C.");
}

int cmd_model_create_tiny(int argc, char **argv)
{
    struct create create = {.steps = 750, .threads = worker_threads_here()};
    struct options options = {.command = "berth-exec model create-tiny", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    int64_t seed = 0;
    bool fine = true;
    int option;

    while (fine && (option = options_next(&options, &value)) != OPTION_END) {
        if (option == OPTION_help) {
            print_help();
            return EXIT_OK;
        }
        if (option == OPTION_out)
            create.out = value;
        else if (option == OPTION_seed)
            fine = options_whole(&options, OPTION_seed, value, 0, INT64_MAX, &seed);
        else if (option == OPTION_steps)
            fine = options_whole(&options, OPTION_steps, value, 1, 100000, &create.steps);
        else if (option == OPTION_threads)
            fine = options_whole(&options, OPTION_threads, value, 1, 256, &create.threads);
        else
            fine = false;
    }
    create.seed = (uint64_t)seed;
    if (fine && create.out != NULL) {
        model_catch_stop();
        return make(&create);
    }
    fprintf(stderr, "%s: --out DIR; --help says more\n", options.command);
    return EXIT_USAGE;
}
