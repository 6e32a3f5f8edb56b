/* Makes every sample of this folder, byte for byte the same each time: make_samples DIRECTORY. No row comes from a real
 * trace. What is known of the Azure conversation hour is a table of quantiles and seven rates, below; the small
 * samples only have the columns of their formats. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/hash.h"

#define PATH_BYTES 1024

struct knot {
    double share;
    double tokens;
};

/* Quantiles of the 19,366 requests of AzureLLMInferenceTrace_conv; straight lines between. */
static const struct knot azure_prompt[] = {{0, 2}, {0.01, 29}, {0.05, 181}, {0.1, 207}, {0.25, 396}, {0.5, 1020},
    {0.6, 1071}, {0.7, 1130}, {0.75, 1189}, {0.8, 1315}, {0.9, 2735}, {0.95, 4083}, {0.99, 4142}, {0.999, 6212},
    {1, 14050}};
static const struct knot azure_output[] = {{0, 7}, {0.01, 16}, {0.05, 41}, {0.1, 54}, {0.25, 85}, {0.5, 129},
    {0.6, 177}, {0.7, 384}, {0.75, 395}, {0.8, 400}, {0.9, 424}, {0.95, 451}, {0.99, 601}, {0.999, 954}, {1, 1000}};
/* Its requests a minute every ten minutes, with straight lines between; the last holds to the end. */
static const double azure_minute_rates[] = {232, 292, 336, 467, 352, 300, 236};

enum { AZURE_ROWS = 19366, SMALL_ROWS = 200 };
static const double azure_seconds = 3501.7;
/* A minute's rate wanders about that line by so much either way. */
static const double minute_wander = 0.26;
/* One gap in so many is a lull of `lull_scale` mean gaps: the real gaps vary a little more than Poisson's. */
static const double lull_share = 0.03;
static const double lull_scale = 2;

/* Plain text, or gzip where the name ends so. */
struct file {
    FILE *plain;
    gzFile packed;
};

/* Draws stand in statements of their own: C leaves open in which order arguments are taken. */
static uint64_t draw_word(uint64_t *stream)
{
    return hash_mix((*stream)++);
}

/* Uniform in (0, 1). */
static double draw(uint64_t *stream)
{
    return ((double)(draw_word(stream) >> 11) + 0.5) * 0x1p-53;
}

static uint32_t draw_quantile(uint64_t *stream, const struct knot *knots)
{
    double share = draw(stream);
    size_t i = 1;

    while (share > knots[i].share)
        i++;
    return (uint32_t)(knots[i - 1].tokens + (knots[i].tokens - knots[i - 1].tokens) * (share - knots[i - 1].share) /
                                                (knots[i].share - knots[i - 1].share) + 0.5);
}

static double draw_gap(uint64_t *stream, double rate_per_s)
{
    double scale = draw(stream) < lull_share ? lull_scale : (1 - lull_share * lull_scale) / (1 - lull_share);

    return -log(draw(stream)) * scale / rate_per_s;
}

/* Index 1..count with weight 1 / index. */
static uint32_t draw_zipf(uint64_t *stream, uint32_t count)
{
    double total = 0;
    double left;
    uint32_t index = 1;

    for (uint32_t i = 1; i <= count; i++)
        total += 1.0 / i;
    for (left = draw(stream) * total - 1; left > 0 && index < count; left -= 1.0 / index)
        index++;
    return index;
}

