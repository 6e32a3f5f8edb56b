/* The engine: one block at a time, a fiber a thread, on one thread of the host. A fiber gives way only at a barrier, at
 * a meeting of its warp, or at its end; what a missing barrier lets happen, one of the orders does happen. Fresh shared
 * memory, and the target of a copy that nobody has waited for, hold NaN in every type; a copy shows with the first
 * barrier or __syncwarp() after the wait, because a wait is for one's own thread only. */
#include "emu/emu.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define FIBER_LEAVE(save, stack, bytes) __sanitizer_start_switch_fiber(save, stack, bytes)
#define FIBER_ENTER(save, stack, bytes) __sanitizer_finish_switch_fiber(save, stack, bytes)
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define FIBER_LEAVE(save, stack, bytes) ((void)0)
#define FIBER_ENTER(save, stack, bytes) ((void)0)
#endif

#if !defined(__x86_64__)
#error "fibers are switched by hand on x86-64 only"
#endif
extern "C" void emu_switch(void **save, void *to);
asm(".text\n"
    ".type emu_switch,@function\n"
    "emu_switch:\n"
    " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
    ".size emu_switch,.-emu_switch\n");

namespace emu {

constexpr size_t STACK_BYTES = 256 * 1024;
constexpr size_t FRAME_BYTES = 4096;
constexpr int WARPS_MAX = THREADS_MAX / 32;
constexpr int MEETINGS_MAX = 4;
constexpr size_t CANARY_BYTES = 64;
enum state { READY, AT_BARRIER, AT_MEETING, DONE };

struct copy {
    char *to;
    const char *from;
    int bytes;
    uint32_t group;
};

struct fiber {
    void *stack_at;
    enum state state;
    int barrier_site;
    uint32_t group;
    std::vector<copy> copies;    /* on their way */
    std::vector<copy> waited;    /* seen by their own thread alone: others see them after a barrier */
    std::map<int, int> times;    /* that a site was passed; only while counting */
};

struct meeting {
    unsigned mask, arrived;      /* mask 0: nobody waits */
    const char *what;
    int site;
    void *argument[32];
};

struct tally { uint64_t blocks, requests, sectors, bytes, phases, conflicts; };
struct request { int kind; std::map<int, std::pair<uint64_t, int>> lanes; };   /* lane: address, bytes */

static struct {
    enum emu_order order;
    uint64_t dice;
    const char *kernel;
    dim3 grid, block;
    uint3 index;
    int count, current, alive;
    bool in_fiber, given_up;
    const std::function<void()> *thread;
    struct fiber fibers[THREADS_MAX];
    struct meeting meetings[WARPS_MAX][MEETINGS_MAX];
    char *stacks, *shared;
    size_t shared_bytes;
    void *main_at;
    const void *main_stack;
    size_t main_stack_bytes;
    bool expecting;
    std::string refusal;
    bool counting;
    std::string tally_name;
    std::map<std::string, struct tally> tallies;
    std::map<std::tuple<int, int, int>, struct request> requests;   /* warp, site, time */
} m;

static uint64_t dice()
{
    m.dice = m.dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return m.dice >> 33;
}

uint3 thread_index()
{
    unsigned i = (unsigned)m.current;

    if (m.block.y * m.block.z == 1)
        return {i, 0, 0};
    return {i % m.block.x, i / m.block.x % m.block.y, i / (m.block.x * m.block.y)};
}
uint3 block_index() { return m.index; }
dim3 block_size() { return m.block; }
dim3 grid_size() { return m.grid; }
void *shared_memory() { return m.shared; }
int lane() { return m.current % 32; }

/* --- fibers ------------------------------------------------------------------------------------------------------- */
static char *stack_of(int index) { return m.stacks + (size_t)index * STACK_BYTES; }

static void give_way()
{
    struct fiber *fiber = &m.fibers[m.current];
    [[maybe_unused]] void *fake = nullptr;

    m.in_fiber = false;
    FIBER_LEAVE(fiber->state == DONE ? nullptr : &fake, m.main_stack, m.main_stack_bytes);
    emu_switch(&fiber->stack_at, m.main_at);
    FIBER_ENTER(fake, nullptr, nullptr);
    m.in_fiber = true;
}

static void fiber_main()
{
    FIBER_ENTER(nullptr, &m.main_stack, &m.main_stack_bytes);
    m.in_fiber = true;
    (*m.thread)();
    for (const copy &each : m.fibers[m.current].copies)
        refuse("%s: thread %d ended with a copy to shared memory + %td unwaited", m.kernel, m.current, each.to - m.shared);
    m.fibers[m.current].state = DONE;
    give_way();
    abort();
}

static void fiber_start(int index)
{
    struct fiber *fiber = &m.fibers[index];
    void **top;

    /* A fiber that ended left only its first frame behind. */
    ASAN_UNPOISON_MEMORY_REGION(stack_of(index) + STACK_BYTES - FRAME_BYTES, FRAME_BYTES);
    top = (void **)(stack_of(index) + STACK_BYTES - 64);
    *--top = nullptr;
    *--top = (void *)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    fiber->stack_at = top;
    fiber->state = READY;
    fiber->group = 0;
    fiber->copies.clear();
    fiber->waited.clear();
    fiber->times.clear();
}

static void fiber_resume(int index)
{
    [[maybe_unused]] void *fake = nullptr;

    m.current = index;
    FIBER_LEAVE(&fake, stack_of(index), STACK_BYTES);
    emu_switch(&m.main_at, m.fibers[index].stack_at);
    FIBER_ENTER(fake, nullptr, nullptr);
    if (m.fibers[index].state == DONE)
        m.alive--;
}

void refuse(const char *format, ...)
{
    char text[512];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (!m.expecting) {
        fprintf(stderr, "emulation: %s\n", text);
        abort();
    }
    if (m.refusal.empty())
        m.refusal = text;
    if (m.in_fiber) {
        m.given_up = true;
        m.fibers[m.current].state = DONE;
        give_way();
    }
}

/* What this thread has waited for is there for everyone. */
static void copies_show()
{
    struct fiber *fiber = &m.fibers[m.current];

    for (const copy &each : fiber->waited) {
        memset(each.to, 0, 16);
        memcpy(each.to, each.from, (size_t)each.bytes);
    }
    fiber->waited.clear();
}

/* --- meetings ----------------------------------------------------------------------------------------------------- */
void barrier(int site)
{
    struct fiber *fiber = &m.fibers[m.current];

    copies_show();
    fiber->state = AT_BARRIER;
    fiber->barrier_site = site;
    give_way();
}

void meet(const char *what, int site, unsigned mask, void *argument, void (*act)(void **, unsigned))
{
    int warp = m.current / 32;
    unsigned own = 1u << lane();
    struct meeting *meeting = nullptr;

    if (act == nullptr)
        copies_show();
    if ((mask & own) == 0)
        refuse("%s: %s at line %d: lane %d is not in its mask %08x", m.kernel, what, site, lane(), mask);
    for (struct meeting &each : m.meetings[warp]) {
        if (each.mask == mask)
            meeting = &each;
        else if (each.mask & mask)
            refuse("%s: warp %d meets for %s at line %d with mask %08x and for %s at line %d with mask %08x", m.kernel, warp, what, site,
                   mask, each.what, each.site, each.mask);
    }
    for (struct meeting &each : m.meetings[warp]) {
        if (meeting == nullptr && each.mask == 0) {
            meeting = &each;
            *meeting = {mask, 0, what, site, {}};
        }
    }
    if (meeting == nullptr)
        refuse("%s: too many meetings at once", m.kernel);
    if (meeting->site != site || (meeting->what != what && strcmp(meeting->what, what) != 0))
        refuse("%s: warp %d meets for %s at line %d and for %s at line %d", m.kernel, warp, what, site, meeting->what, meeting->site);
    meeting->argument[lane()] = argument;
    meeting->arrived |= own;
    if (meeting->arrived != mask) {
        m.fibers[m.current].state = AT_MEETING;
        give_way();
        return;
    }
    if (act != nullptr)
        act(meeting->argument, mask);
    meeting->mask = 0;
    for (int i = 0; i < 32; i++) {
        if (mask >> i & 1)
            m.fibers[warp * 32 + i].state = READY;
    }
}

void shuffle_act(void **arguments, unsigned mask)
{
    for (int i = 0; i < 32; i++) {
        struct shuffle *each = (struct shuffle *)arguments[i];

        if ((mask >> i & 1) == 0)
            continue;
        if ((mask >> each->source & 1) == 0)
            refuse("%s: lane %d asks lane %d, which is not in the mask", m.kernel, i, each->source);
        each->result = ((struct shuffle *)arguments[each->source])->value;
    }
}

static void ballot_act(void **arguments, unsigned mask)
{
    uint32_t bits = 0;

    for (int i = 0; i < 32; i++) {
        if ((mask >> i & 1) && ((struct shuffle *)arguments[i])->value != 0)
            bits |= 1u << i;
    }
    for (int i = 0; i < 32; i++) {
        if (mask >> i & 1)
            ((struct shuffle *)arguments[i])->result = bits;
    }
}

unsigned ballot(unsigned mask, bool yes, int site)
{
    struct shuffle each = {yes, 0, 0};

    meet("ballot", site, mask, &each, ballot_act);
    return each.result;
}

/* --- a block ------------------------------------------------------------------------------------------------------ */
static void warp_run(int warp, bool reverse)
{
    bool again = true;

    while (again && !m.given_up) {
        again = false;
        for (int i = 0; i < 32; i++) {
            int index = warp * 32 + (reverse ? 31 - i : i);

            if (m.fibers[index].state == READY && !m.given_up) {
                fiber_resume(index);
                again = true;
            }
        }
    }
}

static void pass_run(int *turn)
{
    int warps = m.count / 32;

    if (m.order == EMU_GREEDY || m.order == EMU_GREEDY_REVERSE) {
        for (int i = 0; i < warps; i++)
            warp_run(m.order == EMU_GREEDY ? i : warps - 1 - i, m.order == EMU_GREEDY_REVERSE);
        return;
    }
    for (int i = m.count - 1; m.order == EMU_RANDOM && i > 0; i--)
        std::swap(turn[i], turn[dice() % (uint64_t)(i + 1)]);
    for (int i = 0; i < m.count && !m.given_up; i++) {
        int index = m.order == EMU_REVERSE ? m.count - 1 - turn[i] : turn[i];

        if (m.fibers[index].state == READY)
            fiber_resume(index);
    }
}

/* Opens the barrier when all have come, and says what is wrong when nobody can go on. */
static void block_settle()
{
    int ready = 0, waiting = 0, site = 0;
    bool one_site = true;

    for (int i = 0; i < m.count; i++) {
        ready += m.fibers[i].state == READY;
        if (m.fibers[i].state == AT_BARRIER) {
            one_site = one_site && (waiting == 0 || m.fibers[i].barrier_site == site);
            site = m.fibers[i].barrier_site;
            waiting++;
        }
    }
    if (ready > 0 || m.alive == 0 || m.given_up)
        return;
    if (waiting != m.count || !one_site) {
        refuse("%s: block (%u, %u, %u) is stuck: of %d threads %d are at the barrier of line %d, %d have ended", m.kernel, m.index.x,
               m.index.y, m.index.z, m.count, waiting, site, m.count - m.alive);
        m.given_up = true;
        return;
    }
    for (int i = 0; i < m.count; i++)
        m.fibers[i].state = READY;
}

static void requests_settle();

static void block_run()
{
    static int turn[THREADS_MAX];

    m.alive = m.count;
    ASAN_UNPOISON_MEMORY_REGION(m.shared, SHARED_MAX + CANARY_BYTES);
    memset(m.shared, 0xff, m.shared_bytes + CANARY_BYTES);
    ASAN_POISON_MEMORY_REGION(m.shared + m.shared_bytes, SHARED_MAX + CANARY_BYTES - m.shared_bytes);
    memset(m.meetings, 0, sizeof(m.meetings[0]) * (size_t)(m.count / 32));
    for (int i = 0; i < m.count; i++) {
        fiber_start(i);
        turn[i] = i;
    }
    while (m.alive > 0 && !m.given_up) {
        pass_run(turn);
        block_settle();
    }
    if (m.given_up)
        ASAN_UNPOISON_MEMORY_REGION(m.stacks, STACK_BYTES * THREADS_MAX);
    ASAN_UNPOISON_MEMORY_REGION(m.shared, SHARED_MAX + CANARY_BYTES);
    for (size_t i = 0; i < CANARY_BYTES; i++) {
        if ((unsigned char)m.shared[m.shared_bytes + i] != 0xff && !m.given_up) {
            refuse("%s: shared memory was written %zu bytes past its end", m.kernel, i);
            m.given_up = true;
        }
    }
    requests_settle();
}

void launch_check(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared_bytes)
{
    unsigned threads = block.x * block.y * block.z;

    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        refuse("%s: a grid of %u x %u x %u", name, grid.x, grid.y, grid.z);
    if (threads == 0 || threads > THREADS_MAX || threads % 32 != 0)
        refuse("%s: a block of %u threads", name, threads);
    if (shared_bytes > (size_t)SHARED_PLAIN && shared_bytes > (size_t)shared_allowed(kernel))
        refuse("%s: %zu bytes of shared memory, not allowed by its attribute", name, shared_bytes);
}

void launch_now(const char *name, dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread)
{
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;

    if (!m.refusal.empty() && m.expecting)
        return;
    if (m.stacks == nullptr) {
        m.stacks = (char *)mmap(nullptr, STACK_BYTES * THREADS_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                -1, 0);
        m.shared = (char *)aligned_alloc(1024, 192 * 1024);
    }
    m.kernel = name;
    m.grid = grid;
    m.block = block;
    m.count = (int)(block.x * block.y * block.z);
    m.thread = &thread;
    m.shared_bytes = shared_bytes;
    m.given_up = false;
    if (m.counting) {
        char text[160];

        snprintf(text, sizeof(text), "%s (%d threads, %zu bytes)", name, m.count, shared_bytes);
        m.tally_name = text;
        m.tallies[m.tally_name].blocks += blocks;
    }
    device_open();
    for (uint64_t i = 0; i < blocks && !m.given_up; i++) {
        uint64_t at = m.order == EMU_REVERSE || m.order == EMU_GREEDY_REVERSE ? blocks - 1 - i : i;

        m.index = {(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y)};
        block_run();
    }
    device_close();
}

/* --- accesses through the primitives ------------------------------------------------------------------------------ */
enum { REQUEST_GLOBAL, REQUEST_SHARED };

static void request_note(int kind, int site, uint64_t at, int bytes)
{
    struct fiber *fiber = &m.fibers[m.current];
    int place = site * 2 + kind;

    if (!m.counting)
        return;
    struct request &request = m.requests[{m.current / 32, place, fiber->times[place]++}];
    request.kind = kind;
    request.lanes[m.current % 32] = {at, bytes};
}

/* Eight lanes of 16 bytes a phase; lanes of one phase that want different rows of one bank group wait for each other. */
static void phase_count(struct tally *tally, const uint64_t *at, int count)
{
    int same_most = 1;

    for (int i = 0; i < count; i++) {
        int same = 0;

        for (int j = 0; j < count; j++)
            same += at[j] / 16 % 8 == at[i] / 16 % 8;
        same_most = same > same_most ? same : same_most;
    }
    tally->phases++;
    tally->conflicts += (uint64_t)same_most - 1;
}

static void requests_settle()
{
    if (!m.counting)
        return;
    struct tally &tally = m.tallies[m.tally_name];
    for (auto &[key, request] : m.requests) {
        if (request.kind == REQUEST_SHARED) {
            uint64_t at[8];
            int count = 0;

            for (auto &[lane, access] : request.lanes) {
                at[count++] = access.first;
                if (count == 8) {
                    phase_count(&tally, at, count);
                    count = 0;
                }
            }
            if (count > 0)
                phase_count(&tally, at, count);
            continue;
        }
        std::map<uint64_t, bool> sectors;
        for (auto &[lane, access] : request.lanes) {
            tally.bytes += (uint64_t)access.second;
            if (access.second > 0)
                sectors[access.first / 32] = true;
        }
        tally.requests++;
        tally.sectors += sectors.size();
    }
    m.requests.clear();
}

static void check_shared(const char *what, int site, const void *at, int bytes)
{
    const char *place = (const char *)at;

    if ((uintptr_t)at % 16 != 0)
        refuse("%s: %s at line %d: shared memory + %td is not 16-byte aligned", m.kernel, what, site, place - m.shared);
    if (place < m.shared || place + bytes > m.shared + m.shared_bytes)
        refuse("%s: %s at line %d: shared memory + %td is outside", m.kernel, what, site, place - m.shared);
}

static void check_global(const char *what, int site, const void *at, int bytes)
{
    if ((uintptr_t)at % 16 != 0)
        refuse("%s: %s at line %d: device memory is not 16-byte aligned", m.kernel, what, site);
    if (bytes > 0 && !on_device(at, (size_t)bytes))
        refuse("%s: %s at line %d: outside of what was allocated", m.kernel, what, site);
}

void cp_async16(void *shared, const void *global, int bytes, int site)
{
    struct fiber *fiber = &m.fibers[m.current];

    check_shared("cp.async", site, shared, 16);
    check_global("cp.async", site, global, bytes);
    if (bytes < 0 || bytes > 16)
        refuse("%s: cp.async at line %d of %d bytes", m.kernel, site, bytes);
    memset(shared, 0xff, 16);
    fiber->copies.push_back({(char *)shared, (const char *)global, bytes, fiber->group});
    request_note(REQUEST_GLOBAL, site, (uint64_t)(uintptr_t)global, bytes);
    request_note(REQUEST_SHARED, site, (uint64_t)((char *)shared - m.shared), 16);
}

void cp_async_commit() { m.fibers[m.current].group++; }

void cp_async_wait(int groups_left)
{
    struct fiber *fiber = &m.fibers[m.current];
    size_t kept = 0;

    for (size_t i = 0; i < fiber->copies.size(); i++) {
        copy each = fiber->copies[i];

        if (each.group + (uint32_t)groups_left >= fiber->group) {
            fiber->copies[kept++] = each;
            continue;
        }
        fiber->waited.push_back(each);
    }
    fiber->copies.resize(kept);
}

struct matrix_rows { const void *row; uint32_t *r; bool trans; };

static void ldmatrix_act(void **arguments, unsigned)
{
    for (int i = 0; i < 32; i++) {
        struct matrix_rows *each = (struct matrix_rows *)arguments[i];

        for (int matrix = 0; matrix < 4; matrix++) {
            uint16_t half[2];

            for (int j = 0; j < 2; j++) {
                int row = each->trans ? i % 4 * 2 + j : i / 4;
                int column = each->trans ? i / 4 : i % 4 * 2 + j;
                const uint16_t *from = (const uint16_t *)((struct matrix_rows *)arguments[matrix * 8 + row])->row;

                half[j] = from[column];
            }
            each->r[matrix] = half[0] | (uint32_t)half[1] << 16;
        }
    }
}

void ldmatrix_x4(uint32_t *r, const void *row, bool trans, int site)
{
    struct matrix_rows each = {row, r, trans};

    check_shared("ldmatrix", site, row, 16);
    request_note(REQUEST_SHARED, site, (uint64_t)((const char *)row - m.shared), 16);
    meet("ldmatrix", site, ~0u, &each, ldmatrix_act);
}

struct product { float *c; const uint32_t *a; uint32_t b[2]; };

static float half_of(uint32_t pair, int high) { return __uint_as_float(high ? pair & 0xffff0000u : pair << 16); }

/* m16n8k16: the places of rows, columns and k in the registers are those of the PTX manual. */
static void mma_act(void **arguments, unsigned)
{
    static float a[16][16], b[8][16];

    for (int i = 0; i < 32; i++) {
        struct product *each = (struct product *)arguments[i];
        int group = i / 4, k = i % 4 * 2;

        for (int j = 0; j < 2; j++) {
            for (int part = 0; part < 4; part++)
                a[group + part % 2 * 8][k + part / 2 * 8 + j] = half_of(each->a[part], j);
            b[group][k + j] = half_of(each->b[0], j);
            b[group][k + 8 + j] = half_of(each->b[1], j);
        }
    }
    for (int i = 0; i < 32; i++) {
        struct product *each = (struct product *)arguments[i];

        for (int j = 0; j < 4; j++) {
            const float *left = a[i / 4 + j / 2 * 8];
            const float *right = b[i % 4 * 2 + j % 2];
            float sum = each->c[j];

            for (int k = 0; k < 16; k++)
                sum += left[k] * right[k];
            each->c[j] = sum;
        }
    }
}

void mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int site)
{
    struct product each = {c, a, {b0, b1}};

    meet("mma", site, ~0u, &each, mma_act);
}

