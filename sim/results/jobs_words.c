#include "results/jobs_words.h"

#include "results/jobs.h"

const char *job_outcome_word(uint32_t outcome)
{
    static const char *const words[JOB_OUTCOME_COUNT] = {
#define X(name, text) text,
        JOB_OUTCOMES(X)
#undef X
    };

    check(outcome < JOB_OUTCOME_COUNT);
    return words[outcome];
}

const char *job_stage_word(uint32_t stage)
{
    static const char *const words[STAGE_COUNT] = {
#define X(name, text) text,
        JOB_STAGES(X)
#undef X
    };

    check(stage < STAGE_COUNT);
    return words[stage];
}

const char *job_isolation_word(uint32_t isolation)
{
    static const char *const words[ISOLATION_COUNT] = {
#define X(name, text) text,
        JOB_ISOLATIONS(X)
#undef X
    };

    check(isolation < ISOLATION_COUNT);
    return words[isolation];
}

const char *placement_end_word(uint32_t end)
{
    static const char *const words[PLACEMENT_END_COUNT] = {
        [PLACEMENT_DONE] = "done", [PLACEMENT_YIELDED] = "yielded", [PLACEMENT_LOST] = "lost", [PLACEMENT_OPEN] = "open"};

    check(end < PLACEMENT_END_COUNT);
    return words[end];
}

const char *job_refuse_word(uint32_t reason)
{
    static const char *const words[JOB_REFUSE_COUNT] = {
        [JOB_REFUSE_NONE] = "none",
        [JOB_REFUSE_MEMORY] = "memory",
        [JOB_REFUSE_GANG] = "gang",
        [JOB_REFUSE_QUOTA] = "quota",
        [JOB_REFUSE_ISOLATION] = "isolation",
        [JOB_REFUSE_STAGE] = "stage",
        [JOB_REFUSE_UNKNOWN_TENANT] = "unknown_tenant",
        [JOB_REFUSE_UNKNOWN_BASE] = "unknown_base",
        [JOB_REFUSE_JOBS_FULL] = "jobs_full",
    };

    _Static_assert(JOB_REFUSE_COUNT == 9, "a reason was added: give it a word");
    return reason < JOB_REFUSE_COUNT ? words[reason] : "unknown";
}

void job_refuse_sentence(uint32_t reason, uint64_t need, uint64_t have, char ret_text[JOB_REFUSE_SENTENCE_MAX])
{
    static const char *const sentences[JOB_REFUSE_COUNT] = {
        [JOB_REFUSE_NONE] = "no reason is known",
#define X(name, text) [JOB_REFUSE_##name] = text,
        JOB_REFUSE_REASONS(X)
#undef X
    };

    snprintf(ret_text, JOB_REFUSE_SENTENCE_MAX, sentences[reason < JOB_REFUSE_COUNT ? reason : JOB_REFUSE_NONE],
             (unsigned long long)need, (unsigned long long)have);
}

const char *charge_text(uint32_t component)
{
    static const char *const texts[CHARGE_COUNT] = {
#define X(name, text) text,
        CHARGE_COMPONENTS(X)
#undef X
    };

    check(component < CHARGE_COUNT);
    return texts[component];
}

const char *charge_word(uint32_t component)
{
    static const char *const words[CHARGE_COUNT] = {
        [CHARGE_RESIDENCY] = "residency",         [CHARGE_EXCLUSIVE] = "exclusive", [CHARGE_COMPUTE] = "compute",
        [CHARGE_LOADING] = "loading",             [CHARGE_RESERVED_IDLE] = "reserved_idle",
        [CHARGE_IDLE] = "idle",                   [CHARGE_DISCOUNT] = "discount",   [CHARGE_STORAGE] = "storage",
    };

    _Static_assert(CHARGE_COUNT == 8, "a component was added: give it a word");
    check(component < CHARGE_COUNT);
    return words[component];
}

const char *tenant_text(char *const *tenant_names, uint32_t tenants_count, uint32_t tenant, char *ret_text)
{
    check(tenant <= tenants_count);
    if (tenant == tenants_count)
        snprintf(ret_text, TENANT_TEXT_MAX, "platform");
    else if (tenant_names != NULL && tenant_names[tenant] != NULL)
        snprintf(ret_text, TENANT_TEXT_MAX, "%s", tenant_names[tenant]);
    else
        snprintf(ret_text, TENANT_TEXT_MAX, "tenant-%u", tenant);
    return ret_text;
}
