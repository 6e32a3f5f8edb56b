/* What this build is called; results and pages carry it. */
#ifndef HOST_VERSION_H
#define HOST_VERSION_H

#define BERTH_VERSION "0.1.0"

#endif
