/* The emulation keeps its promises: kernels with a mistake put in are caught by at least one order of threads, what it
 * says it refuses it refuses, and streams, events and graphs do nothing before they must and nothing out of order. */
extern "C" {
#include "support.h"
}

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "emu/control.h"
#include "engine/ops/cuda/tile.h"

#define SMALL_K 256
#define SMALL_ROWS 16

enum mistake { NONE, NO_WAIT, WAIT_TOO_LITTLE, NO_BARRIER_AFTER_WAIT, NO_BARRIER_BEFORE_REFILL, NO_BARRIER_BEFORE_SUM, MISTAKES };

struct small_shared {
    tile_row x[2][SMALL_ROWS], w[2][SMALL_ROWS];
    float part[4][SMALL_ROWS][SMALL_ROWS];
};

/* y [16][16] = x [16][k] w [16][k]^T: two buffers, a warp a quarter of each 64 of k, and the warps' sums added at the
 * end. */
template <int MISTAKE> KERNEL product(float *y, const uint16_t *x, const uint16_t *w, int k)
{
    DYNAMIC_SHARED(struct small_shared, shared);
    int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    float c[2][4] = {};

    tile_load<SMALL_ROWS, 128>(shared->x[0], x, k, SMALL_ROWS, 0, k, true);
    tile_load<SMALL_ROWS, 128>(shared->w[0], w, k, SMALL_ROWS, 0, k, true);
    cp_async_commit();
    for (int step = 0; step < k / TILE_K; step++) {
        int stage = step % 2;
        uint32_t left[4], right[4];

        if (step + 1 < k / TILE_K) {
            tile_load<SMALL_ROWS, 128>(shared->x[1 - stage], x, k, SMALL_ROWS, (step + 1) * TILE_K, k, true);
            tile_load<SMALL_ROWS, 128>(shared->w[1 - stage], w, k, SMALL_ROWS, (step + 1) * TILE_K, k, true);
        }
        cp_async_commit();
        if (MISTAKE == WAIT_TOO_LITTLE)
            cp_async_wait<2>();
        else if (MISTAKE != NO_WAIT)
            cp_async_wait<1>();
        if (MISTAKE != NO_BARRIER_AFTER_WAIT)
            __syncthreads();
        left_load<TILE_STRIDE>(left, shared->x[stage], 0, warp * 16);
        right_load<TILE_STRIDE>(right, shared->w[stage], 0, warp * 16);
        mma_bf16(c[0], left, right[0], right[2]);
        mma_bf16(c[1], left, right[1], right[3]);
        if (MISTAKE != NO_BARRIER_BEFORE_REFILL)
            __syncthreads();
    }
    if (MISTAKE == NO_WAIT)
        cp_async_wait<0>();
    for (int i = 0; i < 8; i++)
        shared->part[warp][lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = c[i / 4][i % 4];
    if (MISTAKE != NO_BARRIER_BEFORE_SUM)
        __syncthreads();
    for (int i = thread; i < SMALL_ROWS * SMALL_ROWS; i += 128) {
        float sum = 0;

        for (int each = 0; each < 4; each++)
            sum += shared->part[each][i / SMALL_ROWS][i % SMALL_ROWS];
        y[i] = sum;
    }
}

static cudaStream_t stream;

template <class T> static T *give(const std::vector<T> &values)
{
    void *memory;

    cudaMalloc(&memory, values.size() * sizeof(T));
    cudaMemcpyAsync(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream);
    return (T *)memory;
}

template <class T> static std::vector<T> fetch(const T *memory, size_t count)
{
    std::vector<T> values(count);

    cudaMemcpyAsync(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return values;
}

/* In how many orders the product with this mistake is right. */
template <int MISTAKE> static int orders_right()
{
    std::vector<uint16_t> x(SMALL_ROWS * SMALL_K), w(SMALL_ROWS * SMALL_K);
    std::vector<float> want(SMALL_ROWS * SMALL_ROWS);
    int right = 0;

    for (size_t i = 0; i < x.size(); i++) {
        x[i] = float_bf16((float)((int)(i * 7 % 5) - 2));
        w[i] = float_bf16((float)((int)(i * 11 % 7) - 3));
    }
    for (size_t i = 0; i < want.size(); i++) {
        for (size_t k = 0; k < SMALL_K; k++)
            want[i] += bf16_float(x[i / SMALL_ROWS * SMALL_K + k]) * bf16_float(w[i % SMALL_ROWS * SMALL_K + k]);
    }
    for (int order = 0; order < EMU_ORDERS_COUNT; order++) {
        uint16_t *device_x = give(x), *device_w = give(w);
        float *y = give(std::vector<float>(want.size()));

        emu_set((enum emu_order)order, EMU_LAZY, 1);
        emu_expect_refusal();
        LAUNCH(product<MISTAKE>, dim3(1), dim3(128), sizeof(struct small_shared), stream, y, (const uint16_t *)device_x,
               (const uint16_t *)device_w, SMALL_K);
        std::vector<float> got = fetch(y, want.size());
        right += emu_refusal()[0] == 0 && got == want;
        cudaFree(device_x);
        cudaFree(device_w);
        cudaFree(y);
    }
    return right;
}

static void a_missing_wait_or_barrier_is_caught_by_some_order(void **)
{
    assert_int_equal(orders_right<NONE>(), EMU_ORDERS_COUNT);
    assert_true(orders_right<NO_WAIT>() < EMU_ORDERS_COUNT);
    assert_true(orders_right<WAIT_TOO_LITTLE>() < EMU_ORDERS_COUNT);
    assert_true(orders_right<NO_BARRIER_AFTER_WAIT>() < EMU_ORDERS_COUNT);
    assert_true(orders_right<NO_BARRIER_BEFORE_REFILL>() < EMU_ORDERS_COUNT);
    assert_true(orders_right<NO_BARRIER_BEFORE_SUM>() < EMU_ORDERS_COUNT);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */
KERNEL touch(uint16_t *memory, int what, int offset)
{
    DYNAMIC_SHARED(uint16_t, shared);

    switch (what) {
    case 0: cp_async16(shared, memory + offset, 16); cp_async_wait<0>(); cp_async_commit(); cp_async_wait<0>(); break;
    case 1: cp_async16(shared + offset, memory, 16); cp_async_commit(); cp_async_wait<0>(); break;
    case 2: cp_async16(shared, memory, 16); cp_async_commit(); break;
    case 3: store16(memory + offset, load16(memory)); break;
    case 4: if (threadIdx.x < 32) __syncthreads(); break;
    case 5: if (threadIdx.x % 2 == 0) __syncwarp(); break;
    case 6: if (threadIdx.x != 3) warp_sum(1); break;
    case 7: if (threadIdx.x % 2 == 0) warp_sum(1); else warp_max(1); break;
    case 8: shared[64] = 1; break;
    default: break;
    }
}

static std::string refusal_of(int what, int offset, dim3 grid = dim3(1), unsigned threads = 64, size_t shared_bytes = 128)
{
    uint16_t *memory = give(std::vector<uint16_t>(64));
    std::string text;

    emu_set(EMU_FORWARD, EMU_LAZY, 1);
    emu_expect_refusal();
    LAUNCH(touch, grid, dim3(threads), shared_bytes, stream, memory, what, offset);
    cudaStreamSynchronize(stream);
    text = emu_refusal();
    cudaFree(memory);
    return text;
}

static void holds(const std::string &text, const char *part, int line)
{
    if (text.find(part) == std::string::npos)
        fail_msg("line %d: '%s' does not say '%s'", line, text.c_str(), part);
}
#define HOLDS(text, part) holds(text, part, __LINE__)

static void bad_accesses_and_meetings_are_refused(void **)
{
    assert_string_equal(refusal_of(-1, 0).c_str(), "");
    assert_string_equal(refusal_of(3, 8).c_str(), "");
    HOLDS(refusal_of(0, 1), "device memory is not 16-byte aligned");
    HOLDS(refusal_of(0, 64), "outside of what was allocated");
    HOLDS(refusal_of(1, 4), "is not 16-byte aligned");
    HOLDS(refusal_of(1, 64), "is outside");
    HOLDS(refusal_of(2, 0), "unwaited");
    HOLDS(refusal_of(3, 4), "a store");
    HOLDS(refusal_of(4, 0), "stuck");
    HOLDS(refusal_of(5, 0), "stuck");
    HOLDS(refusal_of(6, 0), "stuck");
    HOLDS(refusal_of(7, 0), "meets for shuffle");
#ifndef __SANITIZE_ADDRESS__
    HOLDS(refusal_of(8, 0), "past its end");
#endif
}

static void bad_launches_are_refused(void **)
{
    uint16_t host[64];

    HOLDS(refusal_of(-1, 0, dim3(0)), "a grid of 0 x 1 x 1");
    HOLDS(refusal_of(-1, 0, dim3(1, 65536)), "a grid of 1 x 65536 x 1");
    HOLDS(refusal_of(-1, 0, dim3(1), 48), "a block of 48 threads");
    HOLDS(refusal_of(-1, 0, dim3(1), 2048), "a block of 2048 threads");
    HOLDS(refusal_of(-1, 0, dim3(1), 64, 48 * 1024 + 16), "not allowed by its attribute");
    emu_expect_refusal();
    cudaFuncSetAttribute(touch, cudaFuncAttributeMaxDynamicSharedMemorySize, 164 * 1024);
    HOLDS(emu_refusal(), "more than an sm_80 has");
    cudaFuncSetAttribute(touch, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024);
    assert_string_equal(refusal_of(-1, 0, dim3(1), 64, 48 * 1024 + 16).c_str(), "");
    emu_expect_refusal();
    LAUNCH(touch, dim3(1), dim3(32), 0, stream, host, -1, 0);
    cudaStreamSynchronize(stream);
    HOLDS(emu_refusal(), "an argument is host memory");
}

static void device_memory_is_out_of_reach_of_the_host(void **)
{
    uint16_t *memory = give(std::vector<uint16_t>(64));
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(((volatile uint16_t *)memory)[0] == 0 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    cudaFree(memory);
}

static void guards_of_device_memory_are_checked_when_it_is_freed(void **)
{
#ifndef __SANITIZE_ADDRESS__
    uint16_t *memory = give(std::vector<uint16_t>(60));

    cudaStreamSynchronize(stream);
    emu::device_open();
    memory[60] = 1;
    emu::device_close();
    emu_expect_refusal();
    cudaFree(memory);
    HOLDS(emu_refusal(), "past its end");
#else
    printf("skipped: under AddressSanitizer the write itself would stop the program\n");
    skip();
#endif
}

static void blas_refuses_leading_dimensions_and_sizes_that_do_not_fit(void **)
{
    float *memory = give(std::vector<float>(64));
    cublasHandle_t blas;
    const float one = 1, zero = 0;
    auto call = [&](int m, int n, int k, int lda, int ldb, int ldc) {
        emu_expect_refusal();
        cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, memory, CUDA_R_32F, lda, memory, CUDA_R_32F, ldb, &zero, memory, CUDA_R_32F,
                     ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
        return std::string(emu_refusal());
    };

    cublasCreate(&blas);
    cublasSetStream(blas, stream);
    HOLDS(call(4, 4, 8, 7, 8, 4), "leading dimension 7 of A");
    HOLDS(call(4, 4, 8, 8, 4, 4), "leading dimension 4 of B");
    HOLDS(call(4, 4, 8, 8, 8, 3), "leading dimension 3 of C");
    HOLDS(call(16, 4, 8, 8, 8, 16), "A reaches outside");
    assert_string_equal(call(4, 4, 8, 8, 8, 4).c_str(), "");
    cublasDestroy(blas);
    cudaFree(memory);
}

/* --- streams and graphs ------------------------------------------------------------------------------------------- */
KERNEL append(int *list, int value)
{
    if (threadIdx.x == 0) {
        list[1 + list[0]] = value;
        list[0]++;
    }
}

static void note(cudaStream_t where, int *list, int value)
{
    LAUNCH(append, dim3(1), dim3(32), 0, where, list, value);
}

static void streams_wait_for_the_host_and_for_events_alone(void **)
{
    for (int order = 0; order < EMU_STREAMS_COUNT; order++) {
        cudaStream_t other;
        cudaEvent_t event;
        int *list = give(std::vector<int>(8));

        emu_set(EMU_FORWARD, (enum emu_streams)order, 3);
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        cudaStreamSynchronize(stream);
        note(other, list, 1);
        cudaEventRecord(event, other);
        note(other, list, 2);
        assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
        cudaStreamWaitEvent(stream, event, 0);
        note(stream, list, 3);
        std::vector<int> got = fetch(list, 8);
        /* 1 before 3 always; 2 only where others go first, or by chance. */
        assert_int_equal(got[1], 1);
        assert_true(got[0] >= 2 && (got[2] == 3 || got[2] == 2));
        if (order == EMU_LAZY)
            assert_int_equal(got[0], 2);
        if (order == EMU_OTHERS_FIRST)
            assert_int_equal(got[2], 2);
        cudaStreamSynchronize(other);
        assert_int_equal(fetch(list, 8)[0], 3);
        assert_int_equal(cudaEventQuery(event), cudaSuccess);
        cudaEventDestroy(event);
        cudaStreamDestroy(other);
        cudaFree(list);
    }
}

static void graphs_keep_only_the_order_that_was_captured(void **)
{
    std::string seen;

    for (int order = 0; order < EMU_STREAMS_COUNT; order++) {
        cudaStream_t side;
        cudaEvent_t fork_event, join_event;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        int *list = give(std::vector<int>(16));

        emu_set(EMU_FORWARD, (enum emu_streams)order, 1);
        cudaStreamSynchronize(stream);
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming);
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        note(stream, list, 1);
        cudaEventRecord(fork_event, stream);
        cudaStreamWaitEvent(side, fork_event, 0);
        note(side, list, 2);
        cudaEventRecord(join_event, side);
        note(stream, list, 3);
        if (order == 0) {
            emu_expect_refusal();
            cudaMalloc((void **)&exec, 16);
            HOLDS(emu_refusal(), "cudaMalloc in a capture");
        }
        cudaStreamWaitEvent(stream, join_event, 0);
        note(stream, list, 4);
        cudaStreamEndCapture(stream, &graph);
        cudaGraphInstantiate(&exec, graph, 0);
        cudaGraphDestroy(graph);
        assert_int_equal(fetch(list, 16)[0], 0);
        cudaGraphLaunch(exec, stream);
        cudaGraphLaunch(exec, stream);
        std::vector<int> got = fetch(list, 16);
        assert_int_equal(got[0], 8);
        assert_true(got[1] == 1 && got[4] == 4 && got[5] == 1 && got[8] == 4);
        assert_int_equal(got[2] + got[3], 5);
        seen += got[2] == 2 ? "a" : "b";
        cudaGraphExecDestroy(exec);
        cudaEventDestroy(fork_event);
        cudaEventDestroy(join_event);
        cudaStreamDestroy(side);
        cudaFree(list);
    }
    assert_true(seen.find('a') != std::string::npos && seen.find('b') != std::string::npos);
}

static void a_capture_that_does_not_join_is_refused(void **)
{
    cudaStream_t side;
    cudaEvent_t event;
    cudaGraph_t graph;
    int *list = give(std::vector<int>(16));

    cudaStreamSynchronize(stream);
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(side, event, 0);
    note(side, list, 2);
    note(stream, list, 3);
    emu_expect_refusal();
    cudaStreamEndCapture(stream, &graph);
    HOLDS(emu_refusal(), "was not joined");
    cudaGraphDestroy(graph);
    cudaEventDestroy(event);
    cudaStreamDestroy(side);
    cudaFree(list);
}

static void pinned_memory_is_read_when_the_copy_runs_and_other_memory_at_the_call(void **)
{
    int *device = give(std::vector<int>(2)), *pinned, pageable = 1;

    cudaMallocHost((void **)&pinned, sizeof(int));
    *pinned = 1;
    cudaMemcpyAsync(device, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(device + 1, pinned, sizeof(int), cudaMemcpyHostToDevice, stream);
    pageable = *pinned = 2;
    std::vector<int> got = fetch(device, 2);
    assert_int_equal(got[0], 1);
    assert_int_equal(got[1], 2);
    cudaFreeHost(pinned);
    cudaFree(device);
}

/* A read of 16 bytes by each lane, one behind the other: four sectors of 32 for each 128 bytes; a column of rows of 128
 * bytes: 8 lanes want the same banks. */
KERNEL banks(const uint16_t *memory)
{
    DYNAMIC_SHARED(uint16_t, shared);
    uint32_t r[4];

    cp_async16(shared + threadIdx.x * 8, memory + threadIdx.x * 8, 16);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp();
    ldmatrix_x4(r, shared + threadIdx.x * 64 % 256);
}

static void sectors_and_bank_conflicts_are_counted(void **)
{
    uint16_t *memory = give(std::vector<uint16_t>(256));

    emu_set(EMU_FORWARD, EMU_LAZY, 1);
    emu_count(true);
    LAUNCH(banks, dim3(1), dim3(32), 512, stream, (const uint16_t *)memory);
    cudaStreamSynchronize(stream);
    emu_count(false);
    assert_string_equal(emu_counts(), "banks (32 threads, 512 bytes): 1 blocks, 1 requests, 16 sectors for 512 bytes; 8 shared phases, 28 conflicts\n");
    cudaFree(memory);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_wait_or_barrier_is_caught_by_some_order),
        cmocka_unit_test(bad_accesses_and_meetings_are_refused),
        cmocka_unit_test(bad_launches_are_refused),
        cmocka_unit_test(device_memory_is_out_of_reach_of_the_host),
        cmocka_unit_test(guards_of_device_memory_are_checked_when_it_is_freed),
        cmocka_unit_test(blas_refuses_leading_dimensions_and_sizes_that_do_not_fit),
        cmocka_unit_test(streams_wait_for_the_host_and_for_events_alone),
        cmocka_unit_test(graphs_keep_only_the_order_that_was_captured),
        cmocka_unit_test(a_capture_that_does_not_join_is_refused),
        cmocka_unit_test(pinned_memory_is_read_when_the_copy_runs_and_other_memory_at_the_call),
        cmocka_unit_test(sectors_and_bank_conflicts_are_counted),
    };

    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
