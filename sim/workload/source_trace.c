/* Requests of a trace, streamed: one row ahead. Where the trace has no lengths or adapters the scenario's laws give
 * them; where it has them they are taken as they are. Names of adapters and tenants need numbers, bounds and (for a warm
 * start) popularity before the first request, so a trace that has names is read once more, beforehand.
 *
 * Rows that the trace calls failed are left out and counted; the readers refuse a length of 0 in any other row. */
#include <math.h>
#include <stdlib.h>

#include "workload/kind.h"
#include "workload/names.h"
#include "workload/trace_files.h"

struct replay {
    struct trace *trace;
    struct trace_columns columns;
    char path[KEY_TEXT_MAX * 2];     /* the one that is read */
    bool fell_back;
    uint32_t has;                    /* enum trace_column */
    struct names adapters;
    struct names tenants;
    struct trace_row row;            /* the next to give */
    int64_t row_at_ns;               /* NEVER_NS: no more */
    enum status status;              /* STATUS_OK; or what ended the trace, to be told by the next take */
    uint64_t failed_rows;
};

static const char *const formats[] = {
    [KEY_FORMAT_AZURE] = "azure",
    [KEY_FORMAT_BURSTGPT] = "burstgpt",
    [KEY_FORMAT_MOONCAKE] = "mooncake",
    [KEY_FORMAT_ALIBABA_LORA] = "alibaba-lora",
    [KEY_FORMAT_CSV] = "csv",
};

static enum status choose_path(const struct source *source, struct replay *replay, FILE *errors)
{
    const struct keys_trace *keys = &source->scenario->workload.trace;
    const struct trace_file file = {"workload.trace", "", keys->path, keys->path_fallback};

    return trace_file_choose(&file, source->scenario, errors, replay->path, &replay->fell_back);
}

static enum status read_columns(const struct keys_trace *keys, struct trace_columns *ret_columns, FILE *errors)
{
    struct trace_columns columns = {.time_unit = (enum trace_time_unit)keys->time_unit};
    const struct {
        const char *key;
        const char *text;
        char *column;
    } parts[] = {
        {"time_column", keys->time_column, columns.time},
        {"prompt_column", keys->prompt_column, columns.prompt},
        {"output_column", keys->output_column, columns.output},
        {"adapter_column", keys->adapter_column, columns.adapter},
        {"tenant_column", keys->tenant_column, columns.tenant},
    };

    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (strlen(parts[i].text) >= TRACE_ID_MAX) {
            fprintf(errors, "workload.trace.%s: longer than %d characters\n", parts[i].key, TRACE_ID_MAX - 1);
            return STATUS_INVALID;
        }
        strcpy(parts[i].column, parts[i].text);
    }
    *ret_columns = columns;
    return STATUS_OK;
}

static enum status open_trace(const struct source *source, struct replay *replay, FILE *errors)
{
    const struct keys_trace *keys = &source->scenario->workload.trace;
    struct trace_options options = {
        .lenient = keys->lenient,
        .backward_tolerance_ns = (int64_t)rint(keys->backward_tolerance_s * (double)NS_PER_S),
        .columns = keys->format == KEY_FORMAT_CSV ? &replay->columns : NULL,
    };
    char message[TRACE_MESSAGE_MAX];
    enum status status;

    check(keys->format < ARRAY_COUNT(formats));
    status = trace_open(replay->path, formats[keys->format], &options, &replay->trace, message);
    if (status == STATUS_OK)
        replay->has = trace_info(replay->trace).has;
    else
        fprintf(errors, "%s\n", message);
    return status;
}

/* The next row that is a request of this run. STATUS_END: none, or not before its end. */
static enum status next_request(const struct source *source, struct replay *replay)
{
    struct trace_row *row = &replay->row;
    enum status status;

    while ((status = trace_next(replay->trace, row)) == STATUS_OK) {
        replay->row_at_ns = trace_scaled_ns(source->scenario->workload.trace.time_scale, row->at_ns);
        if (replay->row_at_ns > source->duration_ns)
            return STATUS_END;
        if (!row->failed)
            return STATUS_OK;
        replay->failed_rows++;
    }
    return status;
}

struct census {
    double *requests;      /* [room], by adapter number: its popularity */
    uint32_t *owners;      /* [room]: the tenant that asked for it first */
    uint32_t room;
};

static enum status census_fit(struct census *census, uint32_t count)
{
    uint32_t room = max_u32(1024, census->room * 2);
    double *requests;
    uint32_t *owners;

    if (count <= census->room)
        return STATUS_OK;
    requests = realloc(census->requests, room * sizeof(*requests));
    if (requests == NULL)
        return STATUS_FULL;
    census->requests = requests;
    owners = realloc(census->owners, room * sizeof(*owners));
    if (owners == NULL)
        return STATUS_FULL;
    census->owners = owners;
    census->room = room;
    return STATUS_OK;
}

static enum status census_row(struct replay *replay, struct census *census)
{
    uint32_t known = replay->adapters.count;
    uint32_t tenant = 0;
    uint32_t number;

