/* berth-exec tenant: who uses this installation, and what each may have. */
#include <stdio.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "control/metadata/tenant.h"
#include "host/options.h"

enum { OPTION_state, OPTION_json, OPTION_help };
static const struct option table[] = {
    {"state", "DIR", "the control plane's folder (default $BERTH_STATE, or berth-state)"},
    {"json", NULL, "JSON instead of a table"},
    {"help", NULL, "this text"},
};

#define OPERANDS_MAX 32
struct tenant_command {
    const char *state;
    bool json;
    const char *operands[OPERANDS_MAX];
    uint32_t count;
};

static void print_help(void)
{
    puts("usage: berth-exec tenant add NAME\n"
         "       berth-exec tenant list [--json]\n"
         "       berth-exec tenant set NAME SETTING=VALUE...\n"
         "       berth-exec tenant suspend NAME; berth-exec tenant resume NAME\n\n"
         "Organizations: add prints the new one's id. One that is suspended keeps all it has; its keys answer nothing. A name is\n"
         "never given twice. Settings, with their ranges and defaults:");
#define X(name, least, most, standard, about) printf("  %-22s %s to %s, %s: %s\n", #name, #least, #most, #standard, about);
    META_TENANT_SETTINGS(X)
#undef X
    puts("  cohort                 the group that lends to each other; default\n"
         "  isolation              exclusive, mig, mps or time-slice, the default: how far its jobs stand from others'\n"
         "  consent                none or support: whether operators may ask to see content\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 refused (stderr says why), 2 wrong usage.");
}

static int print_list(const struct tenant_command *command)
{
    json_t *tenants = admin_ask_all("tenant list", command->state, json_pack("{s:s}", "op", "tenant.list"), "tenants");
    json_t *tenant;
    size_t index;

    if (tenants == NULL)
        return EXIT_FAILED;
    if (command->json)
        return admin_print_json(tenants);
    printf("%-24s %-10s %-12s %8s %8s %8s  %-16s %s\n", "TENANT", "STATE", "COHORT", "WEIGHT", "NOMINAL", "PRIORITY", "CREATED", "ID");
    json_array_foreach(tenants, index, tenant) {
        char created[32];

        printf("%-24s %-10s %-12s %8.3f %8.3f %8lld  %-16s %s\n", json_string_value(json_object_get(tenant, "slug")),
               json_string_value(json_object_get(tenant, "state")), json_string_value(json_object_get(tenant, "cohort")),
               (double)json_integer_value(json_object_get(tenant, "weight_milli")) / 1000,
               (double)json_integer_value(json_object_get(tenant, "nominal_milli")) / 1000,
               (long long)json_integer_value(json_object_get(tenant, "priority")),
               admin_time_text(json_object_get(tenant, "created_at_ms"), "-", created), json_string_value(json_object_get(tenant, "id")));
    }
    json_decref(tenants);
    return EXIT_OK;
}

/* NULL: an operand is no SETTING=VALUE. */
static json_t *read_settings(const struct tenant_command *command)
{
    json_t *settings = json_object();

    for (uint32_t i = 2; i < command->count; i++) {
        const char *equals = strchr(command->operands[i], '=');
        char name[64];

        if (equals == NULL || (size_t)(equals - command->operands[i]) >= sizeof(name)) {
            fprintf(stderr, "berth-exec tenant set: %s is not SETTING=VALUE\n", command->operands[i]);
            json_decref(settings);
            return NULL;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(equals - command->operands[i]), command->operands[i]);
        (void)json_object_set_new(settings, name, json_string(equals + 1));
    }
    return settings;
}

static int say_done(json_t *answer, const char *name)
{
    if (answer == NULL)
        return EXIT_FAILED;
    if (name != NULL)
        puts(json_string_value(json_object_get(answer, name)));
    json_decref(answer);
    return EXIT_OK;
}

static int run(const struct tenant_command *command)
{
    const char *what = command->count > 0 ? command->operands[0] : "";
    const char *tenant = command->count > 1 ? command->operands[1] : NULL;

    if (strcmp(what, "list") == 0 && command->count == 1)
        return print_list(command);
    if (strcmp(what, "add") == 0 && command->count == 2)
        return say_done(admin_ask("tenant add", command->state, json_pack("{s:s, s:s}", "op", "tenant.add", "tenant", tenant)), "id");
    if (strcmp(what, "suspend") == 0 && command->count == 2)
        return say_done(admin_ask("tenant suspend", command->state, json_pack("{s:s, s:s}", "op", "tenant.suspend", "tenant", tenant)), NULL);
    if (strcmp(what, "resume") == 0 && command->count == 2)
        return say_done(admin_ask("tenant resume", command->state, json_pack("{s:s, s:s}", "op", "tenant.resume", "tenant", tenant)), NULL);
    if (strcmp(what, "set") == 0 && command->count > 2) {
        json_t *settings = read_settings(command);

        return settings == NULL ? EXIT_USAGE
                                : say_done(admin_ask("tenant set", command->state, json_pack("{s:s, s:s, s:o}", "op", "tenant.set",
                                                                                             "tenant", tenant, "settings", settings)), NULL);
    }
    fputs("berth-exec tenant: add NAME, list, set NAME SETTING=VALUE..., suspend NAME or resume NAME; --help says more\n", stderr);
    return EXIT_USAGE;
}

int cmd_tenant(int argc, char **argv)
{
    struct options options = {.command = "berth-exec tenant", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    struct tenant_command command = {.state = admin_state_folder()};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
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
            if (command.count == OPERANDS_MAX) {
                fprintf(stderr, "berth-exec tenant: at most %d words\n", OPERANDS_MAX);
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
