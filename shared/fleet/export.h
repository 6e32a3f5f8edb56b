/* Between export.c, which tells what there is in the order in which it can be told, and export_jobs.c, which tells it of jobs and what
 * they stand on. */
#ifndef FLEET_EXPORT_H
#define FLEET_EXPORT_H

#include "fleet/fleet.h"

struct exporter {
    fleet_export_sink *sink;
    void *context;
    int64_t at_ns;
    struct fleet_exported exported;
};

/* All zero but the head. */
struct fleet_event export_event(const struct exporter *exporter, enum fleet_event_kind kind);
void export_tell(struct exporter *exporter, const struct fleet_event *event);

void export_cursors(const struct jobs *jobs, struct fleet_event *ret_restore);
void export_quota(struct exporter *exporter, const struct jobs *jobs);
void export_capacity(struct exporter *exporter, const struct jobs *jobs); /* bases, GPUs */
void export_holdings(struct exporter *exporter, const struct jobs *jobs);
void export_jobs(struct exporter *exporter, const struct jobs *jobs);
/* The place of a replica of the shared pool; false: it waits for one. */
bool export_serve(const struct jobs *jobs, uint32_t index, struct fleet_event *ret_up);
void export_memory(struct exporter *exporter, const struct jobs *jobs);
void export_notices(struct exporter *exporter, const struct jobs *jobs);

#endif
