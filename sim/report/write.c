/* A report in its folder: extract, draw, write the page, and only when all is whole move it to its names. */
#include <stdlib.h>

#include "report/files.h"
#include "report/figures.h"
#include "report/extract.h"
#include "report/page.h"
#include "report/report.h"

static enum status scenario_keep(const char *work, const char *scenario_text, FILE *errors)
{
    FILE *out = file_create(errors, "%s/data/scenario.yaml", work);

    if (out == NULL)
        return STATUS_IO;
    fputs(scenario_text, out);
    return file_close(out, errors) ? STATUS_OK : STATUS_IO;
}

static enum status page_keep(const char *work, const struct page *page, FILE *errors)
{
    FILE *out = file_create(errors, "%s/index.html", work);

    if (out == NULL)
        return STATUS_IO;
    page_write(out, page);
    return file_close(out, errors) ? STATUS_OK : STATUS_IO;
}

/* The page last: who sees it sees its figures too. */
static enum status publish(const char *work, const char *directory, const struct figures *figures, FILE *errors)
{
    enum status status = work_publish_data(errors, work, directory);

    for (uint32_t i = 0; status == STATUS_OK && i < FIGURE_COUNT; i++) {
        static const char *const kinds[] = {"png", "svg"};

        for (size_t kind = 0; status == STATUS_OK && kind < ARRAY_COUNT(kinds); kind++) {
            char name[64];

            snprintf(name, sizeof(name), "%s.%s", figure_file((enum figure)i), kinds[kind]);
            if (!figures->items[i].made)
                work_discard(work, name);
            status = work_publish(errors, work, directory, name);
        }
    }
    return status == STATUS_OK ? work_publish(errors, work, directory, "index.html") : status;
}

enum status report_write(const char *directory, const char *h5_path, const struct summary *summaries, uint32_t count,
                         const char *scenario_text, FILE *errors)
{
    struct extract *extract = NULL;
    struct extracted *extracted = NULL;
    struct figures figures;
    char work[FILES_PATH_MAX] = "";
    enum status status;

    if (count == 0) {
        fprintf(errors, "report: no variant, nothing to report\n");
        return STATUS_INVALID;
    }
    if (h5_path != NULL && (status = extract_open(h5_path, errors, &extract)) != STATUS_OK)
        return status;
    status = work_create(errors, directory, work);
    if (status != STATUS_OK)
        goto close_results;

    uint32_t drawn = min_u32(count, FIGURE_VARIANTS_MAX);

    extracted = calloc(drawn, sizeof(*extracted));
    status = STATUS_FULL;
    if (extracted == NULL)
        goto remove_work;
    for (uint32_t v = 0; extract != NULL && v < drawn; v++)
        extract_variant(extract, &summaries[v], errors, &extracted[v]);
    if ((status = scenario_keep(work, scenario_text, errors)) != STATUS_OK ||
        (status = figures_write(work, summaries, extracted, count, errors, &figures)) != STATUS_OK)
        goto remove_work;
    /* Without gnuplot the tables are still worth having, and the reason has been said. */
    (void)figures_draw(work, errors, &figures);

    struct page page = {
        .summaries = summaries,
        .count = count,
        .scenario_text = scenario_text,
        .version = extract != NULL ? extract_version(extract) : "",
        .results_path = h5_path,
        .work = work,
        .figures = &figures,
    };

    status = page_keep(work, &page, errors);
    if (status == STATUS_OK)
        status = publish(work, directory, &figures, errors);
remove_work:
    work_remove(work);
    free(extracted);
close_results:
    extract_close(extract);
    return status;
}
