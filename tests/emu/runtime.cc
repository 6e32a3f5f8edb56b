/* Memory, streams, events and graphs. The arena is one mapping without access; allocations stand apart by a guard that
 * AddressSanitizer knows as poisoned and that is checked when they are freed. A stream is a queue; a wait runs queues,
 * never further than it must (EMU_LAZY), or every other one first (EMU_OTHERS_FIRST), or by dice. A graph is what a
 * capture saw, with its dependencies, and runs in an order that those allow and nobody would expect. */
#include "emu/emu.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

constexpr size_t ARENA_BYTES = (size_t)1 << 32;
constexpr size_t GUARD_BYTES = 256;
constexpr size_t PAGE_BYTES = 4096;
constexpr size_t FRESH_BYTES = (size_t)512 << 10;
constexpr int CAPABILITY_MAJOR = 9;
constexpr int GPUS = 2;

struct emu_event {
    uint64_t recorded, done;    /* tickets */
    struct emu_graph *graph;    /* while it was recorded in a capture */
    int node;
};

struct work {
    std::function<void()> run;
    emu_event *wait;
    emu_event *record;
    uint64_t ticket;
};

struct emu_stream {
    std::deque<work> queue;
    struct emu_graph *capture;
    int last;                   /* node of the capture; -1: none */
    std::vector<int> also;      /* events that the next node waits for */
};

struct node {
    std::function<void()> run;
    std::vector<int> after;
};

struct emu_graph {
    emu_stream *origin;
    std::vector<node> nodes;
};
struct emu_graph_exec { std::vector<node> nodes; };

static struct {
    char *arena;
    size_t end;                              /* of what was ever given out */
    std::map<size_t, size_t> pieces;         /* offset, bytes */
    std::map<size_t, int> rights;            /* of pieces that are whole pages */
    std::map<const char *, size_t> pinned;
    std::map<const void *, int> shared;
    int open;
    enum emu_streams order;
    uint64_t dice;
    std::vector<emu_stream *> streams;
    std::set<emu_event *> events;
} r;

static uint64_t dice(uint64_t below)
{
    r.dice = r.dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (r.dice >> 33) % below;
}

namespace emu {

void streams_set(enum emu_streams streams, uint64_t seed)
{
    r.order = streams;
    r.dice = seed;
}

static void arena_protect(int protection)
{
    size_t bytes = (r.end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

    if (bytes > 0 && mprotect(r.arena, bytes, protection) != 0)
        refuse("mprotect failed");
    for (auto &[at, rights] : r.rights) {
        if ((rights & protection) != protection && mprotect(r.arena + at, r.pieces[at], rights & protection) != 0)
            refuse("mprotect failed");
    }
}

void device_open()
{
    if (r.open++ == 0)
        arena_protect(PROT_READ | PROT_WRITE);
}

void device_close()
{
    if (--r.open == 0)
        arena_protect(PROT_NONE);
}

static bool in_arena(const void *memory)
{
    return r.arena != nullptr && (const char *)memory >= r.arena && (const char *)memory < r.arena + ARENA_BYTES;
}

bool on_device(const void *memory, size_t bytes)
{
    size_t at = (size_t)((const char *)memory - r.arena);

    if (!in_arena(memory))
        return false;
    auto piece = r.pieces.upper_bound(at);
    if (piece == r.pieces.begin())
        return false;
    --piece;
    return at + bytes <= piece->first + piece->second;
}

static void arena_make()
{
    if (r.arena != nullptr)
        return;
    r.arena = (char *)mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.arena == MAP_FAILED)
        abort();
}

/* The first hole of so many bytes; ARENA_BYTES: there is none. */
static size_t hole_find(size_t bytes, size_t step)
{
    size_t at = step;

    for (auto &[offset, size] : r.pieces) {
        if (offset >= at + bytes)
            break;
        at = (offset + (size + 255) / 256 * 256 + GUARD_BYTES + step - 1) / step * step;
    }
    if (at + bytes > ARENA_BYTES)
        return ARENA_BYTES;
    r.end = at + bytes > r.end ? at + bytes : r.end;
    return at;
}

char *pages_reserve(size_t bytes)
{
    size_t at;

    arena_make();
    at = hole_find(bytes + GUARD_BYTES, PAGE_BYTES);
    if (at == ARENA_BYTES)
        return nullptr;
    r.pieces[at] = bytes;
    r.rights[at] = PROT_NONE;
    ASAN_UNPOISON_MEMORY_REGION(r.arena + at, bytes);
    return r.arena + at;
}

void pages_free(char *pages)
{
    size_t at = (size_t)(pages - r.arena);

    ASAN_POISON_MEMORY_REGION(pages, r.pieces[at]);
    r.pieces.erase(at);
    r.rights.erase(at);
}

void pages_allow(char *pages, int protection)
{
    r.rights[(size_t)(pages - r.arena)] = protection;
}

cudaError_t shared_allow(const void *kernel, int bytes)
{
    if (bytes > SHARED_MAX)
        refuse("%d bytes of shared memory are more than an sm_80 has", bytes);
    r.shared[kernel] = bytes;
    return cudaSuccess;
}

int shared_allowed(const void *kernel)
{
    auto found = r.shared.find(kernel);

    return found == r.shared.end() ? 0 : found->second;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */
static bool blocked(const emu_stream *stream)
{
    return !stream->queue.empty() && stream->queue.front().wait != nullptr &&
           stream->queue.front().wait->done < stream->queue.front().ticket;
}

static void step(emu_stream *stream)
{
    work each = std::move(stream->queue.front());

    stream->queue.pop_front();
    if (each.record != nullptr)
        each.record->done = each.ticket > each.record->done ? each.ticket : each.record->done;
    else if (each.wait == nullptr)
        each.run();
}

static void others_step(emu_stream *stream)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (emu_stream *other : r.streams) {
            while (other != stream && !other->queue.empty() && !blocked(other)) {
                step(other);
                moved = true;
            }
        }
    }
}

