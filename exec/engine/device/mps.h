/* NVIDIA's Multi-Process Service: with it processes run on one GPU at the same time, without it in turns. */
#ifndef DEVICE_MPS_H
#define DEVICE_MPS_H

#include "base/base.h"

/* Whether its daemon is among this machine's processes, as far as they are seen from here. ret_text: what was found, for a person. */
bool mps_runs_here(char *ret_text, size_t text_bytes);

#endif
