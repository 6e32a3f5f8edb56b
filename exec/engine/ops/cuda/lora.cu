/* What adapters add to a base: y += B (A x), for the tiles of the batch. A tile is rows of one segment, so of one
 * adapter; ranks are the adapters' own. The first half cuts k into pieces, by the length of k alone, each a block, so
 * that one adapter fills a GPU; its partial sums lie in scratch, and the second half adds them in order, rounds once to
 * bf16 (float in exact), multiplies by B and adds to y in place. Blocks beyond what the batch has now leave at once. */
#include "engine/ops/cuda/lora.h"
#include "engine/ops/cuda/tile.h"

#define SHRINK_STAGES 3
#define SHRINK_COLUMNS 64
#define EXPAND_COLUMNS 128
#define EXACT_COLUMNS 16
/* Beyond this many rows a batch's tiles are those of prefill. */
#define DECODE_ROWS_MAX 256

/* Which module a block's columns are of, counting `columns` a block, and where they begin; false beyond the last. */
DEVICE bool expand_find(const struct lora_work &work, const struct lora_place &place, int columns, int *ret_module, int *ret_column,
                        int *ret_y, int *ret_u)
{
    int block = (int)blockIdx.x, y = 0;

    for (int module = work.first; module < work.first + work.modules; module++) {
        int blocks = (work.sizes.out[module] + columns - 1) / columns;

        if (block < blocks) {
            *ret_module = module;
            *ret_column = block * columns;
            *ret_y = y + block * columns;
            *ret_u = __popc(place.modules >> work.first & ((1u << (module - work.first)) - 1)) * place.rank;
            return (place.modules >> module & 1) != 0;
        }
        block -= blocks;
        y += work.sizes.out[module];
    }
    return false;
}

/* --- bf16 --------------------------------------------------------------------------------------------------------- */
template <int ROWS> struct shrink_shared {
    tile_row x[SHRINK_STAGES][ROWS];
    tile_row a[SHRINK_STAGES][SHRINK_COLUMNS];
};

/* u f32 [splits][rows_max][u_width]; x bf16 [T][in]. Block: (piece of k, tile, 64 columns of u). */
template <int ROWS> KERNEL __launch_bounds__(LORA_THREADS)
shrink(float *u, const uint16_t *x, struct lora_work work)
{
    DYNAMIC_SHARED(struct shrink_shared<ROWS>, shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int column0 = (int)blockIdx.z * SHRINK_COLUMNS, k0 = (int)blockIdx.x * work.split_k, k_end = min(k0 + work.split_k, work.in);
    int steps = (k_end - k0 + TILE_K - 1) / TILE_K;
    bool aligned = work.in % 8 == 0;
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place))
        return;

    int columns = min(place.present * place.rank - column0, SHRINK_COLUMNS);
    const uint16_t *a = reinterpret_cast<const uint16_t *>(place.layer +
        piece_at(work.sizes, place.rank, place.modules, work.first, true)) + (int64_t)column0 * work.in;

    if (columns <= 0)
        return;
    /* A tile may be taller than ROWS: then the adapter is read again. */
    for (int row0 = 0; row0 < place.tile.rows; row0 += ROWS) {
        int rows = min(place.tile.rows - row0, ROWS);
        const uint16_t *x_tile = x + (int64_t)(place.tile.row + row0) * work.in;
        float c[ROWS / 16][2][4] = {};

        for (int step = 0; step < SHRINK_STAGES - 1; step++) {
            if (step < steps) {
                tile_load<ROWS, LORA_THREADS>(shared->x[step], x_tile, work.in, rows, k0 + step * TILE_K, k_end, aligned);
                tile_load<SHRINK_COLUMNS, LORA_THREADS>(shared->a[step], a, work.in, columns, k0 + step * TILE_K, k_end, aligned);
            }
            cp_async_commit();
        }
        for (int step = 0; step < steps; step++) {
            int ahead = step + SHRINK_STAGES - 1, stage = step % SHRINK_STAGES, next = ahead % SHRINK_STAGES;

            cp_async_wait<SHRINK_STAGES - 2>();
            __syncthreads();
            if (ahead < steps) {
                tile_load<ROWS, LORA_THREADS>(shared->x[next], x_tile, work.in, rows, k0 + ahead * TILE_K, k_end, aligned);
                tile_load<SHRINK_COLUMNS, LORA_THREADS>(shared->a[next], a, work.in, columns, k0 + ahead * TILE_K, k_end, aligned);
            }
            cp_async_commit();
            if (warp * 16 >= columns)
                continue;
            UNROLL
            for (int k = 0; k < TILE_K; k += 16) {
                uint32_t b[4];

                right_load<TILE_STRIDE>(b, shared->a[stage], warp * 16, k);
                UNROLL
                for (int i = 0; i < ROWS / 16; i++) {
                    uint32_t left[4];

                    left_load<TILE_STRIDE>(left, shared->x[stage], i * 16, k);
                    mma_bf16(c[i][0], left, b[0], b[2]);
                    mma_bf16(c[i][1], left, b[1], b[3]);
                }
            }
        }
        UNROLL
        for (int i = 0; i < ROWS / 16; i++) {
            UNROLL
            for (int j = 0; j < 8; j++) {
                int row = i * 16 + lane / 4 + j % 4 / 2 * 8, column = warp * 16 + j / 4 * 8 + lane % 4 * 2 + j % 2;

                if (row < rows && column < columns)
                    u[((int64_t)blockIdx.x * work.u_rows + place.tile.row + row0 + row) * work.u_width + column0 + column] = c[i][j / 4][j % 4];
            }
        }
        /* The first buffers are filled anew: nobody may still read them. */
        cp_async_wait<0>();
        __syncthreads();
    }
}

