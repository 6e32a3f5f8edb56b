/* berth-exec generate: prompts through a model and its adapters, decoded as one mixed batch. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cmd.h"
#include "worker/answer.h"
#include "worker/settings.h"

#define OPTIONS(X)                                                                                                \
    X(adapter, "NAME=DIR", "a PEFT adapter and what it is called; again for more")                                \
    X(use, "NAME", "the adapter of --prompt: one of them, or base (default: the only one, if there is one)")      \
    X(prompt, "TEXT", "one request")                                                                              \
    X(chat, "JSON", "one request: a list of messages with role and content, by the model's chat template")        \
    X(requests, "FILE", "a JSON object a line: {\"adapter\": NAME or null, \"prompt\": TEXT, \"max_tokens\": N, ...}; - is stdin") \
    X(max_tokens, "N", "tokens of an answer at most (default 128)")                                               \
    X(temperature, "T", "0: always the likeliest token (default 1)")                                              \
    X(top_k, "N", "of the N likeliest only; 0: all (default)")                                                    \
    X(top_p, "P", "of the likeliest that make up P only (default 1)")                                             \
    X(min_p, "P", "of those at least P times as likely as the likeliest only (default 0)")                        \
    X(seed, "N", "of the draws (default 0)")                                                                      \
    X(stop, "TEXT", "end before this text")                                                                       \
    X(ignore_eos, NULL, "go on after the model's end-of-sequence token")                                          \
    X(logprobs, "N", "also the N likeliest tokens at each place, with --json")                                    \
    WORKER_OPTIONS(X)                                                                                             \
    X(json, NULL, "one JSON object an answer: output_ids, output_text, logprobs, ...")                            \
    X(quiet, NULL, "no summary on stderr")                                                                        \
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

#define ADAPTERS_MAX 1000
#define REQUESTS_MAX 100000
#define LINE_BYTES_MAX (16 << 20)

/* One answer, kept whole: they are printed in the order of their requests. */
struct item {
    struct answer answer;
    struct token_text text;
    json_t *ids;
    json_t *logprobs;
    json_t *best;
    struct worker_end end;
    char *failure;
    bool over;
    bool streams; /* the text goes out as it comes */
};

