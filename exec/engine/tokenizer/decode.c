/* Ids to text. What a token adds is made when the tokenizer is opened; what is left is bytes that are only text together. In a
 * byte-level vocabulary those are bytes anywhere, and a bad one is a U+FFFD; in the SentencePiece kind a run of <0xNN> tokens is text
 * only as a whole, and else a U+FFFD for every byte. */
#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

/* The token to decode, NULL: it says nothing. */
static const struct piece *piece_said(const struct tokenizer *tokenizer, int32_t id, bool skip_special)
{
    const struct piece *piece;

    if (id < 0 || id >= tokenizer->pieces_count)
        return NULL;
    piece = &tokenizer->pieces[id];
    if (!(piece->flags & PIECE_EXISTS) || (skip_special && piece->flags & PIECE_SPECIAL))
        return NULL;
    return piece;
}

static void add_replacements(struct token_text *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        token_text_add(text, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
}

static void add_lossy(const char *bytes, size_t count, struct token_text *text)
{
    for (size_t at = 0; at < count;) {
        size_t good = utf8_valid(bytes + at, count - at);

        token_text_add(text, bytes + at, good);
        at += good;
        if (at == count)
            break;
        at += utf8_at(bytes + at, count - at).bytes;
        add_replacements(text, 1);
    }
}

/* The first token of a Metaspace model loses every mark of a space. */
static void add_first(const struct tokenizer *tokenizer, const struct piece *piece, struct token_text *text)
{
    replace_all(span_text(tokenizer, piece->spelling), piece->spelling.count, span_text(tokenizer, tokenizer->metaspace),
                tokenizer->metaspace.count, "", 0, text);
}

/* --- as a whole --- */

/* Bytes of the run stand in `text` from `start` on. */
static void run_end(struct token_text *text, size_t start)
{
    size_t count = text->count - start;

    if (count == 0 || utf8_valid(text->bytes + start, count) == count)
        return;
    text->count = start;
    add_replacements(text, count);
}

static void decode_pieces(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special,
                          struct token_text *text)
{
    size_t run_start = text->count;
    bool begun = false;

    for (size_t i = 0; i < count; i++) {
        const struct piece *piece = piece_said(tokenizer, ids[i], skip_special);

        if (piece == NULL)
            continue;
        if (tokenizer->decode_bytes && piece->flags & PIECE_BYTE) {
            token_text_add(text, (const char *)&piece->byte, 1);
        } else {
            run_end(text, run_start);
            if (tokenizer->decode_kind == DECODE_JOIN && begun)
                token_text_add(text, " ", 1);
            if (tokenizer->decode_metaspace && !begun)
                add_first(tokenizer, piece, text);
            else
                token_text_add(text, span_text(tokenizer, piece->bytes), piece->bytes.count);
            run_start = text->count;
        }
        begun = true;
    }
    run_end(text, run_start);
}

/* How much of the start is stripped, of `strip` times at most. */
static size_t stripped(const struct tokenizer *tokenizer, const char *bytes, size_t count, uint32_t *strip)
{
    struct span mark = tokenizer->decode_strip;
    size_t at = 0;

    while (*strip > 0 && at < count) {
        if (count - at < mark.count || memcmp(bytes + at, span_text(tokenizer, mark), mark.count) != 0) {
            *strip = 0;
            break;
        }
        at += mark.count;
        (*strip)--;
    }
    return at;
}

void tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, struct token_text *text)
{
    uint32_t strip = tokenizer->decode_strip_max;
    struct token_text whole = {0};
    size_t from;

    decode_pieces(tokenizer, ids, count, skip_special, &whole);
    if (tokenizer->decode_kind == DECODE_BYTE_LEVEL) {
        add_lossy(whole.bytes, whole.count, text);
    } else {
        from = stripped(tokenizer, whole.bytes, whole.count, &strip);
        if (whole.count > from)
            token_text_add(text, whole.bytes + from, whole.count - from);
    }
    token_text_free(&whole);
}

/* --- piece by piece --- */

void token_stream_begin(struct token_stream *stream, const struct tokenizer *tokenizer, bool skip_special)
{
    *stream = (struct token_stream){.tokenizer = tokenizer, .skip_special = skip_special, .strip = tokenizer->decode_strip_max};
}

static void show(struct token_stream *stream, const char *bytes, size_t count, struct token_text *text)
{
    size_t from = stripped(stream->tokenizer, bytes, count, &stream->strip);

    if (count > from)
        token_text_add(text, bytes + from, count - from);
}

static void show_replacements(struct token_stream *stream, size_t count, struct token_text *text)
{
    for (size_t i = 0; i < count; i++)
        show(stream, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES, text);
}

static void drop_held(struct token_stream *stream, uint32_t count)
{
    stream->held_count -= count;
    memmove(stream->held, stream->held + count, stream->held_count);
}

