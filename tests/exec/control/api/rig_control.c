/* A verb, so that the keeper can start this program as it would start berth-exec. */
#include "cmd_control.c"

const char *admin_state_folder(void)
{
    return "berth-state";
}