    if ((replay->has & TRACE_HAS_TENANT) != 0 &&
        names_number(&replay->tenants, replay->row.tenant, &tenant) != STATUS_OK)
        return STATUS_FULL;
    if ((replay->has & TRACE_HAS_ADAPTER) == 0 || replay->row.adapter[0] == '\0')
        return STATUS_OK;
    if (names_number(&replay->adapters, replay->row.adapter, &number) != STATUS_OK ||
        census_fit(census, replay->adapters.count) != STATUS_OK)
        return STATUS_FULL;
    if (number == known) {
        census->requests[number] = 0;
        census->owners[number] = tenant;
    }
    census->requests[number] += 1;
    return STATUS_OK;
}

static enum status take_census(const struct source *source, struct replay *replay, struct census *census, FILE *errors)
{
    enum status status = STATUS_OK;

    for (uint64_t i = 0; i < source->fresh_max && status == STATUS_OK; i++) {
        status = next_request(source, replay);
        if (status == STATUS_OK && census_row(replay, census) != STATUS_OK) {
            fprintf(errors, "%s:%llu: more distinct adapters or tenants than this program holds (%u of each, memory "
                            "permitting); shorten the run\n",
                    replay->path, (unsigned long long)replay->row.line, NAMES_MAX);
            return STATUS_FULL;
        }
    }
    if (status == STATUS_END || status == STATUS_OK)
        return STATUS_OK;
    fprintf(errors, "%s\n", trace_message(replay->trace));
    return status;
}

/* Reads the names, then begins the trace anew. */
static enum status open_names(struct source *source, struct replay *replay, struct census *census, FILE *errors)
{
    enum status status = take_census(source, replay, census, errors);

    trace_close(replay->trace);
    replay->trace = NULL;
    replay->failed_rows = 0;
    return status == STATUS_OK ? open_trace(source, replay, errors) : status;
}

/* Named adapters have the popularity and the owners that the trace gives them. */
static enum status open_named_catalog(struct source *source, const struct replay *replay, const struct census *census,
                                      FILE *errors)
{
    uint32_t count = replay->adapters.count;
    enum status status;

    /* No row names an adapter: a weight list of no entry, rather than the scenario's adapters. */
    status = catalog_open(&source->catalog, source->scenario, &source->streams,
                          count > 0 ? census->requests : &(const double){0}, count, errors);
    if (status != STATUS_OK || (replay->has & TRACE_HAS_TENANT) == 0)
        return status;
    for (uint32_t i = 0; i < count; i++)
        catalog_own(&source->catalog, i + 1, census->owners[i]);
    return STATUS_OK;
}

static enum status open_catalog(struct source *source, struct replay *replay, FILE *errors)
{
    struct census census = {0};
    enum status status = STATUS_OK;

    if ((replay->has & (TRACE_HAS_ADAPTER | TRACE_HAS_TENANT)) != 0)
        status = open_names(source, replay, &census, errors);
    source->tenants_max = max_u32(source->tenants_max, replay->tenants.count);
    if (status == STATUS_OK && (replay->has & TRACE_HAS_ADAPTER) != 0)
        status = open_named_catalog(source, replay, &census, errors);
    else if (status == STATUS_OK)
        status = catalog_open(&source->catalog, source->scenario, &source->streams, NULL, 0, errors);
    free(census.requests);
    free(census.owners);
    return status;
}

static void look_ahead(const struct source *source, struct replay *replay)
{
    int64_t before_ns = replay->row_at_ns;
    enum status status = next_request(source, replay);

    if (status == STATUS_END)
        replay->row_at_ns = NEVER_NS;
    else if (status != STATUS_OK)
        replay->row_at_ns = before_ns; /* the error is told at the last known instant */
    replay->status = status == STATUS_END ? STATUS_OK : status;
}

static enum status replay_open(struct source *source, FILE *errors)
{
    struct replay *replay = calloc(1, sizeof(*replay));
    enum status status;

    source->state = replay;
    if (replay == NULL) {
        fprintf(errors, "workload: not enough memory\n");
        return STATUS_FULL;
    }
    status = choose_path(source, replay, errors);
    if (status == STATUS_OK)
        status = read_columns(&source->scenario->workload.trace, &replay->columns, errors);
    if (status == STATUS_OK)
        status = open_trace(source, replay, errors);
    if (status == STATUS_OK)
        status = open_catalog(source, replay, errors);
    if (status == STATUS_OK)
        look_ahead(source, replay);
    return status;
}

static void replay_close(struct source *source)
{
    struct replay *replay = source->state;

    if (replay == NULL)
        return;
    trace_close(replay->trace);
    names_close(&replay->adapters);
    names_close(&replay->tenants);
    free(replay);
}

static int64_t replay_next_at_ns(struct source *source)
{
    const struct replay *replay = source->state;

    return replay->row_at_ns;
}

/* A name that the census has seen: the same rows are read again. A file that changes meanwhile is not a repair case. */
static enum status number_again(struct names *names, const char *name, uint32_t *ret_number)
{
    uint32_t count = names->count;

