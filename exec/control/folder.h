/* The control plane's folder: its owner's alone, and one process at a time. In it lie metadata.db, server.key (the installation's own
 * secret: keys of tenants are stored under it and heads of the audit log signed), the vault's keys.db and, unless it is elsewhere,
 * master.key, the store, lock and admin.sock. Lose server.key and no API key opens any more; lose master.key and no file does. */
#ifndef CONTROL_FOLDER_H
#define CONTROL_FOLDER_H

#include "engine/files/refusal.h"

struct control_folder {
    char path[4000];
    int lock; /* -1: none */
};
/* Made when it isn't there. STATUS_CONFLICT: another process has it, whose number the text says. */
enum status control_folder_open(struct control_folder *folder, const char *path, struct refusal *refusal);
/* The same for the control plane under the keeper that has opened it: one at a time, and one that was just killed is waited for. */
enum status control_folder_join(struct control_folder *folder, const char *path, struct refusal *refusal);
void control_folder_close(struct control_folder *folder);
/* FOLDER/NAME; `ret_path` has 4096 bytes and is returned. */
const char *control_folder_at(const struct control_folder *folder, const char *name, char ret_path[4096]);
/* The path of a key file: made with the database that it is for; where that is there and the file isn't, it is refused. */
enum status control_folder_key_file(const struct control_folder *folder, const char *name, const char *database_name, char ret_path[4096],
                                    struct refusal *refusal);
/* server.key. `ret_key`: KEY_BYTES in memory of secret_alloc(). */
enum status control_folder_key(const struct control_folder *folder, uint8_t *ret_key, struct refusal *refusal);

#endif
