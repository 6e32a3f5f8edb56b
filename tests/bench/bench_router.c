/* router: one request through the fleet core, REQUEST and REQUEST_DONE, under each route policy: 16 replicas on two nodes,
 * 5,000 adapters by Zipf's law of which each replica holds a hundred and the nodes all, 256 requests outstanding. */
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/zipf.h"
#include "fleet/fleet.h"

#define REPLICAS 16u
#define ADAPTERS 5000u
#define OUTSTANDING 256u
#define REQUESTS 2000000u

static struct fleet_commands commands;
static uint64_t seq;

static void send(struct fleet *fleet, struct fleet_event *event, int64_t at_ns)
{
    event->at_ns = at_ns;
    event->seq = ++seq;
    fleet_step(fleet, event, &commands);
}

static struct fleet *fleet_of(const struct route_policy *route, void **ret_memory)
{
    const struct fleet_config config = {
        .salt = 1,
        .replicas_max = REPLICAS,
        .nodes_max = 2,
        .bases_max = 1,
        .adapters_max = ADAPTERS,
        .requests_max = OUTSTANDING,
        .route = route,
        .bound_milli = 1250,
        .bound_add = 4,
        .hot_share_milli = 500,
        .cool_milli = 750,
        .rate_half_life_ns = 60 * NS_PER_S,
    };
    size_t bytes = fleet_bytes(&config);
    struct fleet *fleet;

    *ret_memory = malloc(bytes);
    check(*ret_memory != NULL);
    fleet = fleet_create(*ret_memory, bytes, &config);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        struct fleet_event up = {.kind = FLEET_EVENT_REPLICA_UP};

        up.replica_up.replica = replica_id_make(0, i);
        up.replica_up.node.value = (uint16_t)(i / 8);
        send(fleet, &up, 0);
    }
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        for (uint32_t place = 0; place < 3; place++) {
            struct fleet_event here = {.kind = FLEET_EVENT_RESIDENCY};

            if (place == 2 && i >= REPLICAS * 100)
                break;
            here.residency.adapter = (adapter_id){i + 1, 1};
            here.residency.replica = replica_id_make(0, i % REPLICAS);
            here.residency.node.value = (uint16_t)(place % 2);
            here.residency.tier = place == 2 ? TIER_GPU : TIER_HOST;
            here.residency.present = 1;
            send(fleet, &here, 0);
        }
    }
    return fleet;
}

static void time_policy(const struct route_policy *route, const uint32_t *ranks)
{
    static struct fleet_event done[OUTSTANDING];
    void *memory;
    struct fleet *fleet = fleet_of(route, &memory);
    double from_s = bench_cpu_s();

    memset(done, 0, sizeof(done));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct fleet_event *end = &done[i % OUTSTANDING];
        struct fleet_event request = {.kind = FLEET_EVENT_REQUEST};
        int64_t at_ns = (int64_t)i * 10000000;

        if (i >= OUTSTANDING)
            send(fleet, end, at_ns);
        request.request.request = request_id_make(i, i % OUTSTANDING);
        request.request.adapter = (adapter_id){ranks[i % ZIPF_DRAWS], 1};
        request.request.prompt_tokens = 512;
        request.request.output_tokens_max = 200;
        send(fleet, &request, at_ns);
        check(commands.count == 1 && commands.items[0].kind == FLEET_COMMAND_ROUTE);
        *end = (struct fleet_event){.kind = FLEET_EVENT_REQUEST_DONE};
        end->request_done.request = request.request.request;
        end->request_done.replica = commands.items[0].route.replica;
    }
    bench_print("router", route->name, bench_cpu_s() - from_s, REQUESTS);
    free(memory);
}

int main(int argc, char **argv)
{
    static uint32_t ranks[ZIPF_DRAWS];

    if (!bench_wanted(argc, argv, "router"))
        return 0;
    zipf_fill(ranks, ADAPTERS);
#define X(name) time_policy(&route_##name, ranks);
    ROUTE_POLICIES(X)
#undef X
    return 0;
}
