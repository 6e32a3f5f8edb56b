/* One encoder and one decoder, for all bodies: tables of fields from the list of frame.h. */
#include "wire/frame.h"

enum field_type { FIELD_U16, FIELD_U32, FIELD_U64, FIELD_BYTES, FIELD_LIST, FIELD_REST };

struct field {
    enum field_type type;
    uint32_t n;        /* BYTES: how many; LIST: of a part */
    size_t at;         /* in the struct */
    size_t count_at;   /* LIST, REST: where their count is */
};

#define FIELD_OF_U16(S, name, n) {FIELD_U16, 2, offsetof(struct S, name), 0},
#define FIELD_OF_U32(S, name, n) {FIELD_U32, 4, offsetof(struct S, name), 0},
#define FIELD_OF_U64(S, name, n) {FIELD_U64, 8, offsetof(struct S, name), 0},
#define FIELD_OF_BYTES(S, name, n) {FIELD_BYTES, n, offsetof(struct S, name), 0},
#define FIELD_OF_LIST(S, name, n) {FIELD_LIST, n, offsetof(struct S, name), offsetof(struct S, name##_count)},
#define FIELD_OF_REST(S, name, n) {FIELD_REST, 1, offsetof(struct S, name), offsetof(struct S, name##_count)},
#define FIELD_OF(S, type, name, n) FIELD_OF_##type(S, name, n)

#define X(number, name, body, from, class, descriptors) static const struct field body##_fields[] = {WIRE_BODY_##body(FIELD_OF, wire_##body)};
WIRE_KINDS(X)
#undef X
#define X(name, part) static const struct field part##_part[] = {WIRE_PART_##part(FIELD_OF, wire_##part)};
WIRE_PARTS(X)
#undef X

struct kind_row {
    struct wire_kind_info info;
    const struct field *fields;
    uint32_t fields_count;
};
static const struct kind_row rows[] = {
#define X(number, name, body, from, class, descriptors) \
    [number] = {{#name, WIRE_FROM_##from, WIRE_CLASS_##class, descriptors}, body##_fields, ARRAY_COUNT(body##_fields)},
    WIRE_KINDS(X)
#undef X
};
#define X(number, name, body, from, class, descriptors) _Static_assert(descriptors <= WIRE_DESCRIPTORS_MAX, #name);
WIRE_KINDS(X)
#undef X

static const struct kind_row *row_of(uint32_t kind)
{
    return kind < ARRAY_COUNT(rows) && rows[kind].fields != NULL ? &rows[kind] : NULL;
}

const struct wire_kind_info *wire_kind_info(uint32_t kind)
{
    const struct kind_row *row = row_of(kind);

    return row != NULL ? &row->info : NULL;
}

enum status wire_header_read(const uint8_t *frame, size_t count, struct wire_header *ret_header)
{
    if (count < WIRE_HEADER_BYTES || count > WIRE_FRAME_BYTES_MAX || wire_get(frame, 4) != count)
        return STATUS_CORRUPT;
    *ret_header = (struct wire_header){.length = (uint32_t)wire_get(frame, 4),
                                       .version = (uint16_t)wire_get(frame + 4, 2),
                                       .kind = (uint16_t)wire_get(frame + 6, 2),
                                       .seq = wire_get(frame + 8, 8),
                                       .ack = wire_get(frame + 16, 8),
                                       .worker = wire_get(frame + 24, 8),
                                       .attempt = wire_get(frame + 32, 8)};
    return STATUS_OK;
}

void wire_header_write(const struct wire_header *header, uint8_t ret_frame[WIRE_HEADER_BYTES])
{
    wire_put(ret_frame, header->length, 4);
    wire_put(ret_frame + 4, header->version, 2);
    wire_put(ret_frame + 6, header->kind, 2);
    wire_put(ret_frame + 8, header->seq, 8);
    wire_put(ret_frame + 16, header->ack, 8);
    wire_put(ret_frame + 24, header->worker, 8);
    wire_put(ret_frame + 32, header->attempt, 8);
}

static void set_number(uint8_t *member, const struct field *field, uint64_t value)
{
    const uint16_t half = (uint16_t)value;
    const uint32_t word = (uint32_t)value;

    switch (field->n) {
    case 2: memcpy(member, &half, 2); break;
    case 4: memcpy(member, &word, 4); break;
    default: memcpy(member, &value, 8); break;
    }
}

static uint64_t number_of(const uint8_t *member, const struct field *field)
{
    uint16_t half = 0;
    uint32_t word = 0;
    uint64_t value = 0;

    switch (field->n) {
    case 2: memcpy(&half, member, 2); return half;
    case 4: memcpy(&word, member, 4); return word;
    default: memcpy(&value, member, 8); return value;
    }
}

/* A view of `count` parts at `bytes`. */
static void set_view(uint8_t *object, const struct field *field, const uint8_t *bytes, uint32_t count)
{
    memcpy(object + field->at, &bytes, sizeof(bytes));
    memcpy(object + field->count_at, &count, sizeof(count));
}

/* Reads one field off the front; false: the frame ends in it. */
static bool read_field(const struct field *field, const uint8_t **at, size_t *left, uint8_t *object)
{
    size_t bytes = field->n;
    uint64_t count;

    switch (field->type) {
    case FIELD_REST:
        set_view(object, field, *at, (uint32_t)*left);
        bytes = *left;
        break;
    case FIELD_LIST:
        if (*left < 4)
            return false;
        count = wire_get(*at, 4);
        *at += 4;
        *left -= 4;
        if (count > *left / field->n)
            return false;
        set_view(object, field, *at, (uint32_t)count);
        bytes = (size_t)count * field->n;
        break;
    case FIELD_BYTES:
        if (*left < bytes)
            return false;
        memcpy(object + field->at, *at, bytes);
        break;
    default:
        if (*left < bytes)
            return false;
        set_number(object + field->at, field, wire_get(*at, field->n));
        break;
    }
    *at += bytes;
    *left -= bytes;
    return true;
}

static bool read_fields(const struct field *fields, uint32_t count, const uint8_t *bytes, size_t left, void *ret_object)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!read_field(&fields[i], &bytes, &left, ret_object))
            return false;
    }
    return left == 0;
}

