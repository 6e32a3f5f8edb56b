#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/api/chat.h"

static enum status open_base(const struct core_base *core, const struct tokenizer *tokenizer, struct chat_base *base, struct refusal *refusal)
{
    char error[CHAT_ERROR_MAX] = "";
    size_t count = 0;
    const char *source = tokenizer != NULL ? tokenizer_chat_template(tokenizer, &count) : NULL;

    base->core = core;
    base->tokenizer = tokenizer;
    base->measures = calloc(1, sizeof(*base->measures));
    check(base->measures != NULL);
    snprintf(base->fingerprint, sizeof(base->fingerprint), "fp_%02x%02x%02x%02x%02x", core->digest[0], core->digest[1], core->digest[2],
             core->digest[3], core->digest[4]);
    if (source == NULL || chat_template_open(source, count, &base->template, error) == STATUS_OK)
        return STATUS_OK;
    return refuse(refusal, STATUS_INVALID, "base %s: its chat template: %s", core->name, error);
}

enum status chats_open(const struct core_base *bases, const struct tokenizer *const *tokenizers, uint32_t count, struct chats **ret_chats,
                       struct refusal *refusal)
{
    struct chats *chats = calloc(1, sizeof(*chats));
    enum status status = STATUS_OK;

    check(chats != NULL);
    chats->bases = calloc(count + 1, sizeof(chats->bases[0]));
    check(chats->bases != NULL);
    for (; status == STATUS_OK && chats->bases_count < count; chats->bases_count++)
        status = open_base(&bases[chats->bases_count], tokenizers[chats->bases_count], &chats->bases[chats->bases_count], refusal);
    if (status == STATUS_OK)
        *ret_chats = chats;
    else
        chats_close(chats);
    return status;
}

void chats_close(struct chats *chats)
{
    if (chats == NULL)
        return;
    for (uint32_t i = 0; i < chats->bases_count; i++) {
        chat_template_close(chats->bases[i].template);
        free(chats->bases[i].measures);
    }
    free(chats->bases);
    free(chats);
}

const struct chat_base *chats_find(const struct chats *chats, const char *name, struct fault *fault)
{
    for (uint32_t i = 0; i < chats->bases_count; i++)
        if (strcmp(chats->bases[i].core->name, name) == 0)
            return &chats->bases[i];
    fault_set(fault, 503, "unavailable", "model", "the model's base is not served at present; ask your operator");
    fault->never = true;
    return NULL;
}

/* --- prompts ---------------------------------------------------------------------------------------------------------------- */

static bool wrong(struct fault *fault, const char *param, const char *error)
{
    fault_set(fault, 400, NULL, param, "%s: %s", param, error);
    return false;
}

static bool same_text(const struct chat_text *a, const struct chat_text *b)
{
    return a->text.count == b->text.count && memcmp(a->text.bytes, b->text.bytes, a->text.count) == 0;
}

/* A template that says the same without the tools has no place for them. */
static bool takes_tools(const struct chat_base *base, const struct chat_request *request, const struct chat_text *text)
{
    struct chat_request without = *request;
    struct chat_text other = {0};
    char error[CHAT_ERROR_MAX];
    bool differs;

    without.tools = NULL;
    differs = chat_render(base->template, base->tokenizer, &without, &other, error) != STATUS_OK || !same_text(text, &other);
    chat_text_free(&other);
    return differs;
}

bool chat_prompt_messages(const struct chat_base *base, const struct chat_ask *ask, struct token_list *ret_ids, struct fault *fault)
{
    const struct chat_request request = {.messages = ask->messages, .tools = ask->tools, .add_generation_prompt = true, .now_s = (int64_t)time(NULL)};
    char error[TOKENIZER_ERROR_MAX] = "";
    struct chat_text text = {0};
    bool fine;

    if (base->template == NULL)
        return wrong(fault, "messages", "this model's base has no chat template; POST /v1/completions takes a prompt");
    if (chat_render(base->template, base->tokenizer, &request, &text, error) != STATUS_OK)
        return wrong(fault, "messages", error);
    if (ask->tools != NULL && !takes_tools(base, &request, &text))
        fine = wrong(fault, "tools", "this model's chat template has no place for them");
    else /* the template writes what begins a chat; nothing is put around it, and no message spells a control token */
        fine = tokenizer_encode(base->tokenizer, text.text.bytes, text.text.count, text.plain, 0, ret_ids, error) == STATUS_OK ||
               wrong(fault, "messages", error);
    chat_text_free(&text);
    return fine;
}

static bool take_ids(const struct chat_base *base, const json_t *prompt, struct token_list *ret_ids, struct fault *fault)
{
    const int32_t count = base->tokenizer != NULL ? tokenizer_ids_count(base->tokenizer) : TOKENIZER_IDS_MAX;

    for (size_t i = 0; i < json_array_size(prompt); i++) {
        const json_int_t id = json_integer_value(json_array_get(prompt, i));

        if (id < 0 || id >= count)
            return wrong(fault, "prompt", "an id that the model's tokenizer does not have");
        token_list_add(ret_ids, (int32_t)id);
    }
    return true;
}

bool chat_prompt_text(const struct chat_base *base, const json_t *prompt, struct token_list *ret_ids, struct fault *fault)
{
    char error[TOKENIZER_ERROR_MAX] = "";

    if (!json_is_string(prompt))
        return take_ids(base, prompt, ret_ids, fault);
    if (base->tokenizer == NULL)
        return wrong(fault, "prompt", "this model has no tokenizer: give a list of ids");
    if (tokenizer_encode(base->tokenizer, json_string_value(prompt), json_string_length(prompt), NULL, TOKENIZER_ADD_SPECIAL | TOKENIZER_PLAIN,
                         ret_ids, error) != STATUS_OK)
        return wrong(fault, "prompt", error);
    return ret_ids->count > 0 || wrong(fault, "prompt", "it is empty, and the model begins with nothing of its own");
}
