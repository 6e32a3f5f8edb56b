/* The control plane's folder: its owner's alone, and one process at a time. In it lie metadata.db, server.key (the installation's own
 * secret: keys of tenants are stored under it and heads of the audit log signed), lock and admin.sock. Lose server.key and no API key
 * opens any more. */
#ifndef CONTROL_FOLDER_H
#define CONTROL_FOLDER_H

#include "engine/files/refusal.h"

struct control_folder {
    char path[4000];
    int lock; /* -1: none */
};
/* Made when it isn't there. STATUS_CONFLICT: another process has it, whose number the text says. */
enum status control_folder_open(struct control_folder *folder, const char *path, struct refusal *refusal);
void control_folder_close(struct control_folder *folder);
/* FOLDER/NAME; `ret_path` has 4096 bytes and is returned. */
const char *control_folder_at(const struct control_folder *folder, const char *name, char ret_path[4096]);
/* `ret_key`: KEY_BYTES in memory of secret_alloc(). Made with the database; where that is there and the key isn't, it is refused. */
enum status control_folder_key(const struct control_folder *folder, uint8_t *ret_key, struct refusal *refusal);

#endif
