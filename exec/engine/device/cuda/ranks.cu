/* See ranks.h. Compiled by nvcc alone: the emulation joins none. */
#include "engine/device/cuda/ranks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/device/cuda/weights.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#define SUM_THREADS 256

struct cuda_ranks {
    ncclComm_t comm;
    float *gathered; /* [ranks][rows_max * hidden] */
    int64_t part;
};

/* What of NCCL is used. */
static struct {
    void *library;
    ncclResult_t (*id)(ncclUniqueId *);
    ncclResult_t (*join)(ncclComm_t *, int, ncclUniqueId, int);
    ncclResult_t (*gather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
    ncclResult_t (*leave)(ncclComm_t);
    const char *(*text)(ncclResult_t);
} nccl;

/* Where the ranks of one process find each other: whoever comes first makes the id. */
static struct {
    pthread_mutex_t mutex;
    const struct ranks *ranks;
    int32_t came;
    ncclUniqueId id;
} meeting = {PTHREAD_MUTEX_INITIALIZER, NULL, 0, {{0}}};

static bool find_nccl(void)
{
    if (nccl.library != NULL)
        return true;
    nccl.library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (nccl.library == NULL)
        return false;
    *(void **)&nccl.id = dlsym(nccl.library, "ncclGetUniqueId");
    *(void **)&nccl.join = dlsym(nccl.library, "ncclCommInitRank");
    *(void **)&nccl.gather = dlsym(nccl.library, "ncclAllGather");
    *(void **)&nccl.leave = dlsym(nccl.library, "ncclCommDestroy");
    *(void **)&nccl.text = dlsym(nccl.library, "ncclGetErrorString");
    return nccl.id != NULL && nccl.join != NULL && nccl.gather != NULL && nccl.leave != NULL && nccl.text != NULL;
}

static const char *meet(const struct dev_config *config, ncclUniqueId *ret_id)
{
    const char *reason = NULL;

    pthread_mutex_lock(&meeting.mutex);
    if (!find_nccl())
        reason = "libnccl.so.2 is not there";
    else if (meeting.came > 0 && meeting.ranks != config->ranks)
        reason = "other ranks are just being joined";
    else if (meeting.came == 0 && nccl.id(&meeting.id) != ncclSuccess)
        reason = "NCCL gave no id";
    if (reason == NULL) {
        meeting.ranks = config->ranks;
        meeting.came = (meeting.came + 1) % config->ranks_count;
        *ret_id = meeting.id;
    }
    pthread_mutex_unlock(&meeting.mutex);
    return reason;
}

bool cuda_ranks_join(struct dev *dev, char *ret_error, size_t error_bytes)
{
    const struct dev_config *config = &dev->config;
    struct cuda_ranks *ranks = (struct cuda_ranks *)calloc(1, sizeof(*ranks));
    ncclUniqueId id;
    ncclResult_t joined;
    const char *reason = ranks == NULL ? "no memory" : meet(config, &id);

    if (reason != NULL) {
        free(ranks);
        snprintf(ret_error, error_bytes, "%s", reason);
        return false;
    }
    ranks->part = (int64_t)config->rows_max * config->dims.hidden;
    joined = nccl.join(&ranks->comm, config->ranks_count, id, config->rank);
    if (joined == ncclSuccess)
        ranks->gathered = (float *)cuda_memory_clear(dev, (size_t)(config->ranks_count * ranks->part) * 4);
    if (ranks->gathered != NULL) {
        dev->ranks = ranks;
        return true;
    }
    snprintf(ret_error, error_bytes, "%s", joined != ncclSuccess ? nccl.text(joined) : "no room to gather the ranks' parts");
    if (joined == ncclSuccess)
        nccl.leave(ranks->comm);
    free(ranks);
    return false;
}

void cuda_ranks_leave(struct dev *dev)
{
    if (dev->ranks == NULL)
        return;
    nccl.leave(dev->ranks->comm);
    MUST(cudaFree(dev->ranks->gathered));
    free(dev->ranks);
    dev->ranks = NULL;
}

/* x f32 [n], parts f32 [ranks][n] */
__global__ void sum_parts(float *x, const float *parts, int ranks, int64_t n)
{
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;

    if (at >= n)
        return;
    for (int rank = 0; rank < ranks; rank++)
        sum += parts[rank * n + at];
    x[at] = sum;
}

void cuda_ranks_sum(struct dev *dev, float *x, int64_t n)
{
    struct cuda_ranks *ranks = dev->ranks;
    cudaStream_t compute = dev->lane[LANE_COMPUTE];

    if (n == 0)
        return;
    check(n <= ranks->part);
    check(nccl.gather(x, ranks->gathered, (size_t)n, ncclFloat, ranks->comm, compute) == ncclSuccess);
    sum_parts<<<(unsigned)((n + SUM_THREADS - 1) / SUM_THREADS), SUM_THREADS, 0, compute>>>(x, ranks->gathered, dev->config.ranks_count, n);
}

#else

bool cuda_ranks_join(struct dev *, char *ret_error, size_t error_bytes)
{
    snprintf(ret_error, error_bytes, "the CUDA library was built without nccl.h, so a model has one GPU");
    return false;
}

void cuda_ranks_leave(struct dev *)
{
}

void cuda_ranks_sum(struct dev *, float *, int64_t)
{
    check(false && "nobody has joined");
}

#endif
