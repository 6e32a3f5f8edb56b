/* How hot an adapter is: a counter of its recent requests that halves every half-life, against the same counter of
 * its pool. Time is cut into epochs of half_life / 64 on an absolute grid, and a counter is decayed when it is touched,
 * by a whole number of epochs; so the decays between two instants multiply to the same factor however often it was
 * touched on the way.
 *
 * Error: an instant is off by less than an epoch, so a request counts up to 2^(1/64), 1.1%, too much or too little; a
 * decay rounds down by less than one unit of 2^-20 request, and these add up to less than 1 / (1 - 2^(-1/64)) = 93
 * units, a ten-thousandth of a request. */
#include "fleet/state.h"

/* round(2^32 * 2^(-i / 64)) */
static const uint64_t decay[RATE_EPOCHS] = {
    4294967296, 4248701965, 4202935003, 4157661043, 4112874773, 4068570940, 4024744348, 3981389855,
    3938502376, 3896076880, 3854108391, 3812591987, 3771522796, 3730896002, 3690706840, 3650950594,
    3611622603, 3572718252, 3534232978, 3496162267, 3458501653, 3421246719, 3384393094, 3347936457,
    3311872529, 3276197082, 3240905930, 3205994934, 3171459999, 3137297074, 3103502151, 3070071267,
    3037000500, 3004285971, 2971923842, 2939910317, 2908241642, 2876914102, 2845924021, 2815267765,
    2784941738, 2754942382, 2725266179, 2695909648, 2666869345, 2638141863, 2609723834, 2581611923,
    2553802834, 2526293303, 2499080105, 2472160047, 2445529972, 2419186755, 2393127307, 2367348571,
    2341847524, 2316621173, 2291666561, 2266980759, 2242560872, 2218404036, 2194507417, 2170868212,
};

/* An adapter needs this many recent requests for each home after the first: a share of fewer is noise, and a pool just
 * started would give its first customer every replica. */
#define HOME_REQUESTS_MIN 16

void rate_clock(struct fleet *fleet, int64_t at_ns)
{
    if (at_ns < fleet->epoch_until_ns)
        return;
    fleet->epoch = (uint64_t)(at_ns / fleet->epoch_ns);
    fleet->epoch_until_ns = at_ns - at_ns % fleet->epoch_ns;
    fleet->epoch_until_ns = fleet->epoch_until_ns > INT64_MAX - fleet->epoch_ns
                                ? INT64_MAX : fleet->epoch_until_ns + fleet->epoch_ns;
}

uint64_t rate_now(const struct rate *rate, uint64_t epoch)
{
    uint64_t epochs = epoch - rate->epoch;

    if (epochs == 0)
        return rate->value;
    if (epochs >= 64 * RATE_EPOCHS)
        return 0;
    return (uint64_t)(((uint128)rate->value * decay[epochs % RATE_EPOCHS]) >> 32) >> epochs / RATE_EPOCHS;
}

void rate_add(struct rate *rate, uint64_t epoch, uint32_t count)
{
    uint64_t now = rate_now(rate, epoch);

    rate->value = now > UINT64_MAX - count * RATE_ONE ? UINT64_MAX : now + count * RATE_ONE;
    rate->epoch = epoch;
}

void rate_add_one(struct rate *rate, uint64_t epoch)
{
    rate_add(rate, epoch, 1);
}

/* round(10^9 / ln 2): a counter of a steady stream holds what comes in so many half-lives. */
#define HALF_LIVES_NANO 1442695041u

/* Thousandths and seconds are divided out one by one, so that the products stay within 128 bits. */
uint64_t rate_of_stream(const struct fleet *fleet, uint64_t per_s_milli)
{
    uint128 held = (uint128)per_s_milli * RATE_ONE * ((uint64_t)fleet->epoch_ns * RATE_EPOCHS) / NS_PER_S;

    held = held * HALF_LIVES_NANO / (UINT64_C(1000) * NS_PER_S);
    check(held < UINT64_MAX);
    return (uint64_t)held;
}

uint64_t rate_stream_milli(const struct fleet *fleet, uint64_t value)
{
    uint128 spread = (uint128)HALF_LIVES_NANO * ((uint64_t)fleet->epoch_ns * RATE_EPOCHS) / NS_PER_S;

    return (uint64_t)((uint128)value * 1000 * NS_PER_S / RATE_ONE / max_u64((uint64_t)spread, 1));
}

/* The k-th home is gained above (k - 1) lines and lost below cool_milli of that. A line is hot_share_milli of a
 * replica's fair share of the pool's requests. All sides are multiplied by 1000 * 1000 * pool->count. */
void rate_heat(struct fleet *fleet, struct fleet_adapter *adapter, struct fleet_pool *pool)
{
    rate_add_one(&adapter->rate, fleet->epoch);

    uint128 heat = (uint128)adapter->rate.value * pool->count * 1000;
    uint128 line = (uint128)pool->rate.value * fleet->config.hot_share_milli;
    uint128 line_min = (uint128)HOME_REQUESTS_MIN * RATE_ONE * pool->count * 1000;

    if (line < line_min)
        line = line_min;
    while (adapter->homes < pool->count && heat > adapter->homes * line)
        adapter->homes++;
    while (adapter->homes > 1 && heat * 1000 < (adapter->homes - 1u) * line * fleet->config.cool_milli)
        adapter->homes--;
}
