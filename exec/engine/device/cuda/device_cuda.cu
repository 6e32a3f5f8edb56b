/* The CUDA device: streams for lanes, events for marks, captured graphs, and weights copied with rows padded to 128
 * bytes. What kernels need for a batch of the largest size is reserved when it opens, so that no op asks for memory. An
 * error of CUDA stops the program: after one, nothing on the device can be trusted. */
#include "engine/device/cuda/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/device/cuda/ranks.h"
#include "engine/device/cuda/scratch.h"
#include "engine/device/cuda/share.h"
#include "engine/device/cuda/weights.h"
#include "engine/ops/cuda/cuda_ops.h"

/* Larger puts go to the driver, which takes pageable bytes before it returns. */
#define STAGED_PUT_BYTES ((size_t)64 << 10)
#define GRAPHS_MAX 256
#define CAPABILITY_MIN 8

void cuda_must(cudaError_t error, const char *what, const char *file, int line)
{
    char text[256];

    if (error == cudaSuccess)
        return;
    snprintf(text, sizeof(text), "%s: %s, %s", what, cudaGetErrorName(error), cudaGetErrorString(error));
    check_failed(text, file, line);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */
static bool config_fits(const struct dev_config *config, char *ret_error, size_t error_bytes)
{
    const struct dims *dims = &config->dims;
    const char *reason = NULL;

    if (config->trains && !config->deterministic)
        reason = "what trains is deterministic";
    else if (dims->kv_heads < 1 || dims->heads % dims->kv_heads != 0)
        reason = "heads are no multiple of kv heads";
    else if (dims->head_dim % 2 != 0 || dims->head_dim > 256)
        reason = "the head size is odd, or above 256";
    else if (config->lora_rank_max % LORA_RANK_STEP != 0 || config->lora_rank_max > LORA_RANK_MAX)
        reason = "lora_rank_max is no multiple of 16, or above 256";
    else if (config->rows_max < 1 || config->positions_max < 1)
        reason = "rows_max or positions_max is below 1";
    if (reason != NULL)
        snprintf(ret_error, error_bytes, "%s", reason);
    return reason == NULL;
}

static bool gpu_fits(int gpu, char *ret_error, size_t error_bytes)
{
    int count = 0, major = 0, minor = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (error != cudaSuccess || count == 0) {
        snprintf(ret_error, error_bytes, "no usable GPU: %s", error != cudaSuccess ? cudaGetErrorName(error) : "none is there");
        return false;
    }
    if (gpu >= count) {
        snprintf(ret_error, error_bytes, "rank %d has no GPU: %d are there", gpu, count);
        return false;
    }
    MUST(cudaSetDevice(gpu));
    MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu));
    MUST(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
    if (major < CAPABILITY_MIN) {
        snprintf(ret_error, error_bytes, "the GPU is sm_%d%d, below sm_80", major, minor);
        return false;
    }
    return true;
}

/* The fastest come first, unless somebody chose another order; those behind one that is too old are not looked for. */
static uint32_t cuda_gpus(uint64_t *ret_bytes)
{
    uint64_t bytes = UINT64_MAX;
    uint32_t fit = 0;
    int count = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess)
        return 0;
    while (fit < (uint32_t)count) {
        cudaDeviceProp about;

        if (cudaGetDeviceProperties(&about, (int)fit) != cudaSuccess || about.major < CAPABILITY_MIN)
            break;
        bytes = min_u64(bytes, about.totalGlobalMem);
        fit++;
    }
    *ret_bytes = bytes;
    return fit;
}

static void cuda_close(struct dev *dev)
{
    struct dev_memory *lists[3] = {dev->matrices, dev->vectors, dev->reserved};
    for (int lane = 0; lane < LANE_COUNT; lane++)
        MUST(cudaStreamSynchronize(dev->lane[lane]));
    for (struct dev_memory *list : lists)
        cuda_memory_free(list);
    cuda_share_close(dev);
    for (uint32_t i = 0; i < dev->graphs; i++)
        MUST(cudaGraphExecDestroy(dev->graph[i]));
    free(dev->graph);
    if (dev->blas != NULL)
        cublasDestroy(dev->blas);
    cuda_ranks_leave(dev);
    cuda_scratch_free(dev);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (int i = 0; i < MARKS_KEPT; i++)
            MUST(cudaEventDestroy(dev->mark[lane][i]));
        MUST(cudaFreeHost(dev->staged[lane]));
        MUST(cudaStreamDestroy(dev->lane[lane]));
    }
    MUST(cudaEventDestroy(dev->fork));
    MUST(cudaEventDestroy(dev->join));
    MUST(cudaStreamDestroy(dev->side));
    free(dev);
}

