#include "workload/season.h"

#include <math.h>

#define WEEK_S (SEASON_DAY_S * SEASON_DAYS)
#define RADIANS_PER_S (6.283185307179586476925286766559 / SEASON_DAY_S)

void season_init(struct season *season, double amplitude, double peak_h, double weekend_ratio)
{
    double mean = (5 + 2 * weekend_ratio) / SEASON_DAYS;

    *season = (struct season){.amplitude = amplitude, .peak_s = peak_h * 3600};
    for (uint32_t day = 0; day < SEASON_DAYS; day++)
        season->height[day] = (day < 5 ? 1 : weekend_ratio) / mean;
    season->flat = amplitude <= 0 && season->height[0] >= 1 && season->height[0] <= 1;
}

/* The integral of 1 + amplitude * cos(second - peak) over the first `second_s` of a day; a whole day's is itself. */
static double day_integral(const struct season *season, double second_s)
{
    return second_s + season->amplitude / RADIANS_PER_S *
                          (sin(RADIANS_PER_S * (second_s - season->peak_s)) + sin(RADIANS_PER_S * season->peak_s));
}

static double day_height(const struct season *season, double second_s)
{
    return 1 + season->amplitude * cos(RADIANS_PER_S * (second_s - season->peak_s));
}

static uint32_t day_of(double at_s)
{
    double day = fmod(floor(at_s / SEASON_DAY_S), SEASON_DAYS);

    return (uint32_t)day;
}

double season_integral(const struct season *season, double at_s)
{
    uint32_t today = day_of(at_s);
    double mean_s = floor(at_s / WEEK_S) * WEEK_S;

    if (season->flat)
        return at_s;
    for (uint32_t day = 0; day < today; day++)
        mean_s += season->height[day] * SEASON_DAY_S;
    return mean_s + season->height[today] * day_integral(season, fmod(at_s, SEASON_DAY_S));
}

/* Newton from the last answer, inside a bracket that halves when a step leaves it (the shape may touch zero at night).
 * Arrivals are close together, so two steps usually do. */
static double day_inverse(const struct season *season, double wanted_s)
{
    double low_s = 0;
    double high_s = SEASON_DAY_S;
    double second_s = season->guess_s;

    for (uint32_t turn = 0; turn < 100; turn++) {
        double excess_s = day_integral(season, second_s) - wanted_s;
        double height = day_height(season, second_s);
        double next_s;

        if (excess_s > 0)
            high_s = second_s;
        else if (excess_s < 0)
            low_s = second_s;
        else
            return second_s;
        next_s = height > 0 ? second_s - excess_s / height : low_s;
        if (next_s <= low_s || next_s >= high_s)
            next_s = low_s + (high_s - low_s) / 2;
        if (fabs(next_s - second_s) < 1e-9)
            return next_s;
        second_s = next_s;
    }
    return second_s;
}

double season_inverse(struct season *season, double mean_s)
{
    double week = floor(mean_s / WEEK_S);
    double rest_s = mean_s - week * WEEK_S;
    uint32_t day = 0;

    if (season->flat)
        return mean_s;
    while (day < SEASON_DAYS && rest_s >= season->height[day] * SEASON_DAY_S)
        rest_s -= season->height[day++] * SEASON_DAY_S;
    if (day == SEASON_DAYS) /* only rounding leads here */
        return (week + 1) * WEEK_S;
    season->guess_s = day_inverse(season, rest_s / season->height[day]);
    return week * WEEK_S + day * SEASON_DAY_S + season->guess_s;
}
