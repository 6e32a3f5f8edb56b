/* The way back through adapters, for the tiles and segments of the batch. u = A x (by the way forward's own kernel) and du = dy B come as
 * pieces of k; their sums, rounded as the way forward rounds, lie in scratch, du's beside u's. From there dx += du A, a tile a block, and
 * the gradients, which a block owns 64 x 64 of and adds to in the order of its segment's rows: no other segment is in its sums. */
#include "engine/ops/cuda/lora.h"
#include "engine/ops/cuda/product.h"

/* The layer's A of the group, act [present rank][in], and B of one module, act [out][rank]. */
template <class T> DEVICE const T *a_of(const struct lora_work &work, const struct lora_place &place)
{
    return reinterpret_cast<const T *>(place.layer + piece_at(work.sizes, place.rank, place.modules, work.first, true));
}

template <class T> DEVICE const T *b_of(const struct lora_work &work, const struct lora_place &place, int module)
{
    return reinterpret_cast<const T *>(place.layer + piece_at(work.sizes, place.rank, place.modules, module, false));
}

/* Blocks along ranks: 64 of a module's, module after module. */
DEVICE int rank_blocks(int rank_max)
{
    return (rank_max + PRODUCT_TILE - 1) / PRODUCT_TILE;
}

/* du f32 [splits][rows_max][u_width]; dy act [T][width]. Block: (piece of out, tile, 64 ranks of a module). */
template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, block_sums<T>::BLOCKS)
shrink_back(float *du, const T *dy, int64_t width, struct lora_work work)
{
    DYNAMIC_SHARED(struct block_shared<T>, shared);
    int blocks = rank_blocks(work.rank_max), rank0 = (int)blockIdx.z % blocks * PRODUCT_TILE, split = (int)blockIdx.x;
    struct block_sums<T> sums = {};
    struct lora_column column;
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place) || !lora_column_of(work, place, (int)blockIdx.z / blocks, &column))
        return;

    int out = work.sizes.out[column.module], split_k = split_k_of(out, work.splits_max), ranks = place.rank - rank0;

    if (ranks <= 0 || split * split_k >= out)
        return;
    block_add<PRODUCT_BACK>(sums, shared, factor_of(dy + place.tile.row * width + column.y, width, place.tile.rows),
                            factor_of(b_of<T>(work, place, column.module) + rank0, place.rank, ranks), split * split_k,
                            min((split + 1) * split_k, out), 1);
    du += (split * work.u_rows + place.tile.row) * work.u_width + column.u + rank0;
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int row = block_row(sums, i), rank = block_column(sums, i);

        if (row < place.tile.rows && rank < ranks)
            du[(int64_t)row * work.u_width + rank] = sums.c[i / 4][i % 4];
    }
}

/* u act [rows_max][u_width] = the sum of the pieces of `from`, in order; `back`: they are dy's. Block: (module, tile). */
template <class T> KERNEL __launch_bounds__(LORA_THREADS)
join_pieces(T *u, const float *from, struct lora_work work, bool back)
{
    struct lora_column column;
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place) || !lora_column_of(work, place, (int)blockIdx.x, &column))
        return;

    int k = back ? work.sizes.out[column.module] : work.in, split_k = split_k_of(k, work.splits_max);

    for (int i = (int)threadIdx.x; i < place.tile.rows * place.rank; i += LORA_THREADS) {
        int64_t at = (int64_t)(place.tile.row + i / place.rank) * work.u_width + column.u + i % place.rank;
        float sum = 0;

        for (int split = 0; split * split_k < k; split++)
            sum += from[split * work.u_rows * work.u_width + at];
        act_store(u + at, sum);
    }
}

/* dx f32 [T][in] += du A; du act [rows_max][u_width]. Block: (64 columns, tile). */
template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, block_sums<T>::BLOCKS)
expand_back(float *dx, const T *du, struct lora_work work)
{
    DYNAMIC_SHARED(struct block_shared<T>, shared);
    int column0 = (int)blockIdx.x * PRODUCT_TILE, columns = work.in - column0;
    struct block_sums<T> sums = {};
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place))
        return;
    block_add<PRODUCT_BACK>(sums, shared, factor_of(du + (int64_t)place.tile.row * work.u_width, work.u_width, place.tile.rows),
                            factor_of(a_of<T>(work, place) + column0, work.in, columns), 0, place.present * place.rank, 1);
    dx += (int64_t)place.tile.row * work.in + column0;
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int row = block_row(sums, i), column = block_column(sums, i);

        if (row < place.tile.rows && column < columns)
            dx[(int64_t)row * work.in + column] += sums.c[i / 4][i % 4];
    }
}

/* One block's part of the gradients of A (OF_A: += du^T x) or of B (+= scale (u^T dy)^T); u act [rows_max][u_width] is du or u, x act
 * [T][width] is x or dy, grad [segments][n]. Block: (64 columns of x or dy, 64 ranks of a module, segment). */
