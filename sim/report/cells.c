#include "report/cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static struct cell not_known(void)
{
    return (struct cell){"n/a"};
}

static struct cell decimals(double value, int count, const char *unit)
{
    struct cell cell;

    snprintf(cell.text, sizeof(cell.text), "%.*f%s", count, value, unit);
    return cell;
}

static struct cell digits(double value, const char *unit)
{
    const double size = fabs(value);

    return decimals(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, unit);
}

struct cell cell_time(double ns)
{
    if (!isfinite(ns))
        return not_known();
    if (ns == 0)
        return (struct cell){"0"};
    if (ns < 999.5e3)
        return digits(ns * 1e-3, "us");
    if (ns < 999.5e6)
        return digits(ns * 1e-6, "ms");
    return digits(ns * 1e-9, "s");
}

struct cell cell_quantity(double value)
{
    const double size = fabs(value);

    if (!isfinite(value))
        return not_known();
    if (size > 0 && size < 0.0995)
        return decimals(value, 3, "");
    if (size < 9999.5)
        return digits(value, "");
    if (size < 999.5e3)
        return digits(value * 1e-3, "k");
    if (size < 999.5e6)
        return digits(value * 1e-6, "M");
    return digits(value * 1e-9, "G");
}

struct cell cell_percent(double share)
{
    if (share == 0)
        return (struct cell){"0%"};
    /* Five characters, like all the others: columns are six wide. */
    if (share > 0 && share < 0.5e-4)
        return (struct cell){"<.01%"};
    return isfinite(share) ? digits(share * 100, "%") : not_known();
}

struct cell cell_ratio(double ratio)
{
    return isfinite(ratio) ? digits(ratio, "") : not_known();
}

struct cell cell_span(double seconds)
{
    if (!isfinite(seconds) || seconds < 119.5)
        return cell_time(seconds * 1e9);
    if (seconds < 119.5 * 60)
        return digits(seconds / 60, "min");
    if (seconds < 99.5 * 3600)
        return digits(seconds / 3600, "h");
    return digits(seconds / 86400, "d");
}

struct cell cell_money(int64_t nano)
{
    const uint64_t size = nano < 0 ? 0 - (uint64_t)nano : (uint64_t)nano;
    const uint64_t cents = size / 10000000 + (size % 10000000 >= 5000000);
    struct cell cell;

    if (size > 0 && size < 995000000)
        return cell_price((double)nano / 1e9);
    snprintf(cell.text, sizeof(cell.text), "%s%" PRIu64 ".%02" PRIu64, nano < 0 ? "-" : "", cents / 100, cents % 100);
    return cell;
}

struct cell cell_price(double amount)
{
    struct cell cell;

    if (!isfinite(amount))
        return not_known();
    if (amount == 0)
        return (struct cell){"0"};
    if (fabs(amount) >= 0.995)
        return fabs(amount) < 1e9 ? decimals(amount, 2, "") : cell_quantity(amount);
    snprintf(cell.text, sizeof(cell.text), fabs(amount) < 1e-4 ? "%.2e" : "%.3g", amount);
    return cell;
}
