/* Mooncake traces (kvcache-ai/Mooncake, FAST25): a JSON object a line. The time is in ms; the hashes of prefix blocks
 * are checked as JSON and left alone, and so is any key not known here. */
#include "reader.h"

enum { TIMESTAMP, INPUT, OUTPUT, KEYS };

static const char *const keys[KEYS] = {[TIMESTAMP] = "timestamp", [INPUT] = "input_length", [OUTPUT] = "output_length"};

static bool mooncake_recognise(const struct trace *trace)
{
    const char *at = trace->line.text;
    const char *end = at + trace->line.length;

    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at < end && *at == '{';
}

static bool refuse_value(struct trace *trace, enum trace_skip skip, size_t key, const struct json_value *value,
                         const char *problem)
{
    return trace_refuse(trace, skip, (size_t)(value->text - trace->line.text) + 1, "\"%s\" %s %s", keys[key],
                        quote(value->text, value->length).text, problem);
}

static bool mooncake_read(struct trace *trace, struct trace_row *ret_row)
{
    struct json_value values[KEYS];
    uint32_t *const tokens[KEYS] = {[INPUT] = &ret_row->prompt_tokens, [OUTPUT] = &ret_row->output_tokens};
    const char *problem;
    size_t offset;

    if (!json_find(trace->line.text, trace->line.length, keys, KEYS, values, &problem, &offset))
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, offset + 1, "%s", problem);
    for (size_t i = 0; i < KEYS; i++) {
        if (values[i].text == NULL)
            return trace_refuse(trace, TRACE_SKIP_COLUMNS, 1, "the object has no \"%s\"", keys[i]);
        if (values[i].kind != 'n')
            return refuse_value(trace, i == TIMESTAMP ? TRACE_SKIP_TIME : TRACE_SKIP_LENGTH, i, &values[i],
                                "is no number");
    }
    problem = value_decimal_ns(values[TIMESTAMP].text, values[TIMESTAMP].length, 6, &ret_row->at_ns);
    if (problem != NULL)
        return refuse_value(trace, TRACE_SKIP_TIME, TIMESTAMP, &values[TIMESTAMP], problem);
    for (size_t i = INPUT; i <= OUTPUT; i++) {
        problem = value_count(values[i].text, values[i].length, TRACE_TOKENS_MAX, tokens[i]);
        if (problem == NULL && *tokens[i] == 0)
            problem = "is no length of a request";
        if (problem != NULL)
            return refuse_value(trace, TRACE_SKIP_LENGTH, i, &values[i], problem);
    }
    return true;
}

const struct trace_format trace_format_mooncake = {
    .name = "mooncake",
    .about = "Mooncake FAST25 (JSONL: timestamp in ms, input_length, output_length, hash_ids)",
    .family = TRACE_REQUESTS,
    .has = TRACE_HAS_PROMPT | TRACE_HAS_OUTPUT,
    .recognise = mooncake_recognise,
    .read = mooncake_read,
};