template <int ROWS> struct expand_shared {
    tile_row u[ROWS];
    tile_row b[EXPAND_COLUMNS];
};

/* u's pieces are added up, in order, for 64 of the adapter's ranks. */
template <int ROWS> DEVICE void expand_load_u(tile_row *tile, const float *u, const struct lora_work &work, int row, int rows, int column, int count)
{
    for (int i = (int)threadIdx.x; i < ROWS * (TILE_K / 2); i += LORA_THREADS) {
        int at = i / (TILE_K / 2), k = i % (TILE_K / 2) * 2;
        float2 sum = make_float2(0, 0);

        if (at < rows && k < count) {
            const float *from = u + (int64_t)(row + at) * work.u_width + column + k;

            for (int split = 0; split < work.splits; split++) {
                float2 part = *reinterpret_cast<const float2 *>(from + split * work.u_rows * work.u_width);

                sum.x += part.x;
                sum.y += part.y;
            }
        }
        *reinterpret_cast<uint32_t *>(&tile[at][k]) = bf16_pair(sum.x, sum.y);
    }
}

/* y f32 [T][width]. Block: (128 columns of one module, tile). */
template <int ROWS> KERNEL __launch_bounds__(LORA_THREADS, ROWS == TILE_ROWS_DECODE ? 4 : 3)
expand(float *y, int width, const float *u, struct lora_work work)
{
    DYNAMIC_SHARED(struct expand_shared<ROWS>, shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int module, column0, y0, u0;
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place) || !expand_find(work, place, EXPAND_COLUMNS, &module, &column0, &y0, &u0))
        return;

    int columns = min(work.sizes.out[module] - column0, EXPAND_COLUMNS);
    const uint16_t *b = reinterpret_cast<const uint16_t *>(place.layer +
        piece_at(work.sizes, place.rank, place.modules, module, false)) + (int64_t)column0 * place.rank;

    for (int row0 = 0; row0 < place.tile.rows; row0 += ROWS) {
        int rows = min(place.tile.rows - row0, ROWS), row = place.tile.row + row0;
        float c[ROWS / 16][4][4] = {};

        for (int k0 = 0; k0 < place.rank; k0 += TILE_K) {
            tile_load<EXPAND_COLUMNS, LORA_THREADS>(shared->b, b, place.rank, columns, k0, place.rank, true);
            cp_async_commit();
            expand_load_u<ROWS>(shared->u, u, work, row, rows, u0 + k0, min(place.rank - k0, TILE_K));
            cp_async_wait<0>();
            __syncthreads();
            for (int k = 0; k < min(place.rank - k0, TILE_K); k += 16) {
                uint32_t right[2][4];

                right_load<TILE_STRIDE>(right[0], shared->b, warp * 32, k);
                right_load<TILE_STRIDE>(right[1], shared->b, warp * 32 + 16, k);
                UNROLL
                for (int i = 0; i < ROWS / 16; i++) {
                    uint32_t left[4];

                    left_load<TILE_STRIDE>(left, shared->u, i * 16, k);
                    UNROLL
                    for (int j = 0; j < 4; j++)
                        mma_bf16(c[i][j], left, right[j / 2][j % 2], right[j / 2][j % 2 + 2]);
                }
            }
            __syncthreads();
        }
        UNROLL
        for (int i = 0; i < ROWS / 16; i++) {
            UNROLL
            for (int j = 0; j < 16; j++) {
                int at = i * 16 + lane / 4 + j % 4 / 2 * 8, column = warp * 32 + j / 4 * 8 + lane % 4 * 2 + j % 2;

                if (at < rows && column < columns)
                    y[(int64_t)(row + at) * width + y0 + column] += c[i][j / 4][j % 4];
            }
        }
    }
}

