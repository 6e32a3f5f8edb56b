/* What the keeper does, as in berth-exec. */
#include "cmd_control_gpus.c"
