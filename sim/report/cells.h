/* Numbers as a person reads them in a narrow column: three significant digits and a unit that keeps them short. NaN is
 * "n/a" everywhere. */
#ifndef REPORT_CELLS_H
#define REPORT_CELLS_H

#include "base/base.h"

struct cell {
    char text[24];
};

struct cell cell_time(double ns);           /* 0, 12.3us, 12.3ms, 1.23s, 1230s */
struct cell cell_quantity(double value);    /* 1.23, 1230, 12.3k, 1.23M, 1.23G */
struct cell cell_percent(double share);     /* 0.123 is 12.3% */
struct cell cell_span(double seconds);      /* 0, 12.3ms, 12.3s, 12.3min, 12.3h, 12.3d */
struct cell cell_money(int64_t nano);       /* of a currency, two places: 1234567.89; small amounts: 0.00123 */
struct cell cell_price(double amount);      /* 0.00123, 1.23, 1234 */
struct cell cell_ratio(double ratio);       /* 1.03 */

#endif