static struct dev *cuda_open(const struct dev_config *config, char *ret_error, size_t error_bytes)
{
    struct dev *dev;

    if (!config_fits(config, ret_error, error_bytes) || !gpu_fits(cuda_gpu_of(config), ret_error, error_bytes))
        return NULL;
    dev = (struct dev *)calloc(1, sizeof(*dev));
    check(dev != NULL);
    cuda_scratch_plan(dev, config);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        MUST(cudaStreamCreateWithFlags(&dev->lane[lane], cudaStreamNonBlocking));
        MUST(cudaMallocHost((void **)&dev->staged[lane], STAGE_BYTES));
        for (int i = 0; i < MARKS_KEPT; i++)
            MUST(cudaEventCreateWithFlags(&dev->mark[lane][i], cudaEventDisableTiming));
    }
    MUST(cudaStreamCreateWithFlags(&dev->side, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&dev->fork, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&dev->join, cudaEventDisableTiming));
    dev->graph = (cudaGraphExec_t *)calloc(GRAPHS_MAX, sizeof(cudaGraphExec_t));
    check(dev->graph != NULL);
    if (!cuda_scratch_reserve(dev)) {
        snprintf(ret_error, error_bytes, "no room on the GPU for the scratch of %d rows", (int)config->rows_max);
        cuda_close(dev);
        return NULL;
    }
    if (config->mode == MODE_FAST && !config->deterministic) {
        if (cublasCreate(&dev->blas) != CUBLAS_STATUS_SUCCESS || cublasSetStream(dev->blas, dev->lane[LANE_COMPUTE]) != CUBLAS_STATUS_SUCCESS ||
            cublasSetWorkspace(dev->blas, dev->blas_workspace, BLAS_WORKSPACE_BYTES) != CUBLAS_STATUS_SUCCESS) {
            snprintf(ret_error, error_bytes, "cuBLAS does not start");
            cuda_close(dev);
            return NULL;
        }
    }
    if (config->ranks != NULL && !cuda_ranks_join(dev, ret_error, error_bytes)) {
        cuda_close(dev);
        return NULL;
    }
    cuda_gemm_setup();
    cuda_gemm_back_setup();
    cuda_lora_setup();
    cuda_lora_back_setup();
    cuda_attend_rows_setup();
    cuda_attend_prefill_setup();
    cuda_attend_back_setup();
    return dev;
}

static const struct ops *cuda_ops(const struct dev *)
{
    static const struct ops ops = {
#define X(name) cuda_##name,
        OPS(X)
#undef X
    };

    return &ops;
}

static const struct train_ops *cuda_train_ops(const struct dev *dev)
{
    static const struct train_ops ops = {
#define X(name) cuda_##name,
        TRAIN_OPS(X)
#undef X
    };

    check(dev->config.trains);
    return &ops;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */
static void *cuda_reserve(struct dev *dev, size_t bytes)
{
    return cuda_memory_take(dev, &dev->reserved, bytes > 0 ? bytes : 1) ? dev->reserved->data : NULL;
}

static void cuda_release(struct dev *dev, void *memory)
{
    struct dev_memory **at = &dev->reserved, *piece;

    if (memory == NULL)
        return;
    while (*at != NULL && (*at)->data != memory)
        at = &(*at)->next;
    check(*at != NULL);
    piece = *at;
    *at = piece->next;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        MUST(cudaStreamSynchronize(dev->lane[lane]));
    MUST(cudaFree(piece->data));
    free(piece);
}

/* The host's bytes are taken before this returns: small ones into pinned memory, of which a lane's part is filled from
 * the front again once the lane has caught up. */
static void cuda_put(struct dev *dev, enum lane lane, void *to_device, const void *host, size_t bytes)
{
    const void *from = host;

    if (bytes <= STAGED_PUT_BYTES) {
        if (dev->staged_at[lane] + bytes > STAGE_BYTES) {
            MUST(cudaStreamSynchronize(dev->lane[lane]));
            dev->staged_at[lane] = 0;
        }
        from = memcpy(dev->staged[lane] + dev->staged_at[lane], host, bytes);
        dev->staged_at[lane] += bytes;
    }
    MUST(cudaMemcpyAsync(to_device, from, bytes, cudaMemcpyHostToDevice, dev->lane[lane]));
}

static void cuda_get(struct dev *dev, enum lane lane, void *host, const void *from_device, size_t bytes)
{
    MUST(cudaMemcpyAsync(host, from_device, bytes, cudaMemcpyDeviceToHost, dev->lane[lane]));
}

/* Onto itself: by way of other memory, a piece at a time, from the end that is not yet overwritten. */
static void cuda_move(struct dev *dev, enum lane lane, void *to, const void *from, size_t bytes)
{
    char *target = (char *)to;
    const char *source = (const char *)from;
    bool overlap = target < source + bytes && source < target + bytes;
    size_t done = 0;

    if (!overlap) {
        MUST(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, dev->lane[lane]));
        return;
    }
    while (done < bytes) {
        size_t piece = bytes - done < (size_t)BOUNCE_BYTES ? bytes - done : (size_t)BOUNCE_BYTES;
        size_t at = target < source ? done : bytes - done - piece;

        MUST(cudaMemcpyAsync(dev->bounce, source + at, piece, cudaMemcpyDeviceToDevice, dev->lane[lane]));
        MUST(cudaMemcpyAsync(target + at, dev->bounce, piece, cudaMemcpyDeviceToDevice, dev->lane[lane]));
        done += piece;
    }
}

