/* The operations of NUMERICS.md for the CPU: what Python calls.
 *
 * Every function works on rows that do not see one another, in the order of operations that
 * NUMERICS.md states. Must be compiled without contraction to fused multiply-add and without any
 * fast-math option. `threads` is how many threads a call may use.
 */
#define _GNU_SOURCE /* for syscall */
#include "pass.h"

int pm_abi_version(void) { return 5; }

/* 1 where this process may use tile registers. */
int pm_tiles_allowed(void) { return tiles_allowed(); }

/* What products are made with where tile registers are not used. */
const char *pm_vector_routine(void) { return VECTOR_ROUTINE; }

/* Bytes that a packed (n, k) matrix takes, and its pairs of panels. */
int64_t pm_packed_bytes(int n, int k, int gated) {
    int columns = gated ? n / 2 : n, step = gated ? PANEL : 2 * PANEL;
    return (int64_t)((columns + step - 1) / step) * 2 * parts_of(k) * TILE_BYTES;
}

/* values (n, k) int8, column_scale (n,) -> tiles (pairs, 2, parts, 1024), scale (pairs, 2, 16) */
void pm_pack_weight(const int8_t *values, const float *column_scale, int n, int k, int gated,
                    int threads, int8_t *tiles, float *scale) {
    struct weight w = {tiles, scale, n, k, 0, gated};
    w.pairs = (int32_t)(pm_packed_bytes(n, k, gated) / 2 / parts_of(k) / TILE_BYTES);
    pack_weight(values, column_scale, &w, threads, tiles, scale);
}

/* The whole forward pass. Returns 0, or 1 where memory is short. */
int pm_pass(const struct model *m, const struct rows *r, int threads, int8_t *planes,
            float *scale) {
    return whole_pass(m, r, threads, planes, scale);
}

/* planes (m, k) int8 times a packed weight (n, k), not gated: acc (m, n) int32. Returns 0, or 1. */
int pm_product(const int8_t *planes, const int8_t *packed, int m, int n, int k, int use_tiles,
               int threads, int32_t *acc) {
    struct weight w = {packed, NULL, n, k, 0, 0};
    int parts = parts_of(k), half = (m + 1) / 2;
    int bands = (half + TILE_ROWS - 1) / TILE_ROWS, height = (half + bands - 1) / bands;
    int64_t stride = band_lanes(k), panel_bytes = (int64_t)parts * TILE_BYTES;
    lane *tiles = buffer(bands, band_bytes(k));
    if (!tiles) return 1;
    w.pairs = (n + 2 * PANEL - 1) / (2 * PANEL);
#pragma omp parallel num_threads(threads)
    {
        int32_t sums[4 * 256] __attribute__((aligned(64)));
        begin_products(use_tiles, height);
#pragma omp for schedule(static)
        for (int row = 0; row < m; row++) {
            int at = row % half;
            lane *to = tiles + at / height * stride + at % height * TILE_DEPTH +
                       row / half * (int64_t)parts * TILE_LANES;
            for (int part = 0; part < parts; part++) {
                int left = k - part * TILE_DEPTH;
                lanes_of(planes + (int64_t)row * k + part * TILE_DEPTH,
                         left < TILE_DEPTH ? left : TILE_DEPTH, to + (int64_t)part * TILE_LANES);
            }
        }
#pragma omp for schedule(static)
        for (int pair = 0; pair < w.pairs; pair++) {
            const int8_t *left = packed + 2 * pair * panel_bytes;
            for (int band = 0; band < bands; band++) {
                int first = band * height, count = half - first < height ? half - first : height;
                band_sums(use_tiles, tiles + band * stride, parts, count, left, left + panel_bytes,
                          NULL, 0, sums);
                for (int plane = 0; plane < 2; plane++)
                    for (int r = 0; r < count && plane * half + first + r < m; r++)
                        for (int side = 0; side < 2; side++)
                            memcpy(acc + (int64_t)(plane * half + first + r) * n +
                                       panel_column(&w, pair, side),
                                   sums + plane * 512 + side * 256 + r * 16,
                                   sizeof(int32_t) * (unsigned)panel_width(&w, pair, side));
            }
        }
        end_products(use_tiles);
    }
    free(tiles);
    return 0;
}

