#define _GNU_SOURCE /* syscall, MAP_ANONYMOUS, memmem */
#include "rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd.h"
#include "control/folder.h"
#include "control/metadata/tenant.h"
#include "crypto/secret.h"
#include "wire/frame.h"

#define NOW 1700000000000

/* --- kills ------------------------------------------------------------------------------------------------------------------ */

/* Shared by all processes, which the keeper starts with nothing but arguments, in the folder where it is itself: a file there. */
struct strike {
    struct rig_point point;
    atomic_bool armed;      /* what precedes the point has happened */
    atomic_int left;        /* 0: no point any more */
    atomic_bool struck;
    atomic_int process;     /* that stands still there, since its sandbox has no kill */
};
static struct strike *strike;
static uint32_t own_role;   /* of this process */
static pid_t own_process;   /* asked before there is a sandbox */

static void die(void)
{
    atomic_store(&strike->process, (int)own_process);
    atomic_store(&strike->struck, true);
    (void)kill(own_process, SIGKILL);
    for (;;)
        (void)poll(NULL, 0, -1);
}

static void pass(enum rig_moment moment, uint32_t kind)
{
    if (strike == NULL || atomic_load(&strike->left) <= 0 || (strike->point.roles & own_role) == 0)
        return;
    if (moment == RIG_CAME && strike->point.after == kind)
        atomic_store(&strike->armed, true);
    if (strike->point.moment != moment || strike->point.kind != kind || (strike->point.after != 0 && !atomic_load(&strike->armed)))
        return;
    if (atomic_fetch_sub(&strike->left, 1) == 1)
        die();
}

/* These stand in for the C library's, for SQLite too. */
int fsync(int fd)
{
    int result;

    pass(RIG_SYNC, 0);
    result = (int)syscall(SYS_fsync, fd);
    pass(RIG_SYNCED, 0);
    return result;
}

int fdatasync(int fd)
{
    int result;

    pass(RIG_SYNC, 0);
    result = (int)syscall(SYS_fdatasync, fd);
    pass(RIG_SYNCED, 0);
    return result;
}

/* Of a frame's header; 0: none. */
static uint32_t kind_of(const struct msghdr *message, size_t count)
{
    struct wire_header header;

    return message->msg_iovlen > 0 && message->msg_iov[0].iov_len >= WIRE_HEADER_BYTES && count >= WIRE_HEADER_BYTES &&
                   wire_header_read(message->msg_iov[0].iov_base, count, &header) == STATUS_OK
               ? header.kind : 0;
}

static size_t bytes_of(const struct msghdr *message)
{
    size_t bytes = 0;

    for (size_t i = 0; i < message->msg_iovlen; i++)
        bytes += message->msg_iov[i].iov_len;
    return bytes;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const uint32_t kind = kind_of(message, bytes_of(message));
    ssize_t count;

    if (kind != 0)
        pass(RIG_SEND, kind);
    count = syscall(SYS_sendmsg, fd, message, flags);
    if (kind != 0 && count >= 0)
        pass(RIG_SENT, kind);
    return count;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    const ssize_t count = syscall(SYS_recvmsg, fd, message, flags);
    const uint32_t kind = count > 0 ? kind_of(message, (size_t)count) : 0;

    if (kind != 0)
        pass(RIG_CAME, kind);
    return count;
}

static void open_strike(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    check(file >= 0 && ftruncate(file, sizeof(*strike)) == 0);
    strike = mmap(NULL, sizeof(*strike), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(strike != MAP_FAILED);
    close(file);
}

static uint32_t role_of(const char *verb, const char *worker)
{
    static const char *const workers[] = {"server", "trainer", "validator"};

    if (strcmp(verb, "vault") == 0)
        return RIG_VAULT;
    for (uint32_t i = 0; strcmp(verb, "worker") == 0 && i < ARRAY_COUNT(workers); i++)
        if (strcmp(worker, workers[i]) == 0)
            return (uint32_t)RIG_SERVER << i;
    return strcmp(verb, "control") == 0 ? RIG_CONTROL : 0;
}

/* What the keeper starts, and asks for the GPUs, is this program again. */
__attribute__((constructor)) static void become(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "devices") == 0)
        exit(cmd_devices(argc - 1, argv + 1));
    if (argc < 3 || (own_role = role_of(argv[1], argv[2])) == 0)
        return;
    own_process = getpid();
    open_strike("strike");
    switch (own_role) {
    case RIG_VAULT: exit(cmd_vault(argc - 1, argv + 1));
    case RIG_CONTROL: exit(cmd_control(argc - 1, argv + 1));
    default: exit(cmd_worker(argc - 1, argv + 1));
    }
}