template <bool OF_A, class T> DEVICE void grad_add(const struct lora_grad *grad, const T *u, const T *x, int64_t width,
                                                   const struct lora_work &work)
{
    DYNAMIC_SHARED(struct block_shared<T>, shared);
    int blocks = rank_blocks(work.rank_max), index = (int)blockIdx.y / blocks, rank0 = (int)blockIdx.y % blocks * PRODUCT_TILE;
    int column0 = (int)blockIdx.x * PRODUCT_TILE;
    struct block_sums<T> sums = {};
    struct lora_column column;
    struct lora_place place;

    if ((int)blockIdx.z >= work.now->segments)
        return;

    struct segment segment = work.segment[blockIdx.z];
    struct lora_grad to = grad[(int)blockIdx.z * work.modules + index];

    if (segment.rows <= 0 || to.a == NULL || !lora_adapter(work, segment.slot, &place) || !lora_column_of(work, place, index, &column))
        return;

    int columns = (OF_A ? work.in : work.sizes.out[column.module]) - column0, ranks = to.rank - rank0;
    float *own = OF_A ? to.a + (int64_t)rank0 * work.in + column0 : to.b + (int64_t)column0 * to.rank + rank0;

    if (columns <= 0 || ranks <= 0)
        return;
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int rank = block_row(sums, i), at = block_column(sums, i);

        sums.c[i / 4][i % 4] = rank < ranks && at < columns ? own[OF_A ? rank * work.in + at : at * to.rank + rank] : 0.0f;
    }
    x += segment.row * width + (OF_A ? 0 : column.y) + column0;
    u += (int64_t)segment.row * work.u_width + column.u + rank0;
    block_add<PRODUCT_GRADIENT>(sums, shared, factor_of(u, work.u_width, ranks), factor_of(x, width, columns), 0, segment.rows,
                                OF_A ? 1.0f : to.scale);
    UNROLL
    for (int i = 0; i < sums.NUMBERS; i++) {
        int rank = block_row(sums, i), at = block_column(sums, i);

        if (rank < ranks && at < columns)
            own[OF_A ? rank * work.in + at : at * to.rank + rank] = sums.c[i / 4][i % 4];
    }
}

template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, 2)
grad_a(const struct lora_grad *grad, const T *du, const T *x, struct lora_work work)
{
    grad_add<true>(grad, du, x, work.in, work);
}

template <class T> KERNEL __launch_bounds__(block_sums<T>::THREADS, 2)
grad_b(const struct lora_grad *grad, const T *u, const T *dy, int64_t width, struct lora_work work)
{
    grad_add<false>(grad, u, dy, width, work);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */
void cuda_lora_back_setup(void)
{
    const int bytes = (int)sizeof(struct block_shared<uint16_t>);

    MUST(cudaFuncSetAttribute(shrink_back<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    MUST(cudaFuncSetAttribute(expand_back<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    MUST(cudaFuncSetAttribute(grad_a<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    MUST(cudaFuncSetAttribute(grad_b<uint16_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

/* The most that a module of the group gives out. */
static int out_max(const struct lora_work *work)
{
    int most = 0;

    for (int module = work->first; module < work->first + work->modules; module++)
        most = max(most, work->sizes.out[module]);
    return most;
}

template <class T> static void lora_back(struct dev *dev, float *dx, const T *dy, int64_t width, const T *x, const struct lora *lora,
                                         const struct lora_grad *grad, const struct batch *batch)
{
    struct lora_work work = cuda_lora_work(dev, lora, batch);
    cudaStream_t compute = dev->lane[LANE_COMPUTE];
    const unsigned tiles = (unsigned)batch->max.tiles, segments = (unsigned)batch->max.segments, modules = (unsigned)work.modules;
    const unsigned rank_blocks = modules * (unsigned)div_up(work.rank_max, PRODUCT_TILE), columns = (unsigned)div_up(work.in, PRODUCT_TILE);
    const dim3 block(block_sums<T>::THREADS);
    const size_t bytes = sizeof(struct block_shared<T>);
    T *u = (T *)dev->back_u, *du = (T *)dev->back_du;
    int out = out_max(&work);

    LAUNCH(shrink_back<T>, dim3((unsigned)div_up(out, split_k_of(out, work.splits_max)), tiles, rank_blocks), block, bytes, compute,
           dev->lora_u, dy, width, work);
    LAUNCH(join_pieces<T>, dim3(modules, tiles), dim3(LORA_THREADS), 0, compute, du, (const float *)dev->lora_u, work, true);
    if (dx != NULL)
        LAUNCH(expand_back<T>, dim3(columns, tiles), block, bytes, compute, dx, (const T *)du, work);
    if (grad == NULL)
        return;
    cuda_lora_shrink(dev, compute, x, lora, batch);
    LAUNCH(join_pieces<T>, dim3(modules, tiles), dim3(LORA_THREADS), 0, compute, u, (const float *)dev->lora_u, work, false);
    LAUNCH(grad_a<T>, dim3(columns, rank_blocks, segments), block, bytes, compute, grad, (const T *)du, x, work);
    LAUNCH(grad_b<T>, dim3((unsigned)div_up(out, PRODUCT_TILE), rank_blocks, segments), block, bytes, compute, grad, (const T *)u, dy, width,
           work);
}

void cuda_lora_back(struct dev *dev, float *dx, const act *dy, int64_t width, const act *x, const struct lora *lora, const struct lora_grad *grad,
                    const struct batch *batch)
{
    if (is_fast(dev))
        lora_back<uint16_t>(dev, dx, (const uint16_t *)dy, width, (const uint16_t *)x, lora, grad, batch);
    else
        lora_back<float>(dev, dx, (const float *)dy, width, (const float *)x, lora, grad, batch);
}
