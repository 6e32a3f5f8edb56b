/* A vault that is killed, or loses power, or whose disk fails or fills, at each call that changes keys.db in turn: what it had
 * acknowledged holds, what it had not can be asked for again, and what was shredded stays so and is on no disk. */
#include <stdlib.h>
#include <unistd.h>

#include "../scratch.h"
#include "bad_disk.h"
#include "keys_files.h"
#include "vault_rig.h"

static struct scratch scratch;
static unsigned folders;

enum what { CREATE_TENANT, CREATE_KEY, ROTATE, SHRED_KEY, SHRED_TENANT };
struct step {
    enum what what;
    const char *tenant;
    const char *id;
};
static const struct step steps[] = {
    {CREATE_TENANT, "acme", NULL}, {CREATE_KEY, "acme", "file-1"}, {CREATE_TENANT, "other", NULL}, {CREATE_KEY, "other", "file-3"},
    {ROTATE, "acme", NULL}, {CREATE_KEY, "acme", "file-2"}, {SHRED_KEY, "acme", "file-2"}, {SHRED_TENANT, "other", NULL},
    {CREATE_KEY, "acme", "file-4"},
};
#define FILES 4

/* What was acknowledged. */
struct promised {
    uint8_t keys[FILES + 1][KEY_BYTES]; /* by the number in the file's name */
    bool is_given[FILES + 1];
    bool is_shredded[FILES + 1];
    struct row rows[FILES + 1]; /* as they were last on disk */
};

static unsigned number(const char *id)
{
    return (unsigned)(id[5] - '0');
}

static void note_rows(struct vault_rig *rig, struct promised *promised)
{
    for (unsigned i = 1; i <= FILES; i++) {
        char query[100];

        snprintf(query, sizeof(query), "SELECT wrapped FROM dek WHERE id = 'file-%u' AND wrapped IS NOT NULL", i);
        if (promised->is_given[i] && !promised->is_shredded[i])
            assert_int_equal(keys_files_rows(rig->keys_path, query, &promised->rows[i], 1), 1);
    }
}

/* What is on the disk of a vault that is no more. */
static void check_erased(const struct vault_rig *rig, const struct promised *promised, unsigned call)
{
    for (unsigned i = 1; i <= FILES; i++)
        if (promised->is_shredded[i] && keys_files_hold(rig->keys_path, promised->rows[i].wrapped, WRAPPED_KEY_BYTES))
            fail_msg("stopped at call %u: the key of file-%u is still on disk", call, i);
}

static enum status take(struct vault_rig *rig, const struct step *step, struct promised *promised)
{
    uint8_t key[KEY_BYTES];
    enum status status = STATUS_INVALID;

    switch (step->what) {
    case CREATE_TENANT:
        return vault_tenant_create(rig->client, step->tenant, &rig->refusal);
    case ROTATE:
        return vault_tenant_rotate(rig->client, step->tenant, &rig->refusal);
    case CREATE_KEY:
        status = vault_key_create(rig->client, step->tenant, step->id, key, &rig->refusal);
        if (status == STATUS_OK) {
            memcpy(promised->keys[number(step->id)], key, KEY_BYTES);
            promised->is_given[number(step->id)] = true;
        }
        return status;
    case SHRED_KEY:
        status = vault_key_shred(rig->client, step->tenant, step->id, &rig->refusal);
        if (status == STATUS_OK)
            promised->is_shredded[number(step->id)] = true;
        return status;
    case SHRED_TENANT:
        status = vault_tenant_shred(rig->client, step->tenant, &rig->refusal);
        if (status == STATUS_OK)
            promised->is_shredded[3] = true;
        return status;
    }
    return status;
}

/* `asked`: shreds that were asked for, and may have been done. */
static void check_promises(struct vault_rig *rig, const struct promised *promised, const struct step *asked, unsigned call)
{
    uint8_t key[KEY_BYTES];

    for (unsigned i = 1; i <= FILES; i++) {
        char id[16];
        enum status status;
        bool may_be_gone = asked != NULL && ((asked->what == SHRED_KEY && i == number(asked->id)) || (asked->what == SHRED_TENANT && i == 3));

        if (!promised->is_given[i])
            continue;
        snprintf(id, sizeof(id), "file-%u", i);
        status = vault_key_give(rig->client, i == 3 ? "other" : "acme", id, key, &rig->refusal);
        if (promised->is_shredded[i] ? status != STATUS_NOT_FOUND : status != STATUS_OK && !(may_be_gone && status == STATUS_NOT_FOUND))
            fail_msg("stopped at call %u: %s: status %d", call, id, (int)status);
        if (status == STATUS_OK && memcmp(key, promised->keys[i], KEY_BYTES) != 0)
            fail_msg("stopped at call %u: %s has another key", call, id);
    }
}

