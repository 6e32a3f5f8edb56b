#include "sim/engine/theory.h"

#include <math.h>

#include "support.h"

double theory_erlang_c(uint32_t servers, double load)
{
    double blocking = 1;
    double rho = load / servers;

    for (uint32_t k = 1; k <= servers; k++)
        blocking = load * blocking / (k + load * blocking);
    return blocking / (1 - rho + rho * blocking);
}

double theory_wait_cv(double waiting)
{
    return sqrt((2 - waiting) / waiting);
}

double theory_relative_error(double rate, double servers, double duration, double cv)
{
    double slack = 1 - sqrt(rate / servers);

    return cv * sqrt(2 / (servers * slack * slack) / duration);
}

void theory_expect(const char *what, double got, double theory, double floor, double error)
{
    double tolerance = 4 * error > floor ? 4 * error : floor;

    print_message("%s: simulated %.4f, theory %.4f (%+.2f%%, tolerance %.1f%%)\n", what, got, theory,
                  (got / theory - 1) * 100, tolerance * 100);
    if (!(fabs(got / theory - 1) <= tolerance))
        fail_msg("%s: simulated %g, theory %g, tolerance %g", what, got, theory, tolerance);
}
