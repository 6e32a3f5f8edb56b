/* Usage with a half-life. What is used at t counts 2^(t / half_life), a number that never changes ("forward
 * decay": Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009); reading divides by 2^(now / half_life). Time is cut
 * into epochs of one half-life on an absolute grid: the fraction of an epoch is a multiplication when usage is
 * added, and whole epochs are shifts. So nothing is decayed twice: reading, and adding nothing, at any instants,
 * change not one bit, and adding at an earlier instant is the same as having added then.
 *
 * Error: a factor is right to 2^-56 of itself; each addition, and each shift, cuts less than 2^-32 GPU-ns. */
#include "fleet/quota_state.h"

#define FRACTION_BITS 32 /* of a value, below one GPU-ns */
#define VALUE_MAX ((int128)1 << 116) /* 2^84 GPU-ns: two million GPUs for as long as 64-bit time lasts */
#define ONE (UINT64_C(1) << 62)
#define LN2 UINT64_C(3196577161300663915) /* round(2^62 * ln 2) */

/* round(2^62 * 2^(i / 64)) */
static const uint64_t powers[64] = {
    4611686018427387904, 4661903986662671290, 4712668792719003884, 4763986391269842979,
    4815862801830788490, 4868304109465667592, 4921316465500308116, 4974906088244084429,
    5029079263719320435, 5083842346398635251, 5139201759950318048, 5195163997991819502,
    5251735624851448219, 5308923276338361494, 5366733660520940721, 5425173558513642752,
    5484249825272419512, 5543969390398799154, 5604339258952723100, 5665366512274234280,
    5727058308814112983, 5789421884973557729, 5852464555953009676, 5916193716610220111,
    5980616842327661685, 6045741489889385141, 6111575298367424380, 6178125990017853852,
    6245401371186603363, 6313409333225136570, 6382157853416100552, 6451654995909055045,
    6521908912666391106, 6592927844419550153, 6664720121635655541, 6737294165494670078,
    6810658488877194079, 6884821697363019841, 6959792490240559659, 7035579661527265796,
    7112192101001162095, 7189638795243608238, 7267928828693418961, 7347071384712461870,
    7427075746662858866, 7507951298995917514, 7589707528352920109, 7672354024677899536,
    7755900482342532474, 7840356701283281883, 7925732588150922155, 8012038157472581778,
    8099283532826439817, 8187478948029213993, 8276634748336579668, 8366761391656660532,
    8457869449776733335, 8549969609603290562, 8643072674415606502, 8737189565132953757,
    8832331321595618838, 8928509103859867100, 9025734193507008925, 9124017994966720698,
};

static uint64_t mul62(uint64_t a, uint64_t b)
{
    return (uint64_t)(((uint128)a * b) >> 62);
}

/* 2^62 * 2^(fraction / 2^62); fraction < 2^62. The table gives six bits; the rest, x < ln 2 / 64, goes through
 * the series of e^x up to x^6 / 6!, after which comes less than 2^-57. */
static uint64_t power_of_two(uint64_t fraction)
{
    uint64_t x = mul62(fraction & ((UINT64_C(1) << 56) - 1), LN2);
    uint64_t series = ONE + x / 6;

    for (uint64_t term = 5; term >= 1; term--)
        series = ONE + mul62(x, series) / term;
    return mul62(powers[fraction >> 56], series);
}

/* Towards zero on both sides: halving twice is quartering once, and what is given back cancels. */
static int128 halve(int128 value, uint64_t times)
{
    if (times >= 127)
        return 0;
    return value < 0 ? -(-value >> times) : value >> times;
}

/* Where in its epoch an instant lies, in 2^-62. */
static uint64_t fraction_at(const struct quota *quota, int64_t at_ns)
{
    uint64_t half_life_ns = (uint64_t)quota->config.half_life_ns;

    return (uint64_t)(((uint128)((uint64_t)at_ns % half_life_ns) << 62) / half_life_ns);
}

void quota_usage_add(struct quota *quota, uint32_t tenant, int64_t at_ns, int64_t gpu_ns)
{
    check(quota_knows(quota, tenant));
    check(at_ns >= 0);
    check(gpu_ns > INT64_MIN);

    struct quota_usage *usage = &quota->usages[tenant];
    uint64_t epoch = (uint64_t)(at_ns / quota->config.half_life_ns);
    uint64_t amount = (uint64_t)(gpu_ns < 0 ? -gpu_ns : gpu_ns);
    int128 value = (int128)(((uint128)amount * power_of_two(fraction_at(quota, at_ns))) >> (62 - FRACTION_BITS));

    if (epoch > usage->epoch) {
        usage->value = halve(usage->value, epoch - usage->epoch);
        usage->epoch = epoch;
    }
    value = halve(value, usage->epoch - epoch);
    usage->value += gpu_ns < 0 ? -value : value;
    check(usage->value < VALUE_MAX);
    check(usage->value > -VALUE_MAX);
}

/* As of the beginning of its epoch, where the stored value is the usage. More than 292 GPU-years are told as that. */
int64_t quota_usage(const struct quota *quota, uint32_t tenant, int64_t *ret_as_of_ns, uint32_t *ret_fraction)
{
    check(tenant < quota->config.tenants_max);

    const struct quota_usage *usage = &quota->usages[tenant];
    int128 gpu_ns = usage->value >> FRACTION_BITS;

    *ret_as_of_ns = (int64_t)usage->epoch * quota->config.half_life_ns;
    *ret_fraction = (uint32_t)usage->value;
    return gpu_ns > INT64_MAX ? INT64_MAX : gpu_ns <= INT64_MIN ? INT64_MIN + 1 : (int64_t)gpu_ns;
}

void quota_usage_restore(struct quota *quota, uint32_t tenant, int64_t as_of_ns, int64_t gpu_ns, uint32_t fraction)
{
    check(quota_knows(quota, tenant));
    check(quota->usages[tenant].value == 0);
    quota_usage_add(quota, tenant, max_i64(0, as_of_ns), gpu_ns > INT64_MIN ? gpu_ns : INT64_MIN + 1);
    quota->usages[tenant].value += fraction;
}

uint64_t quota_share_key(const struct quota *quota, uint32_t tenant, int64_t at_ns)
{
    check(quota_knows(quota, tenant));
    check(at_ns >= 0);

    const struct quota_usage *usage = &quota->usages[tenant];
    uint64_t epoch = (uint64_t)(at_ns / quota->config.half_life_ns);
    uint64_t fraction = fraction_at(quota, at_ns);

    check(epoch >= usage->epoch);

    int128 value = halve(usage->value, epoch - usage->epoch);

    if (value <= 0)
        return 0;

    /* v * 2^-f = v * 2^(1 - f) / 2, in two halves of 64 bits. */
    uint128 decayed = (uint128)value;

    if (fraction > 0) {
        uint64_t factor = power_of_two(ONE - fraction);

        decayed = (((decayed >> 64) * factor) << 1) + ((uint128)(uint64_t)decayed * factor >> 63);
    }
    decayed = decayed * 1000 / quota->nodes[tenant].weight_milli;
    decayed = (decayed + (UINT64_C(1) << (FRACTION_BITS - 1))) >> FRACTION_BITS;
    return decayed > UINT64_MAX ? UINT64_MAX : (uint64_t)decayed;
}
