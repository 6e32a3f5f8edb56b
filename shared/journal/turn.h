/* The loop's body that every host shares: step, record, perform, re-arm. Who picks the next event is the host's loop:
 * epoll in production, one queue in the simulator, a journal in replay.
 *
 * A record is written after the step, because it carries the digest, and before any command is performed: what was not
 * recorded has had no effect. */
#ifndef JOURNAL_TURN_H
#define JOURNAL_TURN_H

#include "base/base.h"

/* TURN(noun) defines struct noun_host and noun_turn(). The commands are the caller's to keep: performing one must not
 * step the same core again, other cores may be stepped. record may be NULL. */
#define TURN(noun)                                                                                                  \
    struct noun##_host {                                                                                            \
        void *self;                                                                                                 \
        void (*record)(void *self, const struct noun##_event *event, const struct noun##_commands *commands);       \
        void (*perform)(void *self, const struct noun##_event *event, const struct noun##_command *command);        \
        void (*arm)(void *self, int64_t wakeup_at_ns);                                                              \
    };                                                                                                              \
    static inline void noun##_turn(struct noun *core, const struct noun##_host *host, const struct noun##_event *event, \
                                   struct noun##_commands *commands)                                                \
    {                                                                                                               \
        noun##_step(core, event, commands);                                                                         \
        if (host->record != NULL)                                                                                   \
            host->record(host->self, event, commands);                                                              \
        for (uint32_t i = 0; i < commands->count; i++)                                                              \
            host->perform(host->self, event, &commands->items[i]);                                                  \
        host->arm(host->self, noun##_wakeup_at_ns(core));                                                           \
    }

#endif
