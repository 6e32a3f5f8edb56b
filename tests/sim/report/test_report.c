#include "sim/report/synthetic.h"
#include "support.h"
#include "report/report.h"
#include <stdlib.h>
int main(int argc, char **argv)
{
    static struct summary s[8];
    static const struct synthetic_variant v[] = {{"affinity", 0.9, 0.8, 20000}, {"sticky", 0.82, 0.93, 20000}, {"round-robin", 0.35, 1.04, 20000}};
    synthetic_write("/tmp/r/x.h5", "name: <script>alert(1)</script>\n", 7, v, 3, s);
    return report_write(argc > 1 ? argv[1] : "/tmp/r/report", "/tmp/r/x.h5", s, 3, "name: <script>alert(1)</script>\n", stderr);
}
