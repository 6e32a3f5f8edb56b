/* The metadata on this disk: jobs created, each on disk before it is acknowledged, one caller after the other and many through the
 * writer's thread; keys looked up, of which half are known. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/key.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "control/metadata/writer.h"

#define NOW 1700000000000
#define JOBS 2000
#define IN_FLIGHT 256
#define LOOKUPS 100000
#define KEYS 1000
#define TENANTS 200

struct world {
    struct metadata *metadata;
    char tenant[TENANTS][NAME_BYTES];
    char file[TENANTS][NAME_BYTES];
    uint32_t turn;
    char keys[KEYS][META_KEY_TEXT_BYTES];
    pthread_mutex_t lock;
    pthread_cond_t less;
    uint32_t in_flight;
};

static struct refusal refusal;
#define DO(call)                                                 \
    do {                                                         \
        if ((call) != STATUS_OK) {                               \
            fprintf(stderr, "%s: %s\n", #call, refusal.text);    \
            exit(1);                                             \
        }                                                        \
    } while (0)

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_rate(const char *what, double seconds, uint64_t operations)
{
    printf("{\"name\": \"metadata\", \"case\": \"%s\", \"value\": %.0f, \"unit\": \"per_s\", \"operations\": %llu}\n", what,
           (double)operations / seconds, (unsigned long long)operations);
}

static void add_tenant(struct world *world, int number)
{
    char *tenant = world->tenant[number];
    char slug[16];
    char object[NAME_BYTES];

    snprintf(slug, sizeof(slug), "t%d", number);
    meta_id("object-", object);
    meta_id("file-", world->file[number]);
    DO(meta_tenant_add(world->metadata, slug, NOW, tenant, &refusal));
    DO(meta_object_add(world->metadata, tenant, object, "upload", object, &refusal));
    DO(meta_object_written(world->metadata, tenant, object, 1, "d", &refusal));
    DO(meta_file_add(world->metadata, tenant, world->file[number], object, "fine-tune", (struct meta_bytes){0}, META_NONE, NOW, &refusal));
}

static void populate(struct world *world, const char *place)
{
    const uint8_t server_key[META_KEY_BYTES] = {1};
    const struct meta_options options = {.place = place, .server_key = server_key, .first = true};
    char id[NAME_BYTES];

    DO(meta_open(&options, &world->metadata, &refusal));
    DO(meta_base_add(world->metadata, "tiny", "d", "/tiny", NOW, &refusal));
    for (int i = 0; i < TENANTS; i++)
        add_tenant(world, i);
    DO(meta_begin(world->metadata, &refusal));
    for (int i = 0; i < KEYS; i++)
        DO(meta_key_add(world->metadata, world->tenant[i % TENANTS], "member", META_NONE, NOW, world->keys[i], id, &refusal));
    DO(meta_end(world->metadata, STATUS_OK, &refusal));
}

static enum status add_job(struct metadata *metadata, void *context, struct refusal *why)
{
    struct world *world = context;
    const uint32_t turn = world->turn++ % TENANTS;
    char id[NAME_BYTES];
    const struct meta_job_new job = {.tenant = world->tenant[turn], .id = id, .base = "tiny", .file = world->file[turn], .settings = "{}"};

    meta_id("ftjob-", id);
    return meta_job_add(metadata, &job, NOW, why);
}

static void one_by_one(struct world *world)
{
    const double start = now_s();

    for (int i = 0; i < JOBS; i++)
        DO(add_job(world->metadata, world, &refusal));
    print_rate("jobs, one caller", now_s() - start, JOBS);
}

static void job_done(void *context, enum status status, const struct refusal *why)
{
    struct world *world = context;

    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", why->text);
        exit(1);
    }
    pthread_mutex_lock(&world->lock);
    world->in_flight--;
    pthread_cond_signal(&world->less);
    pthread_mutex_unlock(&world->lock);
}

static void wait_below(struct world *world, uint32_t count)
{
    pthread_mutex_lock(&world->lock);
    while (world->in_flight >= count)
        pthread_cond_wait(&world->less, &world->lock);
    pthread_mutex_unlock(&world->lock);
}

static void many_at_once(struct world *world)
{
    struct meta_writer *writer;
    double start;

    DO(meta_writer_start(world->metadata, IN_FLIGHT, &writer, &refusal));
    start = now_s();
    for (int i = 0; i < 4 * JOBS; i++) {
        wait_below(world, IN_FLIGHT);
        pthread_mutex_lock(&world->lock);
        world->in_flight++;
        pthread_mutex_unlock(&world->lock);
        DO(meta_writer_submit(writer, add_job, job_done, world, &refusal));
    }
    wait_below(world, 1);
    print_rate("jobs, 256 callers", now_s() - start, 4 * JOBS);
    meta_writer_stop(writer);
}

static double look_up(struct world *world, bool known)
{
    struct meta_caller caller;
    const double start = bench_cpu_s();

    for (int i = 0; i < KEYS; i++) {
        char text[META_KEY_TEXT_BYTES];

        memcpy(text, world->keys[i], sizeof(text));
        if (!known)
            text[strlen(META_KEY_PREFIX)] = '0'; /* no id has one */
        if ((meta_key_check(world->metadata, text, NOW, &caller, &refusal) == STATUS_OK) != known)
            exit(1);
    }
    return bench_cpu_s() - start;
}

/* In turns, so that what else the machine does is the same for both. */
static void look_up_keys(struct world *world)
{
    double known_s = 0;
    double unknown_s = 0;

    for (int i = 0; i < LOOKUPS / KEYS; i++) {
        known_s += look_up(world, true);
        unknown_s += look_up(world, false);
    }
    print_rate("keys, known", known_s, LOOKUPS);
    print_rate("keys, unknown", unknown_s, LOOKUPS);
}

int main(int argc, char **argv)
{
    struct world *world;
    const char *parent = getenv("TMPDIR");
    char folder[256];
    char command[512];

    if (!bench_wanted(argc, argv, "metadata"))
        return 0;
    snprintf(folder, sizeof(folder), "%.200s/berth-bench-XXXXXX", parent != NULL ? parent : "/tmp");
    world = calloc(1, sizeof(*world));
    if (world == NULL || mkdtemp(folder) == NULL)
        return 1;
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->less, NULL);
    snprintf(command, sizeof(command), "%s/metadata.db", folder);
    populate(world, command);
    one_by_one(world);
    many_at_once(world);
    look_up_keys(world);
    meta_close(world->metadata);
    free(world);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : 1;
}
