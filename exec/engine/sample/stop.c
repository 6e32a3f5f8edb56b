#include "engine/sample/stop.h"

void stop_init(struct stop_scan *scan)
{
    scan->count = 0;
    scan->held = 0;
}

enum status stop_add(struct stop_scan *scan, const char *string, size_t bytes)
{
    if (bytes == 0 || bytes > STOP_BYTES_MAX)
        return STATUS_INVALID;
    if (scan->count == STOPS_MAX)
        return STATUS_FULL;
    memcpy(scan->strings[scan->count], string, bytes);
    scan->bytes[scan->count++] = (uint32_t)bytes;
    return STATUS_OK;
}

/* Where the earliest whole stop string begins; `end` when there is none. */
static size_t find_stop(const struct stop_scan *scan, size_t end)
{
    for (size_t at = 0; at < end; at++)
        for (uint32_t i = 0; i < scan->count; i++)
            if (scan->bytes[i] <= end - at && memcmp(scan->buffer + at, scan->strings[i], scan->bytes[i]) == 0)
                return at;
    return end;
}

/* Where the longest end begins that may still become a stop string. */
static size_t find_begun(const struct stop_scan *scan, size_t end)
{
    size_t from = end > STOP_BYTES_MAX ? end - STOP_BYTES_MAX : 0;

    for (size_t at = from; at < end; at++)
        for (uint32_t i = 0; i < scan->count; i++)
            if (scan->bytes[i] > end - at && memcmp(scan->buffer + at, scan->strings[i], end - at) == 0)
                return at;
    return end;
}

/* The first `bytes` go out, the rest is held. */
static void give(struct stop_scan *scan, size_t bytes, size_t end, const char **ret_text, size_t *ret_bytes)
{
    memcpy(scan->out, scan->buffer, bytes);
    memmove(scan->buffer, scan->buffer + bytes, end - bytes);
    scan->held = (uint32_t)(end - bytes);
    *ret_text = scan->out;
    *ret_bytes = bytes;
}

bool stop_feed(struct stop_scan *scan, const char *piece, size_t bytes, const char **ret_text, size_t *ret_bytes)
{
    size_t end = scan->held + bytes;
    size_t found;

    check(bytes <= STOP_PIECE_BYTES_MAX && scan->held <= STOP_BYTES_MAX);
    memcpy(scan->buffer + scan->held, piece, bytes);
    found = find_stop(scan, end);
    if (found < end) {
        give(scan, found, end, ret_text, ret_bytes);
        scan->held = 0;
        return true;
    }
    give(scan, find_begun(scan, end), end, ret_text, ret_bytes);
    return false;
}

void stop_flush(struct stop_scan *scan, const char **ret_text, size_t *ret_bytes)
{
    give(scan, scan->held, scan->held, ret_text, ret_bytes);
}
