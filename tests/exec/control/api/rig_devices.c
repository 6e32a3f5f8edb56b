/* A verb, so that the keeper can start this program as it would start berth-exec. */
#include "cmd_devices.c"
