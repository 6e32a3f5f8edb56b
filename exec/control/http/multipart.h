/* multipart/form-data (RFC 7578) as it comes: parts in order, their bytes passed on at once, at most one line and one boundary held
 * back. Stricter than the RFC where two readers could differ: lines end in CRLF, a header comes once, parts do not nest. Pure. */
#ifndef CONTROL_HTTP_MULTIPART_H
#define CONTROL_HTTP_MULTIPART_H

#include "control/http/http.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 */
#define MULTIPART_LINE_MAX 1024
#define MULTIPART_HEADERS_MAX 8
#define MULTIPART_PARTS_MAX 64

struct http_multipart_events {
    bool (*part_begin)(void *context, const struct http_part *part);
    bool (*part_data)(void *context, const void *data, size_t bytes); /* bytes > 0 */
    bool (*part_end)(void *context);
};

struct http_multipart {
    const struct http_multipart_events *events;
    void *context;
    char boundary[MULTIPART_BOUNDARY_MAX + 5]; /* "\r\n--" and the boundary */
    size_t boundary_bytes;
    int state;
    bool stopped;      /* a callback returned false */
    const char *wrong; /* NULL, or the first fault */
    uint32_t parts_count;
    uint32_t headers_count;
    char line[MULTIPART_LINE_MAX];
    size_t line_bytes;
    size_t matched;    /* bytes of `boundary` that the last bytes of data were */
    bool disposed;     /* the part has said its Content-Disposition */
    bool named;
    bool has_filename;
    char name[HTTP_PART_NAME_MAX + 1];
    char filename[HTTP_FILENAME_MAX + 1];
    char content_type[128];
};

/* From a request's Content-Type. False: it is not multipart/form-data with a boundary. */
bool http_multipart_begin(struct http_multipart *parser, const char *content_type, const struct http_multipart_events *events,
                          void *context);
/* False: a fault (`wrong`), or a callback said stop; nothing more is read. Cut the bytes as you like: the calls are the same but for
 * where data is cut. */
bool http_multipart_feed(struct http_multipart *parser, const char *data, size_t bytes);
/* All was fed. False: the last boundary never came, or there was a fault before. */
bool http_multipart_finish(struct http_multipart *parser);

#endif
