/* berth-exec vault: what an operator does to the master key while no platform runs. */
#include <stdio.h>

#include "cmd.h"
#include "crypto/vault.h"
#include "host/options.h"

#define OPTIONS(X)                                                                        \
    X(from, "FILE", "rotate: the master key until now")                                   \
    X(from_command, "COMMAND", "rotate: a shell command that prints it instead")          \
    X(to, "FILE", "rotate: the master key from now on")                                   \
    X(to_command, "COMMAND", "rotate: a shell command that prints it instead")            \
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

static void print_help(void)
{
    puts("usage: berth-exec vault new-key FILE\n"
         "       berth-exec vault rotate KEYS.DB --from FILE --to FILE\n\n"
         "new-key makes a master key in a new file that its owner alone may read. Keep a copy elsewhere: without it all that tenants\n"
         "stored is noise. rotate puts all tenants' keys under another master key, in one transaction; stop the platform before. The old\n"
         "master key opens backups of keys.db from before, and nothing else.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done (stderr says why), 2 wrong usage.");
}

static int misuse(const char *why)
{
    fprintf(stderr, "berth-exec vault: %s; berth-exec vault --help says more\n", why);
    return EXIT_USAGE;
}

static int finish(enum status status, const struct refusal *refusal)
{
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec vault: %s\n", refusal->text);
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}

static bool is_one(const struct master_source *source)
{
    return (source->file != NULL) != (source->command != NULL);
}

int cmd_vault(int argc, char **argv)
{
    struct options options = {.command = "berth-exec vault", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *operands[2] = {NULL, NULL};
    struct master_source from = {NULL, NULL};
    struct master_source to = {NULL, NULL};
    struct refusal refusal = {""};
    const char *value;
    size_t count = 0;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_from: from.file = value; break;
        case OPTION_from_command: from.command = value; break;
        case OPTION_to: to.file = value; break;
        case OPTION_to_command: to.command = value; break;
        case OPTION_help: print_help(); return EXIT_OK;
        case OPTION_OPERAND:
            if (count == ARRAY_COUNT(operands))
                return misuse("a verb and a file, nothing else");
            operands[count++] = value;
            break;
        default: return EXIT_USAGE;
        }
    }
    if (count != 2)
        return misuse("give new-key or rotate, and a file");
    if (strcmp(operands[0], "new-key") == 0)
        return finish(master_create(operands[1], &refusal), &refusal);
    if (strcmp(operands[0], "rotate") != 0)
        return misuse("new-key and rotate are there");
    if (!is_one(&from) || !is_one(&to))
        return misuse("rotate takes one of --from and --from-command, and one of --to and --to-command");
    return finish(vault_rotate_master(operands[1], &from, &to, &refusal), &refusal);
}
