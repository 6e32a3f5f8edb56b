/* Random operations against a twin that keeps its own records and answers by looking at everything: the kind of place, how
 * many free GPUs its node has, whether anything had to be dropped, and why there is none. */
#include "devices_rig.h"

enum { NODES = 4, GPUS = 8, BASES = 6, JOBS = 40, HOLDINGS = 200, TENANTS = 3, SHARERS = 3 };

/* After the place kinds. */
enum { SLICE = PLACE_LOAD + 1, DROPPING, SHARING, GANG, BLOCKED_BY_ISOLATION, BLOCKED_BY_EARMARK, LOST, IMAGINED, WAYS };

struct twin_holding {
    uint64_t bytes;
    uint32_t index; /* the core's number */
    uint16_t node;
    uint16_t mask;
    uint16_t base;
    bool live;
    bool ready;
};

struct twin {
    struct devices *devices;
    uint64_t bytes[NODES];
    uint16_t model[NODES];
    uint16_t flavor[NODES];
    uint16_t present[NODES];
    uint16_t open[NODES];
    struct twin_holding holdings[HOLDINGS];
    struct devices_ask asks[JOBS]; /* of the claims */
    struct devices_place places[JOBS]; /* gpu_mask 0: none */
    struct devices_place earmarks[JOBS];
    int64_t earmarks_from_ns[JOBS];
    uint64_t random;
    bool ignore_earmarks;
    uint32_t seen[WAYS]; /* how often each came up: a test that never gets there proves nothing */
};

/* ---- what the twin knows ---- */

static bool claimed(const struct twin *twin, const struct twin_holding *holding)
{
    for (uint32_t job = 0; job < JOBS; job++)
        if (twin->places[job].gpu_mask == holding->mask && twin->places[job].node == holding->node &&
            twin->places[job].slice == 0 && twin->asks[job].base == holding->base)
            return true;
    return false;
}

static bool may_drop(const struct twin *twin, const struct twin_holding *holding)
{
    return holding->ready && !claimed(twin, holding);
}

static uint32_t jobs_on(const struct twin *twin, uint32_t node, uint32_t gpu)
{
    uint32_t count = 0;

    for (uint32_t job = 0; job < JOBS; job++)
        count += twin->places[job].node == node && (twin->places[job].gpu_mask >> gpu & 1) != 0;
    return count;
}

static bool is_open(const struct twin *twin, const struct devices_ask *ask, uint32_t node, uint32_t gpu)
{
    if ((twin->open[node] >> gpu & 1) == 0 || (ask->flavors >> twin->flavor[node] & 1) == 0)
        return false;
    for (uint32_t job = 0; job < JOBS && !twin->ignore_earmarks; job++)
        if (job != ask->job && twin->earmarks[job].node == node && (twin->earmarks[job].gpu_mask >> gpu & 1) != 0 &&
            ask->end_estimate_ns > twin->earmarks_from_ns[job])
            return false;
    return true;
}

static uint64_t room(const struct twin *twin, uint32_t node, uint32_t gpu, bool drop, const struct twin_holding *keep)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < HOLDINGS; i++) {
        const struct twin_holding *holding = &twin->holdings[i];

        if (holding->live && holding->node == node && (holding->mask >> gpu & 1) != 0 &&
            (!drop || holding == keep || !may_drop(twin, holding)))
            used += holding->bytes;
    }
    for (uint32_t job = 0; job < JOBS; job++)
        if (twin->places[job].node == node && (twin->places[job].gpu_mask >> gpu & 1) != 0)
            used += twin->asks[job].bytes + (twin->places[job].slice != 0 ? twin->asks[job].base_bytes : 0);
    return twin->bytes[node] - used;
}

