/* A base lent between processes on a GPU. A line a promise; SKIP and why where there is no GPU, or none that can. Every process opens the
 * device for itself: this one never does, since what CUDA has begun does not survive a fork. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/device/cuda_load.h"
#include "engine/device/mps.h"
#include "lending.h"

static int passed, failed;

static void tell(const char *what, const char *answer)
{
    printf("%s lending: %s%s%s\n", answer == NULL ? "ok" : "not ok", what, answer != NULL ? ": " : "", answer != NULL ? answer : "");
    passed += answer == NULL;
    failed += answer != NULL;
}

/* Asked in a child. */
static bool can_lend(char ret_why[512])
{
    int ends[2];
    pid_t id;
    int status = 1;

    check(pipe(ends) == 0);
    id = fork();
    check(id >= 0);
    if (id == 0) {
        char why[512] = "";
        const bool can = cuda_shares_here(why, sizeof(why));

        (void)!write(ends[1], why, sizeof(why));
        _exit(can ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], ret_why, 512) != 512)
        strcpy(ret_why, "the process that asked has died");
    close(ends[0]);
    waitpid(id, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    char why[512] = "";
    const struct device *device;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!can_lend(why)) {
        printf("SKIP a base lent between processes: %s\n", why);
        return 0;
    }
    device = cuda_load(why, sizeof(why));
    check(device != NULL);
    for (int shape = 0; shape < LENDING_SHAPES; shape++) {
        tell("borrowers find the bits that loading gives", lending_same_bits(device, (enum lending_shape)shape));
        tell("a killed holder leaves borrowers working", lending_outlives_holder(device, (enum lending_shape)shape));
    }
    if (mps_runs_here(why, sizeof(why))) {
        printf("SKIP writes to the base: under MPS a fault ends all processes on the GPU\n");
    } else {
        tell("a copy into the base ends who copies, and nobody else", lending_write_ends_writer(device, LENDING_PUT));
        tell("a kernel that writes to the base ends its process, and no other", lending_write_ends_writer(device, LENDING_KERNEL));
    }
    tell("another base is refused", lending_refuses_others(device));
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
