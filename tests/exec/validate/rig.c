#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/byte_tokenizer.h"

const char rig_template[] = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token if m.role == 'assistant' }}"
                            "{% endfor %}{{ '[assistant]' if add_generation_prompt }}";

struct rig rig_of(bool preferences)
{
    struct rig rig = {.config = {.preferences = preferences, .examples_min = 1, .line_bytes_max = VALIDATE_LINE_BYTES}};

    return rig;
}

void rig_model(struct rig *rig, const char *template, int32_t context)
{
    char config[1024];
    char error[TOKENIZER_ERROR_MAX] = "";
    char *json = byte_tokenizer_text(300);

    snprintf(config, sizeof(config), "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"%s%s%s}", template != NULL ? ", \"chat_template\": \"" : "",
             template != NULL ? template : "", template != NULL ? "\"" : "");
    tokenizer_close(rig->tokenizer);
    if (tokenizer_open_texts(json, strlen(json), config, strlen(config), &rig->tokenizer, error) != STATUS_OK)
        fail_msg("%s", error);
    free(json);
    rig->source = (struct data_source){.tokenizer = rig->tokenizer, .eos = 2, .vocabulary = 300, .tokens_max = context,
                                       .preferences = rig->config.preferences};
    rig->config.source = &rig->source;
}

void rig_end(struct rig *rig)
{
    validator_close(rig->validator);
    tokenizer_close(rig->tokenizer);
}

static void add(struct rig *rig, const struct validate_issue *issue)
{
    size_t used = strlen(rig->said);
    char place[32] = "0";

    if (issue->column > 0)
        snprintf(place, sizeof(place), "%d:%d", issue->line, issue->column);
    else if (issue->line > 0)
        snprintf(place, sizeof(place), "%d", issue->line);
    snprintf(rig->said + used, sizeof(rig->said) - used, "%s%s %s%s%s", used > 0 ? "; " : "", place, validate_code_name(issue->code),
             issue->path[0] != '\0' ? " " : "", issue->path);
}

const char *rig_take(struct rig *rig, const char *text, size_t bytes, size_t piece, const struct validator *validation)
{
    const struct validate_issue *issues;
    size_t count;

    validator_close(rig->validator);
    rig->validator = validator_open(&rig->config, validation);
    for (size_t at = 0; at < bytes; at += piece)
        if (!validator_put(rig->validator, text + at, bytes - at < piece ? bytes - at : piece))
            break;
    validator_end(rig->validator);
    rig->said[0] = '\0';
    issues = validator_issues(rig->validator, &count);
    for (size_t i = 0; i < count; i++)
        add(rig, &issues[i]);
    return rig->said;
}

const char *rig_said(struct rig *rig, const char *text)
{
    return rig_take(rig, text, strlen(text), SIZE_MAX / 2, NULL);
}
