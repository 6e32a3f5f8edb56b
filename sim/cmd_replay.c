/* berth-sim replay: steps fresh cores through the events of a journal. With --verify every step must give the digest and
 * the commands that were recorded: the same decisions, bit for bit. */
#define _DEFAULT_SOURCE /* scandir */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/hash.h"
#include "cmd.h"
#include "fleet/pack.h"
#include "node/pack.h"
#include "host/options.h"
#include "replica/pack.h"

/* What differs between the three kinds of core, as one small table of functions. */
struct replayed {
    void *memory;
    void *core;
    void *commands;
    size_t event_bytes;
    uint64_t (*step)(struct replayed *replayed, const void *event, uint64_t *ret_commands_digest);
};

#define REPLAY_CORE(noun)                                                                                             \
    static uint64_t noun##_replay_step(struct replayed *replayed, const void *event, uint64_t *ret_commands_digest)   \
    {                                                                                                                 \
        struct noun##_commands *commands = replayed->commands;                                                        \
                                                                                                                      \
        noun##_step(replayed->core, event, commands);                                                                 \
        *ret_commands_digest = hash_bytes(0, commands->items, commands->count * sizeof(commands->items[0]));          \
        return noun##_digest(replayed->core);                                                                         \
    }                                                                                                                 \
    static enum status noun##_replay_open(struct journal_words *words, struct replayed *ret)                          \
    {                                                                                                                 \
        struct noun##_config config;                                                                                  \
        size_t bytes;                                                                                                 \
                                                                                                                      \
        if (noun##_config_unpack(words, &config) != STATUS_OK)                                                        \
            return STATUS_NOT_FOUND;                                                                                  \
        bytes = noun##_bytes(&config);                                                                                \
        ret->memory = calloc(1, bytes);                                                                               \
        ret->commands = calloc(1, sizeof(struct noun##_commands));                                                    \
        check(ret->memory != NULL && ret->commands != NULL);                                                          \
        ret->core = noun##_create(ret->memory, bytes, &config);                                                       \
        ret->event_bytes = sizeof(struct noun##_event);                                                               \
        ret->step = noun##_replay_step;                                                                               \
        return STATUS_OK;                                                                                             \
    }
REPLAY_CORE(fleet)
REPLAY_CORE(replica)
REPLAY_CORE(node)

#define REPLAY_OPTIONS(X)                                                                                             \
    X(verify, NULL, "each step must give the recorded digest and commands; the first that does not is named")        \
    X(json, NULL, "one JSON object a journal")                                                                        \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    REPLAY_OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    REPLAY_OPTIONS(X)
#undef X
};

static const char usage[] = "usage: berth-sim replay DIR [--verify] [--json]\n";

struct replay_counts {
    uint64_t journals;
    uint64_t records;
    uint64_t bad;
};

struct replay_options {
    bool verify;
    bool json;
};

static enum status open_core(const struct journal_header *header, struct replayed *ret)
{
    struct journal_header copy = *header;
    struct journal_words words = {.words = copy.words};

    switch ((enum journal_core)header->core) {
    case JOURNAL_FLEET:
        return fleet_replay_open(&words, ret);
    case JOURNAL_REPLICA:
        return replica_replay_open(&words, ret);
    case JOURNAL_NODE:
        return node_replay_open(&words, ret);
    }
    return STATUS_CORRUPT;
}

/* The records of one file; NULL when all were right, otherwise what is wrong with the one after *ret_records. */
static const char *replay_records(FILE *file, const struct journal_header *header, struct replayed *replayed, bool verify,
                                  uint64_t *ret_records)
{
    unsigned char event[JOURNAL_EVENT_BYTES_MAX];
    struct journal_tail tail;
    uint64_t chain = header->checksum;
    uint64_t commands_digest;

    for (*ret_records = 0;; ++*ret_records) {
        size_t got = fread(event, 1, replayed->event_bytes, file);

        if (got == 0 && feof(file))
            return NULL;
        if (got != replayed->event_bytes || fread(&tail, sizeof(tail), 1, file) != 1)
            return "the record is cut off";
        if (!journal_check(&chain, event, replayed->event_bytes, &tail))
            return "the record is damaged: its checksum does not follow from the one before";
        if (replayed->step(replayed, event, &commands_digest) != tail.digest && verify)
            return "the state after this event differs from what was recorded";
        if (commands_digest != tail.commands_digest && verify)
            return "the commands differ from what was recorded";
    }
}

/* A path that is not UTF-8 cannot be said in JSON; it is on stderr when something is wrong. */
static void print_json(const char *path, uint64_t records, const char *wrong)
{
    json_t *name = json_string(path);
    json_t *object = json_pack("{s:o, s:I, s:b, s:s?}", "journal", name != NULL ? name : json_null(), "records",
                               (json_int_t)records, "ok", (int)(wrong == NULL), "wrong", wrong);

    check(object != NULL);
    check(json_dumpf(object, stdout, 0) == 0);
    putchar('\n');
    json_decref(object);
}

static void replay_file(const char *path, const struct replay_options *options, struct replay_counts *counts)
{
    struct replayed replayed = {0};
    struct journal_header header;
    const char *wrong = NULL;
    uint64_t records = 0;
    FILE *file = fopen(path, "rb");

    counts->journals++;
    if (file == NULL)
        wrong = strerror(errno);
    else if (fread(&header, sizeof(header), 1, file) != 1 || !journal_header_check(&header))
        wrong = "not a journal of this version, or its header is damaged";
    else if (open_core(&header, &replayed) != STATUS_OK || header.event_bytes != replayed.event_bytes)
        wrong = "it names a policy or a core that this build does not have";
    else
        wrong = replay_records(file, &header, &replayed, options->verify, &records);
    counts->records += records;
    if (options->json)
        print_json(path, records, wrong);
    if (wrong != NULL) {
        counts->bad++;
        fprintf(stderr, "berth-sim: %s: record %llu: %s\n", path, (unsigned long long)records + 1, wrong);
    }
    free(replayed.memory);
    free(replayed.commands);
    if (file != NULL)
        fclose(file);
}

static int is_journal_or_folder(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of names, folders of variants included. */
static enum status replay_folder(const char *directory, uint32_t depth, const struct replay_options *options,
                                 struct replay_counts *counts)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_journal_or_folder, alphasort);

    if (count < 0) {
        fprintf(stderr, "berth-sim: cannot read the folder %s: %s\n", directory, strerror(errno));
        return STATUS_IO;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct stat about;
        size_t length = strlen(entries[i]->d_name);

        snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
        if (stat(path, &about) == 0 && S_ISDIR(about.st_mode) && depth > 0)
            (void)replay_folder(path, depth - 1, options, counts);
        else if (length > 8 && strcmp(entries[i]->d_name + length - 8, ".journal") == 0)
            replay_file(path, options, counts);
        free(entries[i]);
    }
    free(entries);
    return STATUS_OK;
}

/* False: the command ends here, with *ret_code. */
static bool read_arguments(int argc, char **argv, struct replay_options *ret_options, const char **ret_directory,
                           int *ret_code)
{
    struct options options = {.command = "berth-sim replay", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    int option;

    *ret_code = EXIT_USAGE;
    *ret_directory = NULL;
    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_verify:
            ret_options->verify = true;
            break;
        case OPTION_json:
            ret_options->json = true;
            break;
        case OPTION_help:
            printf("%s\nSteps fresh cores through every journal under DIR (as written by berth-sim run --journal DIR).\n\n",
                   usage);
            options_print(stdout, table, ARRAY_COUNT(table));
            puts("\nExit codes: 0 done, 1 a journal is damaged or differs, or there is none, 2 wrong usage.");
            *ret_code = EXIT_OK;
            return false;
        case OPTION_OPERAND:
            if (*ret_directory != NULL) {
                fprintf(stderr, "berth-sim replay: one folder only, not also %s\n%s", value, usage);
                return false;
            }
            *ret_directory = value;
            break;
        default:
            return false;
        }
    }
    if (*ret_directory == NULL)
        fprintf(stderr, "berth-sim replay: name a folder of journals\n%s", usage);
    return *ret_directory != NULL;
}

int cmd_replay(int argc, char **argv)
{
    struct replay_options options = {0};
    struct replay_counts counts = {0};
    const char *directory;
    int code;

    if (!read_arguments(argc, argv, &options, &directory, &code))
        return code;
    if (replay_folder(directory, 1, &options, &counts) != STATUS_OK)
        return EXIT_FAILED;
    if (counts.journals == 0) {
        fprintf(stderr, "berth-sim: %s holds no journal; berth-sim run SCENARIO --journal DIR writes them\n", directory);
        return EXIT_FAILED;
    }
    if (!options.json)
        printf("%llu journals, %llu events stepped again%s\n", (unsigned long long)counts.journals,
               (unsigned long long)counts.records,
               counts.bad > 0 ? "" : options.verify ? ", all with equal digests and commands" : "");
    return counts.bad > 0 ? EXIT_FAILED : EXIT_OK;
}