struct generate {
    struct options options;
    struct worker_config config;
    const char *model;
    const char *adapters[ADAPTERS_MAX];
    uint32_t adapters_count;
    const char *use;
    const char *prompt;
    const char *chat;
    const char *requests;
    json_t *defaults; /* of a request, in its own words */
    bool json;
    bool quiet;
    struct worker *worker;
    struct tokenizer *tokenizer;
    struct item **items;
    uint32_t items_count;
    uint32_t begun;
    uint32_t printed;
    int code;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* --- answers ---------------------------------------------------------------------------------------------------------------- */

static void got_token(void *owner, const struct answer_token *token, const char *text, size_t bytes)
{
    struct item *item = owner;

    json_array_append_new(item->ids, json_integer(token->id));
    json_array_append_new(item->logprobs, json_real((double)token->logprob));
    if (token->best_count > 0) {
        json_t *list = json_array();

        for (uint32_t i = 0; i < token->best_count; i++)
            json_array_append_new(list, json_pack("{s:i, s:f}", "id", token->best_ids[i], "logprob", (double)token->best_logprobs[i]));
        json_array_append_new(item->best, list);
    }
    token_text_add(&item->text, text, bytes);
    if (!item->streams)
        return;
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

static void got_end(void *owner, const struct worker_end *end, const char *text, size_t bytes)
{
    struct item *item = owner;

    token_text_add(&item->text, text, bytes);
    if (item->streams)
        fwrite(text, 1, bytes, stdout);
    item->end = *end;
    item->end.text = NULL;
    item->failure = end->text != NULL ? strdup(end->text) : NULL;
    item->over = true;
}

static double milliseconds(int64_t ns)
{
    return (double)(ns / 1000) / 1000;
}

static void print_json(const struct generate *generate, const struct item *item)
{
    const struct ask *ask = &item->answer.ask;
    json_t *object = json_object();

    json_object_set_new(object, "adapter", ask->adapter[0] != '\0' ? json_string(ask->adapter) : json_null());
    if (item->failure != NULL) {
        json_object_set_new(object, "error", json_string(item->failure));
    } else {
        json_t *prompt = json_array();

        for (size_t i = 0; i < ask->prompt.count; i++)
            json_array_append_new(prompt, json_integer(ask->prompt.ids[i]));
        json_object_set_new(object, "prompt_ids", prompt);
        json_object_set(object, "output_ids", item->ids);
        if (generate->tokenizer != NULL)
            json_object_set_new(object, "output_text", json_stringn(item->text.bytes != NULL ? item->text.bytes : "", item->text.count));
        json_object_set(object, "logprobs", item->logprobs);
        if (json_array_size(item->best) > 0)
            json_object_set(object, "top_logprobs", item->best);
        json_object_set_new(object, "finish_reason", json_string(worker_end_name(item->end.reason)));
        json_object_set_new(object, "ttft_ms", json_real(milliseconds(item->end.first_token_ns)));
        json_object_set_new(object, "total_ms", json_real(milliseconds(item->end.total_ns)));
    }
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(object);
}

static void print_item(struct generate *generate, struct item *item, uint32_t index)
{
    if (item->failure != NULL) {
        generate->code = EXIT_FAILED;
        fprintf(stderr, "berth-exec generate: request %u: %s\n", index + 1, item->failure);
    }
    if (generate->json) {
        print_json(generate, item);
    } else if (item->failure == NULL) {
        if (generate->items_count > 1)
            printf("== %u %s\n", index + 1, item->answer.ask.adapter[0] != '\0' ? item->answer.ask.adapter : "base");
        if (!item->streams && generate->tokenizer != NULL)
            fwrite(item->text.bytes, 1, item->text.count, stdout);
        if (generate->tokenizer == NULL)
            json_dumpf(item->ids, stdout, JSON_COMPACT);
        putchar('\n');
    }
    fflush(stdout);
}

/* What is over, in order. */
static void print_over(struct generate *generate)
{
    while (generate->printed < generate->items_count && generate->items[generate->printed]->over) {
        print_item(generate, generate->items[generate->printed], generate->printed);
        generate->printed++;
    }
}

/* --- requests --------------------------------------------------------------------------------------------------------------- */

static struct item *new_item(struct generate *generate)
{
    struct item **items = realloc(generate->items, (generate->items_count + 1) * sizeof(items[0]));
    struct item *item = calloc(1, sizeof(*item));

    if (items != NULL)
        generate->items = items;
    if (items == NULL || item == NULL) {
        free(item);
        fprintf(stderr, "berth-exec generate: no memory\n");
        return NULL;
    }
    ask_init(&item->answer.ask);
    item->answer.tokenizer = generate->tokenizer;
    item->answer.owner = item;
    item->answer.token = got_token;
    item->answer.end = got_end;
    item->ids = json_array();
    item->logprobs = json_array();
    item->best = json_array();
    generate->items[generate->items_count++] = item;
    return item;
}

static void free_item(struct item *item)
{
    answer_free(&item->answer);
    token_text_free(&item->text);
    json_decref(item->ids);
    json_decref(item->logprobs);
    json_decref(item->best);
    free(item->failure);
    free(item);
}

static int complain(const char *where, const struct refusal *refusal)
{
    fprintf(stderr, "berth-exec generate: %s%s%s\n", where, where[0] != '\0' ? ": " : "", refusal->text);
    return EXIT_FAILED;
}

static int read_item(struct generate *generate, const json_t *object, const char *where)
{
    struct item *item = new_item(generate);
    struct refusal refusal = {{0}};

    if (item == NULL)
        return EXIT_FAILED;
    if (ask_read(&item->answer.ask, generate->defaults, NULL, generate->tokenizer, &refusal) != STATUS_OK)
        return complain("", &refusal);
    if (ask_read(&item->answer.ask, object, NULL, generate->tokenizer, &refusal) != STATUS_OK)
        return complain(where, &refusal);
    if (item->answer.ask.prompt.count > 0)
        return EXIT_OK;
    snprintf(refusal.text, sizeof(refusal.text), "the prompt has no tokens");
    return complain(where, &refusal);
}

static int read_lines(struct generate *generate, FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    int code = EXIT_OK;
    ssize_t length;

    for (uint32_t number = 1; code == EXIT_OK && (length = getline(&line, &size, file)) >= 0; number++) {
        char where[64];
        json_error_t error;
        json_t *object;

        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        snprintf(where, sizeof(where), "line %u", number);
        object = length > LINE_BYTES_MAX ? NULL : json_loadb(line, (size_t)length, JSON_REJECT_DUPLICATES, &error);
        if (object == NULL) {
            fprintf(stderr, "berth-exec generate: %s of %s: %s\n", where, generate->requests,
                    length > LINE_BYTES_MAX ? "longer than 16 MiB" : error.text);
            code = EXIT_FAILED;
        } else if (generate->items_count == REQUESTS_MAX) {
            fprintf(stderr, "berth-exec generate: %s: more than %d requests\n", generate->requests, REQUESTS_MAX);
            code = EXIT_FAILED;
        } else {
            code = read_item(generate, object, where);
        }
        json_decref(object);
    }
    free(line);
    return code;
}

static int read_requests(struct generate *generate)
{
    FILE *file = strcmp(generate->requests, "-") == 0 ? stdin : fopen(generate->requests, "r");
    int code;

    if (file == NULL) {
        fprintf(stderr, "berth-exec generate: %s: %s\n", generate->requests, strerror(errno));
        return EXIT_FAILED;
    }
    code = read_lines(generate, file);
    if (file != stdin)
        fclose(file);
    if (code == EXIT_OK && generate->items_count == 0) {
        fprintf(stderr, "berth-exec generate: %s holds no request\n", generate->requests);
        return EXIT_FAILED;
    }
    return code;
}

/* --prompt or --chat as the object that a line of a file would be; NULL: said on stderr. */
static json_t *one_request(const struct generate *generate)
{
    json_error_t error;
    json_t *object;

    if (generate->chat != NULL) {
        json_t *messages = json_loads(generate->chat, JSON_REJECT_DUPLICATES, &error);

        if (messages != NULL)
            return json_pack("{s:o}", "messages", messages);
        fprintf(stderr, "berth-exec generate: --chat: %s\n", error.text);
        return NULL;
    }
    object = json_pack("{s:s}", "prompt", generate->prompt);
    if (object == NULL)
        fprintf(stderr, "berth-exec generate: --prompt: not UTF-8\n");
    return object;
}

static int read_prompt(struct generate *generate)
{
    json_t *object = one_request(generate);
    const char *only = generate->adapters_count == 1 ? generate->adapters[0] : NULL;
    int code;

    if (object == NULL)
        return EXIT_USAGE;
    if (generate->use != NULL && strcmp(generate->use, "base") != 0)
        json_object_set_new(object, "adapter", json_string(generate->use));
    else if (generate->use == NULL && only != NULL)
        json_object_set_new(object, "adapter", json_stringn(only, strcspn(only, "=")));
    code = read_item(generate, object, generate->chat != NULL ? "--chat" : "--prompt");
    json_decref(object);
    if (code == EXIT_OK && !generate->json)
        generate->items[0]->streams = true;
    return code;
}

/* --- running ---------------------------------------------------------------------------------------------------------------- */

static int open_adapters(struct generate *generate)
{
    for (uint32_t i = 0; i < generate->adapters_count; i++) {
        const char *equals = strchr(generate->adapters[i], '=');
        char name[WORKER_NAME_MAX + 2] = "";
        struct refusal refusal = {{0}};
        size_t length = equals != NULL ? (size_t)(equals - generate->adapters[i]) : 0;

        if (equals == NULL || length > WORKER_NAME_MAX || strncmp(generate->adapters[i], "base=", 5) == 0) {
            options_complain(&generate->options, OPTION_adapter, generate->adapters[i],
                             equals == NULL ? "NAME=DIR" : "a name of at most 64 letters, and not base");
            return EXIT_USAGE;
        }
        memcpy(name, generate->adapters[i], length);
        if (worker_adapter_add(generate->worker, name, equals + 1, &refusal) != STATUS_OK)
            return complain("", &refusal);
    }
    return EXIT_OK;
}

/* As many as the worker takes at once; the rest follows as they end. */
static void begin_more(struct generate *generate)
{
    while (generate->begun < generate->items_count && !interrupted) {
        struct item *item = generate->items[generate->begun];
        struct refusal refusal = {{0}};
        enum status status = answer_begin(&item->answer, generate->worker, &refusal);

        if (status == STATUS_FULL && generate->begun > generate->printed)
            return;
        generate->begun++;
        if (status == STATUS_OK)
            continue;
        item->failure = strdup(refusal.text);
        item->over = true;
    }
}

static void wait_for_worker(const struct generate *generate)
{
    struct pollfd event = {.fd = worker_fd(generate->worker), .events = POLLIN};

    (void)poll(&event, 1, 1000);
}

static void run(struct generate *generate)
{
    bool cancelled = false;

    while (generate->printed < generate->items_count) {
        if (interrupted && !cancelled) {
            cancelled = true;
            for (uint32_t i = 0; i < generate->begun; i++)
                worker_cancel(generate->worker, generate->items[i]->answer.handle);
        }
        if (!interrupted)
            begin_more(generate);
        else if (generate->printed == generate->begun)
            break;
        print_over(generate);
        if (generate->printed < generate->items_count && !worker_pump(generate->worker))
            wait_for_worker(generate);
        print_over(generate);
    }
    if (interrupted)
        generate->code = EXIT_STOPPED;
}

static void print_summary(const struct generate *generate, int64_t ns)
{
    uint64_t tokens = 0;
    struct worker_state state = worker_state(generate->worker);

    for (uint32_t i = 0; i < generate->items_count; i++)
        tokens += generate->items[i]->end.output_tokens;
    fprintf(stderr, "%u answers, %llu tokens in %.2f s (%.1f tokens/s), %llu steps, %s, %u threads\n", generate->printed,
            (unsigned long long)tokens, (double)ns / 1e9, ns > 0 ? (double)tokens * 1e9 / (double)ns : 0, (unsigned long long)state.steps,
            worker_mode(generate->worker) == MODE_EXACT ? "exact" : "fast", generate->config.threads);
}

static int work(struct generate *generate)
{
    struct refusal refusal = {{0}};
    char error[TOKENIZER_ERROR_MAX] = "";
    struct timespec from, until;
    enum status status;
    int code;

    generate->config.model_directory = generate->model;
    if (worker_open(&generate->config, &generate->worker, &refusal) != STATUS_OK)
        return complain("", &refusal);
    status = tokenizer_open(generate->model, &generate->tokenizer, error);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        fprintf(stderr, "berth-exec generate: %s\n", error);
        return EXIT_FAILED;
    }
    code = open_adapters(generate);
    if (code == EXIT_OK)
        code = generate->requests != NULL ? read_requests(generate) : read_prompt(generate);
    if (code != EXIT_OK)
        return code;
    if (generate->items_count > 1 && !generate->json)
        generate->items[0]->streams = false;
    clock_gettime(CLOCK_MONOTONIC, &from);
    run(generate);
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (!generate->quiet)
        print_summary(generate, (until.tv_sec - from.tv_sec) * NS_PER_S + until.tv_nsec - from.tv_nsec);
    return generate->code;
}

static void clean(struct generate *generate)
{
    worker_close(generate->worker);
    for (uint32_t i = 0; i < generate->items_count; i++)
        free_item(generate->items[i]);
    free(generate->items);
    tokenizer_close(generate->tokenizer);
    json_decref(generate->defaults);
}

/* --- the command line ------------------------------------------------------------------------------------------------------- */

static void print_help(void)
{
    puts("usage: berth-exec generate MODEL [--adapter NAME=DIR]... --prompt TEXT [option]...\n"
         "       berth-exec generate MODEL [--adapter NAME=DIR]... --chat JSON [option]...\n"
         "       berth-exec generate MODEL [--adapter NAME=DIR]... --requests FILE [option]...\n\n"
         "Answers prompts with a model in Hugging Face's layout (config.json, *.safetensors, tokenizer.json) and any number of\n"
         "LoRA adapters, all in one batch. Options that shape an answer are the defaults of what a line of FILE may say:\n"
         "adapter, prompt or prompt_ids or messages, max_tokens, temperature, top_k, top_p, min_p, seed, repetition_penalty,\n"
         "presence_penalty, frequency_penalty, logit_bias, logprobs, stop, ignore_eos, tenant.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done (stderr says why), 2 wrong usage, 130 stopped by Ctrl-C.");
}

/* A number of the command line into the request's own words; its range is checked where requests' are. */
static int take_number(struct generate *generate, uint32_t option, const char *value)
{
    json_error_t error;
    json_t *number = json_loads(value, JSON_DECODE_ANY, &error);

    if (number == NULL || !json_is_number(number)) {
        json_decref(number);
        options_complain(&generate->options, option, value, "a number");
        return EXIT_USAGE;
    }
    json_object_set_new(generate->defaults, table[option].name, number);
    return EXIT_OK;
}

static int take(struct generate *generate, uint32_t option, const char *value)
{
    switch (option) {
    case OPTION_adapter:
        if (generate->adapters_count == ADAPTERS_MAX) {
            options_complain(&generate->options, option, value, "at most 1000 adapters");
            return EXIT_USAGE;
        }
        generate->adapters[generate->adapters_count++] = value;
        return EXIT_OK;
    case OPTION_use:
        generate->use = value;
        return EXIT_OK;
    case OPTION_prompt:
        generate->prompt = value;
        return EXIT_OK;
    case OPTION_chat:
        generate->chat = value;
        return EXIT_OK;
    case OPTION_requests:
        generate->requests = value;
        return EXIT_OK;
    case OPTION_max_tokens: case OPTION_temperature: case OPTION_top_k: case OPTION_top_p: case OPTION_min_p: case OPTION_seed:
    case OPTION_logprobs:
        return take_number(generate, option, value);
    case OPTION_stop:
        if (json_object_set_new(generate->defaults, "stop", json_string(value)) == 0)
            return EXIT_OK;
        options_complain(&generate->options, option, NULL, "not UTF-8");
        return EXIT_USAGE;
    case OPTION_ignore_eos:
        json_object_set_new(generate->defaults, "ignore_eos", json_true());
        return EXIT_OK;
    case OPTION_json:
        generate->json = true;
        return EXIT_OK;
    case OPTION_quiet:
        generate->quiet = true;
        return EXIT_OK;
    default:
        return worker_option(&generate->config, &generate->options, option, value) == STATUS_OK ? EXIT_OK : EXIT_USAGE;
    }
}

/* EXIT_OK to go on; EXIT_STOPPED: help was asked for. */
static int parse(struct generate *generate)
{
    struct options *options = &generate->options;
    const char *value;
    int option;

    while ((option = options_next(options, &value)) != OPTION_END) {
        if (option == OPTION_WRONG)
            return EXIT_USAGE;
        if (option == OPTION_help)
            return EXIT_STOPPED;
        if (option == OPTION_OPERAND && generate->model != NULL) {
            fprintf(stderr, "%s: one model (%s is the second)\n", options->command, value);
            return EXIT_USAGE;
        }
        if (option == OPTION_OPERAND)
            generate->model = value;
        else if (take(generate, (uint32_t)option, value) != EXIT_OK)
            return EXIT_USAGE;
    }
    if (generate->model != NULL && (generate->prompt != NULL) + (generate->chat != NULL) + (generate->requests != NULL) == 1)
        return EXIT_OK;
    fprintf(stderr, "%s: a model's folder, and one of --prompt, --chat and --requests; --help says more\n", options->command);
    return EXIT_USAGE;
}

int cmd_generate(int argc, char **argv)
{
    struct generate *generate = calloc(1, sizeof(*generate));
    const struct sigaction action = {.sa_handler = interrupt};
    int code;

    if (generate == NULL)
        return EXIT_FAILED;
    generate->options = (struct options){.command = "berth-exec generate", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                                         .argc = argc, .argv = argv, .at = 1};
    generate->defaults = json_object();
    worker_config_init(&generate->config);
    generate->config.threads = worker_threads_here();
    code = parse(generate);
    if (code == EXIT_OK) {
        worker_choose_device(&generate->config);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        code = work(generate);
    } else if (code == EXIT_STOPPED) {
        print_help();
        code = EXIT_OK;
    }
    clean(generate);
    free(generate);
    return code;
}
