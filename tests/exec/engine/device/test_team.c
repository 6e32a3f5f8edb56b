/* Threads of an op: everyone runs, everyone meets, nobody passes early; and ranks that sum. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "engine/device/ranks.h"
#include "engine/device/team.h"
#include "support.h"

#define THREADS_MAX 5

struct rounds {
    struct team *team;
    int32_t value[THREADS_MAX]; /* each thread's own */
    uint32_t mistakes[THREADS_MAX];
    uint32_t rounds;
};

static void add_and_look(void *context, uint32_t thread)
{
    struct rounds *rounds = context;

    for (uint32_t round = 0; round < rounds->rounds; round++) {
        rounds->value[thread]++;
        team_meet(rounds->team);
        for (uint32_t other = 0; other < team_threads(rounds->team); other++)
            if (rounds->value[other] != rounds->value[thread])
                rounds->mistakes[thread]++;
        team_meet(rounds->team);
    }
}

static void every_thread_runs_and_meets_the_others(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
        struct rounds rounds = {.team = team_open(threads), .rounds = 50};

        assert_non_null(rounds.team);
        for (int run = 0; run < 40; run++)
            team_run(rounds.team, add_and_look, &rounds);
        for (uint32_t thread = 0; thread < threads; thread++) {
            assert_int_equal(rounds.value[thread], 40 * 50);
            assert_int_equal(rounds.mistakes[thread], 0);
        }
        team_close(rounds.team);
    }
}

/* Longer than anybody spins, so that the others sleep. */
static void dawdle(void *context, uint32_t thread)
{
    const struct timespec nap = {.tv_nsec = 300000};
    struct rounds *rounds = context;

    if (thread == rounds->rounds % team_threads(rounds->team))
        nanosleep(&nap, NULL);
    add_and_look(context, thread);
}

static void a_thread_that_comes_late_wakes_the_others(void **state)
{
    struct rounds rounds = {.team = team_open(3), .rounds = 1};
    const struct timespec nap = {.tv_nsec = 200000};

    (void)state;
    assert_non_null(rounds.team);
    for (; rounds.rounds <= 30; rounds.rounds++) {
        nanosleep(&nap, NULL);
        team_run(rounds.team, dawdle, &rounds);
    }
    assert_int_equal(rounds.mistakes[0] + rounds.mistakes[1] + rounds.mistakes[2], 0);
    assert_int_equal(rounds.value[0], 31 * 15);
    team_close(rounds.team);
}

struct taking {
    struct tasks tasks;
    uint8_t taken[1000];
};

static void take_all(void *context, uint32_t thread)
{
    struct taking *taking = context;
    int64_t task;

    (void)thread;
    while (tasks_take(&taking->tasks, &task))
        taking->taken[task]++;
}

static void every_task_is_taken_once(void **state)
{
    static struct taking taking;
    struct team *team = team_open(3);

    (void)state;
    tasks_init(&taking.tasks, ARRAY_COUNT(taking.taken));
    team_run(team, take_all, &taking);
    for (size_t i = 0; i < ARRAY_COUNT(taking.taken); i++)
        assert_int_equal(taking.taken[i], 1);
    team_close(team);
}

#define RANKS 3
#define NUMBERS 101
struct rank {
    struct ranks *ranks;
    int32_t rank;
    float x[NUMBERS];
};

static void *sum_often(void *argument)
{
    struct rank *mine = argument;

    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < NUMBERS; i++)
            mine->x[i] = (float)(i + 1) * (mine->rank == 0 ? 1e8f : mine->rank == 1 ? -1e8f : 1) + (float)round;
        ranks_sum(mine->ranks, mine->rank, mine->x, NUMBERS);
    }
    return NULL;
}

static void ranks_sum_in_their_order(void **state)
{
    static struct rank rank[RANKS];
    struct ranks *ranks = ranks_open(RANKS);
    pthread_t thread[RANKS];

    (void)state;
    for (int r = 0; r < RANKS; r++) {
        rank[r].ranks = ranks;
        rank[r].rank = r;
        assert_int_equal(pthread_create(&thread[r], NULL, sum_often, &rank[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < NUMBERS; i++) {
            float expected = (float)(i + 1) * 1e8f + 199.0f;

            expected += (float)(i + 1) * -1e8f + 199.0f;
            expected += (float)(i + 1) + 199.0f;
            assert_true(rank[r].x[i] == expected);
        }
    ranks_close(ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_and_meets_the_others),
        cmocka_unit_test(a_thread_that_comes_late_wakes_the_others),
        cmocka_unit_test(every_task_is_taken_once),
        cmocka_unit_test(ranks_sum_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
