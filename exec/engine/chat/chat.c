/* Opening a template and rendering with it: what a template finds when it begins, and the bounds it runs in. */
#include "engine/chat/chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"

/* --- opening --- */

/* Lines end in \n, and the last one's end is no part of the template. */
static size_t newlines_alike(const char *text, size_t count, char *ret_text)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        if (text[i] == '\r' && i + 1 < count && text[i + 1] == '\n')
            continue;
        ret_text[used++] = text[i] == '\r' ? '\n' : text[i];
    }
    return used > 0 && ret_text[used - 1] == '\n' ? used - 1 : used;
}

enum status chat_template_open(const char *text, size_t count, struct chat_template **ret_template, char ret_error[CHAT_ERROR_MAX])
{
    struct chat_template *template;
    struct reading reading;
    char *copy;

    if (count > CHAT_TEMPLATE_BYTES_MAX || utf8_valid(text, count) != count) {
        snprintf(ret_error, CHAT_ERROR_MAX, "the template is not UTF-8, or longer than %u bytes", CHAT_TEMPLATE_BYTES_MAX);
        return STATUS_INVALID;
    }
    template = calloc(1, sizeof(*template));
    check(template != NULL);
    template->arena.used_max = SIZE_MAX / 2;
    reading = (struct reading){.arena = &template->arena, .error = ret_error};
    copy = reading_take(&reading, count + 1);
    count = newlines_alike(text, count, copy);
    if (lexer_read(&reading, copy, count))
        template->body = parse_template(&reading);
    free(reading.tokens);
    if (reading.failed) {
        chat_template_close(template);
        return STATUS_INVALID;
    }
    *ret_template = template;
    return STATUS_OK;
}

void chat_template_close(struct chat_template *template)
{
    if (template == NULL)
        return;
    arena_free(&template->arena);
    free(template);
}

/* --- running --- */

bool run_fail(struct run *run, const char *what, ...)
{
    va_list arguments;
    int used;

    if (run->failed)
        return false;
    run->failed = true;
    used = snprintf(run->error, CHAT_ERROR_MAX, "line %u: ", run->line);
    va_start(arguments, what);
    vsnprintf(run->error + used, (size_t)(CHAT_ERROR_MAX - used), what, arguments);
    va_end(arguments);
    return false;
}

bool run_step(struct run *run, size_t steps)
{
    if (run->failed)
        return false;
    if (steps > CHAT_STEPS_MAX - run->steps)
        return run_fail(run, "the template does too much: %u steps", CHAT_STEPS_MAX);
    run->steps += (uint32_t)steps;
    return true;
}

void *run_take(struct run *run, size_t bytes)
{
    void *taken = run->failed ? NULL : arena_take(&run->arena, bytes);

    if (taken == NULL)
        run_fail(run, "the template needs too much memory: %u bytes", CHAT_MEMORY_BYTES_MAX);
    return taken;
}

static void set(struct run *run, const char *name, struct value value)
{
    variable_set(run, (struct word){name, (uint32_t)strlen(name)}, value);
}

static void set_roles(struct run *run, const struct tokenizer *tokenizer)
{
    static const char *const names[] = {
#define X(name, key) key,
        TOKENIZER_ROLES(X)
#undef X
    };

    for (int role = 0; tokenizer != NULL && role < TOKENIZER_ROLE_COUNT; role++) {
        int32_t id = tokenizer_special(tokenizer, (enum tokenizer_role)role);
        size_t count;
        const char *spelling = id != TOKENIZER_NO_ID ? token_spelling(tokenizer, id, &count) : NULL;

        if (spelling != NULL)
            set(run, names[role], value_string((struct string){.bytes = spelling, .count = (uint32_t)count}));
    }
}

static void set_variables(struct run *run, const struct tokenizer *tokenizer, const struct chat_request *request)
{
    const json_t *variables = request->variables;
    void *at;

    set_roles(run, tokenizer);
    set(run, "messages", value_of_json(run, request->messages, 0));
    /* As transformers calls templates: without tools they are none, not undefined. */
    set(run, "tools", request->tools != NULL ? value_of_json(run, request->tools, 0) : value_none());
    set(run, "documents", value_none());
    set(run, "add_generation_prompt", value_bool(request->add_generation_prompt));
    for (at = json_object_iter((json_t *)(uintptr_t)variables); at != NULL && !run->failed;
         at = json_object_iter_next((json_t *)(uintptr_t)variables, at))
        set(run, json_object_iter_key(at), value_of_json(run, json_object_iter_value(at), 0));
}

void chat_text_free(struct chat_text *text)
{
    token_text_free(&text->text);
    free(text->plain);
    *text = (struct chat_text){0};
}

enum status chat_render(const struct chat_template *template, const struct tokenizer *tokenizer, const struct chat_request *request,
                        struct chat_text *text, char ret_error[CHAT_ERROR_MAX])
{
    struct frame frame = {0};
    struct run run = {.arena = {.used_max = CHAT_MEMORY_BYTES_MAX}, .line = 1, .error = ret_error, .now_s = request->now_s,
                      .frame = &frame, .out = text};
    size_t before = text->text.count;

    set_variables(&run, tokenizer, request);
    execute(&run, template->body);
    arena_free(&run.arena);
    if (!run.failed)
        return STATUS_OK;
    text->text.count = before;
    return STATUS_INVALID;
}