static emu_stream *holder_of(const emu_event *event, uint64_t ticket)
{
    for (emu_stream *stream : r.streams) {
        for (const work &each : stream->queue) {
            if (each.record == event && each.ticket >= ticket)
                return stream;
        }
    }
    return nullptr;
}

/* One step towards the end of `stream`, or a step of another one. */
static void step_towards(emu_stream *stream)
{
    int hops = 0;

    if (r.order == EMU_OTHERS_FIRST)
        others_step(stream);
    if (r.order == EMU_DICE && dice(2) == 0) {
        emu_stream *other = r.streams[dice(r.streams.size())];

        if (!other->queue.empty() && !blocked(other))
            step(other);
    }
    while (blocked(stream)) {
        stream = holder_of(stream->queue.front().wait, stream->queue.front().ticket);
        if (stream == nullptr || hops++ > 64)
            return refuse("a stream waits for an event that nothing will record");
    }
    if (!stream->queue.empty())
        step(stream);
}

static int capture_add(emu_stream *stream, std::function<void()> run)
{
    node each = {std::move(run), stream->also};

    if (stream->last >= 0)
        each.after.push_back(stream->last);
    stream->also.clear();
    stream->capture->nodes.push_back(std::move(each));
    return stream->last = (int)stream->capture->nodes.size() - 1;
}

void enqueue(cudaStream_t stream, std::function<void()> run)
{
    if (stream == nullptr)
        return refuse("work on the default stream");
    if (stream->capture != nullptr)
        capture_add(stream, std::move(run));
    else
        stream->queue.push_back({std::move(run), nullptr, nullptr, 0});
}

} /* namespace emu */

using namespace emu;

/* --- small answers ------------------------------------------------------------------------------------------------ */
const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}
const char *cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return cudaSuccess; }

/* Those that this process sees, by CUDA's rule: names up to the first that is none, each once; all, if none are named. */
static std::vector<int> gpus_seen()
{
    const char *names = getenv("CUDA_VISIBLE_DEVICES");
    std::vector<int> seen;

    if (names == nullptr)
        return {0, GPUS - 1};
    for (char *end; *names != '\0'; names = *end == ',' ? end + 1 : end) {
        long gpu = strtol(names, &end, 10);

        if (end == names || (*end != ',' && *end != '\0') || gpu < 0 || gpu >= GPUS)
            break;
        seen.push_back((int)gpu);
    }
    return seen;
}

