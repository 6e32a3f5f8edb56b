/* A prompt from messages: the model's own chat template, and the marks that keep what a message says from spelling a control token. */
#include <time.h>

#include "engine/chat/chat.h"
#include "worker/ask.h"

static enum status render(struct ask *ask, const struct chat_request *request, const struct tokenizer *tokenizer,
                          const struct chat_template *template, struct refusal *refusal)
{
    struct chat_text text = {0};
    char error[TOKENIZER_ERROR_MAX] = "";
    enum status status = chat_render(template, tokenizer, request, &text, error);

    if (status == STATUS_OK) {
        ask->prompt.count = 0;
        /* The template writes what begins a chat; nothing is put around it. */
        status = tokenizer_encode(tokenizer, text.text.bytes, text.text.count, text.plain, 0, &ask->prompt, error);
    }
    chat_text_free(&text);
    return status == STATUS_OK ? STATUS_OK : refuse(refusal, STATUS_INVALID, "messages: %s", error);
}

enum status ask_chat(struct ask *ask, const json_t *messages, const json_t *tools, const json_t *variables,
                     const struct tokenizer *tokenizer, struct refusal *refusal)
{
    const struct chat_request request = {.messages = messages, .tools = tools, .variables = variables, .add_generation_prompt = true,
                                         .now_s = (int64_t)time(NULL)};
    char error[CHAT_ERROR_MAX] = "";
    struct chat_template *template;
    size_t count = 0;
    const char *source = tokenizer != NULL ? tokenizer_chat_template(tokenizer, &count) : NULL;
    enum status status;

    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return refuse(refusal, STATUS_INVALID, "messages: a list of objects with role and content");
    if (source == NULL)
        return refuse(refusal, STATUS_INVALID, "messages: this model has no chat template: give prompt");
    if (chat_template_open(source, count, &template, error) != STATUS_OK)
        return refuse(refusal, STATUS_INVALID, "the model's chat template: %s", error);
    status = render(ask, &request, tokenizer, template, refusal);
    chat_template_close(template);
    return status;
}
