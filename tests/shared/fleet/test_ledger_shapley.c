/* Sharing a base is a game: a coalition's cost is the base's price over the union of its claims' times. The equal
 * split among live claims is its Shapley value, which lies in the core. Both are worked out here by enumeration. */
#include <stdlib.h>

#include "fleet/ledger.h"
#include "support.h"

#define HOUR_NS (3600 * NS_PER_S)
enum { TENANTS_MOST = 5, SPANS_MOST = 2, GAME_S = 100 };

struct game {
    uint32_t tenants;
    int64_t price;
    uint64_t base_bytes;                         /* of 1000 */
    uint32_t from_s[TENANTS_MOST][SPANS_MOST];   /* an empty span: no claim */
    uint32_t until_s[TENANTS_MOST][SPANS_MOST];
};

static struct game game_draw(uint64_t *random)
{
    struct game game = {.tenants = 2 + (uint32_t)draw_below(random, TENANTS_MOST - 1)};

    game.price = 1 + (int64_t)draw_below(random, 9000000000);
    game.base_bytes = 1 + draw_below(random, 1000);
    for (uint32_t t = 0; t < game.tenants; t++)
        for (uint32_t i = 0; i < SPANS_MOST; i++) {
            game.from_s[t][i] = (uint32_t)draw_below(random, GAME_S);
            game.until_s[t][i] = game.from_s[t][i] + (uint32_t)draw_below(random, GAME_S + 1 - game.from_s[t][i]);
        }
    if (draw_below(random, 3) == 0) { /* one that never claims */
        memcpy(game.until_s[0], game.from_s[0], sizeof(game.from_s[0]));
    } else if (draw_below(random, 2) == 0) { /* two alike */
        memcpy(game.from_s[1], game.from_s[0], sizeof(game.from_s[0]));
        memcpy(game.until_s[1], game.until_s[0], sizeof(game.until_s[0]));
    }
    return game;
}

static bool claims_at(const struct game *game, uint32_t tenant, uint32_t second)
{
    for (uint32_t i = 0; i < SPANS_MOST; i++)
        if (game->from_s[tenant][i] <= second && second < game->until_s[tenant][i])
            return true;
    return false;
}

/* The seconds that somebody of the coalition claims. */
static uint32_t worth_s(const struct game *game, uint32_t coalition)
{
    uint32_t seconds = 0;

    for (uint32_t second = 0; second < GAME_S; second++)
        for (uint32_t t = 0; t < game->tenants; t++)
            if ((coalition >> t & 1) != 0 && claims_at(game, t, second)) {
                seconds++;
                break;
            }
    return seconds;
}

static uint32_t factorial(uint32_t n)
{
    return n <= 1 ? 1 : n * factorial(n - 1);
}

/* Shapley's sum over coalitions without the tenant, in seconds times n!. */
static uint64_t shapley_s(const struct game *game, const uint32_t *worth, uint32_t tenant)
{
    uint64_t sum = 0;

    for (uint32_t coalition = 0; coalition < 1u << game->tenants; coalition++) {
        uint32_t size = 0;

        if ((coalition >> tenant & 1) != 0)
            continue;
        for (uint32_t t = 0; t < game->tenants; t++)
            size += coalition >> t & 1;
        sum += (uint64_t)factorial(size) * factorial(game->tenants - size - 1) *
               (worth[coalition | 1u << tenant] - worth[coalition]);
    }
    return sum;
}

static void game_play(const struct game *game, struct ledger *ledger)
{
    ledger_gpu_up(ledger, 0, 0, game->price, 1000);
    ledger_base_on(ledger, 0, 0, 3, game->base_bytes, false);
    for (uint32_t second = 0; second <= GAME_S; second++)
        for (uint32_t t = 0; t < game->tenants; t++)
            for (uint32_t i = 0; i < SPANS_MOST; i++) {
                uint32_t job = t * SPANS_MOST + i;

                if (game->from_s[t][i] == game->until_s[t][i])
                    continue;
                if (second == game->until_s[t][i])
                    ledger_claim_off(ledger, 0, second * NS_PER_S, job);
                if (second == game->from_s[t][i])
                    ledger_claim_on(ledger, 0, second * NS_PER_S, job, t, 3, 0, 0, false);
            }
    ledger_settle(ledger, GAME_S * NS_PER_S);
    ledger_check(ledger);
}

/* price * share * seconds / hour / divisor, rounded down to nano. */
static int64_t nano_of(const struct game *game, uint64_t seconds, uint64_t divisor)
{
    uint128 rate = (uint128)(uint64_t)game->price * game->base_bytes; /* share: bytes / 1000 */

    return (int64_t)(rate * seconds / 3600 / 1000 / divisor);
}

static void equal_split_among_live_claims_is_the_shapley_value_and_in_the_core(void **state)
{
    (void)state;
    enum { GAMES = 300 };
    uint64_t seed = test_seed(1);
    uint64_t random = seed;
    struct ledger_config config = {.gpus_max = 1, .tenants_max = TENANTS_MOST, .claims_max = TENANTS_MOST * SPANS_MOST,
                                   .usage_factor_milli = 1000, .memory_milli = 1000};
    void *memory = malloc(ledger_bytes(&config));

    for (uint32_t turn = 0; turn < GAMES; turn++) {
        struct game game = game_draw(&random);
        struct ledger *ledger = ledger_create(memory, ledger_bytes(&config), &config);
        uint32_t worth[1u << TENANTS_MOST];
        int64_t paid[TENANTS_MOST];

        game_play(&game, ledger);
        for (uint32_t coalition = 0; coalition < 1u << game.tenants; coalition++)
            worth[coalition] = worth_s(&game, coalition);
        for (uint32_t t = 0; t < game.tenants; t++) {
            int64_t value = nano_of(&game, shapley_s(&game, worth, t), factorial(game.tenants));

            paid[t] = ledger_account(ledger, t, CHARGE_RESIDENCY);
            if (paid[t] > value || paid[t] < value - 1 || paid[t] != ledger_account_total(ledger, t))
                fail_msg("seed %llu game %u tenant %u: paid %lld, Shapley value %lld",
                         (unsigned long long)seed, turn, t, (long long)paid[t], (long long)value);
        }
        for (uint32_t coalition = 0; coalition < 1u << game.tenants; coalition++) {
            int64_t together = 0;

            for (uint32_t t = 0; t < game.tenants; t++)
                together += (coalition >> t & 1) != 0 ? paid[t] : 0;
            if (together > nano_of(&game, worth[coalition], 1))
                fail_msg("seed %llu game %u coalition %x: pays %lld, alone %lld",
                         (unsigned long long)seed, turn, coalition, (long long)together,
                         (long long)nano_of(&game, worth[coalition], 1));
        }
        for (uint32_t t = 1; t < game.tenants; t++)
            if (memcmp(game.from_s[0], game.from_s[t], sizeof(game.from_s[0])) == 0 &&
                memcmp(game.until_s[0], game.until_s[t], sizeof(game.until_s[0])) == 0)
                assert_int_equal(paid[0], paid[t]);
        if (worth[1] == 0)
            assert_int_equal(ledger_account_total(ledger, 0), 0);
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_split_among_live_claims_is_the_shapley_value_and_in_the_core),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
