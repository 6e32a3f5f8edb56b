/* Products over packed panels, over vec.h's words, compiled once a set of kernels. A panel is [k words][PANEL_COLUMNS] words: floats, or
 * pairs of bf16 of neighbouring k. An output is one lane's sum over k in order, whatever tile computes it. */
#ifndef CPU_BODY_PANEL_H
#define CPU_BODY_PANEL_H

#include "engine/ops/cpu/train_kernels.h"

/* Two rows of bf16 side by side; `second` NULL: zeros. */
static void panel_pair(char *to, const char *first, const char *second, int32_t columns)
{
    uint16_t a[PANEL_COLUMNS] = {0};
    uint16_t b[PANEL_COLUMNS] = {0};

    memcpy(a, first, (size_t)columns * 2);
    if (second != NULL)
        memcpy(b, second, (size_t)columns * 2);
    pairs_store(to, pairs_zip(a, b));
    pairs_store(to + 64, pairs_zip(a + 16, b + 16));
}

/* Rows of a weight lie pages apart, where the machine does not look ahead by itself. */
#define PANEL_AHEAD_ROWS 32

/* Two rows of a weight into the same words of all panels. */
VEC void panel_pairs(char *to, int64_t panel, const char *first, const char *second, int32_t columns)
{
    for (; columns >= PANEL_COLUMNS; columns -= PANEL_COLUMNS) {
        pairs_store(to, pairs_zip(first, second));
        pairs_store(to + 64, pairs_zip(first + 32, second + 32));
        to += panel;
        first += 2 * PANEL_COLUMNS;
        second += 2 * PANEL_COLUMNS;
    }
    if (columns > 0)
        panel_pair(to, first, second, columns);
}

