/* Closed loop: each user asks, waits for the answer, thinks and asks again, so that a slow fleet is asked less. A
 * session is a conversation with one adapter; after its last turn the user starts another. What a user does depends on
 * the seed, the user and the turn alone, never on the order in which the fleet answers: two policies meet the same
 * users. */
#include <math.h>
#include <stdlib.h>

#include "workload/kind.h"

struct user {
    uint32_t adapter;         /* index; 0: the base */
    uint32_t tenant;
    uint32_t session;         /* sessions begun, from 1 */
    uint32_t request;         /* requests begun, from 1 */
    uint32_t turns_left;      /* 0: the next request begins a session */
    uint32_t context_tokens;  /* of the turns so far */
    uint16_t base;
    bool waiting;             /* for an answer, perhaps through retries; else in `thinking` */
};

/* A user who thinks; those who wait for an answer are in no list. */
struct thought {
    int64_t at_ns;
    uint32_t user;
    uint32_t zero;
};

struct sessions {
    struct user *users;       /* [users_count] */
    uint32_t users_count;
    struct heap thinking;     /* of struct thought */
};

static bool thought_before(const void *a, const void *b)
{
    const struct thought *x = a;
    const struct thought *y = b;

    return x->at_ns != y->at_ns ? x->at_ns < y->at_ns : x->user < y->user;
}

static double unit_of(const struct source *source, enum rng_purpose purpose, uint32_t user, uint32_t ordinal)
{
    return rng_unit_at(&source->streams.of[purpose], (uint64_t)user << 32 | ordinal);
}

static void think(struct source *source, uint32_t index, int64_t now_ns)
{
    struct sessions *sessions = source->state;
    double mean_ns = source->scenario->workload.sessions.think_s * (double)NS_PER_S;
    double wait_ns = -log(unit_of(source, RNG_THINK, index, sessions->users[index].request)) * mean_ns;
    struct thought thought = {.user = index};

    if (wait_ns > (double)(source->duration_ns - now_ns))
        return; /* the run ends before */
    thought.at_ns = now_ns + (int64_t)wait_ns;
    heap_push(&sessions->thinking, &thought);
}

static enum status sessions_open(struct source *source, FILE *errors)
{
    struct sessions *sessions = calloc(1, sizeof(*sessions));
    uint32_t count = (uint32_t)source->scenario->workload.sessions.users;

    source->state = sessions;
    if (sessions == NULL)
        goto no_memory;
    sessions->users_count = count;
    sessions->users = calloc(count, sizeof(*sessions->users));
    if (sessions->users == NULL ||
        heap_open(&sessions->thinking, count, sizeof(struct thought), thought_before) != STATUS_OK)
        goto no_memory;
    for (uint32_t i = 0; i < count; i++)
        think(source, i, 0);
    return catalog_open(&source->catalog, source->scenario, &source->streams, NULL, 0, errors);
no_memory:
    fprintf(errors, "workload.sessions.users: not enough memory for %u users\n", count);
    return STATUS_FULL;
}

static void sessions_close(struct source *source)
{
    struct sessions *sessions = source->state;

    if (sessions == NULL)
        return;
    heap_close(&sessions->thinking);
    free(sessions->users);
    free(sessions);
}

static int64_t sessions_next_at_ns(struct source *source)
{
    const struct sessions *sessions = source->state;
    const struct thought *thought = heap_top(&sessions->thinking);

    return thought != NULL ? thought->at_ns : NEVER_NS;
}

static uint32_t geometric(double mean, double unit)
{
    double value = ceil(log1p(-unit) / log1p(-1 / mean));

    return value < 1 ? 1 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* The distinct law goes by session and user here: the order of the others' sessions must not matter. */
static void begin_session(struct source *source, uint32_t index)
{
    struct sessions *sessions = source->state;
    struct user *user = &sessions->users[index];
    uint64_t ordinal = (uint64_t)user->session * sessions->users_count + index;
    struct arrival asked = {0};
    struct luck luck;

    user->session++;
    luck = (struct luck){
        .choice = unit_of(source, RNG_CHOICES, index, user->session),
        .adapter = unit_of(source, RNG_ADAPTERS, index, user->session),
        .base = unit_of(source, RNG_BASES, index, user->session),
        .tenant = unit_of(source, RNG_TENANTS, index, user->session),
    };
    if (source_wants_base(source, &luck))
        source_ask_base(source, &luck, &asked);
    else
        source_ask_by_law(source, &luck, ordinal, &asked);
    user->adapter = asked.adapter.index;
    user->tenant = asked.tenant.value;
    user->base = asked.base.value;
    user->context_tokens = 0;
    user->turns_left = geometric(source->scenario->workload.sessions.turns,
                                 unit_of(source, RNG_TURNS, index, user->session));
}

static enum status sessions_take(struct source *source, struct arrival *ret_arrival)
{
    struct sessions *sessions = source->state;
    struct thought thought;
    struct user *user;
    uint32_t prompt_tokens;

    heap_pop(&sessions->thinking, &thought);
    user = &sessions->users[thought.user];
    if (user->turns_left == 0)
        begin_session(source, thought.user);
    user->turns_left--;
    user->request++;
    user->waiting = true;
    prompt_tokens = lengths_at(&source->prompt, unit_of(source, RNG_PROMPTS, thought.user, user->request));
    ret_arrival->session = thought.user;
    ret_arrival->prompt_tokens = min_u32(user->context_tokens + prompt_tokens, source->prompt.max_tokens);
    ret_arrival->output_tokens = lengths_at(&source->output, unit_of(source, RNG_OUTPUTS, thought.user, user->request));
    ret_arrival->tenant = (tenant_id){user->tenant};
    ret_arrival->base = (base_id){user->base};
    if (user->adapter != 0) {
        ret_arrival->adapter = catalog_current(&source->catalog, user->adapter);
        ret_arrival->base = catalog_fact(&source->catalog, user->adapter).base;
    }
    return STATUS_OK;
}

/* A turn that brought no answer leaves nothing in the conversation. */
static void sessions_over(struct source *source, const struct arrival *arrival, int64_t at_ns,
                          enum request_outcome outcome)
{
    struct sessions *sessions = source->state;
    struct user *user;

    check(arrival->session < sessions->users_count);
    user = &sessions->users[arrival->session];
    check(user->waiting);
    user->waiting = false;
    if (outcome == OUTCOME_DONE && source->scenario->workload.sessions.grow_prompt)
        user->context_tokens = min_u32(arrival->prompt_tokens + arrival->output_tokens, source->prompt.max_tokens);
    think(source, arrival->session, at_ns);
}

static void sessions_say(const struct source *source, struct notes *notes)
{
    const struct keys_sessions *keys = &source->scenario->workload.sessions;
    char users[NUMBER_TEXT_MAX];
    char think_s[NUMBER_TEXT_MAX];
    char turns[NUMBER_TEXT_MAX];

    notes_say(notes, "Closed loop: %s users wait for each answer and think %s s on average before they ask again, so a "
                     "slower fleet is asked less.",
              count_text(keys->users, users), notes_real(keys->think_s, think_s));
    notes_say(notes, "A session is with one adapter and has %s turns on average%s.", notes_real(keys->turns, turns),
              keys->grow_prompt ? "; each prompt contains the turns before it" : "");
    source_say_law(source, notes, "");
    source_say_base_share(source, notes);
    source_say_lengths(source, notes, true, true);
}

const struct source_kind source_sessions = {
    .open = sessions_open,
    .close = sessions_close,
    .next_at_ns = sessions_next_at_ns,
    .take = sessions_take,
    .over = sessions_over,
    .say = sessions_say,
};
