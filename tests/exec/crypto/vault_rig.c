#include "vault_rig.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* In the vault's process, which has no descriptor of ours. */
static void log_line(void *context, const char *line)
{
    const struct vault_rig *rig = context;
    FILE *file = fopen(rig->log_path, "a");

    if (file == NULL)
        return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

void vault_rig_init(struct vault_rig *rig, const char *folder)
{
    memset(rig, 0, sizeof(*rig));
    snprintf(rig->folder, sizeof(rig->folder), "%s", folder);
    snprintf(rig->keys_path, sizeof(rig->keys_path), "%s/keys.db", rig->folder);
    snprintf(rig->master_path, sizeof(rig->master_path), "%s/master.key", rig->folder);
    snprintf(rig->log_path, sizeof(rig->log_path), "%s/vault.log", rig->folder);
    check(master_create(rig->master_path, &rig->refusal) == STATUS_OK);
    rig->options.keys_path = rig->keys_path;
    rig->options.master.file = rig->master_path;
    rig->options.log = log_line;
    rig->options.log_context = rig;
}

enum status vault_rig_start(struct vault_rig *rig)
{
    int socket = -1;

    check(vault_start(&rig->options, &socket, &rig->process, &rig->refusal) == STATUS_OK);
    return vault_open(socket, &rig->client, &rig->refusal);
}

int vault_rig_stop(struct vault_rig *rig)
{
    int how = 0;

    vault_close(rig->client);
    rig->client = NULL;
    check(waitpid(rig->process, &how, 0) == rig->process);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

void vault_rig_kill(struct vault_rig *rig)
{
    kill(rig->process, SIGKILL);
    (void)vault_rig_stop(rig);
}
