/* berth-exec vault: what an operator does to the master key while no platform runs; and the vault itself, which the keeper starts. */
#include <stdio.h>
#include <sys/socket.h>

#include "cmd.h"
#include "crypto/vault.h"
#include "host/options.h"
#include "keeper/keeper.h"

#define OPTIONS(X)                                                                        \
    X(from, "FILE", "rotate: the master key until now")                                   \
    X(from_command, "COMMAND", "rotate: a shell command that prints it instead")          \
    X(to, "FILE", "rotate: the master key from now on")                                   \
    X(to_command, "COMMAND", "rotate: a shell command that prints it instead")            \
    X(keys, "FILE", "serve: the tenants' wrapped keys; made when it is not there")        \
    X(master, "FILE", "serve: the master key")                                            \
    X(master_command, "COMMAND", "serve: a shell command that prints it instead")         \
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
         "       berth-exec vault rotate KEYS.DB --from FILE --to FILE\n"
         "       berth-exec vault serve --keys FILE --master FILE      (for the keeper, with a socket as descriptor 3)\n\n"
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

static void log_line(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "vault %s\n", line);
}

static int serve(const char *keys_path, const struct master_source *master)
{
    const struct vault_options options = {.keys_path = keys_path, .master = *master, .log = log_line};
    struct refusal refusal = {""};
    int type = 0;
    socklen_t bytes = sizeof(type);

    if (keys_path == NULL || !is_one(master))
        return misuse("serve takes --keys and one of --master and --master-command");
    if (getsockopt(KEEPER_SOCKET, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_SEQPACKET)
        return misuse("serve is started by the keeper, which gives it a socket");
    return finish(vault_serve(&options, KEEPER_SOCKET, &refusal), &refusal);
}

int cmd_vault(int argc, char **argv)
{
    struct options options = {.command = "berth-exec vault", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *operands[2] = {NULL, NULL};
    struct master_source from = {NULL, NULL};
    struct master_source to = {NULL, NULL};
    struct master_source master = {NULL, NULL};
    const char *keys_path = NULL;
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
        case OPTION_keys: keys_path = value; break;
        case OPTION_master: master.file = value; break;
        case OPTION_master_command: master.command = value; break;
        case OPTION_help: print_help(); return EXIT_OK;
        case OPTION_OPERAND:
            if (count == ARRAY_COUNT(operands))
                return misuse("a verb and a file, nothing else");
            operands[count++] = value;
            break;
        default: return EXIT_USAGE;
        }
    }
    if (count == 1 && strcmp(operands[0], "serve") == 0)
        return serve(keys_path, &master);
    if (count != 2)
        return misuse("give new-key or rotate, and a file; or serve");
    if (strcmp(operands[0], "new-key") == 0)
        return finish(master_create(operands[1], &refusal), &refusal);
    if (strcmp(operands[0], "rotate") != 0)
        return misuse("new-key, rotate and serve are there");
    if (!is_one(&from) || !is_one(&to))
        return misuse("rotate takes one of --from and --from-command, and one of --to and --to-command");
    return finish(vault_rotate_master(operands[1], &from, &to, &refusal), &refusal);
}
