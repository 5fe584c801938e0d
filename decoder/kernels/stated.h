/* The scalar functions and row sums of NUMERICS.md.
 *
 * Each works on one row in the order of operations that is written there, so no batch, thread count
 * or vector width can change a bit. Loops are written so that the compiler may use vector registers
 * without reordering any sum.
 */
#ifndef POINTSMAN_STATED_H
#define POINTSMAN_STATED_H

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

typedef uint32_t bits32 __attribute__((may_alias)); /* a float's bits, read in place */

/* Sixteen numbers side by side. The compiler lowers them to whatever registers there are; each lane
 * is an operation of its own, so the width never shows in the bits. */
typedef float v16f __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t v16i __attribute__((vector_size(64), aligned(4), may_alias));
typedef int8_t v16b __attribute__((vector_size(16), aligned(1), may_alias));

static inline v16f floats(v16i x) { return __builtin_convertvector(x, v16f); }
static inline v16f load16(const float *x) { return *(const v16f *)x; }

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

static inline float silu_times(float gate, float up) {
    float e = exp_stated(-fabsf(gate));
    float sigmoid = (gate >= 0.0f ? 1.0f : e) / (1.0f + e);
    return (gate * sigmoid) * up;
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

static inline float tree_sum(const float *lane) {
    float t[LANES / 2];
    for (int l = 0; l < 16; l++) t[l] = lane[l] + lane[l + 16];
    for (int l = 0; l < 8; l++) t[l] = t[l] + t[l + 8];
    for (int l = 0; l < 4; l++) t[l] = t[l] + t[l + 4];
    for (int l = 0; l < 2; l++) t[l] = t[l] + t[l + 2];
    return t[0] + t[1];
}

static inline float sum_of_squares(const float *x, int n) {
    float lane[LANES] = {0};
    int whole = n - n % LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * x[i + l];
    for (int l = 0; l < n - whole; l++) lane[l] += x[whole + l] * x[whole + l];
    return tree_sum(lane);
}

static inline float sum_lanes(const float *x, int n) {
    float lane[LANES] = {0};
    int whole = n - n % LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (int l = 0; l < n - whole; l++) lane[l] += x[whole + l];
    return tree_sum(lane);
}

static inline float dequantise(int32_t high, int32_t low, float row_scale, float column_scale) {
    float t = (float)high * 256.0f + (float)low;
    return t * (row_scale * column_scale);
}

static inline void rms_row(const float *x, const float *w, int n, float eps, float *y) {
    float r = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = (x[i] * r) * w[i];
}

/* x (n,): y = ((x - mean) * r) * w + b with both sums by lanes; y written over x. */
static inline void layernorm_row(float *x, const float *w, const float *b, int n, float eps) {
    float mean = sum_lanes(x, n) / (float)n;
    for (int i = 0; i < n; i++) x[i] = x[i] - mean;
    float r = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (int i = 0; i < n; i++) x[i] = (x[i] * r) * w[i] + b[i];
}

static inline void rotate_head(float *v, int d, const float *cosine, const float *sine) {
    int half = d / 2;
    for (int i = 0; i < half; i++) {
        float a = v[i], b = v[half + i];
        v[i] = a * cosine[i] - b * sine[i];
        v[half + i] = b * cosine[i] + a * sine[i];
    }
}

/* NUMERICS 2, the row's scale: returns the factor to multiply by, or 0 where the planes are 0. */
static inline float row_inverse(const float *x, int n, float *scale) {
    uint32_t amax_bits = 0;
    const bits32 *bits = (const bits32 *)x;
    for (int i = 0; i < n; i++) {
        uint32_t b = bits[i] & 0x7fffffffu;
        amax_bits = b > amax_bits ? b : amax_bits;
    }
    if (amax_bits >= INFINITE_BITS || amax_bits < TINY_AMAX_BITS) {
        *scale = amax_bits >= INFINITE_BITS ? NAN : 0.0f;
        return 0.0f;
    }
    union { uint32_t u; float f; } amax = {amax_bits};
    *scale = amax.f / QMAX;
    return QMAX / amax.f;
}

static inline void split(const float *x, int n, float inverse, int8_t *high, int8_t *low) {
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16f scaled = load16(x + i) * inverse;
        v16i q = __builtin_convertvector((scaled + ROUND_MAGIC) - ROUND_MAGIC, v16i);
        v16i h = (q + 128) >> 8;
        *(v16b *)(high + i) = __builtin_convertvector(h, v16b);
        *(v16b *)(low + i) = __builtin_convertvector(q - h * 256, v16b);
    }
    for (; i < n; i++) {
        int32_t q = (int32_t)round_even(x[i] * inverse);
        int32_t h = (q + 128) >> 8;
        high[i] = (int8_t)h;
        low[i] = (int8_t)(q - h * 256);
    }
}

/* One row into two planes, each a run of n bytes. */
static inline void quantise_row(const float *x, int n, int8_t *high, int8_t *low, float *scale) {
    float inverse = row_inverse(x, n, scale);
    if (inverse == 0.0f) {
        memset(high, 0, (size_t)(unsigned)n);
        memset(low, 0, (size_t)(unsigned)n);
        return;
    }
    split(x, n, inverse, high, low);
}

#endif
