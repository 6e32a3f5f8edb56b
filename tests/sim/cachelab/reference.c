#include "reference.h"

#include "base/hash.h"
#include "support.h"

FILE *reference_open(void)
{
    const char *path = test_shared_path("reference/cache/libcachesim.csv");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;

    if (path == NULL) {
        print_message("skipped: the reference's numbers are not there\n");
        skip();
    }
    assert_non_null(file);
    return file;
}

bool reference_next(FILE *file, struct reference_row *ret_row)
{
    char line[512];

    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "%63[^,],%63[^,],%63[^,],%63[^,],%*[^,],%63[^,],", ret_row->trace, ret_row->mode, ret_row->policy, ret_row->size,
                   ret_row->miss_ratio) == 5)
            return true;
    return false;
}

/* digest: of ids and sizes. */
static struct zipf_trace trace_of(struct zipf_trace trace, uint64_t digest)
{
    assert_true(hash_words(hash_words(0, trace.ids, trace.count), trace.sizes, trace.count) == digest);
    return trace;
}

struct zipf_trace reference_a(void)
{
    return trace_of(zipf_trace_create(1000000, 10000000, 1, 42, false), UINT64_C(0xd98739a34d632b9a));
}

struct zipf_trace reference_b(void)
{
    return trace_of(zipf_trace_create(5000, 10000000, 1, 43, true), UINT64_C(0x866bdea6760c2ed6));
}
