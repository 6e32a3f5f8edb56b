/* /metrics: the HTTP floor's, the API's, the core's, the models' and the jobs'. No label is a tenant's word or id. */
#include "control/api/chat.h"
#include "control/metadata/job.h"

#define GAUGES(X)                                                                   \
    X(requests, "Requests to models that are under way.")                           \
    X(waiting, "Of those, that no model server has taken yet.")                     \
    X(servers, "Model servers.")                                                    \
    X(servers_up, "Of those, that serve.")                                          \
    X(trainers, "Trainers.")                                                        \
    X(validators, "Validators.")                                                    \
    X(devices, "Devices, or shares of the CPU.")                                    \
    X(devices_leaving, "Of those, that a spot notice names, or took.")              \
    X(tells_waiting, "Records of usage that came and are not on disk yet.")         \
    X(adapters_resident, "Adapters on devices, once a server.")
#define COUNTERS(X)                                                                 \
    X(routed, "Requests given to a model server.")                                  \
    X(refused, "Requests that could not be served.")                                \
    X(rerouted, "Requests whose server was lost before it had answered.")           \
    X(lost, "Requests whose server was lost while it answered.")                    \
    X(prompt_tokens, "Tokens of prompts.")                                          \
    X(output_tokens, "Tokens of answers.")                                          \
    X(loads, "Adapters loaded.")

static void say_core(struct core *core, struct exposition *exposition)
{
    const struct core_counts counts = core_counts(core);

#define X(name, about)                                                              \
    exposition_family(exposition, "berth_" #name, "gauge", about);                  \
    exposition_sample(exposition, "berth_" #name, "", NULL, (double)counts.name);
    GAUGES(X)
#undef X
#define X(name, about)                                                              \
    exposition_family(exposition, "berth_" #name "_total", "counter", about);       \
    exposition_sample(exposition, "berth_" #name "_total", "", NULL, (double)counts.name);
    COUNTERS(X)
#undef X
    exposition_family(exposition, "berth_tells_lag_seconds", "gauge", "How long the oldest of the records of usage that are not on disk has waited.");
    exposition_sample(exposition, "berth_tells_lag_seconds", "", NULL, (double)counts.tells_lag_ns * 1e-9);
}

/* What cannot be read is left out, and said to be: the rest is wanted then most of all. */
static void say_jobs(struct metadata *metadata, struct exposition *exposition)
{
    int64_t counts[META_JOB_STATES_COUNT];
    struct refusal unheard = {{0}};
    const bool readable = meta_job_counts(metadata, counts, &unheard) == STATUS_OK;

    exposition_family(exposition, "berth_database_readable", "gauge", "1: the database answers.");
    exposition_sample(exposition, "berth_database_readable", "", NULL, readable);
    if (!readable)
        return;
    exposition_family(exposition, "berth_jobs", "gauge", "Fine-tuning jobs that have not ended, by state.");
    for (enum meta_job_state state = 0; state < META_JOB_SUCCEEDED; state++) {
        const struct exposition_label labels[] = {{"state", meta_job_state_text(state)}, {NULL, NULL}};

        exposition_sample(exposition, "berth_jobs", "", labels, (double)counts[state]);
    }
}

static bool run(struct task *task, struct metadata *metadata)
{
    struct api_look *look = (struct api_look *)task;
    struct api *api = look->api;
    struct exposition exposition = {0};

    http_metrics(api->http, &exposition);
    exposition_family(&exposition, "berth_api_tasks", "gauge", "Requests, uploads and downloads with the API's threads.");
    exposition_sample(&exposition, "berth_api_tasks", "", NULL, pool_tasks(api->pool));
    exposition_family(&exposition, "berth_api_transfers", "gauge", "Uploads and downloads that run.");
    exposition_sample(&exposition, "berth_api_transfers", "", NULL, transfers_open(api));
    say_jobs(metadata, &exposition);
    if (api->config.core != NULL) {
        say_core(api->config.core, &exposition);
        chat_measures_say(api->chats, api->config.core, &exposition);
    }
    if (exposition.failed)
        http_answer_error(look->request, 500, "internal", NULL, "the metrics are too many");
    else
        http_answer_bytes(look->request, 200, "text/plain; version=0.0.4", exposition.text, exposition.count);
    exposition_free(&exposition);
    return true;
}

void metrics_get(void *context, struct http_request *request)
{
    struct api *api = context;

    if (api->http == NULL)
        http_answer_error(request, 503, "unavailable", NULL, "the server begins; try again");
    else
        api_look(api, request, run);
}