/* Byte-level: a byte, with the start of a character that is held. */
static void push_byte(struct token_stream *stream, char byte, struct token_text *text)
{
    stream->held[stream->held_count++] = byte;
    while (stream->held_count > 0) {
        struct utf8 here = utf8_at(stream->held, stream->held_count);

        if (here.cut)
            break;
        if (here.good)
            show(stream, stream->held, here.bytes, text);
        else
            show_replacements(stream, 1, text);
        drop_held(stream, here.bytes);
    }
}

static void push_bytes(struct token_stream *stream, const char *bytes, size_t count, struct token_text *text)
{
    size_t good = stream->held_count == 0 ? utf8_valid(bytes, count) : 0;

    show(stream, bytes, good, text);
    for (size_t i = good; i < count; i++)
        push_byte(stream, bytes[i], text);
}

/* A <0xNN>. The run is held until it ends, or is bad for certain, or fills what there is to hold it. */
static void push_run(struct token_stream *stream, char byte, struct token_text *text)
{
    size_t good;

    if (stream->run_is_bad) {
        show_replacements(stream, 1, text);
        return;
    }
    stream->held[stream->held_count++] = byte;
    good = utf8_valid(stream->held, stream->held_count);
    if (good < stream->held_count && !utf8_at(stream->held + good, stream->held_count - good).cut) {
        stream->run_is_bad = true;
        show_replacements(stream, stream->held_count, text);
        stream->held_count = 0;
    } else if (stream->held_count == TOKEN_STREAM_HELD_MAX) {
        show(stream, stream->held, good, text);
        drop_held(stream, (uint32_t)good);
    }
}

static void end_run(struct token_stream *stream, struct token_text *text)
{
    if (utf8_valid(stream->held, stream->held_count) == stream->held_count)
        show(stream, stream->held, stream->held_count, text);
    else
        show_replacements(stream, stream->held_count, text);
    stream->held_count = 0;
    stream->run_is_bad = false;
}

void token_stream_push(struct token_stream *stream, int32_t id, struct token_text *text)
{
    const struct tokenizer *tokenizer = stream->tokenizer;
    const struct piece *piece = piece_said(tokenizer, id, stream->skip_special);
    const char *bytes;

    if (piece == NULL)
        return;
    bytes = span_text(tokenizer, piece->bytes);
    if (tokenizer->decode_kind == DECODE_BYTE_LEVEL) {
        push_bytes(stream, bytes, piece->bytes.count, text);
    } else if (tokenizer->decode_bytes && piece->flags & PIECE_BYTE) {
        push_run(stream, (char)piece->byte, text);
    } else {
        end_run(stream, text);
        if (tokenizer->decode_kind == DECODE_JOIN && stream->begun)
            show(stream, " ", 1, text);
        if (tokenizer->decode_metaspace && !stream->begun)
            add_first(tokenizer, piece, text);
        else
            show(stream, bytes, piece->bytes.count, text);
    }
    stream->begun = true;
}

void token_stream_finish(struct token_stream *stream, struct token_text *text)
{
    if (stream->tokenizer->decode_kind != DECODE_BYTE_LEVEL)
        end_run(stream, text);
    else if (stream->held_count > 0)
        show_replacements(stream, 1, text);
    stream->held_count = 0;
}

/* --- reading --- */

void decode_prepare(struct tokenizer *tokenizer)
{
    bool stays = tokenizer->decode_kind == DECODE_JOIN ||
                 (tokenizer->decode_kind == DECODE_PIECES && tokenizer->decode_replace_count == 0);

    for (int32_t id = 0; id < tokenizer->pieces_count; id++) {
        struct piece *piece = &tokenizer->pieces[id];
        struct token_text texts[2] = {{0}, {0}};
        struct token_text *from = &texts[0], *to = &texts[1];
        size_t count;

        piece->bytes = piece->spelling;
        if (!(piece->flags & PIECE_EXISTS) || piece->spelling.count == 0 || stays)
            continue;
        token_text_add(from, span_text(tokenizer, piece->spelling), piece->spelling.count);
        if (tokenizer->decode_kind == DECODE_BYTE_LEVEL) {
            if (bytes_of_spelling(span_text(tokenizer, piece->spelling), from->count, from->bytes, &count))
                from->count = count;
        }
        for (uint32_t i = 0; i < tokenizer->decode_replace_count && from->count > 0; i++) {
            const struct normalize_step *step = &tokenizer->decode_replace[i];
            struct token_text *swap = from;

            to->count = 0;
            replace_all(from->bytes, from->count, span_text(tokenizer, step->pattern), step->pattern.count,
                        span_text(tokenizer, step->content), step->content.count, to);
            from = to;
            to = swap;
        }
        if (from->count != piece->spelling.count || memcmp(span_text(tokenizer, piece->spelling), from->bytes, from->count) != 0)
            piece->bytes = span_add(tokenizer, from->bytes, from->count);
        token_text_free(&texts[0]);
        token_text_free(&texts[1]);
    }
}

