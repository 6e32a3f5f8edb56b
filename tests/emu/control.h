/* What a test may choose about the emulation, and what it may learn from it. */
#ifndef EMU_CONTROL_H
#define EMU_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Forward, backward, another shuffle each pass; or each warp as far as it gets, from the first or from the last. */
#define EMU_ORDERS(X) X(FORWARD, "forward") X(REVERSE, "reverse") X(RANDOM, "random") X(GREEDY, "greedy") X(GREEDY_REVERSE, "greedy-reverse")
enum emu_order {
#define X(name, text) EMU_##name,
    EMU_ORDERS(X)
#undef X
    EMU_ORDERS_COUNT
};
/* What runs when a stream is waited for: as little as possible, everything else first, or dice. */
enum emu_streams { EMU_LAZY, EMU_OTHERS_FIRST, EMU_DICE, EMU_STREAMS_COUNT };

#ifdef __cplusplus
extern "C" {
#endif
void emu_set(enum emu_order order, enum emu_streams streams, uint64_t seed);
const char *emu_order_name(enum emu_order order);
/* Refused are: misaligned 16-byte accesses, accesses by a primitive outside an allocation, copies nobody waited for,
 * grids of 0 or too large, shared memory above 48 KB without the attribute or overrun, host pointers given to a kernel,
 * divergent meetings, leading dimensions that do not fit, captures that do not join. The first refusal after
 * emu_expect_refusal() is kept instead of stopping the program, and the launch is given up; emu_refusal() takes it, ""
 * when there was none. */
void emu_expect_refusal(void);
const char *emu_refusal(void);
/* Blocks, and bank conflicts and sectors of what goes through the primitives, a line a kernel with its block and shared
 * memory, in order of names. The text lives until the next call; counting starts anew with emu_count(true). */
void emu_count(bool on);
const char *emu_counts(void);
/* Whether the driver has its calls for memory that processes share, and which GPU this is. */
void emu_sharing(bool there, unsigned char gpu);
/* Pieces of device memory in which something is as cudaMalloc gave it. */
unsigned emu_fresh(void);
#ifdef __cplusplus
}
#endif

#endif
