#include "workload/trace_files.h"

#include <math.h>
#include <unistd.h>

enum status trace_file_choose(const struct trace_file *file, const struct scenario *scenario, FILE *errors, char *ret_path,
                              bool *ret_fell_back)
{
    char fallback[KEY_TEXT_MAX * 2];

    *ret_fell_back = false;
    if (file->path[0] == '\0') {
        fprintf(errors, "%s.%spath: is empty; name the trace's file\n", file->section, file->prefix);
        return STATUS_INVALID;
    }
    scenario_path(scenario, file->path, ret_path);
    if (access(ret_path, F_OK) == 0)
        return STATUS_OK;
    if (file->fallback[0] == '\0') {
        fprintf(errors, "%s.%spath: no such file: %s\n", file->section, file->prefix, ret_path);
        return STATUS_NOT_FOUND;
    }
    scenario_path(scenario, file->fallback, fallback);
    if (access(fallback, F_OK) != 0) {
        fprintf(errors, "%s: neither %spath nor %spath_fallback exists: %s, %s\n", file->section, file->prefix,
                file->prefix, ret_path, fallback);
        return STATUS_NOT_FOUND;
    }
    memcpy(ret_path, fallback, sizeof(fallback));
    *ret_fell_back = true;
    return STATUS_OK;
}

int64_t trace_scaled_ns(double scale, int64_t at_ns)
{
    double scaled = (double)at_ns * scale;

    if (scale <= 1 && scale >= 1)
        return at_ns;
    return scaled < 9e18 ? (int64_t)rint(scaled) : NEVER_NS;
}

void trace_say_skips(const struct trace_info *info, struct notes *notes)
{
    static const char *const reasons[] = {
#define X(name, text) text,
        TRACE_SKIPS(X)
#undef X
    };
    char count[NUMBER_TEXT_MAX];

    for (uint32_t i = 0; i < TRACE_SKIP_COUNT; i++) {
        if (info->skipped[i] > 0)
            notes_say(notes, "%s met lines with: %s (%s).", i == TRACE_SKIP_PART ? "Reading" : "Lenient reading",
                      reasons[i], count_text(info->skipped[i], count));
    }
}