/* 0: not at all, 1: beside others, 2: alone. `any`: whatever the isolation class, but for whole GPUs of others. */
static int stands(const struct twin *twin, const struct devices_ask *ask, uint32_t node, uint32_t gpu, bool any)
{
    uint32_t count = 0;

    for (uint32_t job = 0; job < JOBS; job++) {
        const struct devices_ask *there = &twin->asks[job];

        if (twin->places[job].node != node || (twin->places[job].gpu_mask >> gpu & 1) == 0)
            continue;
        count++;
        if (there->isolation != ISOLATION_MPS && there->isolation != ISOLATION_TIME_SLICE)
            return 0;
        if (any)
            continue;
        if (there->isolation != ask->isolation)
            return 0;
        if (there->tenant != ask->tenant && !(ask->isolation == ISOLATION_MPS && ask->trusted && there->trusted))
            return 0;
    }
    return count == 0 ? 2 : count < SHARERS ? 1 : 0;
}

struct verdict {
    enum devices_place_kind kind;
    bool dropping;      /* only so */
    bool alone;
    uint32_t free_best; /* LOAD alone: free GPUs of the best node */
};

static uint32_t free_gpus(const struct twin *twin, uint32_t node)
{
    uint32_t count = 0;

    for (uint32_t gpu = 0; gpu < 16; gpu++)
        count += (twin->open[node] >> gpu & 1) != 0 && jobs_on(twin, node, gpu) == 0;
    return count;
}

static bool on_holding(const struct twin *twin, const struct devices_ask *ask, const struct twin_holding *holding, bool drop,
                       bool alone, bool any)
{
    uint32_t count = 0;

    if (!holding->live || holding->base != ask->base)
        return false;
    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        if ((holding->mask >> gpu & 1) == 0)
            continue;
        int how = stands(twin, ask, holding->node, gpu, any);

        if (!is_open(twin, ask, holding->node, gpu) || how < (alone ? 2 : 1))
            return false;
        if (room(twin, holding->node, gpu, drop, holding) < ask->bytes)
            return false;
        count++;
    }
    return count == ask->gpus;
}

static struct verdict resident(const struct twin *twin, const struct devices_ask *ask, bool alone)
{
    for (uint32_t way = alone ? 0 : 1; way < 8; way += 2) {
        struct verdict verdict = {way < 4 ? PLACE_RESIDENT : PLACE_LOADING, (way & 2) != 0, (way & 1) == 0, 0};

        for (uint32_t i = 0; i < HOLDINGS; i++)
            if (twin->holdings[i].ready == (way < 4) &&
                on_holding(twin, ask, &twin->holdings[i], verdict.dropping, verdict.alone, false))
                return verdict;
    }
    return (struct verdict){0};
}

static const struct twin_holding *single(const struct twin *twin, uint32_t node, uint32_t gpu, uint32_t base)
{
    for (uint32_t i = 0; i < HOLDINGS; i++)
        if (twin->holdings[i].live && twin->holdings[i].node == node && twin->holdings[i].mask == 1u << gpu &&
            twin->holdings[i].base == base)
            return &twin->holdings[i];
    return NULL;
}

static bool node_loads(const struct twin *twin, const struct devices_ask *ask, uint32_t node, bool drop, bool alone, bool any)
{
    uint32_t count = 0;

    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        const struct twin_holding *own = ask->gpus == 1 && !any ? single(twin, node, gpu, ask->base) : NULL;

        count += is_open(twin, ask, node, gpu) && stands(twin, ask, node, gpu, any) >= (alone ? 2 : 1) &&
                 room(twin, node, gpu, drop, own) >= ask->bytes + (own == NULL ? ask->base_bytes : 0);
    }
    return count >= ask->gpus;
}

static struct verdict loaded(const struct twin *twin, const struct devices_ask *ask, bool alone)
{
    for (uint32_t way = alone ? 0 : 2; way < (alone ? 2u : 4u); way++) {
        struct verdict verdict = {PLACE_NONE, (way & 1) != 0, way < 2, 99};

        for (uint32_t node = 0; node < NODES; node++)
            if (twin->present[node] != 0 && node_loads(twin, ask, node, verdict.dropping, verdict.alone, false)) {
                verdict.kind = PLACE_LOAD;
                verdict.free_best = min_u32(verdict.free_best, free_gpus(twin, node));
            }
        if (verdict.kind != PLACE_NONE)
            return verdict;
    }
    return (struct verdict){0};
}

