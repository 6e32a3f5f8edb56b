/* Local administration: a socket in the control plane's folder, for the folder's owner and root alone (peer credentials). One JSON
 * object asks, one or more answer, each a packet. Every act is an entry of the audit log, in the same transaction, and a line of
 * the log that holds ids and codes only.
 *
 *   {"op": "tenant.add", "tenant": "acme"}                      {"id", "tenant"}
 *   {"op": "tenant.list", "after": 0}                           {"tenants": [...], "more"}; after: the last one's number
 *   {"op": "tenant.set", "tenant": "acme", "settings": {"priority": "5", ...}}      all of them or none
 *   {"op": "tenant.suspend" or "tenant.resume", "tenant": "acme"}
 *   {"op": "key.add", "tenant": "acme", "role": "member", "expires_at_ms": 1}       {"id", "key"}: shown here and never again
 *   {"op": "key.list", "tenant": "acme", "after": 0}            {"keys": [...], "more"}
 *   {"op": "key.revoke", "tenant": "acme", "key": "ID"}
 *   {"op": "job.list", "tenant": "acme", "after": ID}           {"jobs": [...], "more"}
 *   {"op": "job.show" or "job.cancel", "tenant": "acme", "job": ID}                {"job", "events", "more"}; {"id"}
 *   {"op": "model.list", "tenant": "acme", "after": ID}         {"models": [...], "more"}
 *   {"op": "model.judge", "tenant": "acme", "model": NAME, "verdict": "deployable"} {"id", "was", "verdict"}
 *   {"op": "alias.set", "tenant": "acme", "alias": "prod", "model": NAME}          {"model", "generation"}; NAME: a model's, or another alias
 *   {"op": "alias.delete", "tenant": "acme", "alias": "prod"}
 *   {"op": "alias.list", "tenant": "acme", "after": NAME}       {"aliases": [...], "more"}
 *   {"op": "usage.list", "tenant": "acme", "hours": 24}         {"usage": [...], "more"}
 *   {"op": "audit.list", "tenant": "acme", "after": 100}        {"entries": [...], "more"}, newest first
 *   {"op": "node.notice", "devices": 1, "within_ms": 30000}     {}; 0 devices: none is to go any more
 *
 * Keys without a tenant are the platform's. What is refused: {"error", "code"}, code a word of STATUS_LIST. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include <stdio.h>

#include "control/metadata/writer.h"

#define ADMIN_SOCKET "admin.sock" /* in the control plane's folder */
#define ADMIN_PACKET_BYTES_MAX 65536
#define ADMIN_CLIENTS_MAX 16
/* A client that says nothing for so long is let go. */
#define ADMIN_IDLE_MS 30000

struct admin_config {
    const char *folder;
    struct meta_writer *writer;
    FILE *log;
    /* Devices that will be gone, once that is on record; NULL: there are none here. */
    enum status (*notice)(void *context, uint32_t devices, uint32_t within_ms);
    /* What it may have has changed, and is on record; NULL: nobody wants to know. */
    void (*tenant_changed)(void *context, const char *tenant);
    void *context; /* of both */
};
struct admin;
/* The socket is there when this returns; one of a control plane that was killed is replaced, so only one may be here at a time. */
enum status admin_open(const struct admin_config *config, struct admin **ret_admin, struct refusal *refusal);
void admin_close(struct admin *admin); /* NULL is fine */
/* Serves until `stop` (a descriptor) is readable. */
enum status admin_run(struct admin *admin, int stop, struct refusal *refusal);

#endif
