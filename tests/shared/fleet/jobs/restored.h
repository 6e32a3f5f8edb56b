/* A second core, told what the first one exports; and whether the two go on alike. */
#ifndef JOBS_RESTORED_H
#define JOBS_RESTORED_H

#include "fleet/fleet.h"

struct restored {
    struct fleet *fleet;
    void *memory;
    struct fleet_exported exported;
    struct fleet_commands said; /* at RESTORE_DONE */
};

/* Fails when a command is said before RESTORE_DONE. */
void restored_open(struct restored *restored, struct fleet *from, const struct fleet_config *config);
void restored_close(struct restored *restored);
/* What is under way that a restart forgets. */
uint32_t restored_plans(struct fleet *fleet);
/* Whether what a restart keeps is not the same in both, and what. */
bool restored_differs(struct fleet *one, struct fleet *other, char *ret_text, size_t bytes);

#endif