enum status wire_body_read(uint32_t kind, const uint8_t *bytes, size_t count, union wire_body *ret_body)
{
    const struct kind_row *row = row_of(kind);
    union wire_body body;

    if (row == NULL)
        return STATUS_NOT_FOUND;
    memset(&body, 0, sizeof(body));
    if (!read_fields(row->fields, row->fields_count, bytes, count, &body))
        return STATUS_CORRUPT;
    *ret_body = body;
    return STATUS_OK;
}

/* Writes one field; false: no room. */
static bool write_field(const struct field *field, const uint8_t *object, uint8_t **at, size_t *room)
{
    const uint8_t *source = object + field->at;
    size_t bytes = field->n;
    uint32_t count;

    if (field->type == FIELD_LIST || field->type == FIELD_REST) {
        memcpy(&count, object + field->count_at, sizeof(count));
        memcpy(&source, object + field->at, sizeof(source));
        if (field->type == FIELD_LIST) {
            if (*room < 4)
                return false;
            wire_put(*at, count, 4);
            *at += 4;
            *room -= 4;
        }
        if (count > *room / field->n)
            return false;
        bytes = (size_t)count * field->n;
    } else if (*room < bytes) {
        return false;
    }
    if (field->type == FIELD_U16 || field->type == FIELD_U32 || field->type == FIELD_U64)
        wire_put(*at, number_of(source, field), field->n);
    else if (bytes > 0)
        memcpy(*at, source, bytes);
    *at += bytes;
    *room -= bytes;
    return true;
}

enum status wire_body_write(uint32_t kind, const void *body, uint8_t *bytes, size_t room, size_t *ret_count)
{
    const struct kind_row *row = row_of(kind);
    uint8_t *at = bytes;

    if (row == NULL)
        return STATUS_NOT_FOUND;
    for (uint32_t i = 0; i < row->fields_count; i++) {
        if (!write_field(&row->fields[i], body, &at, &room))
            return STATUS_FULL;
    }
    *ret_count = (size_t)(at - bytes);
    return STATUS_OK;
}

#define X(name, part)                                                                                       \
    void wire_##part##_read(const uint8_t bytes[WIRE_##name##_BYTES], struct wire_##part *ret_part)         \
    {                                                                                                       \
        check(read_fields(part##_part, ARRAY_COUNT(part##_part), bytes, WIRE_##name##_BYTES, ret_part));    \
    }                                                                                                       \
    void wire_##part##_write(const struct wire_##part *part, uint8_t ret_bytes[WIRE_##name##_BYTES])        \
    {                                                                                                       \
        size_t room = WIRE_##name##_BYTES;                                                                  \
                                                                                                            \
        for (uint32_t i = 0; i < ARRAY_COUNT(part##_part); i++)                                             \
            check(write_field(&part##_part[i], (const uint8_t *)part, &ret_bytes, &room));                  \
    }
WIRE_PARTS(X)
#undef X