static void body_panel_rows(void *panels, bool bf16, const void *w, enum dtype dtype, int64_t stride, int32_t k, int32_t columns)
{
    const int64_t bytes = stride * (int64_t)dtype_bytes(dtype);
    const int64_t panel = (int64_t)panel_bytes(bf16, k);
    const char *from = w;

    if (!bf16) {
        for (int32_t i = 0; i < k; i++, from += bytes)
            for (int32_t c = 0; c < (columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS; c += 16) {
                const int n = columns - c < 16 ? columns - c : 16;
                vec a = n > 0 ? load_as(dtype, from, c, n) : vec_zero();

                vec_store((char *)panels + c / PANEL_COLUMNS * panel + ((int64_t)i * PANEL_COLUMNS + c % PANEL_COLUMNS) * 4, a);
            }
        return;
    }
    check(dtype == DTYPE_BF16);
    for (int32_t i = 0; i + 1 < k; i += 2, from += 2 * bytes) {
        for (int32_t c = 0; c < columns; c += PANEL_COLUMNS) {
            const uintptr_t ahead = (uintptr_t)from + (uintptr_t)(PANEL_AHEAD_ROWS * bytes + c * 2);

            __builtin_prefetch((const void *)ahead);
            __builtin_prefetch((const void *)(ahead + (uintptr_t)bytes));
        }
        panel_pairs((char *)panels + (int64_t)i * PANEL_COLUMNS * 2, panel, from, from + bytes, columns);
    }
    for (int32_t c = 0; k % 2 != 0 && c < columns; c += PANEL_COLUMNS)
        panel_pair((char *)panels + c / PANEL_COLUMNS * panel + (int64_t)(k - 1) * PANEL_COLUMNS * 2, from + (int64_t)c * 2, NULL,
                   columns - c < PANEL_COLUMNS ? columns - c : PANEL_COLUMNS);
}

/* Sixteen words of sixteen rows; rows behind `columns` are zeros, and so is what hangs over a row's `row_bytes`. */
VEC void panel_block(char *to, const char *from, int64_t bytes, int64_t row_bytes, int32_t columns)
{
    const int32_t words = row_bytes < 64 ? (int32_t)((row_bytes + 3) / 4) : 16;
    vec row[16];

    for (int j = 0; j < 16; j++, from += bytes) {
        char rest[64] = {0};

        row[j] = vec_zero();
        if (j >= columns)
            continue;
        if (row_bytes < 64)
            memcpy(rest, from, (size_t)row_bytes);
        row[j] = vec_load(row_bytes < 64 ? rest : from);
    }
    vec_transpose(row);
    for (int32_t i = 0; i < words; i++)
        vec_store(to + (int64_t)i * PANEL_COLUMNS * 4, row[i]);
}

static void body_panel_columns(void *panels, bool bf16, const void *w, int64_t stride, int32_t k, int32_t columns)
{
    const int64_t size = bf16 ? 2 : 4;
    const int64_t panel = (int64_t)panel_bytes(bf16, k);

    for (int32_t c = 0; c < (columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS; c += 16)
        for (int64_t at = 0; at < k * size; at += 64)
            panel_block((char *)panels + c / PANEL_COLUMNS * panel + at * PANEL_COLUMNS + c % PANEL_COLUMNS * 4,
                        (const char *)w + c * stride * size + at, stride * size, k * size - at, columns - c);
}

/* rows <= PANEL_ROWS and bf16 are constants at every call. */
VEC void panel_tile(const struct panel_product *p, int32_t row, int32_t column, bool bf16, int rows)
{
    const int64_t size = bf16 ? 2 : 4;
    const char *x = (const char *)p->x + row * p->x_stride * size;
    const char *panel = (const char *)p->panels + column / PANEL_COLUMNS * (int64_t)panel_bytes(bf16, p->packed);
    const int64_t step = p->x_stride * size;
    const int32_t words = bf16 ? p->k / 2 : p->k;
    vec sum[PANEL_ROWS][2];

    UNROLL for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = vec_zero();
    for (int32_t k = 0; k < words; k++) {
        if (bf16) {
            pairs a = pairs_load(panel);
            pairs b = pairs_load(panel + 64);

            UNROLL for (int i = 0; i < rows; i++) {
                pairs both = pairs_set1(x + i * step);

                sum[i][0] = pairs_dot(sum[i][0], both, a);
                sum[i][1] = pairs_dot(sum[i][1], both, b);
            }
        } else {
            vec a = vec_load(panel);
            vec b = vec_load(panel + 64);

            UNROLL for (int i = 0; i < rows; i++) {
                float one;
                vec both;

                memcpy(&one, x + i * step, 4);
                both = vec_set1(one);
                sum[i][0] = vec_fma(both, a, sum[i][0]);
                sum[i][1] = vec_fma(both, b, sum[i][1]);
            }
        }
        panel += PANEL_COLUMNS * 4;
        x += 4;
    }
    if (bf16 && p->k % 2 != 0) {
        UNROLL for (int i = 0; i < rows; i++) {
            uint16_t last[2] = {0};

            memcpy(last, x + i * step, 2);
            sum[i][0] = pairs_dot(sum[i][0], pairs_set1(last), pairs_load(panel));
            sum[i][1] = pairs_dot(sum[i][1], pairs_set1(last), pairs_load(panel + 64));
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        for (int c = 0; c < 2 && column + 16 * c < p->columns; c++) {
            const int n = p->columns - column - 16 * c < 16 ? p->columns - column - 16 * c : 16;
            float *y = p->y + (row + i) * p->y_stride + column + 16 * c;
            vec value = sum[i][c];

            if (p->add)
                value = vec_add(load_as(DTYPE_F32, y, 0, n), value);
            store_act(MODE_EXACT, y, 0, value, n);
        }
}

VEC void panel_kind(const struct panel_product *p, bool bf16)
{
    for (int32_t column = 0; column < p->columns; column += PANEL_COLUMNS) {
        int32_t row = 0;

        for (; row + PANEL_ROWS <= p->rows; row += PANEL_ROWS)
            panel_tile(p, row, column, bf16, PANEL_ROWS);
        for (; PANEL_ROWS > 4 && row + 4 <= p->rows; row += 4)
            panel_tile(p, row, column, bf16, PANEL_ROWS > 4 ? 4 : 1);
        for (; row < p->rows; row++)
            panel_tile(p, row, column, bf16, 1);
    }
}

static void panel_bf16(const struct panel_product *p)
{
    panel_kind(p, true);
}

static void panel_f32(const struct panel_product *p)
{
    panel_kind(p, false);
}

static void body_panel_multiply(const struct panel_product *p)
{
    if (p->bf16)
        panel_bf16(p);
    else
        panel_f32(p);
}

static void body_transpose(enum mode mode, act *to, int64_t to_stride, const float *from, int64_t from_stride, int32_t rows, int32_t columns)
{
    for (int32_t r = 0; r < rows; r += 16)
        for (int32_t c = 0; c < columns; c += 16) {
            const int nr = lanes_left(rows, r);
            const int nc = lanes_left(columns, c);
            vec block[16];

            for (int i = 0; i < 16; i++)
                block[i] = i < nr ? load_as(DTYPE_F32, from, (r + i) * from_stride + c, nc) : vec_zero();
            vec_transpose(block);
            for (int i = 0; i < nc; i++)
                store_act(mode, to, (c + i) * to_stride + r, block[i], nr);
        }
}

#endif