/* Whether a slice for it exists: on GPUs already cut, or on any that could be. */
static bool slice_exists(const struct twin *twin, const struct devices_ask *ask, uint32_t node, uint32_t gpu, bool cut_only)
{
    struct mig_profile wanted;
    uint32_t index = 0;
    uint32_t used = 0;
    uint32_t compute = 0;
    uint32_t jobs = jobs_on(twin, node, gpu);

    if (!is_open(twin, ask, node, gpu) || (cut_only && jobs == 0))
        return false;
    do {
        if (!mig_profile_at((enum gpu_model)twin->model[node], index++, &wanted))
            return false;
    } while (wanted.bytes < ask->bytes + ask->base_bytes);
    for (uint32_t job = 0; job < JOBS; job++) {
        struct mig_profile there;
        uint16_t slice = twin->places[job].slice;

        if (twin->places[job].node != node || (twin->places[job].gpu_mask >> gpu & 1) == 0)
            continue;
        if (slice == 0)
            return false;
        assert_true(mig_profile_at((enum gpu_model)twin->model[node], slice >> 8, &there));
        used |= ((1u << there.memory_slices) - 1) << ((slice & 0xff) - 1);
        compute += there.compute_slices;
    }
    uint64_t need = jobs == 0 ? twin->bytes[node] : ask->bytes + ask->base_bytes;

    if (ask->bytes + ask->base_bytes > twin->bytes[node] || room(twin, node, gpu, jobs == 0, NULL) < need)
        return false;
    for (uint32_t start = 0; start < 8; start++)
        if ((wanted.starts >> start & 1) != 0 && (used & ((1u << wanted.memory_slices) - 1) << start) == 0 &&
            compute + wanted.compute_slices <= 7)
            return true;
    return false;
}

static bool any_slice(const struct twin *twin, const struct devices_ask *ask, bool cut_only)
{
    for (uint32_t node = 0; node < NODES && ask->gpus == 1; node++)
        for (uint32_t gpu = 0; gpu < 16; gpu++)
            if ((twin->present[node] >> gpu & 1) != 0 && slice_exists(twin, ask, node, gpu, cut_only))
                return true;
    return false;
}

static struct verdict expected(const struct twin *twin, const struct devices_ask *ask, bool resident_first, bool may_load)
{
    struct verdict verdict = {0};

    if (ask->isolation == ISOLATION_MIG) {
        verdict.kind = may_load && any_slice(twin, ask, false) ? PLACE_LOAD : PLACE_NONE;
        return verdict;
    }
    for (uint32_t i = 0; i < 4 && verdict.kind == PLACE_NONE; i++) {
        /* On GPUs of its own where the base is, or by a load; then beside others. Naive: any load before. */
        bool on_base = resident_first ? i % 2 == 0 : i >= 2;
        bool alone = resident_first ? i < 2 : i % 2 == 0;

        if (on_base)
            verdict = resident(twin, ask, alone);
        else if (may_load)
            verdict = loaded(twin, ask, alone);
    }
    return verdict;
}

/* There is room, but for isolation. */
static bool isolation_blocks(const struct twin *twin, const struct devices_ask *ask, bool may_load)
{
    for (uint32_t i = 0; i < HOLDINGS; i++)
        if (on_holding(twin, ask, &twin->holdings[i], true, false, true))
            return true;
    if (!may_load)
        return false;
    for (uint32_t node = 0; node < NODES; node++)
        if (twin->present[node] != 0 && node_loads(twin, ask, node, true, false, true))
            return true;
    return any_slice(twin, ask, true);
}

/* ---- operations ---- */

static uint32_t below(struct twin *twin, uint32_t bound)
{
    return (uint32_t)draw_below(&twin->random, bound);
}

static struct devices_ask random_ask(struct twin *twin, uint32_t job)
{
    const uint16_t gpus[] = {1, 1, 1, 1, 2, 3, 4, 8};
    uint16_t base = (uint16_t)below(twin, BASES);