static bool open_replace(struct opening *opening, const json_t *step)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const json_t *pattern = json_object_get(json_object_get(step, "pattern"), "String");
    const json_t *content = json_object_get(step, "content");

    if (json_string_length(pattern) == 0)
        return opening_refuse(opening, STATUS_INVALID, "decoder Replace: only a pattern that is a String is known here");
    if (!json_is_string(content) || json_string_length(content) > 16 || tokenizer->decode_replace_count == STEPS_MAX)
        return opening_refuse(opening, STATUS_INVALID, "decoder Replace has no text of at most 16 bytes, or stands there too often");
    tokenizer->decode_replace[tokenizer->decode_replace_count++] = (struct normalize_step){
        .kind = NORMALIZE_REPLACE, .pattern = span_add(tokenizer, json_string_value(pattern), json_string_length(pattern)),
        .content = span_add(tokenizer, json_string_value(content), json_string_length(content))};
    return true;
}

static bool open_byte_fallback(struct opening *opening, const json_t *step)
{
    (void)step;
    opening->tokenizer->decode_bytes = true;
    return true;
}

static bool open_fuse(struct opening *opening, const json_t *step)
{
    (void)opening;
    (void)step;
    return true;
}

static bool open_metaspace(struct opening *opening, const json_t *step)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    enum prepend prepend;

    if (tokenizer->decode_metaspace || tokenizer->decode_replace_count > 0)
        return opening_refuse(opening, STATUS_INVALID, "decoder Metaspace beside another such step is unknown here");
    if (!metaspace_read(opening, step, &tokenizer->metaspace, &prepend))
        return false;
    tokenizer->decode_metaspace = prepend != PREPEND_never;
    tokenizer->decode_replace[tokenizer->decode_replace_count++] = (struct normalize_step){
        .kind = NORMALIZE_REPLACE, .pattern = tokenizer->metaspace, .content = span_add(tokenizer, " ", 1)};
    return true;
}

static bool open_strip(struct opening *opening, const json_t *step)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const json_t *content = json_object_get(step, "content");
    json_int_t start = json_integer_value(json_object_get(step, "start"));

    if (json_integer_value(json_object_get(step, "stop")) != 0 || start < 0 || start > 16 || tokenizer->decode_strip_max > 0 ||
        json_string_length(content) == 0)
        return opening_refuse(opening, STATUS_INVALID, "decoder Strip is known here only once, with a start of 0 to 16 and a stop of 0");
    tokenizer->decode_strip = span_add(tokenizer, json_string_value(content), json_string_length(content));
    tokenizer->decode_strip_max = (uint32_t)start;
    return true;
}

static bool open_byte_level(struct opening *opening, const json_t *step)
{
    (void)step;
    opening->tokenizer->decode_kind = DECODE_BYTE_LEVEL;
    return true;
}

/* Steps are known in this order only: each but the last two works token by token, so they could be done beforehand. */
static const struct {
    const char *type;
    bool (*open)(struct opening *opening, const json_t *step);
} steps[] = {{"Replace", open_replace}, {"ByteFallback", open_byte_fallback}, {"Metaspace", open_metaspace},
             {"Fuse", open_fuse},       {"Strip", open_strip}};
enum { STEP_FUSE = 3, STEP_STRIP = 4 };

static bool step_open(struct opening *opening, const json_t *step, size_t *last)
{
    char shown[EXCERPT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        if (strcmp(steps[i].type, type_of(step)) != 0)
            continue;
        if (i < *last || (i == STEP_STRIP && *last < STEP_FUSE))
            return opening_refuse(opening, STATUS_INVALID, "decoder %s in this place is unknown here", steps[i].type);
        *last = i;
        return steps[i].open(opening, step);
    }
    return opening_refuse(opening, STATUS_INVALID, "decoder '%s' is unknown here", opening_name(json_object_get(step, "type"), shown));
}

bool decode_open(struct opening *opening, const json_t *decoder)
{
    const json_t *list = json_object_get(decoder, "decoders");
    const json_t *step;
    size_t last = 0;
    size_t i;

    opening->tokenizer->decode_kind = DECODE_JOIN;
    if (decoder == NULL || json_is_null(decoder))
        return true;
    if (strcmp(type_of(decoder), "Sequence") == 0 && json_array_size(list) == 1)
        decoder = json_array_get(list, 0);
    if (strcmp(type_of(decoder), "ByteLevel") == 0)
        return open_byte_level(opening, decoder);
    opening->tokenizer->decode_kind = DECODE_PIECES;
    if (strcmp(type_of(decoder), "Sequence") != 0)
        return step_open(opening, decoder, &last);
    json_array_foreach(list, i, step) {
        if (!step_open(opening, step, &last))
            return false;
    }
    return true;
}
