/* berth-exec: one verb a file. */
#include "cmd.h"

static const struct verb verbs[] = {
#define X(name, about) {#name, cmd_##name, about},
    VERBS(X)
#undef X
};

int main(int argc, char **argv)
{
    const struct program program = {
        .name = "berth-exec",
        .about = "berth-exec serves real models with many LoRA adapters: it runs the scheduling core of Berth in real time.",
        .verbs = verbs,
        .verbs_count = ARRAY_COUNT(verbs),
    };

    return program_run(&program, argc, argv);
}