/* --- float -------------------------------------------------------------------------------------------------------- */
/* A warp a number of u. Block: (16 columns of u, tile). */
KERNEL __launch_bounds__(LORA_THREADS)
shrink_exact(float *u, const float *x, struct lora_work work)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place))
        return;

    const float *a = reinterpret_cast<const float *>(place.layer +
        piece_at(work.sizes, place.rank, place.modules, work.first, true));

    for (int i = warp; i < EXACT_COLUMNS * place.tile.rows; i += LORA_THREADS / 32) {
        int column = (int)blockIdx.x * EXACT_COLUMNS + i % EXACT_COLUMNS, row = place.tile.row + i / EXACT_COLUMNS;
        float sum = 0;

        if (column >= place.present * place.rank)
            continue;
        for (int k = lane; k < work.in; k += 32)
            sum = fmaf(x[(int64_t)row * work.in + k], a[(int64_t)column * work.in + k], sum);
        sum = warp_sum(sum);
        if (lane == 0)
            u[(int64_t)row * work.u_width + column] = sum;
    }
}

/* A thread a column. Block: (128 columns of one module, tile). */
KERNEL __launch_bounds__(LORA_THREADS)
expand_exact(float *y, int width, const float *u, struct lora_work work)
{
    int thread = (int)threadIdx.x, module, column0, y0, u0;
    struct lora_place place;

    if (!lora_find(work, (int)blockIdx.y, &place) || !expand_find(work, place, EXPAND_COLUMNS, &module, &column0, &y0, &u0))
        return;
    if (column0 + thread >= work.sizes.out[module])
        return;

    const float *b = reinterpret_cast<const float *>(place.layer +
        piece_at(work.sizes, place.rank, place.modules, module, false)) + (int64_t)(column0 + thread) * place.rank;

    for (int row = place.tile.row; row < place.tile.row + place.tile.rows; row++) {
        float sum = 0;

        for (int i = 0; i < place.rank; i++)
            sum = fmaf(b[i], u[(int64_t)row * work.u_width + u0 + i], sum);
        y[(int64_t)row * width + y0 + thread] += sum;
    }
}

/* --- launches ----------------------------------------------------------------------------------------------------- */
struct lora_work cuda_lora_work(const struct dev *dev, const struct lora *lora, const struct batch *batch)
{
    const struct dims *dims = &dev->config.dims;
    struct lora_work work = {};

