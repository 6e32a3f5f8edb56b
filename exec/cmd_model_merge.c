/* berth-exec model merge: a model with an adapter folded in. */
#include "cmd_model.h"

#include "engine/lora/merge.h"
#include "worker/merged.h"

enum { OPTION_out, OPTION_help };
static const struct option table[] = {
    {"out", "DIR", "where the merged model goes; a new folder"},
    {"help", NULL, "this text"},
};

static void print_help(void)
{
    puts(
        "usage: berth-exec model merge MODEL ADAPTER --out DIR\n\n"
        "Writes MODEL with ADAPTER (a PEFT folder) folded into its weights: W + scale B A, reckoned in double and rounded once to the\n"
        "dtype of MODEL. Configuration and tokenizer are copied. The folder appears when all of it is written; one that is there is\n"
        "never overwritten.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage, 130 stopped by Ctrl-C.");
}

static enum status write_merged(const char *directory, const struct model *model, const struct peft *peft, struct folder *folder,
                                struct refusal *refusal)
{
    char path[4096 + 32];
    char shown[] = "model.safetensors";
    enum status status;

    snprintf(path, sizeof(path), "%s/model.safetensors", folder->temporary);
    status = lora_merge(model, &peft->source, path, model_progress, shown, refusal);
    if (status == STATUS_OK)
        status = lora_merge_copy(directory, folder->temporary, refusal);
    if (status == STATUS_OK)
        status = merged_write(folder->temporary, peft->digest, refusal);
    return status == STATUS_OK ? folder_commit(folder, refusal) : status;
}

static int merge(const char *base, const char *adapter, const char *out)
{
    struct refusal refusal = {""};
    struct folder folder;
    struct model *model = NULL;
    struct peft *peft = NULL;
    enum status status;

    model_catch_stop();
    status = folder_begin(&folder, out, &refusal);
    if (status == STATUS_OK)
        status = model_open(base, &model, &refusal);
    if (status == STATUS_OK)
        status = peft_open(adapter, &model->config, LORA_RANK_MAX, &peft, &refusal);
    if (status == STATUS_OK)
        status = write_merged(base, model, peft, &folder, &refusal);
    folder_abandon(&folder);
    peft_close(peft);
    model_close(model);
    return status == STATUS_OK ? EXIT_OK : model_refused("merge", &refusal);
}

int cmd_model_merge(int argc, char **argv)
{
    struct options options = {.command = "berth-exec model merge", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    const char *operands[2] = {NULL, NULL};
    const char *out = NULL;
    size_t count = 0;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_out:
            out = value;
            break;
        case OPTION_help:
            print_help();
            return EXIT_OK;
        case OPTION_OPERAND:
            if (count < 2)
                operands[count] = value;
            count++;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (count == 2 && out != NULL)
        return merge(operands[0], operands[1], out);
    fputs("berth-exec model merge: needs MODEL, ADAPTER and --out DIR\n", stderr);
    return EXIT_USAGE;
}