uint4 load16(const void *global, int site)
{
    check_global("a load", site, global, 16);
    request_note(REQUEST_GLOBAL, site, (uint64_t)(uintptr_t)global, 16);
    return *(const uint4 *)global;
}

void store16(void *global, uint4 value, int site)
{
    check_global("a store", site, global, 16);
    request_note(REQUEST_GLOBAL, site, (uint64_t)(uintptr_t)global, 16);
    *(uint4 *)global = value;
}

} /* namespace emu */

/* --- control.h ---------------------------------------------------------------------------------------------------- */
namespace emu { void streams_set(enum emu_streams streams, uint64_t seed); }

void emu_set(enum emu_order order, enum emu_streams streams, uint64_t seed)
{
    emu::m.order = order;
    emu::m.dice = seed;
    emu::streams_set(streams, seed);
}

const char *emu_order_name(enum emu_order order)
{
    static const char *const names[] = {
#define X(name, text) text,
        EMU_ORDERS(X)
#undef X
    };

    return names[order];
}

void emu_expect_refusal(void)
{
    emu::m.expecting = true;
    emu::m.refusal.clear();
}

const char *emu_refusal(void)
{
    static std::string text;

    text = emu::m.refusal;
    emu::m.refusal.clear();
    emu::m.expecting = false;
    return text.c_str();
}

void emu_count(bool on)
{
    emu::m.counting = on;
    if (on)
        emu::m.tallies.clear();
}

const char *emu_counts(void)
{
    static std::string text;

    text.clear();
    for (auto &[name, tally] : emu::m.tallies) {
        char line[256];

        snprintf(line, sizeof(line), "%s: %llu blocks, %llu requests, %llu sectors for %llu bytes; %llu shared phases, %llu conflicts\n",
                 name.c_str(), (unsigned long long)tally.blocks, (unsigned long long)tally.requests, (unsigned long long)tally.sectors, (unsigned long long)tally.bytes,
                 (unsigned long long)tally.phases, (unsigned long long)tally.conflicts);
        text += line;
    }
    return text.c_str();
}
