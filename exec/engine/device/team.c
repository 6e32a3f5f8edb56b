#include "engine/device/team.h"

#include <pthread.h>
#include <stdlib.h>

struct member {
    struct team *team;
    pthread_t thread;
    uint32_t number;
};

struct team {
    struct word order;     /* goes up by one with each run */
    struct word left;      /* threads still at work, the caller left out */
    struct meeting meeting;
    void (*act)(void *context, uint32_t thread); /* NULL: go home */
    void *context;
    uint32_t threads;
    uint32_t started;      /* members with a thread */
    struct member member[];
};

void meeting_init(struct meeting *meeting, uint32_t members)
{
    memset(meeting, 0, sizeof(*meeting));
    meeting->members = members;
}

void meeting_join(struct meeting *meeting)
{
    uint32_t round = word_get(&meeting->round);

    if (atomic_fetch_add(&meeting->arrived, 1) + 1 < meeting->members) {
        word_wait(&meeting->round, round);
        return;
    }
    atomic_store_explicit(&meeting->arrived, 0, memory_order_relaxed);
    atomic_fetch_add(&meeting->round.value, 1);
    word_wake(&meeting->round);
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    uint32_t seen = 0;

    for (;;) {
        word_wait(&team->order, seen);
        seen++;
        if (team->act == NULL)
            return NULL;
        team->act(team->context, member->number);
        if (atomic_fetch_sub(&team->left.value, 1) == 1)
            word_wake(&team->left);
    }
}

static void give_order(struct team *team)
{
    atomic_store_explicit(&team->left.value, team->started, memory_order_relaxed);
    atomic_fetch_add(&team->order.value, 1);
    word_wake(&team->order);
}

struct team *team_open(uint32_t threads)
{
    size_t bytes = sizeof(struct team) + threads * sizeof(struct member);
    struct team *team = aligned_alloc(64, (bytes + 63) / 64 * 64);

    check(threads >= 1);
    if (team == NULL)
        return NULL;
    memset(team, 0, bytes);
    team->threads = threads;
    meeting_init(&team->meeting, threads);
    while (team->started < threads - 1) {
        struct member *member = &team->member[team->started];

        member->team = team;
        member->number = team->started + 1;
        if (pthread_create(&member->thread, NULL, member_main, member) != 0) {
            team_close(team);
            return NULL;
        }
        team->started++;
    }
    return team;
}

void team_close(struct team *team)
{
    if (team == NULL)
        return;
    team->act = NULL;
    give_order(team);
    for (uint32_t i = 0; i < team->started; i++)
        pthread_join(team->member[i].thread, NULL);
    free(team);
}

uint32_t team_threads(const struct team *team)
{
    return team->threads;
}

void team_run(struct team *team, void (*act)(void *context, uint32_t thread), void *context)
{
    uint32_t left;

    if (team->threads > 1) {
        team->act = act;
        team->context = context;
        give_order(team);
    }
    act(context, 0);
    while (team->threads > 1 && (left = word_get(&team->left)) != 0)
        word_wait(&team->left, left);
}

void team_meet(struct team *team)
{
    if (team->threads > 1)
        meeting_join(&team->meeting);
}