    return (struct devices_ask){
        .bytes = below(twin, 24) * GIB + below(twin, 2),
        .base_bytes = (4 + 7 * (uint64_t)base) * GIB,
        .tenant = below(twin, TENANTS),
        .base = base,
        .gpus = gpus[below(twin, ARRAY_COUNT(gpus))],
        .isolation = (uint8_t)below(twin, ISOLATION_COUNT),
        .trusted = below(twin, 2) == 0,
        .flavors = 1 + below(twin, 3),
        .job = job,
        .end_estimate_ns = below(twin, 3) == 0 ? NEVER_NS : 1 + (int64_t)below(twin, 100),
    };
}

static void twin_drop(struct twin *twin, uint32_t index)
{
    for (uint32_t i = 0; i < HOLDINGS; i++)
        if (twin->holdings[i].live && twin->holdings[i].index == index) {
            assert_true(may_drop(twin, &twin->holdings[i]));
            twin->holdings[i] = (struct twin_holding){0};
            devices_drop(twin->devices, index);
            return;
        }
    fail_msg("holding %u is not known", index);
}

static uint32_t twin_hold(struct twin *twin, uint16_t base, uint64_t bytes, uint16_t node, uint16_t mask)
{
    uint32_t i = 0;

    while (twin->holdings[i].live)
        i++;
    uint32_t index = devices_hold(twin->devices, base, bytes, node, mask, (int64_t)below(twin, 30) * NS_PER_S);

    twin->holdings[i] =
        (struct twin_holding){.bytes = bytes, .index = index, .node = node, .mask = mask, .base = base, .live = true};
    return index;
}

static void apply(struct twin *twin, const struct devices_ask *ask, struct devices_place place)
{
    uint32_t victims[HOLDINGS];

    for (uint32_t i = 0; i < place.victims; i++)
        victims[i] = devices_victim_at(twin->devices, i);
    for (uint32_t i = 0; i < place.victims; i++)
        twin_drop(twin, victims[i]);
    if (place.kind == PLACE_LOAD && place.slice == 0)
        place.holding = twin_hold(twin, ask->base, ask->base_bytes, place.node, place.gpu_mask);
    devices_claim(twin->devices, ask->job, ask, &place);
    twin->asks[ask->job] = *ask;
    twin->places[ask->job] = place;
}

static void compare(struct twin *twin, const struct devices_ask *ask, uint32_t turn, uint64_t seed)
{
    bool resident_first = below(twin, 3) != 0;
    bool may_load = below(twin, 8) != 0;
    struct devices_place place = devices_find(twin->devices, ask, resident_first, may_load);
    struct verdict verdict = expected(twin, ask, resident_first, may_load);
    bool loads = verdict.kind == PLACE_LOAD && !resident_first && place.kind != PLACE_NONE;

    if (place.kind != verdict.kind && !loads)
        fail_msg("seed %llu turn %u: kind %d, the twin says %d", (unsigned long long)seed, turn, (int)place.kind,
                 (int)verdict.kind);
    if (place.kind == PLACE_NONE) {
        bool isolation = isolation_blocks(twin, ask, may_load);

        twin->ignore_earmarks = true;
        bool earmark = expected(twin, ask, resident_first, may_load).kind != PLACE_NONE;

        twin->ignore_earmarks = false;
        if (place.blocked_by_isolation != isolation || place.blocked_by_earmark != earmark)
            fail_msg("seed %llu turn %u: blocked by isolation %d earmark %d, the twin says %d %d", (unsigned long long)seed,
                     turn, place.blocked_by_isolation, place.blocked_by_earmark, isolation, earmark);
        twin->seen[PLACE_NONE]++;
        twin->seen[BLOCKED_BY_ISOLATION] += isolation;
        twin->seen[BLOCKED_BY_EARMARK] += earmark;
        return;
    }
    twin->seen[place.kind]++;
    twin->seen[DROPPING] += place.victims > 0;
    twin->seen[GANG] += ask->gpus > 1;
    if (ask->isolation == ISOLATION_MIG) {
        twin->seen[SLICE]++;
        apply(twin, ask, place);
        return;
    }
    bool alone = true;

    for (uint32_t gpu = 0; gpu < 16; gpu++)
        alone &= (place.gpu_mask >> gpu & 1) == 0 || jobs_on(twin, place.node, gpu) == 0;
    twin->seen[SHARING] += !alone;
    if ((!loads && (place.victims > 0) != verdict.dropping) || alone < verdict.alone)
        fail_msg("seed %llu turn %u: %u victims, alone %d; the twin says dropping %d alone %d", (unsigned long long)seed, turn,
                 place.victims, alone, verdict.dropping, verdict.alone);
    if (verdict.kind == PLACE_LOAD && verdict.alone && !loads && free_gpus(twin, place.node) != verdict.free_best)
        fail_msg("seed %llu turn %u: a node with %u free GPUs, the twin knows one with %u", (unsigned long long)seed, turn,
                 free_gpus(twin, place.node), verdict.free_best);
    apply(twin, ask, place);
}

