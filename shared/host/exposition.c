/* Text that grows to a bound; names are ours and checked, label values are escaped. */
#include "host/exposition.h"

#include <stdio.h>
#include <stdlib.h>

void exposition_free(struct exposition *exposition)
{
    free(exposition->text);
    *exposition = (struct exposition){0};
}

static void add(struct exposition *exposition, const char *text, size_t bytes)
{
    if (exposition->count + bytes + 1 > exposition->size) {
        const size_t size = (exposition->count + bytes + 1) * 2 + 4096;
        char *grown = size > EXPOSITION_BYTES_MAX ? NULL : realloc(exposition->text, size);

        exposition->failed = exposition->failed || grown == NULL;
        if (grown == NULL)
            return;
        exposition->text = grown;
        exposition->size = size;
    }
    memcpy(exposition->text + exposition->count, text, bytes);
    exposition->count += bytes;
    exposition->text[exposition->count] = '\0';
}

static void say(struct exposition *exposition, const char *text)
{
    add(exposition, text, strlen(text));
}

static bool is_name(const char *name)
{
    for (const char *at = name; *at != '\0'; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_' || *at == ':' ||
              (*at >= '0' && *at <= '9' && at > name)))
            return false;
    return name[0] != '\0';
}

static void say_escaped(struct exposition *exposition, const char *value)
{
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\\' || *at == '"')
            add(exposition, "\\", 1);
        if (*at == '\n')
            say(exposition, "\\n");
        else
            add(exposition, at, 1);
    }
}

void exposition_family(struct exposition *exposition, const char *name, const char *type, const char *help)
{
    check(is_name(name));
    check(strchr(help, '\n') == NULL && strchr(help, '\\') == NULL);
    say(exposition, "# HELP ");
    say(exposition, name);
    say(exposition, " ");
    say(exposition, help);
    say(exposition, "\n# TYPE ");
    say(exposition, name);
    say(exposition, " ");
    say(exposition, type);
    say(exposition, "\n");
}

void exposition_sample(struct exposition *exposition, const char *name, const char *suffix, const struct exposition_label *labels,
                       double value)
{
    char number[40];

    check(is_name(name));
    say(exposition, name);
    say(exposition, suffix);
    for (const struct exposition_label *label = labels; label != NULL && label->name != NULL; label++) {
        check(is_name(label->name));
        say(exposition, label == labels ? "{" : ",");
        say(exposition, label->name);
        say(exposition, "=\"");
        say_escaped(exposition, label->value);
        say(exposition, "\"");
    }
    if (labels != NULL && labels->name != NULL)
        say(exposition, "}");
    snprintf(number, sizeof(number), " %.17g\n", value);
    if (value >= 0 && value < 9e15 && value == (double)(uint64_t)value)
        snprintf(number, sizeof(number), " %llu\n", (unsigned long long)value);
    say(exposition, number);
}

void exposition_histogram(struct exposition *exposition, const char *name, const struct exposition_label *labels,
                          const double *bounds, const uint64_t *counts, size_t bounds_count, double sum)
{
    struct exposition_label all[8] = {{NULL, NULL}};
    uint64_t below = 0;
    size_t count = 0;
    char bound[40];

    for (; labels != NULL && labels[count].name != NULL; count++) {
        check(count < 6);
        all[count] = labels[count];
    }
    all[count] = (struct exposition_label){"le", bound};
    for (size_t i = 0; i <= bounds_count; i++) {
        below += counts[i];
        if (i < bounds_count)
            snprintf(bound, sizeof(bound), "%g", bounds[i]);
        else
            strcpy(bound, "+Inf");
        exposition_sample(exposition, name, "_bucket", all, (double)below);
    }
    exposition_sample(exposition, name, "_sum", labels, sum);
    exposition_sample(exposition, name, "_count", labels, (double)below);
}
