/* berth-exec key: API keys. A new one is printed once, on stdout, alone; it is never an argument, and nowhere kept. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "host/options.h"

enum { OPTION_role, OPTION_days, OPTION_platform, OPTION_state, OPTION_json, OPTION_help };
static const struct option table[] = {
    {"role", "ROLE", "inference, member (default) or admin; with --platform reviewer, operator or auditor"},
    {"days", "N", "until it expires (default: never)"},
    {"platform", NULL, "a key of the platform's own, of no tenant"},
    {"state", "DIR", "the control plane's folder (default $BERTH_STATE, or berth-state)"},
    {"json", NULL, "JSON instead of text"},
    {"help", NULL, "this text"},
};

struct key_command {
    const char *state;
    const char *role;
    int64_t days; /* 0: never */
    bool platform;
    bool json;
    const char *operands[3];
    uint32_t count;
};

static void print_help(void)
{
    puts("usage: berth-exec key add TENANT [--role ROLE] [--days N]\n"
         "       berth-exec key list TENANT [--json]\n"
         "       berth-exec key revoke TENANT ID\n\n"
         "With --platform instead of TENANT: keys of reviewers, operators and auditors. add prints the key, once; what is kept of it\n"
         "opens nothing. The letters between sk-berth- and the last '-' are its id.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 refused (stderr says why), 2 wrong usage.");
}

/* With the tenant, unless it is the platform's. */
static json_t *request_of(const struct key_command *command, const char *op)
{
    json_t *request = json_pack("{s:s}", "op", op);

    if (!command->platform)
        (void)json_object_set_new(request, "tenant", json_string(command->operands[1]));
    return request;
}

static int print_list(const struct key_command *command)
{
    json_t *keys = admin_ask_all("key list", command->state, request_of(command, "key.list"), "keys");
    json_t *key;
    size_t index;

    if (keys == NULL)
        return EXIT_FAILED;
    if (command->json)
        return admin_print_json(keys);
    printf("%-24s  %-10s %-16s  %-16s  %s\n", "ID", "ROLE", "CREATED", "EXPIRES", "REVOKED");
    json_array_foreach(keys, index, key) {
        char created[32];
        char expires[32];
        char revoked[32];

        printf("%-24s  %-10s %-16s  %-16s  %s\n", json_string_value(json_object_get(key, "id")),
               json_string_value(json_object_get(key, "role")), admin_time_text(json_object_get(key, "created_at_ms"), "-", created),
               admin_time_text(json_object_get(key, "expires_at_ms"), "never", expires),
               admin_time_text(json_object_get(key, "revoked_at_ms"), "-", revoked));
    }
    json_decref(keys);
    return EXIT_OK;
}

static int add(const struct key_command *command)
{
    json_t *request = request_of(command, "key.add");
    json_t *answer;

    (void)json_object_set_new(request, "role", json_string(command->role));
    if (command->days > 0)
        (void)json_object_set_new(request, "expires_at_ms", json_integer(((json_int_t)time(NULL) + command->days * 86400) * 1000));
    answer = admin_ask("key add", command->state, request);
    if (answer == NULL)
        return EXIT_FAILED;
    if (command->json)
        return admin_print_json(answer);
    puts(json_string_value(json_object_get(answer, "key")));
    json_decref(answer);
    return EXIT_OK;
}

static int revoke(const struct key_command *command)
{
    json_t *request = request_of(command, "key.revoke");
    json_t *answer;

    (void)json_object_set_new(request, "key", json_string(command->operands[command->count - 1]));
    answer = admin_ask("key revoke", command->state, request);
    json_decref(answer);
    return answer != NULL ? EXIT_OK : EXIT_FAILED;
}

static int run(const struct key_command *command)
{
    const char *what = command->count > 0 ? command->operands[0] : "";
    const uint32_t holder = command->platform ? 0 : 1;

    if (strcmp(what, "add") == 0 && command->count == 1 + holder)
        return add(command);
    if (strcmp(what, "list") == 0 && command->count == 1 + holder)
        return print_list(command);
    if (strcmp(what, "revoke") == 0 && command->count == 2 + holder)
        return revoke(command);
    fputs("berth-exec key: add TENANT, list TENANT or revoke TENANT ID (--platform instead of TENANT); --help says more\n", stderr);
    return EXIT_USAGE;
}

int cmd_key(int argc, char **argv)
{
    struct options options = {.command = "berth-exec key", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    struct key_command command = {.state = admin_state_folder(), .role = "member"};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_role:
            command.role = value;
            break;
        case OPTION_days:
            if (!options_whole(&options, OPTION_days, value, 1, 36500, &command.days))
                return EXIT_USAGE;
            break;
        case OPTION_platform:
            command.platform = true;
            break;
        case OPTION_state:
            command.state = value;
            break;
        case OPTION_json:
            command.json = true;
            break;
        case OPTION_help:
            print_help();
            return EXIT_OK;
        case OPTION_OPERAND:
            if (command.count == ARRAY_COUNT(command.operands)) {
                fprintf(stderr, "berth-exec key: one word too many (%s)\n", value);
                return EXIT_USAGE;
            }
            command.operands[command.count++] = value;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    return run(&command);
}
