#include "sim/workload/scene.h"

#include <unistd.h>

#include "support.h"

void scene_add_base(struct scenario *scenario, double traffic_share)
{
    struct scenario_pool *pool = &scenario->pools[scenario->pools_count++];

    pool->base_index = scenario->bases_count++;
    pool->keys.traffic_share = traffic_share;
    pool->keys.replicas = 1;
    pool->shape = (struct shape){
        .name = "scene-8b", .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336,
        .vocabulary = 128256, .weight_bits = 16,
    };
}

void scene_default(struct scenario *scenario)
{
    struct keys_workload *keys = &scenario->workload;

    *scenario = (struct scenario){.seed = 1, .duration_s = 3600, .requests_max = 1024};
    strcpy(scenario->directory, ".");
    scene_add_base(scenario, 1);
    keys->tenants = 50;
    keys->retry_delay_s = 1;
    keys->trace.time_scale = 1;
    keys->arrivals = (struct keys_arrivals){
        .rate_per_s = 10, .cv = 1, .burst_ratio = 5, .burst_s = 30, .calm_s = 270, .diurnal_peak_h = 15,
        .weekend_ratio = 1,
    };
    keys->prompt = (struct keys_length){.mean_tokens = 512, .sigma = 1, .min_tokens = 1, .max_tokens = 8000};
    keys->output = (struct keys_length){.mean_tokens = 200, .sigma = 1, .min_tokens = 1, .max_tokens = 2000};
    keys->adapters = (struct keys_adapters){.count = 1000, .alpha = 1, .ranks = {.count = 1, .values = {16}}};
    keys->sessions = (struct keys_sessions){.users = 100, .think_s = 10, .turns = 5, .grow_prompt = true};
}

struct source *scene_open(const struct scenario *scenario)
{
    struct source *source = NULL;
    enum status status = source_open(scenario, stderr, &source);

    assert_int_equal(status, STATUS_OK);
    return source;
}

const char *scene_refusal(const struct scenario *scenario, enum status status)
{
    static char message[4096];
    struct source *source = NULL;
    FILE *errors = fmemopen(message, sizeof(message), "w");

    assert_non_null(errors);
    message[0] = '\0';
    assert_int_equal(source_open(scenario, errors, &source), status);
    assert_null(source);
    fclose(errors);
    return message;
}

const char *scene_file(const char *name, const char *content)
{
    static char paths[2][256];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];
    FILE *file;

    snprintf(path, sizeof(paths[0]), "build/scene-%ld-%s", (long)getpid(), name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    return path;
}

void scene_remove(const char *path)
{
    unlink(path);
}