static void lose(struct twin *twin, uint16_t node, uint16_t mask)
{
    uint32_t jobs[JOBS];
    uint32_t count = devices_gone(twin->devices, node, mask, jobs, JOBS);
    uint32_t expected_count = 0;

    for (uint32_t job = 0; job < JOBS; job++) {
        if (twin->places[job].node == node && (twin->places[job].gpu_mask & mask) != 0) {
            uint32_t times = 0;

            for (uint32_t i = 0; i < count; i++)
                times += jobs[i] == job;
            assert_int_equal(times, 1);
            expected_count++;
            twin->places[job].gpu_mask = 0;
        }
        if (twin->earmarks[job].node == node)
            twin->earmarks[job].gpu_mask &= (uint16_t)~mask;
    }
    assert_int_equal(count, expected_count);
    twin->seen[LOST] += count;
    for (uint32_t i = 0; i < HOLDINGS; i++)
        if (twin->holdings[i].live && twin->holdings[i].node == node && (twin->holdings[i].mask & mask) != 0)
            twin->holdings[i] = (struct twin_holding){0};
    twin->present[node] &= (uint16_t)~mask;
    twin->open[node] &= (uint16_t)~mask;
}

static void rise(struct twin *twin, uint16_t node, uint16_t mask)
{
    if (twin->present[node] == 0) {
        twin->model[node] = (uint16_t)below(twin, 4);
        twin->bytes[node] = (twin->model[node] == GPU_H200_141 ? 140 : 79 + below(twin, 2)) * GIB;
        twin->flavor[node] = (uint16_t)below(twin, 2);
    }
    devices_up(twin->devices, node, mask, twin->flavor[node], twin->model[node], twin->bytes[node]);
    twin->present[node] |= mask;
    twin->open[node] |= mask;
}

static void change_gpus(struct twin *twin)
{
    uint16_t node = (uint16_t)below(twin, NODES);
    uint16_t mask = below(twin, 3) == 0 ? (uint16_t)((1 << GPUS) - 1) : (uint16_t)(1 + below(twin, (1 << GPUS) - 1));
    uint16_t there = mask & twin->present[node];
    uint16_t absent = mask & (uint16_t)~twin->present[node];

    if (absent != 0) {
        rise(twin, node, absent);
    } else if (below(twin, 4) == 0) {
        lose(twin, node, there);
    } else if (below(twin, 8) == 0) {
        devices_close(twin->devices, node, there);
        twin->open[node] &= (uint16_t)~there;
    }
}

static void change_earmarks(struct twin *twin)
{
    uint32_t job = below(twin, JOBS);
    uint16_t node = (uint16_t)below(twin, NODES);
    uint16_t mask = (uint16_t)(1 + below(twin, (1 << GPUS) - 1)) & twin->present[node];

    if (mask == 0 || below(twin, 2) == 0) {
        devices_unearmark(twin->devices, job);
        twin->earmarks[job].gpu_mask = 0;
        return;
    }
    twin->earmarks[job].node = node;
    twin->earmarks[job].gpu_mask = mask;
    twin->earmarks_from_ns[job] = (int64_t)below(twin, 2) * (int64_t)below(twin, 100);
    devices_earmark(twin->devices, node, mask, job, twin->earmarks_from_ns[job]);
}

