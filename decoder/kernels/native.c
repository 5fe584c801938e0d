/* The per-row operations of NUMERICS.md, for the CPU.
 *
 * Every function works on rows that do not see one another, in the order of operations that
 * NUMERICS.md states, so no batch, thread count or vector width can change a bit. Loops are
 * written so that the compiler may use vector registers without reordering any sum.
 * Must be compiled without contraction to fused multiply-add and without any fast-math option.
 */
#define _GNU_SOURCE /* for syscall, below */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 32
#define BLOCK 64
#define QMAX 32639.0f
#define ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: adding and taking it off rounds half to even */
#define TINY_AMAX_BITS 0x0DA24260u /* 1e-30f: below it a row counts as zero */
#define INFINITE_BITS 0x7f800000u

int pm_abi_version(void) { return 2; }

static inline float round_even(float x) { return (x + ROUND_MAGIC) - ROUND_MAGIC; }

static inline float exp_stated(float x) {
    /* NUMERICS 4: Cody-Waite reduction, degree-6 polynomial, Horner. x <= 0 in every use. */
    float clamped = x < -87.0f ? -87.0f : x;
    float n = round_even(clamped * 1.44269504f);
    float r = clamped - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    union { int32_t i; float f; } scale;
    scale.i = ((int32_t)n + 127) << 23;
    float y = p * scale.f;
    return x < -87.0f ? 0.0f : y;
}

static inline float tree_sum(const float *lane) {
    float t[LANES / 2];
    for (int l = 0; l < 16; l++) t[l] = lane[l] + lane[l + 16];
    for (int l = 0; l < 8; l++) t[l] = t[l] + t[l + 8];
    for (int l = 0; l < 4; l++) t[l] = t[l] + t[l + 4];
    for (int l = 0; l < 2; l++) t[l] = t[l] + t[l + 2];
    return t[0] + t[1];
}

static float sum_of_squares(const float *x, int n) {
    float lane[LANES] = {0};
    int whole = n - n % LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * x[i + l];
    for (int l = 0; l < n - whole; l++) lane[l] += x[whole + l] * x[whole + l];
    return tree_sum(lane);
}

static float sum_lanes(const float *x, int n) {
    float lane[LANES] = {0};
    int whole = n - n % LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (int l = 0; l < n - whole; l++) lane[l] += x[whole + l];
    return tree_sum(lane);
}

static void quantise_row(const float *x, int n, int8_t *high, int8_t *low, float *scale) {
    uint32_t amax_bits = 0;
    const uint32_t *bits = (const uint32_t *)x;
    for (int i = 0; i < n; i++) {
        uint32_t b = bits[i] & 0x7fffffffu;
        amax_bits = b > amax_bits ? b : amax_bits;
    }
    if (amax_bits >= INFINITE_BITS || amax_bits < TINY_AMAX_BITS) {
        memset(high, 0, (size_t)(unsigned)n);
        memset(low, 0, (size_t)(unsigned)n);
        *scale = amax_bits >= INFINITE_BITS ? NAN : 0.0f;
        return;
    }
    union { uint32_t u; float f; } amax = {amax_bits};
    float inverse = QMAX / amax.f;
    *scale = amax.f / QMAX;
    for (int i = 0; i < n; i++) {
        int32_t q = (int32_t)round_even(x[i] * inverse);
        int32_t h = (q + 128) >> 8;
        high[i] = (int8_t)h;
        low[i] = (int8_t)(q - h * 256);
    }
}

static inline float dequantise(int32_t high, int32_t low, float row_scale, float column_scale) {
    float t = (float)high * 256.0f + (float)low;
    return t * (row_scale * column_scale);
}

