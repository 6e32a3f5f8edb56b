/* What the readers share, and nobody else includes: lines out of a file, cells out of a line, values out of a cell, and
 * the one way to refuse. A format is a constant struct trace_format; trace.c keeps the order of time and the counts. */
#ifndef TRACES_READER_H
#define TRACES_READER_H

#include "job_trace.h"
#include "trace.h"

#define LINE_BYTES_MAX (1u << 20) /* without the line's end; a longer one is refused, whole */
#define CELLS_MAX 256
#define FORMAT_COLUMNS_MAX 16
/* 2200-01-01 since 1970, or as much since whatever a trace counts from: differences always fit int64_t. */
#define TIME_MAX_NS (INT64_C(7258118400) * NS_PER_S)

/* --- input.c: lines of a plain, gzip or zstd file, told apart by the first bytes --- */

struct line {
    char *text;      /* without "\n" or "\r\n"; not closed by a NUL; ours to change until the next line is asked for */
    size_t length;
    uint64_t number; /* from 1 */
    bool terminated; /* false: the file ends here without a newline */
    bool too_long;   /* more than LINE_BYTES_MAX: text is not given */
};

#define INPUT_PROBLEM_MAX 192

struct input;
/* The problem ("what; remedy") is written on failure only. */
enum status input_open(const char *path, struct input **ret_input, char *ret_problem);
/* The bytes must outlive the input. NULL when there is no memory. */
struct input *input_of_bytes(const void *bytes, size_t count);
/* OK, END, IO, or CORRUPT when the compressed stream is damaged or cut; the last line of a cut stream is never given,
 * since nobody can know whether it is whole. */
enum status input_next(struct input *input, struct line *ret_line);
/* Bytes instead of lines, and never both: as many as come at once, up to `room`, at least one; STATUS_END after the last,
 * with a count of 0 like every failure. */
enum status input_read(struct input *input, void *target, size_t room, size_t *ret_count);
/* To the first byte; STATUS_IO for what cannot seek. */
enum status input_rewind(struct input *input);
const char *input_problem(const struct input *input);
bool input_was_cut(const struct input *input);
/* How many millionths of the file, packed as it is, have been read; 0 for what has no length (a pipe, bytes in memory). */
uint32_t input_millionths(const struct input *input);
void input_close(struct input *input); /* accepts NULL */

/* --- values.c: texts to integers. NULL when good, else the problem as words that follow the quoted text --- */

/* A whole number 0..max; "63.0" is one, "63.5" is not. */
const char *value_count(const char *text, size_t length, uint32_t max, uint32_t *ret_count);
/* A decimal number of units of 10^unit_digits ns (9: seconds), with fraction and exponent, rounded half up to 1 ns by
 * integer arithmetic alone. */
const char *value_decimal_ns(const char *text, size_t length, int unit_digits, int64_t *ret_ns);
/* YYYY-MM-DD HH:MM:SS with up to 9 digits of fraction, 'T' for the blank, "Z" or "+00:00" behind; since 1970-01-01 in
 * the proleptic Gregorian calendar, days of 86,400 s. */
const char *value_datetime_ns(const char *text, size_t length, int64_t *ret_ns);
const char *value_name(const char *text, size_t length, char ret_name[TRACE_ID_MAX]);
/* Bytes of the well-formed UTF-8 character at `at`, 0 when there is none. at < end. */
size_t utf8_bytes(const char *at, const char *end);

/* --- cells.c: RFC 4180 cells of one line --- */

struct cell {
    char *text; /* quotes taken off */
    uint32_t length;
    uint32_t column; /* byte in the line where it begins, from 1 */
};

/* Splits in place; false with the problem and the byte where it is. */
bool cells_split(const struct line *line, struct cell *cells, uint32_t *ret_count, const char **ret_problem,
                 size_t *ret_column);
