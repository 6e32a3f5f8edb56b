/* What an operator sees and does locally beside tenants and keys: jobs, models' verdicts, usage, the audit log. */
#include <stdio.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "cmd_model.h"
#include "host/options.h"

enum { OPTION_state, OPTION_json, OPTION_hours, OPTION_delete, OPTION_help };
static const struct option table[] = {
    {"state", "DIR", "the control plane's folder (default $BERTH_STATE, or berth-state)"},
    {"json", NULL, "JSON instead of a table"},
    {"hours", "N", "usage: of the last N hours (default 24)"},
    {"delete", NULL, "model alias: take the alias away"},
    {"help", NULL, "this text"},
};

#define OPERANDS_MAX 4
struct command {
    const char *name; /* "berth-exec job" */
    const char *usage;
    const char *state;
    bool json;
    int64_t hours;
    bool is_delete;
    const char *operands[OPERANDS_MAX];
    uint32_t count;
};

/* 0: go on; otherwise an exit code, `ret_code`. */
static bool read_command(struct command *command, int argc, char **argv, int *ret_code)
{
    struct options options = {.command = command->name, .table = table, .count = ARRAY_COUNT(table), .errors = stderr, .argc = argc,
                              .argv = argv, .at = 1};
    const char *value;
    int option;

    command->state = admin_state_folder();
    command->hours = 24;
    *ret_code = EXIT_USAGE;
    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_state: command->state = value; break;
        case OPTION_json: command->json = true; break;
        case OPTION_hours:
            if (!options_whole(&options, OPTION_hours, value, 1, 100000, &command->hours))
                return false;
            break;
        case OPTION_delete: command->is_delete = true; break;
        case OPTION_help:
            puts(command->usage);
            options_print(stdout, table, ARRAY_COUNT(table));
            puts("\nExit codes: 0 done, 1 refused (stderr says why), 2 wrong usage.");
            *ret_code = EXIT_OK;
            return false;
        case OPTION_OPERAND:
            if (command->count == OPERANDS_MAX) {
                fprintf(stderr, "%s: one word too many (%s)\n", command->name, value);
                return false;
            }
            command->operands[command->count++] = value;
            break;
        default: return false;
        }
    }
    return true;
}

static int misuse(const struct command *command)
{
    fprintf(stderr, "%s: wrong words; --help says which\n", command->name);
    return EXIT_USAGE;
}

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text != NULL ? text : "-";
}