static void change_holdings(struct twin *twin)
{
    struct twin_holding *holding = &twin->holdings[below(twin, 60)];
    uint16_t node = (uint16_t)below(twin, NODES);
    uint16_t gpu = (uint16_t)below(twin, GPUS);
    uint16_t base = (uint16_t)below(twin, BASES);
    uint64_t bytes = (4 + 7 * (uint64_t)base) * GIB;
    bool cut = false;

    if (holding->live && !holding->ready) {
        devices_loaded(twin->devices, holding->index);
        holding->ready = true;
    } else if (holding->live && may_drop(twin, holding) && below(twin, 8) == 0) {
        twin_drop(twin, holding->index);
    }
    for (uint32_t job = 0; job < JOBS; job++)
        cut |= twin->places[job].node == node && (twin->places[job].gpu_mask >> gpu & 1) != 0 && twin->places[job].slice != 0;
    if (below(twin, 4) == 0 && (twin->open[node] >> gpu & 1) != 0 && !cut && single(twin, node, gpu, base) == NULL &&
        room(twin, node, gpu, false, NULL) >= bytes)
        twin_hold(twin, base, bytes, node, (uint16_t)(1u << gpu));
}

/* With some claims imagined away: the twin takes them away for good, and puts them back. */
static void imagine(struct twin *twin, uint32_t turn, uint64_t seed)
{
    struct devices_ask ask = random_ask(twin, below(twin, JOBS));
    struct devices_place saved[JOBS];
    uint32_t jobs[JOBS];
    uint32_t count = 0;
    uint64_t digest = devices_digest(twin->devices);

    memcpy(saved, twin->places, sizeof(saved));
    for (uint32_t job = 0; job < JOBS; job++)
        if (twin->places[job].gpu_mask != 0 && below(twin, 3) == 0) {
            jobs[count++] = job;
            twin->places[job].gpu_mask = 0;
        }
    struct devices_place place = devices_find_without(twin->devices, &ask, jobs, count);
    struct verdict verdict = expected(twin, &ask, true, true);

    if (place.kind != verdict.kind)
        fail_msg("seed %llu turn %u: without %u jobs kind %d, the twin says %d", (unsigned long long)seed, turn, count,
                 (int)place.kind, (int)verdict.kind);
    twin->seen[IMAGINED] += place.kind != PLACE_NONE && count > 0;
    memcpy(twin->places, saved, sizeof(saved));
    assert_true(devices_digest(twin->devices) == digest);
}

static void step(struct twin *twin, uint32_t turn, uint64_t seed)
{
    uint32_t job = below(twin, JOBS);

    switch (below(twin, 16)) {
    case 0:
        change_gpus(twin);
        break;
    case 1:
        change_earmarks(twin);
        break;
    case 2:
    case 3:
        change_holdings(twin);
        break;
    case 4:
        imagine(twin, turn, seed);
        break;
    default:
        if (twin->places[job].gpu_mask != 0) {
            devices_release(twin->devices, job);
            twin->places[job].gpu_mask = 0;
        } else {
            struct devices_ask ask = random_ask(twin, job);

            compare(twin, &ask, turn, seed);
        }
    }
}

static void devices_agree_with_a_naive_twin(void **state)
{
    (void)state;
    enum { TURNS = 110000, CHECKED = 10000 };
    uint64_t seed = test_seed(3);
    struct devices_config config = {
        .nodes_max = NODES,
        .bases_max = BASES,
        .claims_max = JOBS,
        .holdings_max = HOLDINGS,
        .flavors_max = 2,
        .sharers_max = SHARERS,
        .tenants_max = TENANTS,
    };
    size_t bytes = devices_bytes(&config);
    struct twin *twin = calloc(1, sizeof(*twin));
    void *memory = malloc(bytes);

    twin->devices = devices_create(memory, bytes, &config);
    twin->random = seed;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        step(twin, turn, seed);
        if (turn < CHECKED || turn % 16 == 0)
            devices_check(twin->devices);
    }
    for (uint32_t way = 0; way < WAYS; way++)
        if (twin->seen[way] < 500)
            fail_msg("seed %llu: way %u came up %u times only", (unsigned long long)seed, way, twin->seen[way]);
    free(memory);
    free(twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_agree_with_a_naive_twin)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