/* Without quotes: between tabs ('\t'), or between runs of blanks and tabs (' '), which may also stand at both ends. */
bool cells_split_at(char separator, const struct line *line, struct cell *cells, uint32_t *ret_count,
                    const char **ret_problem, size_t *ret_column);

/* --- json.c: one strict JSON object a line, without building it --- */

struct json_value {
    const char *text; /* NULL: the key is absent */
    size_t length;
    char kind;        /* 'n'umber, 's'tring, 'o'bject, 'a'rray, 't'rue, 'f'alse, '0' for null */
};

/* Checks the whole text and finds `count` keys of the outer object; false with problem and offset. */
bool json_find(const char *text, size_t length, const char *const *keys, size_t count, struct json_value *ret_values,
               const char **ret_problem, size_t *ret_offset);

/* --- formats.c, refuse.c, trace.c --- */

struct format_column {
    const char *name;
    bool optional;
};

/* What a row is. Names of formats are unique within one of these. */
enum trace_family { TRACE_REQUESTS = 1, TRACE_JOBS = 2 };

struct trace_format {
    const char *name;
    const char *about;
    enum trace_family family;
    uint32_t has;                 /* enum trace_column or enum job_column bits */
    char separator;               /* of cells: 0 is RFC 4180, else see cells_split_at() */
    bool positional;              /* no header: start() names the cells */
    bool more_cells_are_fine;     /* beyond the named ones */
    uint32_t time_column;         /* of `at`, for messages */
    /* The header of a CSV format: these columns in any order, and no others. None: the format looks for itself. */
    struct format_column columns[FORMAT_COLUMNS_MAX];
    /* Is this first line one of ours? NULL: the header says. */
    bool (*recognise)(const struct trace *trace);
    /* After the header was matched; NULL: nothing to prepare. Sets ret_is_row when the first line is already a row. */
    enum status (*start)(struct trace *trace, bool *ret_is_row);
    /* Is the line neither a row nor a mistake (a comment)? NULL: never. */
    bool (*is_aside)(struct trace *trace);
    /* The row in trace->line, at_ns as the file counts; false after trace_refuse(). ret_row comes zeroed, a job's times
     * come as unknown. One of the two, as the family says. */
    bool (*read)(struct trace *trace, struct trace_row *ret_row);
    bool (*read_job)(struct trace *trace, struct job_row *ret_row);
};

struct trace {
    uint32_t families; /* that may be found in the file: enum trace_family bits */
    const struct trace_format *format;
    struct input *input;
    struct trace_options options;
    struct trace_columns columns;
    struct job_columns job_columns;
    struct trace_info info;
    struct line line;
    struct cell cells[CELLS_MAX]; /* of the line `split_line` */
    uint64_t split_line;
    uint32_t cell_count;
    char *names[CELLS_MAX];       /* of the header (or of what stood in its place), for messages */
    uint32_t name_count;
    uint32_t at[FORMAT_COLUMNS_MAX]; /* cell of the format's column, NONE_INDEX: not in this file */
    bool headerless;
    bool line_is_pending;         /* the first line, which open has read, is a row */
    bool started;
    int64_t origin_ns;
    int64_t last_ns;
    enum status end;              /* other than OK: what every further call says */
    char path[TRACE_MESSAGE_MAX / 2]; /* as shown */
    char message[TRACE_MESSAGE_MAX];
};

/* One word a format; see README.md for how to add one. */
#define TRACE_FORMATS(X) X(azure) X(burstgpt) X(mooncake) X(alibaba_lora) X(csv) \
                         X(jobs_swf) X(jobs_philly) X(jobs_gavel) X(jobs_openb) X(jobs_sia) X(jobs_csv)
#define X(word) extern const struct trace_format trace_format_##word;
TRACE_FORMATS(X)
#undef X

/* formats.c: sets trace->format by name or by the first line, then prepares for rows; each says what is wrong. */
enum status format_find(struct trace *trace, const char *name);
enum status format_guess(struct trace *trace);
enum status format_read_header(struct trace *trace, bool *ret_is_row);
/* The formats of a family, in order; NULL past the end. */
const struct trace_format *format_at(enum trace_family family, size_t index);
/* For positional formats. false: no memory, said. */
bool format_name_cells(struct trace *trace, const char *const *names, uint32_t count);