/* table (vocab, n) int8, table_scale (vocab,), ids (rows,) -> x (rows, n) f32 */
void pm_embed(const int8_t *table, const float *table_scale, const int32_t *ids, int rows, int n,
              float *x) {
    for (int row = 0; row < rows; row++) {
        const int8_t *from = table + (int64_t)ids[row] * n;
        float s = table_scale[ids[row]];
        for (int i = 0; i < n; i++) x[(int64_t)row * n + i] = (float)from[i] * s;
    }
}

/* x (rows, n) f32 -> planes (2*rows, n) int8 with high planes first, scale (rows,) f32 */
void pm_quantise(const float *x, int rows, int n, int threads, int8_t *planes, float *scale) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int row = 0; row < rows; row++)
        quantise_row(x + (int64_t)row * n, n, planes + (int64_t)row * n,
                     planes + (int64_t)(rows + row) * n, scale + row);
}

/* RMSNorm of x (rows, n), then quantise. */
void pm_rmsnorm_quantise(const float *x, const float *w, float eps, int rows, int n, int threads,
                         int8_t *planes, float *scale) {
#pragma omp parallel num_threads(threads)
    {
        float *y = malloc(sizeof(float) * (unsigned)n);
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            rms_row(x + (int64_t)row * n, w, n, eps, y);
            quantise_row(y, n, planes + (int64_t)row * n, planes + (int64_t)(rows + row) * n,
                         scale + row);
        }
        free(y);
    }
}

/* acc (2*rows, n) int32 -> y (rows, n) f32, bias (n,) or NULL; added to y when accumulate */
void pm_dequantise(const int32_t *acc, const float *row_scale, const float *column_scale,
                   const float *bias, int rows, int n, int accumulate, int threads, float *y) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int row = 0; row < rows; row++) {
        const int32_t *high = acc + (int64_t)row * n;
        const int32_t *low = acc + (int64_t)(rows + row) * n;
        float *out = y + (int64_t)row * n;
        float s = row_scale[row];
        for (int i = 0; i < n; i++) {
            float v = dequantise(high[i], low[i], s, column_scale[i]);
            if (bias) v = v + bias[i];
            out[i] = accumulate ? out[i] + v : v;
        }
    }
}

/* The residual step between two products: x += dequantise(acc); planes = quantise(rmsnorm(x)). */
void pm_residual_rmsnorm_quantise(const int32_t *acc, const float *row_scale,
                                  const float *column_scale, const float *w, float eps, int rows,
                                  int n, int threads, float *x, int8_t *planes, float *scale) {
#pragma omp parallel num_threads(threads)
    {
        float *y = malloc(sizeof(float) * (unsigned)n);
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            const int32_t *high = acc + (int64_t)row * n;
            const int32_t *low = acc + (int64_t)(rows + row) * n;
            float *residual = x + (int64_t)row * n;
            float s = row_scale[row];
            for (int i = 0; i < n; i++)
                residual[i] = residual[i] + dequantise(high[i], low[i], s, column_scale[i]);
            rms_row(residual, w, n, eps, y);
            quantise_row(y, n, planes + (int64_t)row * n, planes + (int64_t)(rows + row) * n,
                         scale + row);
        }
        free(y);
    }
}

/* acc (2*rows, 2*n) int32 holding gate then up -> planes (2*rows, n) of silu(gate) * up */
void pm_silu_mul_quantise(const int32_t *acc, const float *row_scale, const float *column_scale,
                          int rows, int n, int threads, int8_t *planes, float *scale) {
#pragma omp parallel num_threads(threads)
    {
        float *y = malloc(sizeof(float) * (unsigned)n);
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            const int32_t *high = acc + (int64_t)row * 2 * n;
            const int32_t *low = acc + (int64_t)(rows + row) * 2 * n;
            float s = row_scale[row];
            for (int i = 0; i < n; i++)
                y[i] = silu_times(dequantise(high[i], low[i], s, column_scale[i]),
                                  dequantise(high[n + i], low[n + i], s, column_scale[n + i]));
            quantise_row(y, n, planes + (int64_t)row * n, planes + (int64_t)(rows + row) * n,
                         scale + row);
        }
        free(y);
    }
}