static long long number_of(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static const char *time_of(const json_t *row, const char *name, char *ret_text)
{
    return admin_time_text(json_object_get(row, name), "-", ret_text);
}

/* All rows of a list, as JSON or line by line. */
static int print_rows(const struct command *command, json_t *request, const char *name, const char *heading, void (*print)(const json_t *row))
{
    json_t *rows = admin_ask_all(command->name + strlen("berth-exec "), command->state, request, name);
    json_t *row;
    size_t index;

    if (rows == NULL)
        return EXIT_FAILED;
    if (command->json)
        return admin_print_json(rows);
    puts(heading);
    json_array_foreach(rows, index, row)
        print(row);
    json_decref(rows);
    return EXIT_OK;
}

/* --- jobs ------------------------------------------------------------------------------------------------------------------- */

static void print_job(const json_t *job)
{
    char created[32];
    char finished[32];

    printf("%-32s %-10s %7lld %10.1f  %-16s  %-16s  %-20s %s\n", text_of(job, "id"), text_of(job, "state"), number_of(job, "attempt"),
           (double)number_of(job, "gpu_ms") / 1000, time_of(job, "created_at_ms", created), time_of(job, "finished_at_ms", finished),
           text_of(job, "base"), text_of(job, "reason"));
}

#define JOB_HEADING "JOB                              STATE      ATTEMPT  DEVICE s  CREATED           FINISHED          BASE                 REASON"

static int show_job(const struct command *command)
{
    json_t *answer = admin_ask("job show", command->state, json_pack("{s:s,s:s,s:s}", "op", "job.show", "tenant", command->operands[1], "job",
                                                                     command->operands[2]));
    json_t *event;
    size_t index;

    if (answer == NULL)
        return EXIT_FAILED;
    if (command->json)
        return admin_print_json(answer);
    puts(JOB_HEADING);
    print_job(json_object_get(answer, "job"));
    puts("\nEvents, newest first:");
    json_array_foreach(json_object_get(answer, "events"), index, event) {
        char at[32];

        printf("%5lld  %-16s  %-5s  %-24s %s\n", number_of(event, "n"), time_of(event, "at_ms", at), text_of(event, "level"),
               text_of(event, "code"), text_of(event, "metrics"));
    }
    json_decref(answer);
    return EXIT_OK;
}

static int cancel_job(const struct command *command)
{
    json_t *answer = admin_ask("job cancel", command->state, json_pack("{s:s,s:s,s:s}", "op", "job.cancel", "tenant", command->operands[1],
                                                                       "job", command->operands[2]));

    json_decref(answer);
    return answer != NULL ? EXIT_OK : EXIT_FAILED;
}

int cmd_job(int argc, char **argv)
{
    struct command command = {.name = "berth-exec job",
                              .usage = "usage: berth-exec job list TENANT [--json]\n"
                                       "       berth-exec job show TENANT JOB\n"
                                       "       berth-exec job cancel TENANT JOB\n\n"
                                       "Jobs by their ids, states and codes; what tenants wrote is theirs, and not shown.\n"};
    const char *what;
    int code;

    if (!read_command(&command, argc, argv, &code))
        return code;
    what = command.count > 0 ? command.operands[0] : "";
    if (strcmp(what, "list") == 0 && command.count == 2)
        return print_rows(&command, json_pack("{s:s,s:s}", "op", "job.list", "tenant", command.operands[1]), "jobs", JOB_HEADING, print_job);
    if (strcmp(what, "show") == 0 && command.count == 3)
        return show_job(&command);
    if (strcmp(what, "cancel") == 0 && command.count == 3)
        return cancel_job(&command);
    return misuse(&command);
}

/* --- models ----------------------------------------------------------------------------------------------------------------- */

static void print_model(const json_t *model)
{
    char created[32];

    printf("%-64s %-13s %4lld  %-16s  %s\n", text_of(model, "name"), text_of(model, "verdict"), number_of(model, "rank"),
           time_of(model, "created_at_ms", created), text_of(model, "job"));
}

int cmd_model_list(int argc, char **argv)
{
    struct command command = {.name = "berth-exec model list", .usage = "usage: berth-exec model list TENANT [--json]\n"};
    int code;

    if (!read_command(&command, argc, argv, &code))
        return code;
    if (command.count != 1)
        return misuse(&command);
    return print_rows(&command, json_pack("{s:s,s:s}", "op", "model.list", "tenant", command.operands[0]), "models",
                      "MODEL                                                            VERDICT       RANK  CREATED           JOB", print_model);
}

static void print_alias(const json_t *alias)
{
    printf("%-40s %-64s %-13s %10lld\n", text_of(alias, "id"), text_of(alias, "model"), text_of(alias, "verdict"), number_of(alias, "generation"));
}

/* An act that answers nothing worth a line. */
static int act(const struct command *command, json_t *request)
{
    json_t *answer = admin_ask(command->name + strlen("berth-exec "), command->state, request);

    if (answer != NULL && command->json)
        return admin_print_json(answer);
    json_decref(answer);
    return answer != NULL ? EXIT_OK : EXIT_FAILED;
}

int cmd_model_alias(int argc, char **argv)
{
    struct command command = {.name = "berth-exec model alias",
                              .usage = "usage: berth-exec model alias TENANT [--json]\n"
                                       "       berth-exec model alias TENANT NAME MODEL\n"
                                       "       berth-exec model alias TENANT NAME --delete\n\n"
                                       "A name of the organization's own that answers as MODEL does, which stays as it is; given again, it points\n"
                                       "elsewhere from the next request on. MODEL may be an alias too: what that points to now. The act is in the\n"
                                       "audit log.\n"};
    int code;

    if (!read_command(&command, argc, argv, &code))
        return code;
    if (command.count == 1 && !command.is_delete)
        return print_rows(&command, json_pack("{s:s,s:s}", "op", "alias.list", "tenant", command.operands[0]), "aliases",
                          "ALIAS                                    MODEL                                                            VERDICT       "
                          "GENERATION", print_alias);
    if (command.count == 2 && command.is_delete)
        return act(&command, json_pack("{s:s,s:s,s:s}", "op", "alias.delete", "tenant", command.operands[0], "alias", command.operands[1]));
    if (command.count == 3 && !command.is_delete)
        return act(&command, json_pack("{s:s,s:s,s:s,s:s}", "op", "alias.set", "tenant", command.operands[0], "alias", command.operands[1],
                                       "model", command.operands[2]));
    return misuse(&command);
}

int cmd_model_judge(int argc, char **argv)
{
    struct command command = {.name = "berth-exec model judge",
                              .usage = "usage: berth-exec model judge TENANT MODEL VERDICT\n\n"
                                       "VERDICT is pending_eval, deployable, needs_review or blocked. Only what is deployable answers, by whatever\n"
                                       "name it is called. The act is in the audit log.\n"};
    int code;

    if (!read_command(&command, argc, argv, &code))
        return code;
    if (command.count != 3)
        return misuse(&command);
    return act(&command, json_pack("{s:s,s:s,s:s,s:s}", "op", "model.judge", "tenant", command.operands[0], "model", command.operands[1],
                                   "verdict", command.operands[2]));
}

/* --- usage, audit ----------------------------------------------------------------------------------------------------------- */

static void print_usage(const json_t *sum)
{
    char hour[32];
    json_t *at = json_integer(number_of(sum, "hour") * 3600000);

    printf("%-16s  %-64s %10lld %14lld %14lld %10lld %14lld %12.1f\n", admin_time_text(at, "-", hour), text_of(sum, "model"),
           number_of(sum, "requests"), number_of(sum, "prompt_tokens"), number_of(sum, "completion_tokens"), number_of(sum, "trainings"),
           number_of(sum, "trained_tokens"), (double)number_of(sum, "gpu_ms") / 1000);
    json_decref(at);
}

int cmd_usage(int argc, char **argv)
{
    struct command command = {.name = "berth-exec usage", .usage = "usage: berth-exec usage TENANT [--hours N] [--json]\n"};
    int code;

    if (!read_command(&command, argc, argv, &code))
        return code;
    if (command.count != 1)
        return misuse(&command);
    return print_rows(&command,
                      json_pack("{s:s,s:s,s:I}", "op", "usage.list", "tenant", command.operands[0], "hours", (json_int_t)command.hours), "usage",
                      "HOUR (UTC)        MODEL                                                              REQUESTS  PROMPT TOKENS  OUTPUT TOKENS  "
                      "TRAININGS TRAINED TOKENS  GPU SECONDS",
                      print_usage);
}

static void print_entry(const json_t *entry)
{
    char at[32];

    printf("%8lld  %-16s  %-20s %-24s %-28s %s\n", number_of(entry, "number"), time_of(entry, "at_ms", at), text_of(entry, "act"),
           text_of(entry, "subject"), text_of(entry, "actor"), text_of(entry, "tenant"));
}

int cmd_audit(int argc, char **argv)
{
    struct command command = {.name = "berth-exec audit",
                              .usage = "usage: berth-exec audit list [TENANT] [--json]\n\n"
                                       "Newest first. Entries are a chain of hashes; they hold ids and codes, never words of tenants.\n"};
    json_t *request;
    int code;

    if (!read_command(&command, argc, argv, &code))
        return code;
    if (command.count < 1 || command.count > 2 || strcmp(command.operands[0], "list") != 0)
        return misuse(&command);
    request = json_pack("{s:s}", "op", "audit.list");
    if (command.count == 2)
        json_object_set_new(request, "tenant", json_string(command.operands[1]));
    return print_rows(&command, request, "entries",
                      "  NUMBER  AT                ACT                  SUBJECT                  ACTOR                        TENANT", print_entry);
}