/* trace_csv.c: the caller's columns, by name or by number from 1, into trace->at[role]; a role without a text is
 * absent. When all are numbers and the cell of `number_role` reads as what it must be, there is no header. */
struct csv_role {
    const char *name;
    const char *text;
    uint32_t has;
};
enum status csv_find_columns(struct trace *trace, const struct csv_role *roles, uint32_t role_count,
                             uint32_t number_role, bool is_datetime, bool *ret_is_row);

/* trace.c: the next row of the trace's family. */
union trace_any_row {
    struct trace_row request;
    struct job_row job;
};
enum status trace_next_row(struct trace *trace, union trace_any_row *ret_row);
/* What to open a file as. */
struct trace_opening {
    uint32_t families;
    const char *format; /* NULL: guessed */
    struct trace_options options;
    const struct job_columns *job_columns; /* NULL: none */
};
enum status trace_open_as(const char *path, const struct trace_opening *opening, struct trace **ret_trace,
                          char *ret_message);
enum status trace_open_bytes_as(const void *bytes, size_t count, const struct trace_opening *opening,
                                struct trace **ret_trace, char *ret_message);

/* For tests and fuzzing: the same as trace_open() and job_trace_open() on bytes in memory, which must outlive it. */
enum status trace_open_bytes(const void *bytes, size_t count, const char *format, const struct trace_options *options,
                             struct trace **ret_trace, char *ret_message);
enum status job_trace_open_bytes(const void *bytes, size_t count, const char *format,
                                 const struct job_trace_options *options, struct job_trace **ret_trace,
                                 char *ret_message);

/* refuse.c: says what is wrong with the line, or counts it when lenient; always false, so that readers can return it.
 * A broken or short line that no newline ends is a cut one, whatever the caller calls it. `what` says "what; remedy" or
 * "what": then the remedy is the common one. */
__attribute__((format(printf, 4, 5)))
bool trace_refuse(struct trace *trace, enum trace_skip skip, size_t column, const char *what, ...);
/* The same for a value of the line: "Column 'value' problem". */
bool trace_refuse_cell(struct trace *trace, enum trace_skip skip, uint32_t cell, const char *problem);
/* A message about the file as a whole; `line` 0: none. */
__attribute__((format(printf, 4, 5)))
void trace_say(struct trace *trace, uint64_t line, size_t column, const char *what, ...);

/* Once a line, since it takes the quotes off in place; cells already split are kept. */
bool trace_split(struct trace *trace, const char **ret_problem, size_t *ret_column);
/* The same, and refuses a line that has not as many cells as the header. */
bool trace_cells(struct trace *trace);
/* Cell readers of CSV formats, which refuse by themselves. */
bool trace_read_tokens(struct trace *trace, uint32_t cell, bool zero_is_fine, uint32_t *ret_tokens);
bool trace_read_name(struct trace *trace, uint32_t cell, char ret_name[TRACE_ID_MAX]);
/* For amounts of jobs: a whole number, and a span of time in a unit of 10^unit_digits ns. */
bool trace_read_amount(struct trace *trace, uint32_t cell, uint32_t max, uint32_t *ret_amount);
bool trace_read_span(struct trace *trace, uint32_t cell, int unit_digits, int64_t *ret_ns);
bool trace_read_time(struct trace *trace, uint32_t cell, enum trace_time_unit unit, int64_t *ret_ns);

/* The path as the user gave it, but no byte of it can move a cursor; bytes >= 8. */
void path_show(const char *path, char *ret_shown, size_t bytes);

/* Text from a file, fit for a message: printable ASCII, the rest as \xNN, cut when long. */
struct quoted {
    char text[64];
};
struct quoted quote(const char *text, size_t length);

#endif
