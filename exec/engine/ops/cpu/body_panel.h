/* Products over packed panels, over vec.h's words, compiled once a set of kernels. A panel is [k words][PANEL_COLUMNS] words: floats, or
 * pairs of bf16 of neighbouring k. An output is one lane's sum over k in order, whatever tile computes it. */
#ifndef CPU_BODY_PANEL_H
#define CPU_BODY_PANEL_H

#include "engine/ops/cpu/train_kernels.h"

/* Two rows of bf16 side by side; `second` NULL: zeros. */
VEC void panel_pair(uint16_t *to, const char *first, const char *second, int32_t columns)
{
    uint16_t a[PANEL_COLUMNS] = {0};
    uint16_t b[PANEL_COLUMNS] = {0};

    memcpy(a, first, (size_t)columns * 2);
    if (second != NULL)
        memcpy(b, second, (size_t)columns * 2);
    for (int c = 0; c < PANEL_COLUMNS; c++) {
        to[2 * c] = a[c];
        to[2 * c + 1] = b[c];
    }
}

static void body_panel_rows(void *panel, bool bf16, const void *w, enum dtype dtype, int64_t stride, int32_t k, int32_t columns)
{
    const int64_t bytes = stride * (int64_t)dtype_bytes(dtype);
    const char *from = w;

    if (!bf16) {
        for (int32_t i = 0; i < k; i++, from += bytes)
            for (int32_t c = 0; c < PANEL_COLUMNS; c += 16) {
                const int n = columns - c < 16 ? columns - c : 16;
                vec a = n > 0 ? load_as(dtype, from, c, n) : vec_zero();

                vec_store((char *)panel + ((int64_t)i * PANEL_COLUMNS + c) * 4, a);
            }
        return;
    }
    check(dtype == DTYPE_BF16);
    for (int32_t i = 0; i + 1 < k; i += 2, from += 2 * bytes) {
        uint16_t *to = (uint16_t *)panel + (int64_t)i * PANEL_COLUMNS;

        if (columns == PANEL_COLUMNS)
            panel_pair(to, from, from + bytes, PANEL_COLUMNS);
        else
            panel_pair(to, from, from + bytes, columns);
    }
    if (k % 2 != 0)
        panel_pair((uint16_t *)panel + (int64_t)(k - 1) * PANEL_COLUMNS, from, NULL, columns);
}

static void body_panel_columns(void *panel, bool bf16, const void *w, int64_t stride, int32_t k, int32_t columns)
{
    const int64_t size = bf16 ? 2 : 4;
    const int64_t row_bytes = k * size;
    const int32_t words = (int32_t)((row_bytes + 3) / 4);

    for (int32_t c = 0; c < PANEL_COLUMNS; c += 16)
        for (int32_t word = 0; word < words; word += 16) {
            vec row[16];

            for (int j = 0; j < 16; j++) {
                const char *from = (const char *)w + (c + j) * stride * size + (int64_t)word * 4;
                char rest[64] = {0};

                row[j] = vec_zero();
                if (c + j >= columns)
                    continue;
                if (row_bytes - (int64_t)word * 4 < 64) {
                    memcpy(rest, from, (size_t)(row_bytes - (int64_t)word * 4));
                    from = rest;
                }
                row[j] = vec_load(from);
            }
            vec_transpose(row);
            for (int32_t i = 0; i < 16 && word + i < words; i++)
                vec_store((char *)panel + ((int64_t)(word + i) * PANEL_COLUMNS + c) * 4, row[i]);
        }
}

/* rows <= PANEL_ROWS and bf16 are constants at every call. */
VEC void panel_tile(const struct panel_product *p, int32_t row, bool bf16, int rows)
{
    const int64_t size = bf16 ? 2 : 4;
    const char *x = (const char *)p->x + row * p->x_stride * size;
    const char *panel = p->panel;
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
        for (int c = 0; c < 2 && 16 * c < p->columns; c++) {
            const int n = p->columns - 16 * c < 16 ? p->columns - 16 * c : 16;
            float *y = p->y + (row + i) * p->y_stride + 16 * c;
            vec value = sum[i][c];

            if (p->add)
                value = vec_add(load_as(DTYPE_F32, y, 0, n), value);
            store_act(MODE_EXACT, y, 0, value, n);
        }
}

VEC void panel_kind(const struct panel_product *p, bool bf16)
{
    int32_t row = 0;

    for (; row + PANEL_ROWS <= p->rows; row += PANEL_ROWS)
        panel_tile(p, row, bf16, PANEL_ROWS);
    for (; PANEL_ROWS > 4 && row + 4 <= p->rows; row += 4)
        panel_tile(p, row, bf16, PANEL_ROWS > 4 ? 4 : 1);
    for (; row < p->rows; row++)
        panel_tile(p, row, bf16, 1);
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