static struct file open_file(const char *directory, const char *name)
{
    char path[PATH_BYTES];
    struct file file = {NULL, NULL};

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (strstr(name, ".gz") != NULL)
        file.packed = gzopen(path, "wb9");
    else
        file.plain = fopen(path, "wb");
    if (file.plain == NULL && file.packed == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

__attribute__((format(printf, 2, 3)))
static void put(struct file file, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    int count;

    va_start(arguments, format);
    count = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (count < 0 || (size_t)count >= sizeof(text) ||
        (file.packed != NULL ? gzwrite(file.packed, text, (unsigned)count) != count : fputs(text, file.plain) < 0)) {
        fprintf(stderr, "make_samples: cannot write\n");
        exit(1);
    }
}

static void close_file(struct file file)
{
    if (file.packed != NULL ? gzclose(file.packed) != Z_OK : fclose(file.plain) != 0) {
        fprintf(stderr, "make_samples: cannot write to the end\n");
        exit(1);
    }
}

static double azure_rate_per_s(double at_s, uint64_t seed)
{
    uint64_t minute = (uint64_t)(at_s / 60);
    size_t last = ARRAY_COUNT(azure_minute_rates) - 1;
    size_t i = (size_t)(at_s / 600);
    double along = at_s / 600 - (double)i;
    double wander = ((double)(hash_mix(seed ^ minute) >> 11) * 0x1p-53 * 2 - 1) * minute_wander;
    double rate = i >= last ? azure_minute_rates[last]
                            : azure_minute_rates[i] * (1 - along) + azure_minute_rates[i + 1] * along;

    return rate * (1 + wander) / 60;
}

/* CRLF and no newline at the end, as the real file has. Times are stretched so that the last row ends the hour as the
 * real one does, whatever the draws were. */
static void make_azure(const char *directory, const char *name, uint32_t rows)
{
    static double at_s[AZURE_ROWS];
    struct file file = open_file(directory, name);
    uint64_t gaps = hash_mix(1);
    uint64_t prompts = hash_mix(2);
    uint64_t outputs = hash_mix(3);

    for (uint32_t i = 1; i < AZURE_ROWS; i++)
        at_s[i] = at_s[i - 1] + draw_gap(&gaps, azure_rate_per_s(at_s[i - 1], hash_mix(4)));
    put(file, "TIMESTAMP,ContextTokens,GeneratedTokens");
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t at_us = (uint64_t)(at_s[i] / at_s[AZURE_ROWS - 1] * azure_seconds * 1e6) + 250000;
        unsigned second = (unsigned)(at_us / 1000000) + 18 * 3600 + 15 * 60;

        put(file, "\r\n2024-02-29 %02u:%02u:%02u.%06u0,%u,%u", second / 3600, second / 60 % 60, second % 60,
            (unsigned)(at_us % 1000000), draw_quantile(&prompts, azure_prompt), draw_quantile(&outputs, azure_output));
    }
    close_file(file);
}

/* Every seventh fails; one in thirty says nothing at all. Version 2 has fractions of a second and sessions. */
static void make_burstgpt(const char *directory, const char *name, bool second)
{
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(second ? 12 : 11);
    double at_s = 5;

    put(file, "Timestamp,%sModel,Request tokens,Response tokens,Total tokens,Log Type\n",
        second ? "Session ID,Elapsed time," : "");
    for (uint32_t i = 0; i < SMALL_ROWS; i++) {
        uint32_t request = i % 30 == 29 ? 0 : draw_quantile(&stream, azure_prompt);
        uint32_t response = i % 7 == 6 || request == 0 ? 0 : draw_quantile(&stream, azure_output);
        const char *model = draw(&stream) < 0.8 ? "ChatGPT" : "GPT-4";
        const char *log = draw(&stream) < 0.6 ? "Conversation log" : "API log";

        if (second)
            put(file, "%.1f,%u,%.3f,", at_s, draw_zipf(&stream, 40), 0.3 + response * 0.021);
        else
            put(file, "%.0f,", at_s);
        put(file, "%s,%u,%u,%u,%s\n", model, request, response, request + response, log);
        at_s += draw_gap(&stream, 0.05);
    }
    close_file(file);
}

/* Batches every three seconds, blocks of 512 tokens. */
static void make_mooncake(const char *directory, const char *name)
{
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(13);
    uint32_t block = 0;
    uint64_t at_ms = 0;

    for (uint32_t i = 0; i < SMALL_ROWS; i++) {
        uint32_t prompt = draw_quantile(&stream, azure_prompt);
        uint32_t output = draw_quantile(&stream, azure_output);

        put(file, "{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, \"hash_ids\": [0", (unsigned)at_ms,
            prompt, output);
        for (uint32_t tokens = 512; tokens < prompt; tokens += 512)
            put(file, ", %u", ++block);
        put(file, "]}\n");
        at_ms += draw(&stream) < 0.25 ? 3000 : 0;
    }
    close_file(file);
}

static void make_alibaba_lora(const char *directory, const char *name)
{
    static const char *const outcomes[] = {"SUCCEED", "SUCCEED", "SUCCEED", "SUCCEED",
                                          "SUCCEED", "SUCCEED", "FAILED", "PENDING"};
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(14);
    double at_s = 9 * 3600;

    put(file, "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,"
              "num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora\n");
    for (uint32_t i = 0; i < SMALL_ROWS; i++) {
        unsigned second = (unsigned)at_s;
        const char *outcome = outcomes[draw_word(&stream) % ARRAY_COUNT(outcomes)];
        unsigned execution_s = 10 + (unsigned)(draw(&stream) * 50);
        uint32_t group = draw_zipf(&stream, 80);
        unsigned prompt = 5 + (unsigned)(draw(&stream) * 200);
        const char *negative = draw(&stream) < 0.5 ? "26.0" : "";
        unsigned images = draw(&stream) < 0.6 ? 1 : 4;
        uint32_t checkpoint = draw_zipf(&stream, 20);
        double loras = draw(&stream);

        put(file, "2024-02-29 %02u:%02u:%02u,%s,%s,%u.0,G%04u,%u.0,%s,%u.0,30.0,M%04u,%d\n", second / 3600,
            second / 60 % 60, second % 60, i % 11 == 3 ? "IMG_2_IMG" : "TXT_2_IMG", outcome, execution_s, group, prompt,
            negative, images, checkpoint, loras < 0.8 ? 0 : loras < 0.96 ? 1 : 2);
        at_s += draw_gap(&stream, 0.02);
    }
    close_file(file);
}

/* Times as floats write them, names with commas and quotes, the base as an empty cell or as 0. */
static void make_generic(const char *directory, const char *name)
{
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(15);
    double at_s = 0;

    put(file, "arrived_s,customer,\"adapter, if any\",prompt_tokens,output_tokens,region\n");
    for (uint32_t i = 0; i < SMALL_ROWS; i++) {
        uint32_t adapter = draw_zipf(&stream, 30);
        uint32_t prompt = draw_quantile(&stream, azure_prompt);
        uint32_t output = draw_quantile(&stream, azure_output);

        put(file, "%.17g,\"customer \"\"%u\"\", inc.\",", at_s, adapter % 7);
        if (adapter <= 2)
            put(file, "%s,", adapter == 1 ? "" : "0");
        else
            put(file, "\"tuned,%u\",", adapter);
        put(file, "%u,%u,%s\n", prompt, output, i % 3 == 0 ? "east" : "west");
        at_s += draw_gap(&stream, 4);
    }
    close_file(file);
}

/* --- jobs --- */

enum { JOB_ROWS = 60 };

/* Comments, a line of column names, a blank line, an unknown here and there, the parts of one job, floats, and two
 * columns too many in the second half, as converted logs have them. */
static void make_swf(const char *directory, const char *name)
{
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(21);
    double at_s = 0;

    put(file, "; Version: 2.2\n; MaxNodes: 16\n; Note: made, not measured\n;\n"
              "job submit wait run procs cpu mem rprocs rtime rmem status user group app queue part prec think\n\n");
    for (uint32_t i = 0; i < JOB_ROWS; i++) {
        double run_s = draw_gap(&stream, 1.0 / 3600);
        uint32_t processors = 1u << (draw_word(&stream) % 5);
        uint32_t user = draw_zipf(&stream, 9);
        int status = i % 10 == 9 ? -1 : i % 13 == 5 ? 0 : i % 17 == 8 ? 5 : 1;

        put(file, "%5u %8.0f %6u %8.0f %4u %9.2f %5d %4d %6u -1 %2d %u 1 %d %u -1 -1 -1%s\n", i + 1, at_s,
            (unsigned)(draw(&stream) * 900), status == -1 ? -1.0 : run_s, processors, run_s * 0.9, i % 3 == 0 ? -1 : 2048,
            i % 4 == 3 ? -1 : (int)processors, 7200, status, user, i % 5 == 0 ? -1 : 3, 1 + i % 2,
            i >= JOB_ROWS / 2 ? " 0 0" : "");
        if (i == 30)
            put(file, "   31       -1     -1      100    4        -1    -1   -1     -1 -1  2 -1 -1 -1 -1 -1 -1 -1\n"
                      "   31       -1     -1      200    4        -1    -1   -1     -1 -1  3 -1 -1 -1 -1 -1 -1 -1\n");
        at_s += draw_gap(&stream, 1.0 / 1500);
    }
    close_file(file);
}

static void make_philly(const char *directory, const char *name)
{
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(22);

    put(file, "runtime\n0.0\n");
    for (uint32_t i = 1; i < JOB_ROWS; i++)
        put(file, "%.1f\n", draw_gap(&stream, 1.0 / 1200));
    close_file(file);
}

static void make_gavel(const char *directory, const char *name, bool newer)
{
    static const char *const types[] = {"ResNet-18 (batch size 32)", "LM (batch size 10)", "Transformer (batch size 64)"};
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(newer ? 24 : 23);
    double at_s = 0;

    for (uint32_t i = 0; i < JOB_ROWS; i++) {
        const char *type = types[draw_word(&stream) % ARRAY_COUNT(types)];
        uint32_t steps = 1000 + (uint32_t)(draw(&stream) * 1e6);
        unsigned gpus = 1u << (draw_word(&stream) % 4);

        if (newer)
            put(file, "%s\tpython3 train.py\t/jobs\t--steps\t1\t%u\t%u\t1.0\t-1\t%.6f\n", type, steps, gpus, at_s);
        else
            put(file, "%s\tpython3 train.py\t--steps\t1\t%u\t%.6f\t%u\n", type, steps, at_s, gpus);
        at_s += (double)(uint64_t)draw_gap(&stream, 1.0 / 600);
    }
    close_file(file);
}

/* Every seventh waits until it is deleted; every third asks for a share, every eleventh for no GPU. */
static void make_openb(const char *directory, const char *name)
{
    static const char *const phases[] = {"Running", "Failed", "Succeeded"};
    static const char *const classes[] = {"LS", "BE", "Burstable", "Guaranteed"};
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(25);
    unsigned at_s = 0;

    put(file, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
              "scheduled_time\n");
    for (uint32_t i = 0; i < JOB_ROWS; i++) {
        bool waits = i % 7 == 6;
        unsigned gpus = i % 11 == 10 ? 0 : i % 8 == 7 ? 8 : 1;
        unsigned milli = gpus == 0 ? 0 : gpus == 1 && i % 3 == 0 ? 460 : 1000;
        unsigned scheduled_s = at_s + (unsigned)(draw(&stream) * 60);
        unsigned deleted_s = scheduled_s + 1 + (unsigned)draw_gap(&stream, 1.0 / 900);

        put(file, "pod-%04u,8000,%u,%u,%u,%s,%s,%s,%u,%u,", i, 4096 + 1024 * (i % 5), gpus, milli,
            i % 9 == 0 ? "V100M16|V100M32" : "", classes[draw_word(&stream) % ARRAY_COUNT(classes)],
            waits ? "Pending" : phases[draw_word(&stream) % ARRAY_COUNT(phases)], at_s, deleted_s);
        if (waits)
            put(file, "\n");
        else
            put(file, "%u\n", scheduled_s);
        at_s += (unsigned)draw_gap(&stream, 1.0 / 500);
    }
    close_file(file);
}

static void make_sia(const char *directory, const char *name)
{
    static const char *const applications[] = {"cifar10", "bert", "yolov3"};
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(26);
    double at_s = 107;

    put(file, "name,time,application,num_replicas,batch_size\n");
    for (uint32_t i = 0; i < JOB_ROWS; i++) {
        const char *application = applications[draw_word(&stream) % ARRAY_COUNT(applications)];

        put(file, "%s-%u,%.6f,%s,%u,512\n", application, i, at_s, application, 1u << (draw_word(&stream) % 5));
        at_s += draw_gap(&stream, 1.0 / 180);
    }
    close_file(file);
}

static void make_generic_jobs(const char *directory, const char *name)
{
    static const char *const ends[] = {"COMPLETED", "FAILED", "CANCELLED", "RUNNING", "somehow"};
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(27);
    unsigned at_s = 8 * 3600;

    put(file, "submitted,lasted_s,limit_s,gpus,bytes,outcome,who,what,class\n");
    for (uint32_t i = 0; i < JOB_ROWS; i++) {
        double lasted_s = draw_gap(&stream, 1.0 / 700);
        const char *end = ends[draw_word(&stream) % ARRAY_COUNT(ends)];

        put(file, "2024-02-29 %02u:%02u:%02u,", at_s / 3600, at_s / 60 % 60, at_s % 60);
        if (i % 6 == 5)
            put(file, ",3600,%s,,%s,", i % 2 == 0 ? "0.5" : "4", end);
        else
            put(file, "%.3f,3600,%s,%u,%s,", lasted_s, i % 2 == 0 ? "0.5" : "4", 1u << 30, end);
        put(file, "user %u,\"tune, %u\",%s\n", draw_zipf(&stream, 8), i, i % 3 == 0 ? "night" : "");
        at_s += (unsigned)draw_gap(&stream, 1.0 / 300);
    }
    close_file(file);
}

/* Machines come and go as a walk between 0 and 8. */
static void make_spot(const char *directory, const char *name)
{
    struct file file = open_file(directory, name);
    uint64_t stream = hash_mix(28);
    uint32_t count = 4;

    put(file, "{\"metadata\": {\"gap_seconds\": 300}, \"data\": [%u", count);
    for (uint32_t i = 1; i < 288; i++) {
        double turn = draw(&stream);

        count += turn < 0.1 && count < 8;
        count -= turn > 0.9 && count > 0;
        put(file, ", %u", count);
    }
    put(file, "]}");
    close_file(file);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_samples DIRECTORY\n");
        return 2;
    }
    make_azure(argv[1], "azure-conv-sample.csv.gz", AZURE_ROWS);
    make_azure(argv[1], "azure-small.csv", SMALL_ROWS);
    make_burstgpt(argv[1], "burstgpt-1-sample.csv", false);
    make_burstgpt(argv[1], "burstgpt-2-sample.csv", true);
    make_mooncake(argv[1], "mooncake-sample.jsonl");
    make_alibaba_lora(argv[1], "alibaba-lora-sample.csv");
    make_generic(argv[1], "generic-sample.csv");
    make_swf(argv[1], "jobs-sample.swf");
    make_philly(argv[1], "jobs-philly-sample.csv");
    make_gavel(argv[1], "jobs-gavel-7-sample.trace", false);
    make_gavel(argv[1], "jobs-gavel-10-sample.trace", true);
    make_openb(argv[1], "jobs-openb-sample.csv");
    make_sia(argv[1], "jobs-sia-sample.csv");
    make_generic_jobs(argv[1], "jobs-generic-sample.csv");
    make_spot(argv[1], "spot-sample.json");
    return 0;
}
