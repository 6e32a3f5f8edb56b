/* Stop strings over text that comes piece by piece: what may still become one is held back, and nothing from one on is given out. */
#ifndef SAMPLE_STOP_H
#define SAMPLE_STOP_H

#include "base/base.h"

#define STOPS_MAX 16
#define STOP_BYTES_MAX 256
/* Of one piece. */
#define STOP_PIECE_BYTES_MAX 4096

struct stop_scan {
    uint32_t count;
    uint32_t bytes[STOPS_MAX];
    char strings[STOPS_MAX][STOP_BYTES_MAX];
    uint32_t held;
    char buffer[STOP_BYTES_MAX + STOP_PIECE_BYTES_MAX];
    char out[STOP_BYTES_MAX + STOP_PIECE_BYTES_MAX];
};

void stop_init(struct stop_scan *scan);
/* STATUS_INVALID: empty or too long; STATUS_FULL: too many. */
enum status stop_add(struct stop_scan *scan, const char *string, size_t bytes);
/* Takes a piece; gives what may go out now (in scan's memory, until the next call). True: a stop string has come, the text before it is
 * the last. */
bool stop_feed(struct stop_scan *scan, const char *piece, size_t bytes, const char **ret_text, size_t *ret_bytes);
/* The answer is over without one: what was held goes out. */
void stop_flush(struct stop_scan *scan, const char **ret_text, size_t *ret_bytes);

#endif