/* Their memories are one here: nobody uses two in a process. To a process that was shown some it says which one it has. */
cudaError_t cudaSetDevice(int device)
{
    const std::vector<int> seen = gpus_seen();

    if (device < 0 || device >= (int)seen.size())
        return cudaErrorInvalidValue;
    if (getenv("CUDA_VISIBLE_DEVICES") != nullptr)
        fprintf(stderr, "emulated GPU %d\n", seen[(size_t)device]);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *ret_count)
{
    *ret_count = (int)gpus_seen().size();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *ret_about, int)
{
    *ret_about = {ARENA_BYTES, CAPABILITY_MAJOR};
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *ret_value, cudaDeviceAttr attribute, int)
{
    *ret_value = attribute == cudaDevAttrComputeCapabilityMajor ? CAPABILITY_MAJOR : 0;
    return cudaSuccess;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */
cudaError_t cudaMalloc(void **ret_memory, size_t bytes)
{
    size_t at, need = (bytes + 255) / 256 * 256 + GUARD_BYTES;

    for (emu_stream *stream : r.streams) {
        if (stream->capture != nullptr)
            refuse("cudaMalloc in a capture");
    }
    arena_make();
    at = hole_find(need, 256);
    if (at == ARENA_BYTES)
        return cudaErrorMemoryAllocation;
    r.pieces[at] = bytes;
    device_open();
    ASAN_UNPOISON_MEMORY_REGION(r.arena + at, need);
    /* Fresh memory is NaN; of much of it, the beginning. */
    memset(r.arena + at, 0xff, bytes < FRESH_BYTES ? bytes : FRESH_BYTES);
    memset(r.arena + at + bytes, 0xee, need - bytes);
    ASAN_POISON_MEMORY_REGION(r.arena + at + bytes, need - bytes);
    ASAN_POISON_MEMORY_REGION(r.arena + at - GUARD_BYTES, GUARD_BYTES);
    device_close();
    *ret_memory = r.arena + at;
    return cudaSuccess;
}

extern "C" unsigned emu_fresh()
{
    unsigned count = 0;

    device_open();
    for (auto &[at, bytes] : r.pieces) {
        const char *piece = r.arena + at;
        size_t whole = bytes < FRESH_BYTES ? bytes : FRESH_BYTES, i = 0;
        char fresh[16];

        memset(fresh, 0xff, sizeof(fresh));
        while (i + sizeof(fresh) <= whole && memcmp(piece + i, fresh, sizeof(fresh)) != 0)
            i += sizeof(fresh);
        count += i + sizeof(fresh) <= whole;
    }
    device_close();
    return count;
}

static void drain()
{
    for (emu_stream *stream : r.streams)
        cudaStreamSynchronize(stream);
}

cudaError_t cudaFree(void *memory)
{
    auto piece = r.pieces.find((size_t)((char *)memory - r.arena));

    if (memory == nullptr)
        return cudaSuccess;
    if (piece == r.pieces.end())
        return refuse("cudaFree of what cudaMalloc did not give"), cudaErrorInvalidValue;
    drain();
    device_open();
    ASAN_UNPOISON_MEMORY_REGION(r.arena + piece->first, (piece->second + 255) / 256 * 256 + GUARD_BYTES);
    for (size_t i = piece->second; i < (piece->second + 255) / 256 * 256 + GUARD_BYTES; i++) {
        if ((unsigned char)r.arena[piece->first + i] != 0xee)
            refuse("device memory was written %zu bytes past its end", i - piece->second);
    }
    madvise(r.arena + (piece->first + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
            piece->second / PAGE_BYTES > 1 ? (piece->second / PAGE_BYTES - 1) * PAGE_BYTES : 0, MADV_DONTNEED);
    ASAN_POISON_MEMORY_REGION(r.arena + piece->first, piece->second);
    device_close();
    r.pieces.erase(piece);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret_memory, size_t bytes)
{
    *ret_memory = malloc(bytes);
    r.pinned[(const char *)*ret_memory] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    drain();
    r.pinned.erase((const char *)memory);
    free(memory);
    return cudaSuccess;
}

static bool is_pinned(const void *memory)
{
    auto piece = r.pinned.upper_bound((const char *)memory);

    if (piece == r.pinned.begin())
        return false;
    --piece;
    return (const char *)memory < piece->first + piece->second;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;

    if (bytes == 0)
        return cudaSuccess;
    if (to_device ? !on_device(to, bytes) : in_arena(to))
        refuse("a copy of %zu bytes to what is no such memory", bytes);
    if (from_device ? !on_device(from, bytes) : in_arena(from))
        refuse("a copy of %zu bytes from what is no such memory", bytes);
    if (to_device && from_device && (char *)to < (const char *)from + bytes && (const char *)from < (char *)to + bytes)
        refuse("a copy of %zu bytes onto itself", bytes);
    if (!from_device && !is_pinned(from)) {
        std::vector<char> staged((const char *)from, (const char *)from + bytes);

        if (stream->capture != nullptr)
            refuse("a copy of pageable memory in a capture");
        enqueue(stream, [to, staged] {
            device_open();
            memcpy(to, staged.data(), staged.size());
            device_close();
        });
        return cudaSuccess;
    }
    enqueue(stream, [to, from, bytes] {
        device_open();
        memcpy(to, from, bytes);
        device_close();
    });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream)
{
    if (width > to_pitch || width > from_pitch)
        refuse("a copy of rows that are wider than their pitch");
    for (size_t row = 0; row < height; row++)
        cudaMemcpyAsync((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, kind, stream);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    if (bytes > 0 && !on_device(memory, bytes))
        refuse("a fill of %zu bytes of what is no such memory", bytes);
    enqueue(stream, [memory, value, bytes] {
        device_open();
        memset(memory, value, bytes);
        device_close();
    });
    return cudaSuccess;
}

/* --- streams and events ------------------------------------------------------------------------------------------- */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned)
{
    *ret_stream = new emu_stream{{}, nullptr, -1, {}};
    r.streams.push_back(*ret_stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaStreamSynchronize(stream);
    for (size_t i = 0; i < r.streams.size(); i++) {
        if (r.streams[i] == stream)
            r.streams.erase(r.streams.begin() + (ptrdiff_t)i);
    }
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream->capture != nullptr)
        refuse("waiting for a stream in a capture");
    /* Once for all that runs: the host does nothing in between. */
    device_open();
    while (!stream->queue.empty())
        step_towards(stream);
    device_close();
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned)
{
    *ret_event = new emu_event{0, 0, nullptr, -1};
    r.events.insert(*ret_event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (event->done < event->recorded)
        drain();
    r.events.erase(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (stream->capture != nullptr) {
        event->graph = stream->capture;
        event->node = capture_add(stream, [] {});
        return cudaSuccess;
    }
    event->graph = nullptr;
    event->recorded++;
    stream->queue.push_back({nullptr, nullptr, event, event->recorded});
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (event->graph != nullptr) {
        if (stream->capture == nullptr)
            stream->last = -1;
        stream->capture = event->graph;
        stream->also.push_back(event->node);
        return cudaSuccess;
    }
    if (stream->capture != nullptr)
        refuse("a capture waits for an event from outside of it");
    if (event->recorded > 0)
        stream->queue.push_back({nullptr, event, nullptr, event->recorded});
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    while (event->done < event->recorded) {
        emu_stream *stream = holder_of(event, event->recorded);

        if (stream == nullptr)
            return refuse("an event that nothing will record"), cudaErrorInvalidValue;
        step_towards(stream);
    }
    return cudaSuccess;
}

/* A host that asks again and again must see an end: every question moves something. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (event->done >= event->recorded)
        return cudaSuccess;
    emu_stream *stream = holder_of(event, event->recorded);
    if (stream != nullptr)
        step_towards(stream);
    return cudaErrorNotReady;
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    stream->capture = new emu_graph{stream, {}};
    stream->last = -1;
    stream->also.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret_graph)
{
    emu_graph *graph = stream->capture;
    std::vector<bool> before(graph->nodes.size());
    std::vector<int> todo = stream->also;

    if (stream->last >= 0)
        todo.push_back(stream->last);
    while (!todo.empty()) {
        int at = todo.back();

        todo.pop_back();
        if (before[(size_t)at])
            continue;
        before[(size_t)at] = true;
        for (int each : graph->nodes[(size_t)at].after)
            todo.push_back(each);
    }
    for (bool each : before) {
        if (!each) {
            refuse("a captured stream was not joined");
            break;
        }
    }
    for (emu_stream *each : r.streams) {
        if (each->capture == graph) {
            each->capture = nullptr;
            each->last = -1;
            each->also.clear();
        }
    }
    for (emu_event *event : r.events) {
        if (event->graph == graph)
            event->graph = nullptr;
    }
    *ret_graph = graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret_exec, cudaGraph_t graph, unsigned long long)
{
    *ret_exec = new emu_graph_exec{graph->nodes};
    return cudaSuccess;
}

static void graph_run(const emu_graph_exec *exec)
{
    std::vector<bool> done(exec->nodes.size());

    for (size_t left = exec->nodes.size(); left > 0; left--) {
        std::vector<size_t> ready;

        for (size_t i = 0; i < exec->nodes.size(); i++) {
            bool free = !done[i];

            for (int each : exec->nodes[i].after)
                free = free && done[(size_t)each];
            if (free)
                ready.push_back(i);
        }
        size_t pick = r.order == EMU_LAZY ? ready.size() - 1 : r.order == EMU_OTHERS_FIRST ? 0 : dice(ready.size());
        exec->nodes[ready[pick]].run();
        done[ready[pick]] = true;
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    enqueue(stream, [exec] { graph_run(exec); });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    drain();
    delete exec;
    return cudaSuccess;
}