/* acc (2*rows, (heads + 2*kv_heads)*d) int32 -> q (rows, heads, d) f32 rotated, and keys and values
 * stored in the cache (layout: attention.h) at slot[row].
 * cosine, sine: (positions, d/2) f32, or NULL for no rotation. q_norm, k_norm: (d,) or NULL.
 * bias: (n,) or NULL. */
void pm_qkv_store(const int32_t *acc, const float *row_scale, const float *column_scale,
                  const float *bias, const float *q_norm, const float *k_norm, float eps,
                  const float *cosine, const float *sine, const int32_t *position,
                  const int64_t *slot, int rows, int heads, int kv_heads, int d, int threads,
                  float *q, int8_t *keys, int8_t *values, float *key_scale, float *value_scale) {
    struct shape shape = {heads, kv_heads, d};
    struct cache cache = {keys, values, key_scale, value_scale};
    int n = (heads + 2 * kv_heads) * d;
#pragma omp parallel num_threads(threads)
    {
        float *y = malloc(sizeof(float) * (unsigned)(n + d));
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            const int32_t *high = acc + (int64_t)row * n;
            const int32_t *low = acc + (int64_t)(rows + row) * n;
            int64_t angle = (int64_t)position[row] * (d / 2);
            for (int i = 0; i < n; i++)
                y[i] = dequantise(high[i], low[i], row_scale[row], column_scale[i]);
            rotate_and_store(y, bias, q_norm, k_norm, eps, cosine ? cosine + angle : NULL,
                             cosine ? sine + angle : NULL, slot[row], &shape, &cache, y + n);
            memcpy(q + (int64_t)row * heads * d, y, sizeof(float) * (unsigned)(heads * d));
        }
        free(y);
    }
}

/* q (rows, heads, d) -> planes (2*rows, heads*d), scale: each row over its own path, quantised.
 * Returns 0, or 1 where memory is short. */
int pm_attention_quantise(const float *q, int8_t *keys, int8_t *values, float *key_scale,
                          float *value_scale, const int32_t *table, const int64_t *table_offsets,
                          const int32_t *prefix, const int32_t *tail, const int64_t *tail_offsets,
                          float softmax_scale, int rows, int heads, int kv_heads, int d,
                          int use_tiles, int threads, int8_t *planes, float *scale) {
    struct shape shape = {heads, kv_heads, d};
    struct cache cache = {keys, values, key_scale, value_scale};
    struct paths paths = {table, table_offsets, prefix, tail, tail_offsets};
    int64_t inner = (int64_t)heads * d;
    float *out = buffer(rows * inner, sizeof(float));
    int failed = !out;
    if (failed) return 1;
#pragma omp parallel num_threads(threads)
    {
        struct attention_scratch scratch = attention_scratch(longest_span(&paths, rows), d);
        if (!scratch.memory) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp barrier
        if (!failed) {
            begin_products(use_tiles, TILE_ROWS);
#pragma omp for schedule(dynamic, 1)
            for (int item = 0; item < (rows + TILE_ROWS - 1) / TILE_ROWS * kv_heads; item++) {
                int first = item / kv_heads * TILE_ROWS;
                int end = first + TILE_ROWS < rows ? first + TILE_ROWS : rows;
                attend_rows(q, inner, NULL, &cache, &paths, &shape, first, end, item % kv_heads,
                            softmax_scale, use_tiles, &scratch, out);
            }
            end_products(use_tiles);
#pragma omp for schedule(static)
            for (int row = 0; row < rows; row++)
                quantise_row(out + row * inner, (int)inner, planes + row * inner,
                             planes + (rows + row) * inner, scale + row);
        }
        free(scratch.memory);
    }
    free(out);
    return failed;
}

/* Gathered head: logits[e] for each wanted (row, token) pair.
 * planes (2*rows, n), scale (rows,); table (vocab, n) int8, table_scale (vocab,). */