void rig_kill_there(const struct rig_point *point)
{
    atomic_store(&strike->left, 0);
    strike->point = *point;
    atomic_store(&strike->armed, false);
    atomic_store(&strike->struck, false);
    atomic_store(&strike->process, 0);
    atomic_store(&strike->left, (int)point->n);
}

void rig_kill_at(uint32_t n)
{
    rig_kill_there(&(struct rig_point){.roles = RIG_CONTROL | RIG_VAULT, .moment = RIG_SYNC, .n = n});
}

bool rig_is_killed(void)
{
    const int stands = atomic_load(&strike->struck) ? atomic_exchange(&strike->process, 0) : 0;

    if (stands != 0)
        (void)kill(stands, SIGKILL);
    return atomic_load(&strike->struck);
}

bool rig_was_killed(void)
{
    atomic_store(&strike->left, 0);
    return rig_is_killed();
}

/* --- the process ------------------------------------------------------------------------------------------------------------ */

static struct metadata *open_rows(struct rig *rig, struct control_folder *folder)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct metadata *metadata = NULL;
    struct refusal refusal = {{0}};
    char place[4096];

    if (control_folder_open(folder, rig->state, &refusal) != STATUS_OK || control_folder_key(folder, key, &refusal) != STATUS_OK ||
        meta_open(&(struct meta_options){.place = control_folder_at(folder, "metadata.db", place), .server_key = key, .first = true}, &metadata,
                  &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    secret_free(key);
    return metadata;
}

static void close_rows(struct metadata *metadata, struct control_folder *folder)
{
    meta_close(metadata);
    control_folder_close(folder);
}

void rig_key(struct rig *rig, const char *tenant, const char *role, int64_t expires_at_ms, char ret_key[META_KEY_TEXT_BYTES])
{
    struct control_folder folder;
    struct metadata *metadata = open_rows(rig, &folder);
    struct refusal refusal;
    char id[NAME_BYTES];

    assert_int_equal(meta_key_add(metadata, tenant, role, expires_at_ms, NOW, ret_key, id, &refusal), STATUS_OK);
    close_rows(metadata, &folder);
}

void rig_fill(struct rig *rig, void (*fill)(const struct rig *rig, struct metadata *metadata))
{
    struct control_folder folder;
    struct metadata *metadata = open_rows(rig, &folder);

    fill(rig, metadata);
    close_rows(metadata, &folder);
}

void rig_revoke(struct rig *rig, const char *key)
{
    struct control_folder folder;
    struct metadata *metadata = open_rows(rig, &folder);
    struct refusal refusal;
    char id[NAME_BYTES] = "";

    memcpy(id, key + strlen(META_KEY_PREFIX), 24);
    assert_int_equal(meta_key_revoke(metadata, rig->acme, id, NOW, &refusal), STATUS_OK);
    close_rows(metadata, &folder);
}

void rig_begin(struct rig *rig)
{
    struct control_folder folder;
    struct metadata *metadata;
    struct refusal refusal;

    memset(rig, 0, sizeof(*rig));
    signal(SIGPIPE, SIG_IGN);
    scratch_begin(&rig->scratch);
    snprintf(rig->state, sizeof(rig->state), "%s", scratch_at(&rig->scratch, "state"));
    open_strike(scratch_at(&rig->scratch, "strike"));
    rig_kill_at(0);
    snprintf(rig->log, sizeof(rig->log), "%s", scratch_at(&rig->scratch, "log"));
    metadata = open_rows(rig, &folder);
    assert_int_equal(meta_tenant_add(metadata, "acme", NOW, rig->acme, &refusal), STATUS_OK);
    assert_int_equal(meta_tenant_add(metadata, "other", NOW, rig->other, &refusal), STATUS_OK);
    close_rows(metadata, &folder);
    rig_key(rig, rig->acme, "member", META_NONE, rig->key);
    rig_key(rig, rig->other, "member", META_NONE, rig->other_key);
}

static void run_control(const struct rig *rig, int out)
{
    char *argv[6 + ARRAY_COUNT(rig->more)] = {"control", "--state", (char *)(uintptr_t)rig->state, "--listen", "127.0.0.1:0"};
    int argc = 5;

    for (size_t i = 0; i < ARRAY_COUNT(rig->more) && rig->more[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)rig->more[i];

    dup2(out, STDOUT_FILENO);
    dup2(open(rig->log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    if (chdir(rig->scratch.path) != 0)
        _exit(EXIT_FAILED);
    _exit(cmd_control(argc, argv));
}

int rig_stop(struct rig *rig)
{
    int status;

    kill(rig->process, SIGTERM);
    assert_int_equal(waitpid(rig->process, &status, 0), rig->process);
    rig->process = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t rig_process(const struct rig *rig, const char *name)
{
    FILE *log = fopen(rig->log, "r");
    char line[1024];
    char start[64];
    pid_t process = 0;

    assert_non_null(log);
    snprintf(start, sizeof(start), "keeper act=start name=%s ", name);
    while (fgets(line, sizeof(line), log) != NULL)
        if (strncmp(line, start, strlen(start)) == 0)
            process = (pid_t)strtol(strstr(line, "process=") + strlen("process="), NULL, 10);
    fclose(log);
    return process;
}

static void print_end_of_log(const struct rig *rig)
{
    FILE *log = fopen(rig->log, "r");
    char line[1024];

    while (log != NULL && fgets(line, sizeof(line), log) != NULL)
        if (strncmp(line, "berth-exec", 10) == 0)
            printf("%s", line);
    if (log != NULL)
        fclose(log);
}

void rig_start(struct rig *rig)
{
    char *line = rig->ready;
    int ends[2];
    FILE *out;
    bool is_ready = false;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    rig->process = fork();
    if (rig->process == 0)
        run_control(rig, ends[1]);
    close(ends[1]);
    out = fdopen(ends[0], "r");
    while (!is_ready && fgets(line, sizeof(rig->ready), out) != NULL) {
        if (strncmp(line, "listening on http://127.0.0.1:", 30) == 0)
            rig->port = (uint16_t)strtol(line + 30, NULL, 10);
        is_ready = strncmp(line, "berth-exec control: ready", 25) == 0;
    }
    if (!is_ready) {
        (void)rig_stop(rig);
        print_end_of_log(rig);
        fail_msg("the control plane didn't start");
    }
    fclose(out);
}

void rig_reap(struct rig *rig)
{
    int status;

    kill(rig->process, SIGKILL);
    assert_int_equal(waitpid(rig->process, &status, 0), rig->process);
    rig->process = 0;
}

void rig_end(struct rig *rig)
{
    if (rig->process > 0)
        assert_int_equal(rig_stop(rig), 0);
    scratch_end(&rig->scratch);
}

/* --- what lies there -------------------------------------------------------------------------------------------------------- */

static uint32_t seen_count;
static const char *seen_words;

static int count_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)path, (void)info, (void)where;
    seen_count += kind == FTW_F;
    return 0;
}

uint32_t rig_files_below(const struct rig *rig, const char *folder)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s", rig->state, folder);
    seen_count = 0;
    (void)nftw(path, count_one, 8, FTW_PHYS);
    return seen_count;
}

static int look_inside(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    FILE *file = kind == FTW_F ? fopen(path, "rb") : NULL;
    char *bytes;

    (void)where;
    if (file == NULL)
        return 0;
    bytes = malloc((size_t)info->st_size + 1);
    seen_count += memmem(bytes, fread(bytes, 1, (size_t)info->st_size, file), seen_words, strlen(seen_words)) != NULL;
    free(bytes);
    fclose(file);
    return 0;
}

uint32_t rig_files_with(const struct rig *rig, const char *words)
{
    seen_count = 0;
    seen_words = words;
    (void)nftw(rig->scratch.path, look_inside, 8, FTW_PHYS);
    return seen_count;
}

/* --- the client ------------------------------------------------------------------------------------------------------------- */

int client_connect(const struct rig *rig)
{
    const struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(rig->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)connect(fd, (const struct sockaddr *)&there, sizeof(there)); /* of a process that was killed nothing comes */
    return fd;
}

void client_send(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;

    while (count > 0) {
        const ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        at += sent;
        count -= (size_t)sent;
    }
}

void answer_clear(struct answer *answer)
{
    free(answer->text);
    json_decref(answer->json);
    memset(answer, 0, sizeof(*answer));
}

void client_read(int fd, struct answer *answer)
{
    size_t size = 4096;
    size_t count = 0;
    ssize_t got;
    char *end;

    answer_clear(answer);
    answer->text = malloc(size + 1);
    while ((got = recv(fd, answer->text + count, size - count, 0)) > 0) {
        count += (size_t)got;
        if (count == size)
            answer->text = realloc(answer->text, (size *= 2) + 1);
    }
    close(fd);
    answer->text[count] = '\0';
    end = strstr(answer->text, "\r\n\r\n");
    if (end == NULL)
        return;
    answer->status = (unsigned)strtoul(answer->text + strlen("HTTP/1.1 "), NULL, 10);
    answer->body = end + 4;
    answer->body_bytes = count - (size_t)(answer->body - answer->text);
    answer->json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
}

static void ask(const struct rig *rig, const char *key, const char *line, const char *more, const void *body, size_t bytes,
                struct answer *answer)
{
    const int fd = client_connect(rig);
    char head[2048];

    snprintf(head, sizeof(head), "%s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer %s\r\n%s\r\n", line, key, more);
    client_send(fd, head, strlen(head));
    client_send(fd, body, bytes);
    client_read(fd, answer);
}

void client_ask(const struct rig *rig, const char *key, const char *line, const char *more, struct answer *answer)
{
    ask(rig, key, line, more, NULL, 0, answer);
}

static int begin_post(const struct rig *rig, const char *key, const char *path, const char *more, const void *body, size_t bytes)
{
    const int fd = client_connect(rig);
    char head[1024];

    snprintf(head, sizeof(head), "POST %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n", path, key, bytes, more);
    client_send(fd, head, strlen(head));
    client_send(fd, body, bytes);
    return fd;
}

int client_begin_post(const struct rig *rig, const char *key, const char *path, const void *body, size_t bytes)
{
    return begin_post(rig, key, path, "", body, bytes);
}

void client_post(const struct rig *rig, const char *key, const char *path, const char *body, struct answer *answer)
{
    client_read(client_begin_post(rig, key, path, body, strlen(body)), answer);
}

void client_post_with(const struct rig *rig, const char *key, const char *path, const char *more, const char *body, struct answer *answer)
{
    client_read(begin_post(rig, key, path, more, body, strlen(body)), answer);
}

char *client_body(const char *name, const char *purpose, const void *content, size_t bytes, size_t *ret_bytes)
{
    char *body = malloc(bytes + 1024);
    int at = snprintf(body, 1024, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n"
                                  "Content-Type: application/octet-stream\r\n\r\n", name);

    memcpy(body + at, content, bytes);
    *ret_bytes = (size_t)at + bytes;
    at = snprintf(body + *ret_bytes, 512, "\r\n--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n%s\r\n--b--\r\n", purpose);
    *ret_bytes += (size_t)at;
    return body;
}

static void post(const struct rig *rig, const char *key, const char *more, const char *body, size_t bytes, struct answer *answer)
{
    char headers[1024];

    snprintf(headers, sizeof(headers), "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: %zu\r\n%s", bytes, more);
    ask(rig, key, "POST /v1/files", headers, body, bytes, answer);
}

void client_upload(const struct rig *rig, const char *key, const char *more, const char *name, const void *content, size_t bytes,
                   struct answer *answer)
{
    size_t all;
    char *body = client_body(name, "fine-tune", content, bytes, &all);

    post(rig, key, more, body, all, answer);
    free(body);
}

const char *answer_text(const struct answer *answer, const char *name)
{
    const char *text = json_string_value(json_object_get(answer->json, name));

    return text != NULL ? text : "";
}

const char *answer_error(const struct answer *answer, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(answer->json, "error"), name));

    return text != NULL ? text : "";
}