    for (int module = LORA_MODULE_COUNT - 1; module >= 0; module--) {
        enum lora_group group = lora_group_of((enum lora_module)module);

        work.sizes.in[group] = lora_module_in(dims, (enum lora_module)module);
        work.sizes.out[module] = lora_module_out(dims, (enum lora_module)module);
        if (group == lora->group) {
            work.first = module;
            work.modules++;
        }
    }
    work.sizes.layers = dims->layers;
    work.sizes.number_bytes = (int32_t)act_bytes(dev->config.mode);
    work.pool = lora->pool;
    work.slot = lora->slot;
    work.segment = batch->segment;
    work.tile = batch->tile;
    work.now = batch->now;
    work.layer = lora->layer;
    work.group = lora->group;
    work.in = work.sizes.in[lora->group];
    work.splits_max = is_fast(dev) ? SHRINK_SPLITS_MAX : 1;
    work.split_k = split_k_of(work.in, work.splits_max);
    work.splits = div_up(work.in, work.split_k);
    work.u_width = dev->u_width;
    work.u_rows = dev->config.rows_max;
    work.rank_max = dev->config.lora_rank_max;
    return work;
}

template <int ROWS> static void setup(void)
{
    MUST(cudaFuncSetAttribute(shrink<ROWS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(struct shrink_shared<ROWS>)));
}

void cuda_lora_setup(void)
{
    setup<TILE_ROWS_DECODE>();
    setup<TILE_ROWS_PREFILL>();
}

void cuda_lora_shrink(struct dev *dev, cudaStream_t stream, const act *x, const struct lora *lora, const struct batch *batch)
{
    struct lora_work work = cuda_lora_work(dev, lora, batch);
    int columns_max = work.modules * dev->config.lora_rank_max;
    dim3 grid((unsigned)work.splits, (unsigned)batch->max.tiles, (unsigned)div_up(columns_max, SHRINK_COLUMNS)), block(LORA_THREADS);

    if (!is_fast(dev))
        LAUNCH(shrink_exact, dim3((unsigned)div_up(columns_max, EXACT_COLUMNS), (unsigned)batch->max.tiles), block, 0, stream, dev->lora_u,
               (const float *)x, work);
    else if (batch->max.rows <= DECODE_ROWS_MAX)
        LAUNCH(shrink<TILE_ROWS_DECODE>, grid, block, sizeof(struct shrink_shared<TILE_ROWS_DECODE>), stream, dev->lora_u, (const uint16_t *)x,
               work);
    else
        LAUNCH(shrink<TILE_ROWS_PREFILL>, grid, block, sizeof(struct shrink_shared<TILE_ROWS_PREFILL>), stream, dev->lora_u,
               (const uint16_t *)x, work);
}

void cuda_lora_expand(struct dev *dev, float *y, const struct lora *lora, const struct batch *batch)
{
    struct lora_work work = cuda_lora_work(dev, lora, batch);
    cudaStream_t stream = dev->lane[LANE_COMPUTE];
    int width = 0, blocks = 0;

    for (int module = work.first; module < work.first + work.modules; module++) {
        width += work.sizes.out[module];
        blocks += div_up(work.sizes.out[module], EXPAND_COLUMNS);
    }

    dim3 grid((unsigned)blocks, (unsigned)batch->max.tiles), block(LORA_THREADS);
    if (!is_fast(dev))
        LAUNCH(expand_exact, grid, block, 0, stream, y, width, (const float *)dev->lora_u, work);
    else if (batch->max.rows <= DECODE_ROWS_MAX)
        LAUNCH(expand<TILE_ROWS_DECODE>, grid, block, sizeof(struct expand_shared<TILE_ROWS_DECODE>), stream, y, width,
               (const float *)dev->lora_u, work);
    else
        LAUNCH(expand<TILE_ROWS_PREFILL>, grid, block, sizeof(struct expand_shared<TILE_ROWS_PREFILL>), stream, y, width,
               (const float *)dev->lora_u, work);
}