void pm_gathered_head(const int8_t *planes, const float *scale, int rows, int n,
                      const int8_t *table, const float *table_scale, const int32_t *want_row,
                      const int32_t *want_token, int wanted, int threads, float *logits) {
#pragma omp parallel for schedule(static) num_threads(threads) if (wanted > 256)
    for (int e = 0; e < wanted; e++) {
        const int8_t *high = planes + (int64_t)want_row[e] * n;
        const int8_t *low = planes + (int64_t)(rows + want_row[e]) * n;
        const int8_t *w = table + (int64_t)want_token[e] * n;
        int32_t acc_high = 0, acc_low = 0;
        for (int i = 0; i < n; i++) {
            acc_high += (int32_t)high[i] * (int32_t)w[i];
            acc_low += (int32_t)low[i] * (int32_t)w[i];
        }
        logits[e] = dequantise(acc_high, acc_low, scale[want_row[e]], table_scale[want_token[e]]);
    }
}

/* ---- sentence encoder (BERT) ---- */

void pm_layernorm_quantise(const float *w, const float *b, float eps, int rows, int n, int threads,
                           float *x, int8_t *planes, float *scale) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int row = 0; row < rows; row++) {
        layernorm_row(x + (int64_t)row * n, w, b, n, eps);
        quantise_row(x + (int64_t)row * n, n, planes + (int64_t)row * n,
                     planes + (int64_t)(rows + row) * n, scale + row);
    }
}

/* x += dequantise(acc) + bias; x = layernorm(x); planes = quantise(x) */
void pm_residual_layernorm_quantise(const int32_t *acc, const float *row_scale,
                                    const float *column_scale, const float *bias, const float *w,
                                    const float *b, float eps, int rows, int n, int threads,
                                    float *x, int8_t *planes, float *scale) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int row = 0; row < rows; row++) {
        const int32_t *high = acc + (int64_t)row * n;
        const int32_t *low = acc + (int64_t)(rows + row) * n;
        float *residual = x + (int64_t)row * n;
        float s = row_scale[row];
        for (int i = 0; i < n; i++)
            residual[i] =
                residual[i] + (dequantise(high[i], low[i], s, column_scale[i]) + bias[i]);
        layernorm_row(residual, w, b, n, eps);
        quantise_row(residual, n, planes + (int64_t)row * n, planes + (int64_t)(rows + row) * n,
                     scale + row);
    }
}

void pm_gelu_quantise(const int32_t *acc, const float *row_scale, const float *column_scale,
                      const float *bias, int rows, int n, int threads, int8_t *planes,
                      float *scale) {
#pragma omp parallel num_threads(threads)
    {
        float *y = malloc(sizeof(float) * (unsigned)n);
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            const int32_t *high = acc + (int64_t)row * n;
            const int32_t *low = acc + (int64_t)(rows + row) * n;
            float s = row_scale[row];
            for (int i = 0; i < n; i++)
                y[i] = gelu_stated(dequantise(high[i], low[i], s, column_scale[i]) + bias[i]);
            quantise_row(y, n, planes + (int64_t)row * n, planes + (int64_t)(rows + row) * n,
                         scale + row);
        }
        free(y);
    }
}

/* Rows (n, k) int16 times one row (k,), exactly: y (n,) int32. The caller sees to it that no sum
 * leaves 32 bits. Rows come from memory, so a thread is worth it from a part of a cache on. */
void pm_dots(const int16_t *rows, const int16_t *row, int64_t n, int k, int threads, int32_t *y) {
    int wide = n * k > (1 << 18) ? threads : 1;
#pragma omp parallel for schedule(static) num_threads(wide)
    for (int64_t i = 0; i < n; i++) {
        const int16_t *at = rows + i * k;
        int32_t sum = 0;
        for (int j = 0; j < k; j++) sum += (int32_t)at[j] * (int32_t)row[j];
        y[i] = sum;
    }
}

/* Test hooks: the stated scalar functions over an array. */
void pm_exp(const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = exp_stated(x[i]);
}

void pm_gelu(const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = gelu_stated(x[i]);
}
