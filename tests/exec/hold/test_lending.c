/* A base lent by one process to others, on CUDA's device under the emulation, where GPU memory is a memfd: bits, rights, memory. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "engine/model/shared_base.h"
#include "lending.h"
#include "support.h"

static void kept(const char *answer)
{
    if (answer != NULL)
        fail_msg("%s", answer);
}

static void borrowers_have_the_bits_that_loading_gives(void **state)
{
    (void)state;
    for (enum lending_shape shape = 0; shape < LENDING_SHAPES; shape++)
        kept(lending_same_bits(&device_cuda, shape));
}

static void a_killed_holder_leaves_borrowers_working(void **state)
{
    (void)state;
    for (enum lending_shape shape = 0; shape < LENDING_SHAPES; shape++)
        kept(lending_outlives_holder(&device_cuda, shape));
}

static void a_write_to_the_base_ends_the_writer_alone(void **state)
{
    (void)state;
    for (enum lending_write write = 0; write < LENDING_WRITES; write++)
        kept(lending_write_ends_writer(&device_cuda, write));
}

static void another_base_is_refused(void **state)
{
    (void)state;
    kept(lending_refuses_others(&device_cuda));
}

/* Of the mapping of the base in one process, by /proc/PID/smaps. */
struct memory {
    double size_kb, pss_kb, dirty_private_kb, other_anonymous_kb;
};

static struct memory memory_of(int id)
{
    struct memory memory = {0, 0, 0, 0};
    bool base = false;
    char path[64], line[4400];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/smaps", id);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        double kb;

        if (sscanf(line, "%*x-%*x %*s %*x %*s %lf", &kb) == 1)
            base = strstr(line, "memfd:gpu") != NULL;
        else if (base && sscanf(line, "Size: %lf", &kb) == 1)
            memory.size_kb += kb;
        else if (base && sscanf(line, "Pss: %lf", &kb) == 1)
            memory.pss_kb += kb;
        else if (base && sscanf(line, "Anonymous: %lf", &kb) == 1)
            memory.dirty_private_kb += kb;
        else if (!base && sscanf(line, "Anonymous: %lf", &kb) == 1)
            memory.other_anonymous_kb += kb;
    }
    fclose(file);
    return memory;
}

/* N + k x: pages of the base count once over all processes, and a borrower more adds what the first one has of its own. */
static void k_borrowers_hold_one_base(void **state)
{
    double own_kb = 0;

    (void)state;
    for (int borrowers = 1; borrowers <= BORROWERS_MAX; borrowers++) {
        struct lending lending;
        double base_kb, all_kb = 0;

        kept(lending_begin(&device_cuda, borrowers, &lending));
        base_kb = memory_of(lending.holder).pss_kb;
        for (int i = 0; i < borrowers; i++) {
            const struct memory memory = memory_of(lending.borrower[i]);

            assert_true(fabs(memory.size_kb - (double)lending.bytes / 1024) < 1);
            assert_true(memory.dirty_private_kb <= 0);
            base_kb += memory.pss_kb;
            all_kb += memory.other_anonymous_kb;
        }
        kept(lending_end());
        if (borrowers == 1)
            own_kb = all_kb;
        printf("%d borrowers: the base %.0f kB of %.0f, their own %.0f = %d x %.0f\n", borrowers, base_kb, (double)lending.bytes / 1024, all_kb,
               borrowers, all_kb / borrowers);
        assert_true(fabs(base_kb - (double)lending.bytes / 1024) <= 0.01 * base_kb);
        assert_true(fabs(all_kb - borrowers * own_kb) <= 1024.0 * borrowers);
    }
}

static void without_the_drivers_calls_or_on_another_gpu_it_says_so(void **state)
{
    const struct dev_config config = {.dims = {16, 1, 1, 16, 16, 16, 1}, .mode = MODE_EXACT, .rows_max = 1, .outputs_max = 1, .positions_max = 1};
    static const float number = 1;
    const struct weight weight = {.data = &number, .dtype = DTYPE_F32, .out = 1, .in = 1, .stride = 1};
    const struct weight *list[] = {&weight};
    const char *data;
    struct dev_share share;
    char why[256] = "";
    uint64_t last = 1;
    struct dev *dev;

    (void)state;
    emu_sharing(false, 0);
    dev = device_cuda.open(&config, why, sizeof(why));
    assert_non_null(dev);
    assert_false(device_cuda.share->can(dev, why, sizeof(why)));
    assert_non_null(strstr(why, "driver"));
    assert_int_equal(device_cuda.share->create(dev, list, 1, &share, &data, why, sizeof(why)), STATUS_INVALID);
    emu_sharing(true, 0);
    assert_true(device_cuda.share->can(dev, why, sizeof(why)));
    assert_int_equal(device_cuda.share->create(dev, list, 1, &share, &data, why, sizeof(why)), STATUS_OK);
    device_cuda.get(dev, LANE_COMPUTE, &last, data + share.bytes - sizeof(last), sizeof(last));
    device_cuda.finish(dev, LANE_COMPUTE);
    assert_int_equal(last, 0); /* not what somebody left there */
    device_cuda.close(dev);
    emu_sharing(true, 1);
    dev = device_cuda.open(&config, why, sizeof(why));
    assert_int_equal(device_cuda.share->map(dev, &share, &data, why, sizeof(why)), STATUS_INVALID);
    assert_non_null(strstr(why, "another GPU"));
    emu_sharing(true, 0);
    share.bytes += 2 << 20; /* more than there is */
    assert_int_equal(device_cuda.share->map(dev, &share, &data, why, sizeof(why)), STATUS_INVALID);
    share.bytes -= 2 << 20;
    assert_int_equal(device_cuda.share->map(dev, &share, &data, why, sizeof(why)), STATUS_OK);
    device_cuda.close(dev);
    close(share.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borrowers_have_the_bits_that_loading_gives),
        cmocka_unit_test(a_killed_holder_leaves_borrowers_working),
        cmocka_unit_test(a_write_to_the_base_ends_the_writer_alone),
        cmocka_unit_test(another_base_is_refused),
        cmocka_unit_test(k_borrowers_hold_one_base),
        cmocka_unit_test(without_the_drivers_calls_or_on_another_gpu_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