/* Asks until the end, or until the vault is gone. A full disk is told, and the same vault goes on when there is room. */
static size_t take_all(struct vault_rig *rig, struct promised *promised, bool *ret_was_full)
{
    size_t at = 0;

    while (at < ARRAY_COUNT(steps)) {
        if (take(rig, &steps[at], promised) == STATUS_OK) {
            if (steps[at].what == CREATE_KEY || steps[at].what == ROTATE)
                note_rows(rig, promised);
            at++;
            continue;
        }
        if (*ret_was_full || strstr(rig->refusal.text, "disk is full") == NULL)
            break;
        *ret_was_full = true;
    }
    return at;
}

/* False: the vault met no fault. */
static bool run(enum disk_fault fault, unsigned call)
{
    struct vault_rig rig;
    struct promised promised;
    bool was_full = false;
    bool has_started;
    char name[16];
    size_t at = 0;
    size_t stopped_at;

    memset(&promised, 0, sizeof(promised));
    snprintf(name, sizeof(name), "k%u", folders++);
    vault_rig_init(&rig, scratch_folder(&scratch, name));
    rig.options.log = NULL;
    bad_disk_fault_at(fault, call);
    has_started = vault_rig_start(&rig) == STATUS_OK;
    if (has_started)
        at = take_all(&rig, &promised, &was_full);
    stopped_at = at;
    if (was_full && at < ARRAY_COUNT(steps))
        fail_msg("full at call %u: the vault doesn't go on when there is room: %s", call, rig.refusal.text);
    bad_disk_fault_at(fault, 0);
    (void)vault_rig_stop(&rig);
    check_erased(&rig, &promised, call);
    if (vault_rig_start(&rig) != STATUS_OK)
        fail_msg("stopped at call %u: %s", call, rig.refusal.text);
    check_promises(&rig, &promised, at < ARRAY_COUNT(steps) ? &steps[at] : NULL, call);
    for (; at < ARRAY_COUNT(steps); at++)
        if (take(&rig, &steps[at], &promised) != STATUS_OK)
            fail_msg("stopped at call %u: step %zu cannot be asked for again: %s", call, at, rig.refusal.text);
    check_promises(&rig, &promised, NULL, call);
    assert_int_equal(vault_rig_stop(&rig), 0);
    return was_full || stopped_at < ARRAY_COUNT(steps);
}

static void run_all(enum disk_fault fault)
{
    /* BERTH_TEST_STRIDE: every n-th call only. */
    const char *given = getenv("BERTH_TEST_STRIDE");
    unsigned stride = given != NULL ? (unsigned)atoi(given) : 1;
    unsigned call = 1;
    unsigned faults = 0;

    /* A few faults show in nothing: a write-back that is put off. */
    for (unsigned harmless = 0; harmless < 10; call += stride) {
        bool was_hit = run(fault, call);

        faults += was_hit;
        harmless = was_hit ? 0 : harmless + 1;
    }
    printf("%u faults\n", faults);
    assert_true(faults * stride > 50);
}

static void killed_at_every_call(void **state)
{
    (void)state;
    run_all(DISK_KILLS);
}

/* At every call, with all that was not synced by then. */
static void power_lost_at_every_call(void **state)
{
    (void)state;
    run_all(DISK_LOSES_POWER);
}

static void a_disk_that_fails_at_every_call(void **state)
{
    (void)state;
    run_all(DISK_FAILS);
}

static void a_disk_that_is_full_at_every_call(void **state)
{
    (void)state;
    run_all(DISK_IS_FULL);
}

static int begin(void **state)
{
    (void)state;
    bad_disk_install();
    /* Thousands of syncs, and no power is lost here. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    scratch_begin(&scratch);
    return 0;
}

static int end(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_call),
        cmocka_unit_test(power_lost_at_every_call),
        cmocka_unit_test(a_disk_that_fails_at_every_call),
        cmocka_unit_test(a_disk_that_is_full_at_every_call),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