static void rms_row(const float *x, const float *w, int n, float eps, float *y) {
    float r = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = (x[i] * r) * w[i];
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
void pm_quantise(const float *x, int rows, int n, int8_t *planes, float *scale) {
#pragma omp parallel for schedule(static)
    for (int row = 0; row < rows; row++)
        quantise_row(x + (int64_t)row * n, n, planes + (int64_t)row * n,
                     planes + (int64_t)(rows + row) * n, scale + row);
}

/* RMSNorm of x (rows, n), then quantise. scratch-free: one row at a time. */
void pm_rmsnorm_quantise(const float *x, const float *w, float eps, int rows, int n,
                         int8_t *planes, float *scale) {
#pragma omp parallel
    {
        float *y = malloc(sizeof(float) * n);
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
                   const float *bias, int rows, int n, int accumulate, float *y) {
#pragma omp parallel for schedule(static)
    for (int row = 0; row < rows; row++) {
        const int32_t *high = acc + (int64_t)row * n;
        const int32_t *low = acc + (int64_t)(rows + row) * n;
        float *out = y + (int64_t)row * n;
        float s = row_scale[row];
        if (bias) {
            for (int i = 0; i < n; i++) {
                float v = dequantise(high[i], low[i], s, column_scale[i]) + bias[i];
                out[i] = accumulate ? out[i] + v : v;
            }
        } else {
            for (int i = 0; i < n; i++) {
                float v = dequantise(high[i], low[i], s, column_scale[i]);
                out[i] = accumulate ? out[i] + v : v;
            }
        }
    }
}

/* The residual step between two products: x += dequantise(acc); planes = quantise(rmsnorm(x)). */
void pm_residual_rmsnorm_quantise(const int32_t *acc, const float *row_scale,
                                  const float *column_scale, const float *w, float eps, int rows,
                                  int n, float *x, int8_t *planes, float *scale) {
#pragma omp parallel
    {
        float *y = malloc(sizeof(float) * n);
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
                          int rows, int n, int8_t *planes, float *scale) {
#pragma omp parallel
    {
        float *y = malloc(sizeof(float) * n);
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            const int32_t *high = acc + (int64_t)row * 2 * n;
            const int32_t *low = acc + (int64_t)(rows + row) * 2 * n;
            float s = row_scale[row];
            for (int i = 0; i < n; i++) {
                float g = dequantise(high[i], low[i], s, column_scale[i]);
                float u = dequantise(high[n + i], low[n + i], s, column_scale[n + i]);
                float e = exp_stated(-fabsf(g));
                float sigmoid = (g >= 0.0f ? 1.0f : e) / (1.0f + e);
                y[i] = (g * sigmoid) * u;
            }
            quantise_row(y, n, planes + (int64_t)row * n, planes + (int64_t)(rows + row) * n,
                         scale + row);
        }
        free(y);
    }
}

static void rotate_head(float *v, int d, const float *cosine, const float *sine) {
    int half = d / 2;
    for (int i = 0; i < half; i++) {
        float a = v[i], b = v[half + i];
        v[i] = a * cosine[i] - b * sine[i];
        v[half + i] = b * cosine[i] + a * sine[i];
    }
}

/* acc (2*rows, (heads + 2*kv_heads)*d) int32 -> q (rows, heads, d) f32 rotated, and this layer's
 * keys and values stored at slot[row].
 * keys: (blocks, kv_heads, d, BLOCK) f32, values: (blocks, kv_heads, BLOCK, d) f32
 * cosine, sine: (positions, d/2) f32, or NULL for no rotation. q_norm, k_norm: (d,) or NULL.
 * bias: (n,) or NULL. */
void pm_qkv_store(const int32_t *acc, const float *row_scale, const float *column_scale,
                  const float *bias, const float *q_norm, const float *k_norm, float eps,
                  const float *cosine, const float *sine, const int32_t *position,
                  const int64_t *slot, int rows, int heads, int kv_heads, int d, float *q,
                  float *keys, float *values) {
    int n = (heads + 2 * kv_heads) * d;
#pragma omp parallel
    {
        float *y = malloc(sizeof(float) * n);
        float *normed = malloc(sizeof(float) * d);
#pragma omp for schedule(static)
        for (int row = 0; row < rows; row++) {
            const int32_t *high = acc + (int64_t)row * n;
            const int32_t *low = acc + (int64_t)(rows + row) * n;
            float s = row_scale[row];
            for (int i = 0; i < n; i++) y[i] = dequantise(high[i], low[i], s, column_scale[i]);
            if (bias)
                for (int i = 0; i < n; i++) y[i] = y[i] + bias[i];
            const float *c = cosine ? cosine + (int64_t)position[row] * (d / 2) : NULL;
            const float *si = cosine ? sine + (int64_t)position[row] * (d / 2) : NULL;
            for (int h = 0; h < heads + kv_heads; h++) {
                const float *w = h < heads ? q_norm : k_norm;
                if (w) {
                    rms_row(y + h * d, w, d, eps, normed);
                    memcpy(y + h * d, normed, sizeof(float) * d);
                }
                if (cosine) rotate_head(y + h * d, d, c, si);
            }
            memcpy(q + (int64_t)row * heads * d, y, sizeof(float) * heads * d);
            int64_t block = slot[row] / BLOCK, offset = slot[row] % BLOCK;
            for (int h = 0; h < kv_heads; h++) {
                float *k = keys + ((block * kv_heads + h) * d) * BLOCK + offset;
                const float *from = y + (heads + h) * d;
                for (int i = 0; i < d; i++) k[(int64_t)i * BLOCK] = from[i];
                memcpy(values + ((block * kv_heads + h) * BLOCK + offset) * d,
                       y + (heads + kv_heads + h) * d, sizeof(float) * d);
            }
        }
        free(y);
        free(normed);
    }
}

/* Sixteen floats side by side. The compiler lowers it to whatever registers there are; each lane is
 * an IEEE operation of its own, so the width never shows in the bits. */
typedef float f16 __attribute__((vector_size(64), aligned(4)));
#define MAX_GROUP 4

/* Scores of `group` query heads against a block's 64 keys; each lane adds over d in ascending
 * order. query: (group, d); out: `group` rows of 64, `stride` apart. */
static inline __attribute__((always_inline)) void block_scores(
    const float *query, const float *k, int d, int group, float *out, int64_t stride) {
    f16 acc[MAX_GROUP][4] = {0};
    for (int i = 0; i < d; i++) {
        f16 key[4];
        for (int c = 0; c < 4; c++) key[c] = *(const f16 *)(k + i * BLOCK + 16 * c);
        for (int g = 0; g < group; g++)
            for (int c = 0; c < 4; c++) acc[g][c] += query[g * d + i] * key[c];
    }
    for (int g = 0; g < group; g++)
        for (int c = 0; c < 4; c++) *(f16 *)(out + g * stride + 16 * c) = acc[g][c];
}

/* acc (group, d) += p * v over `count` positions in ascending order. p: `stride` apart. */
static inline __attribute__((always_inline)) void block_values(
    const float *p, int64_t stride, const float *v, int d, int count, int group, float *acc) {
    for (int i = 0; i < d; i += 64) {
        int chunks = (d - i < 64 ? d - i : 64) / 16;
        f16 a[MAX_GROUP][4];
        for (int g = 0; g < group; g++)
            for (int c = 0; c < chunks; c++) a[g][c] = *(f16 *)(acc + g * d + i + 16 * c);
        if (chunks == 4) {
            for (int t = 0; t < count; t++) {
                f16 value[4];
                for (int c = 0; c < 4; c++)
                    value[c] = *(const f16 *)(v + (int64_t)t * d + i + 16 * c);
                for (int g = 0; g < group; g++)
                    for (int c = 0; c < 4; c++) a[g][c] += p[g * stride + t] * value[c];
            }
        } else if (chunks == 2) {
            for (int t = 0; t < count; t++)
                for (int g = 0; g < group; g++)
                    for (int c = 0; c < 2; c++)
                        a[g][c] += p[g * stride + t] *
                                   *(const f16 *)(v + (int64_t)t * d + i + 16 * c);
        } else {
            for (int t = 0; t < count; t++)
                for (int g = 0; g < group; g++)
                    for (int c = 0; c < chunks; c++)
                        a[g][c] += p[g * stride + t] *
                                   *(const f16 *)(v + (int64_t)t * d + i + 16 * c);
        }
        for (int g = 0; g < group; g++)
            for (int c = 0; c < chunks; c++) *(f16 *)(acc + g * d + i + 16 * c) = a[g][c];
    }
    for (int i = d - d % 16; i < d; i++)
        for (int t = 0; t < count; t++)
            for (int g = 0; g < group; g++) acc[g * d + i] += p[g * stride + t] * v[(int64_t)t * d + i];
}

/* The heads of one group in one row. keys, values point at this key/value head in block 0. */
struct path {
    const int32_t *blocks, *tail;
    int head_count, length;
    int64_t block_stride; /* floats from one block to the next */
};

static inline __attribute__((always_inline)) void attend_group(
    const float *query, const float *keys, const float *values, const struct path *at, int d,
    int group, float *score, int64_t stride, float *part, float *out) {
    for (int start = 0; start < at->head_count; start += BLOCK)
        block_scores(query, keys + at->blocks[start / BLOCK] * at->block_stride, d, group,
                     score + start, stride);
    for (int t = at->head_count; t < at->length; t++) {
        int s = at->tail[t - at->head_count];
        const float *k = keys + at->blocks[s / BLOCK] * at->block_stride + s % BLOCK;
        float acc[MAX_GROUP] = {0};
        for (int i = 0; i < d; i++)
            for (int g = 0; g < group; g++) acc[g] += query[g * d + i] * k[(int64_t)i * BLOCK];
        for (int g = 0; g < group; g++) score[g * stride + t] = acc[g];
    }
    for (int g = 0; g < group; g++) {
        float *row = score + g * stride;
        float top = row[0];
        for (int t = 1; t < at->length; t++) top = row[t] > top ? row[t] : top;
        for (int t = 0; t < at->length; t++) row[t] = exp_stated(row[t] - top);
        /* zeros fill the last block, so that its sum has the same shape as any other */
        for (int t = at->length; t % BLOCK; t++) row[t] = 0.0f;
    }
    float total[MAX_GROUP] = {0};
    for (int i = 0; i < group * d; i++) out[i] = 0.0f;
    for (int start = 0; start < at->length; start += BLOCK) {
        int end = start + BLOCK < at->length ? start + BLOCK : at->length;
        int head_end = end < at->head_count ? end : at->head_count;
        for (int i = 0; i < group * d; i++) part[i] = 0.0f;
        if (head_end > start)
            block_values(score + start, stride,
                         values + at->blocks[start / BLOCK] * at->block_stride, d,
                         head_end - start, group, part);
        for (int t = start > at->head_count ? start : at->head_count; t < end; t++) {
            int s = at->tail[t - at->head_count];
            block_values(score + t, stride,
                         values + at->blocks[s / BLOCK] * at->block_stride +
                             (int64_t)(s % BLOCK) * d,
                         d, 1, group, part);
        }
        for (int g = 0; g < group; g++)
            total[g] = total[g] + sum_lanes(score + g * stride + start, BLOCK);
        for (int i = 0; i < group * d; i++) out[i] = out[i] + part[i];
    }
    for (int g = 0; g < group; g++)
        for (int i = 0; i < d; i++) out[g * d + i] = out[g * d + i] / total[g];
}

/* Attention of each row over its own path, then quantise.
 * A path is the first `prefix[row]` logical slots of the row's sequence, followed by
 * `tail_offsets[row]:tail_offsets[row+1]` of `tail` (logical slots). Logical slot s lies in block
 * table[table_offsets[row] + s/BLOCK] at s%BLOCK. Sums run within blocks of BLOCK path
 * positions, blocks in ascending order. q (rows, heads, d) -> planes (2*rows, heads*d), scale. */
void pm_attention_quantise(const float *q, const float *keys, const float *values,
                           const int32_t *table, const int64_t *table_offsets,
                           const int32_t *prefix, const int32_t *tail,
                           const int64_t *tail_offsets, float softmax_scale, int rows, int heads,
                           int kv_heads, int d, int8_t *planes, float *scale) {
    int per_kv = heads / kv_heads;
    int longest = 0;
    for (int row = 0; row < rows; row++) {
        int n = prefix[row] + (int)(tail_offsets[row + 1] - tail_offsets[row]);
        longest = n > longest ? n : longest;
    }
    int64_t stride = ((int64_t)longest + BLOCK - 1) / BLOCK * BLOCK;
#pragma omp parallel
    {
        float *score = malloc(sizeof(float) * MAX_GROUP * stride);
        float *out = malloc(sizeof(float) * heads * d);
        float *query = malloc(sizeof(float) * heads * d);
        float *part = malloc(sizeof(float) * MAX_GROUP * d);
#pragma omp for schedule(dynamic, 4)
        for (int row = 0; row < rows; row++) {
            struct path at = {table + table_offsets[row], tail + tail_offsets[row], prefix[row],
                              prefix[row] + (int)(tail_offsets[row + 1] - tail_offsets[row]),
                              (int64_t)kv_heads * d * BLOCK};
            const float *from = q + (int64_t)row * heads * d;
            for (int i = 0; i < heads * d; i++) query[i] = from[i] * softmax_scale;
            for (int kv = 0; kv < kv_heads; kv++) {
                const float *k = keys + (int64_t)kv * d * BLOCK;
                const float *v = values + (int64_t)kv * d * BLOCK;
                for (int done = 0; done < per_kv;) {
                    int left = per_kv - done, first = (kv * per_kv + done) * d;
                    const float *mine = query + first;
                    float *to = out + first;
                    /* the group's size is a constant in each call, so its loops unroll */
                    if (left >= 4) attend_group(mine, k, v, &at, d, 4, score, stride, part, to);
                    else if (left == 3)
                        attend_group(mine, k, v, &at, d, 3, score, stride, part, to);
                    else if (left == 2)
                        attend_group(mine, k, v, &at, d, 2, score, stride, part, to);
                    else attend_group(mine, k, v, &at, d, 1, score, stride, part, to);
                    done += left >= 4 ? 4 : left;
                }
            }
            quantise_row(out, heads * d, planes + (int64_t)row * heads * d,
                         planes + (int64_t)(rows + row) * heads * d, scale + row);
        }
        free(score);
        free(out);
        free(query);
        free(part);
    }
}

/* Gathered head: logits[e] for each wanted (row, token) pair.
 * planes (2*rows, n), scale (rows,); table (vocab, n) int8, table_scale (vocab,). */
void pm_gathered_head(const int8_t *planes, const float *scale, int rows, int n,
                      const int8_t *table, const float *table_scale, const int32_t *want_row,
                      const int32_t *want_token, int wanted, float *logits) {
#pragma omp parallel for schedule(static) if (wanted > 256)
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

/* x (rows, n): y = ((x - mean) * r) * w + b with both sums by lanes; y written over x. */
static void layernorm_row(float *x, const float *w, const float *b, int n, float eps) {
    float mean = sum_lanes(x, n) / (float)n;
    for (int i = 0; i < n; i++) x[i] = x[i] - mean;
    float r = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (int i = 0; i < n; i++) x[i] = (x[i] * r) * w[i] + b[i];
}

void pm_layernorm_quantise(const float *w, const float *b, float eps, int rows, int n, float *x,
                           int8_t *planes, float *scale) {
#pragma omp parallel for schedule(static)
    for (int row = 0; row < rows; row++) {
        layernorm_row(x + (int64_t)row * n, w, b, n, eps);
        quantise_row(x + (int64_t)row * n, n, planes + (int64_t)row * n,
                     planes + (int64_t)(rows + row) * n, scale + row);
    }
}

/* x += dequantise(acc) + bias; x = layernorm(x); planes = quantise(x) */
void pm_residual_layernorm_quantise(const int32_t *acc, const float *row_scale,
                                    const float *column_scale, const float *bias, const float *w,
                                    const float *b, float eps, int rows, int n, float *x,
                                    int8_t *planes, float *scale) {
#pragma omp parallel for schedule(static)
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

static inline float gelu_stated(float x) {
    /* NUMERICS 9: x * Phi(x), Phi through Abramowitz and Stegun 7.1.26 for erf (error < 1.5e-7). */
    float z = fabsf(x) * 0.707106781f;
    float t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t + -1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t + -0.284496736f;
    p = p * t + 0.254829592f;
    p = p * t;
    float tail = (p * exp_stated(-(z * z))) * 0.5f;
    float phi = x >= 0.0f ? 1.0f - tail : tail;
    return x * phi;
}

void pm_gelu_quantise(const int32_t *acc, const float *row_scale, const float *column_scale,
                      const float *bias, int rows, int n, int8_t *planes, float *scale) {
#pragma omp parallel
    {
        float *y = malloc(sizeof(float) * n);
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

/* Test hooks: the stated scalar functions over an array. */
void pm_exp(const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = exp_stated(x[i]);
}

void pm_gelu(const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = gelu_stated(x[i]);
}

/* ---- exact int8 products on tile registers (AMX) ----
 * The result is an integer and exact, so which routine made it never shows; these exist because
 * weights packed once need no reordering at each call. */

#ifdef __AMX_INT8__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18
#define TILE_ROWS 16
#define TILE_BYTES 1024 /* 16 rows of 64 bytes */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));

/* Tiles 0..3 sum (rows a or b by 16 columns), 4 and 5 hold rows, 6 and 7 hold weights. */
static void configure(struct tile_config *config, int rows_a, int rows_b) {
    memset(config, 0, sizeof(*config));
    config->palette = 1;
    for (int t = 0; t < 8; t++) {
        config->bytes[t] = 64;
        config->rows[t] = TILE_ROWS;
    }
    config->rows[0] = config->rows[1] = config->rows[4] = (uint8_t)rows_a;
    config->rows[2] = config->rows[3] = config->rows[5] = (uint8_t)rows_b;
}

static inline void tile_block(const int8_t *rows, int k, const int8_t *left, const int8_t *right,
                              int32_t *acc, int n, int second) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int part = 0; part < k / 64; part++) {
        _tile_loadd(4, rows + (int64_t)part * TILE_BYTES, 64);
        _tile_loadd(6, left + (int64_t)part * TILE_BYTES, 64);
        _tile_loadd(7, right + (int64_t)part * TILE_BYTES, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        if (second) {
            _tile_loadd(5, rows + (int64_t)(k / 64 + part) * TILE_BYTES, 64);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, acc, (int64_t)n * 4);
    _tile_stored(1, acc + 16, (int64_t)n * 4);
    if (second) {
        _tile_stored(2, acc + (int64_t)TILE_ROWS * n, (int64_t)n * 4);
        _tile_stored(3, acc + (int64_t)TILE_ROWS * n + 16, (int64_t)n * 4);
    }
}

/* 1 where this process may use tile registers. */
int pm_has_tiles(void) {
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* planes (m, k) int8 times a packed weight (n, k): acc (m, n) int32. k % 64 == 0, n % 32 == 0. */
void pm_tile_product(const int8_t *planes, const int8_t *packed, int m, int n, int k,
                     int32_t *acc) {
    int whole = m - m % (2 * TILE_ROWS), left = m - whole;
    int64_t panel_bytes = (int64_t)(k / 64) * TILE_BYTES;
    int bands = (m + TILE_ROWS - 1) / TILE_ROWS;
    /* Rows in tile order too: a tile is then one run of memory and not sixteen. */
    int8_t *tiled = aligned_alloc(64, bands * panel_bytes);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int band = 0; band < bands; band++)
            for (int row = band * TILE_ROWS; row < (band + 1) * TILE_ROWS && row < m; row++)
                for (int part = 0; part < k / 64; part++)
                    memcpy(tiled + band * panel_bytes + (int64_t)part * TILE_BYTES +
                               row % TILE_ROWS * 64,
                           planes + (int64_t)row * k + part * 64, 64);
        struct tile_config full, last;
        configure(&full, TILE_ROWS, TILE_ROWS);
        configure(&last, left < TILE_ROWS ? (left ? left : 1) : TILE_ROWS,
                  left > TILE_ROWS ? left - TILE_ROWS : 1);
#pragma omp for schedule(static)
        for (int panel = 0; panel < n / 32; panel++) {
            const int8_t *first = packed + 2 * panel * panel_bytes;
            int32_t *out = acc + panel * 32;
            if (whole) {
                _tile_loadconfig(&full);
                for (int row = 0; row < whole; row += 2 * TILE_ROWS)
                    tile_block(tiled + row / TILE_ROWS * panel_bytes, k, first, first + panel_bytes,
                               out + (int64_t)row * n, n, 1);
            }
            if (left) {
                _tile_loadconfig(&last);
                tile_block(tiled + whole / TILE_ROWS * panel_bytes, k, first, first + panel_bytes,
                           out + (int64_t)whole * n, n, left > TILE_ROWS);
            }
        }
        _tile_release();
    }
    free(tiled);
}
#else
int pm_has_tiles(void) { return 0; }

void pm_tile_product(const int8_t *planes, const int8_t *packed, int m, int n, int k,
                     int32_t *acc) {
    (void)planes, (void)packed, (void)m, (void)n, (void)k, (void)acc;
    abort(); /* never called: pm_has_tiles said no */
}
#endif

/* Weight (n, k) row by row -> panels of 16 columns, each of k/64 tiles; in a tile, row r holds
 * elements 4r..4r+3 of the 16 columns side by side. */
void pm_pack_tiles(const int8_t *weight, int n, int k, int8_t *packed) {
    for (int column = 0; column < n; column++)
        for (int i = 0; i < k; i++) {
            int64_t tile = (int64_t)(column / 16) * (k / 64) + i / 64;
            packed[tile * 1024 + (i % 64) / 4 * 64 + column % 16 * 4 + i % 4] =
                weight[(int64_t)column * k + i];
        }
}