/* --- order -------------------------------------------------------------------------------------------------------- */
/* A mark is its number on its lane and the lane. An event is used again after MARKS_KEPT marks: whoever asks for one
 * that old waits for a later one. */
static cudaEvent_t event_of(const struct dev *dev, uint64_t mark)
{
    return dev->mark[mark % LANE_COUNT][mark / LANE_COUNT % MARKS_KEPT];
}

static uint64_t cuda_mark(struct dev *dev, enum lane lane)
{
    uint64_t mark = ++dev->marks[lane] * LANE_COUNT + lane;

    MUST(cudaEventRecord(event_of(dev, mark), dev->lane[lane]));
    return mark;
}

static void cuda_wait(struct dev *dev, enum lane lane, uint64_t mark)
{
    MUST(cudaStreamWaitEvent(dev->lane[lane], event_of(dev, mark), 0));
}

static bool cuda_passed(struct dev *dev, uint64_t mark)
{
    cudaError_t error = cudaEventQuery(event_of(dev, mark));

    if (error == cudaErrorNotReady)
        return false;
    MUST(error);
    return true;
}

static void cuda_finish(struct dev *dev, enum lane lane)
{
    MUST(cudaStreamSynchronize(dev->lane[lane]));
}

static void cuda_record(struct dev *dev)
{
    check(!dev->recording);
    dev->recording = true;
    MUST(cudaStreamBeginCapture(dev->lane[LANE_COMPUTE], cudaStreamCaptureModeThreadLocal));
}

static uint32_t cuda_recorded(struct dev *dev)
{
    cudaGraph_t graph = NULL;

    check(dev->recording);
    check(dev->graphs < GRAPHS_MAX);
    dev->recording = false;
    MUST(cudaStreamEndCapture(dev->lane[LANE_COMPUTE], &graph));
    MUST(cudaGraphInstantiate(&dev->graph[dev->graphs], graph, 0));
    MUST(cudaGraphDestroy(graph));
    return ++dev->graphs;
}

static void cuda_replay(struct dev *dev, uint32_t graph)
{
    check(graph >= 1 && graph <= dev->graphs);
    MUST(cudaGraphLaunch(dev->graph[graph - 1], dev->lane[LANE_COMPUTE]));
}

extern const struct device device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .ops_bytes = cuda_ops_bytes,
    .ops = cuda_ops,
    .reserve = cuda_reserve,
    .release = cuda_release,
    .put = cuda_put,
    .get = cuda_get,
    .move = cuda_move,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .passed = cuda_passed,
    .finish = cuda_finish,
    .weight = cuda_weight,
    .record = cuda_record,
    .recorded = cuda_recorded,
    .replay = cuda_replay,
    .b_in_pairs = false,
    .has_threads = false,
    .weights_in_place = false,
    .gpus = cuda_gpus,
    .share = &cuda_share,
    .train_ops = cuda_train_ops,
};
