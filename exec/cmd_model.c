/* berth-exec model: its verbs, and what they share. */
#include "cmd_model.h"

#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "host/words.h"

volatile sig_atomic_t model_stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    model_stop = 1;
}

void model_catch_stop(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool model_progress(void *context, int64_t done_bytes, int64_t total_bytes)
{
    static int64_t said_at_ns;
    struct timespec now;
    int64_t now_ns;

    if (model_stop != 0)
        return false;
    if (isatty(STDERR_FILENO) == 0 || clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return true;
    now_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
    if (now_ns - said_at_ns < NS_PER_S / 5 && done_bytes < total_bytes)
        return true;
    said_at_ns = now_ns;
    fprintf(stderr, "\r%s: %lld of %lld MB%s", (const char *)context, (long long)(done_bytes / 1000000),
            (long long)(total_bytes / 1000000), done_bytes == total_bytes ? "\n" : "");
    return true;
}

int model_refused(const char *verb, const struct refusal *refusal)
{
    if (model_stop != 0) {
        fprintf(stderr, "berth-exec model %s: stopped; nothing was left behind\n", verb);
        return EXIT_STOPPED;
    }
    for (const char *line = refusal->text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        fprintf(stderr, "berth-exec model %s: %.*s\n", verb, (int)strcspn(line, "\n"), line);
    }
    return EXIT_FAILED;
}

static const struct verb verbs[] = {
    {"inspect", cmd_model_inspect, "what a model or an adapter is"},
    {"random", cmd_model_random, "a model of random numbers, for benchmarks"},
    {"create-tiny", cmd_model_create_tiny, "a tiny chat model, taught from nothing, to try things with"},
    {"merge", cmd_model_merge, "a model with an adapter folded in"},
    {"list", cmd_model_list, "an organization's models, with their verdicts"},
    {"alias", cmd_model_alias, "another name for one of them"},
    {"judge", cmd_model_judge, "give one of them a verdict: only what is deployable answers"},
};

static void print_help(FILE *out)
{
    fputs("usage: berth-exec model VERB ...        berth-exec model VERB --help says more\n\n", out);
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++)
        fprintf(out, "  %-12s %s\n", verbs[i].name, verbs[i].about);
}

int cmd_model(int argc, char **argv)
{
    struct suggestion suggestion;

    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    suggestion_begin(&suggestion, argv[1], strlen(argv[1]));
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
        suggest(&suggestion, verbs[i].name, strlen(verbs[i].name));
    }
    fprintf(stderr, "berth-exec model: there is no verb '%s'", argv[1]);
    if (suggestion_answer(&suggestion) != NULL)
        fprintf(stderr, "; did you mean %s?\n", suggestion_answer(&suggestion));
    else
        fputs("; --help lists them\n", stderr);
    return EXIT_USAGE;
}
