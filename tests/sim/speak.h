/* A command of the simulator in this process: what it is told, and what it says. */
#ifndef TESTS_SIM_SPEAK_H
#define TESTS_SIM_SPEAK_H

#include <stdio.h>

#include "support.h"

struct spoken {
    int code;
    char output[65536];
    char errors[4096];
};

static inline void speak_take(FILE *file, char *text, size_t bytes)
{
    size_t count;

    rewind(file);
    count = fread(text, 1, bytes - 1, file);
    text[count] = 0;
    fclose(file);
}

/* It is there until the next call. */
static inline struct spoken *speak(int (*command)(int argc, char **argv, FILE *output, FILE *errors), const char *const *words)
{
    static struct spoken spoken;
    char *arguments[24];
    FILE *output = tmpfile();
    FILE *errors = tmpfile();
    int count = 0;

    for (; words[count] != NULL; count++)
        arguments[count] = (char *)(uintptr_t)words[count];
    arguments[count] = NULL;
    spoken.code = command(count, arguments, output, errors);
    speak_take(output, spoken.output, sizeof(spoken.output));
    speak_take(errors, spoken.errors, sizeof(spoken.errors));
    return &spoken;
}

static inline void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in:\n%s", part, text);
}

#endif