    if (names_number(names, name, ret_number) == STATUS_OK && names->count == count)
        return STATUS_OK;
    return STATUS_CORRUPT;
}

static enum status ask(struct source *source, struct replay *replay, const struct luck *luck, struct arrival *arrival)
{
    const struct trace_row *row = &replay->row;
    bool named = (replay->has & TRACE_HAS_ADAPTER) != 0;
    bool counted = (replay->has & TRACE_HAS_LORA_COUNT) != 0;
    uint32_t number;

    if (named && row->adapter[0] != '\0') {
        if (number_again(&replay->adapters, row->adapter, &number) != STATUS_OK)
            return STATUS_CORRUPT;
        source_ask_adapter(source, number + 1, arrival);
    } else if (named || source->catalog.count == 0 ||
               (counted ? row->lora_count == 0 : source_wants_base(source, luck))) {
        source_ask_base(source, luck, arrival);
    } else {
        source_ask_by_law(source, luck, source->adapters_drawn++, arrival);
    }
    if ((replay->has & TRACE_HAS_TENANT) == 0)
        return STATUS_OK;
    if (number_again(&replay->tenants, row->tenant, &number) != STATUS_OK)
        return STATUS_CORRUPT;
    arrival->tenant = (tenant_id){number};
    return STATUS_OK;
}

static enum status replay_take(struct source *source, struct arrival *ret_arrival)
{
    struct replay *replay = source->state;
    struct luck luck = source_luck(source);

    if (replay->status != STATUS_OK) {
        snprintf(source->message, sizeof(source->message), "%s", trace_message(replay->trace));
        return replay->status;
    }
    if (ask(source, replay, &luck, ret_arrival) != STATUS_OK) {
        snprintf(source->message, sizeof(source->message), "%s:%llu: the file has changed while it was read",
                 replay->path, (unsigned long long)replay->row.line);
        return STATUS_CORRUPT;
    }
    ret_arrival->prompt_tokens = (replay->has & TRACE_HAS_PROMPT) != 0 ? replay->row.prompt_tokens
                                                                       : lengths_at(&source->prompt, luck.prompt);
    ret_arrival->output_tokens = (replay->has & TRACE_HAS_OUTPUT) != 0 ? replay->row.output_tokens
                                                                       : lengths_at(&source->output, luck.output);
    look_ahead(source, replay);
    return STATUS_OK;
}

static void say_rows(const struct replay *replay, struct notes *notes)
{
    struct trace_info info = trace_info(replay->trace);
    char count[NUMBER_TEXT_MAX];

    if (replay->failed_rows > 0)
        notes_say(notes, "Rows left out because the trace says that the request failed: %s.",
                  count_text(replay->failed_rows, count));
    trace_say_skips(&info, notes);
}

static void say_file(const struct source *source, const struct replay *replay, struct notes *notes)
{
    const struct keys_trace *keys = &source->scenario->workload.trace;
    char scale[NUMBER_TEXT_MAX];

    if (replay->fell_back)
        notes_say(notes, "Requests come from the trace %s, since %s does not exist.", keys->path_fallback, keys->path);
    else
        notes_say(notes, "Requests come from the trace %s.", keys->path);
    if (keys->time_scale < 1 || keys->time_scale > 1)
        notes_say(notes, "Its times are multiplied by %s.", notes_real(keys->time_scale, scale));
}

static void say_adapters(const struct source *source, const struct replay *replay, struct notes *notes)
{
    char count[NUMBER_TEXT_MAX];

    if ((replay->has & TRACE_HAS_ADAPTER) != 0) {
        notes_say(notes, "The trace names the adapters: %s of them.", count_text(replay->adapters.count, count));
        return;
    }
    if ((replay->has & TRACE_HAS_LORA_COUNT) != 0) {
        source_say_law(source, notes, "The trace tells only how many adapters a request used, none meaning the base: ");
        return;
    }
    source_say_law(source, notes, "The trace has no adapter column: ");
    source_say_base_share(source, notes);
}

static void replay_say(const struct source *source, struct notes *notes)
{
    const struct replay *replay = source->state;
    bool prompt = (replay->has & TRACE_HAS_PROMPT) == 0;
    bool output = (replay->has & TRACE_HAS_OUTPUT) == 0;
    char count[NUMBER_TEXT_MAX];

    say_file(source, replay, notes);
    say_adapters(source, replay, notes);
    if ((replay->has & TRACE_HAS_TENANT) != 0)
        notes_say(notes, "The trace names the tenants: %s of them.", count_text(replay->tenants.count, count));
    if (prompt || output)
        notes_say(notes, "The trace has no %s lengths: the scenario's law gives them.",
                  prompt && output ? "prompt and output" : prompt ? "prompt" : "output");
    source_say_lengths(source, notes, prompt, output);
    say_rows(replay, notes);
}

const struct source_kind source_trace = {
    .open = replay_open,
    .close = replay_close,
    .next_at_ns = replay_next_at_ns,
    .take = replay_take,
    .say = replay_say,
};
