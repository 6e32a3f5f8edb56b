/* berth-sim: one verb a file. */
#include "cmd.h"

static const struct verb verbs[] = {
#define X(name, about) {#name, cmd_##name, about},
    VERBS(X)
#undef X
};

int main(int argc, char **argv)
{
    const struct program program = {
        .name = "berth-sim",
        .about = "berth-sim plans multi-LoRA serving: it runs the scheduling core of Berth on a simulated clock.",
        .verbs = verbs,
        .verbs_count = ARRAY_COUNT(verbs),
    };

    return program_run(&program, argc, argv);
}
