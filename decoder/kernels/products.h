/* Exact int8 products of packed weights, with what follows them done while the sums are at hand.
 *
 * A tile is 16 rows of 64 bytes. Weights are packed once: panels of 16 columns, each a run of tiles
 * over the depth; in a tile, row r holds elements 4r..4r+3 of the 16 columns side by side. Rows of
 * activations lie in bands of up to 16: for each plane, high then low, a run of tiles over the
 * depth, a row of a band being a row of its tiles. Depth and columns are filled up with weights of
 * zero, so any shape is exact.
 *
 * Sums are integers below 2^31, so which routine made them never shows: tile registers, vector
 * registers or plain C.
 */
#ifndef POINTSMAN_PRODUCTS_H
#define POINTSMAN_PRODUCTS_H

#include "stated.h"

#define TILE_ROWS 16
#define TILE_DEPTH 64
#define TILE_BYTES 1024
#define PANEL 16 /* columns */

#if defined(__AMX_INT8__) || defined(__AVX512VNNI__) || defined(__AVX2__)
#include <immintrin.h>
#endif

/* A packed matrix (n, k). Panels come in pairs: neighbours, or a gate panel and its up panel.
 * tiles: (pairs, 2, parts, 1024) int8; scale: (pairs, 2, 16) f32, zero where filled up. */
struct weight {
    const int8_t *tiles;
    const float *scale;
    int32_t n, k, pairs, gated;
};

/* An element of a row in a band: 16 bits wide where the vector routine multiplies such. */
#if defined(__AVX2__) && !(defined(__AVX512VNNI__) && defined(__AVX512BW__))
typedef int16_t lane;
#else
typedef int8_t lane;
#endif
#define TILE_LANES (TILE_ROWS * TILE_DEPTH)

static inline int parts_of(int k) { return (k + TILE_DEPTH - 1) / TILE_DEPTH; }
static inline int64_t band_lanes(int k) { return 2 * (int64_t)parts_of(k) * TILE_LANES; }
static inline int64_t band_bytes(int k) { return band_lanes(k) * (int64_t)sizeof(lane); }

/* So many bytes of a row, each one element. */
static inline void lanes_of(const int8_t *bytes, int n, lane *to) {
    for (int i = 0; i < n; i++) to[i] = bytes[i];
}

/* Which column of the matrix stands first in a panel of a pair. */
static inline int panel_column(const struct weight *w, int pair, int panel) {
    return w->gated ? pair * PANEL + panel * (w->n / 2) : (2 * pair + panel) * PANEL;
}

/* How many columns of that panel are real. */
static inline int panel_width(const struct weight *w, int pair, int panel) {
    int left = w->gated ? w->n / 2 - pair * PANEL : w->n - (2 * pair + panel) * PANEL;
    return left < 0 ? 0 : left < PANEL ? left : PANEL;
}

/* One row of x (n,) into row `place` of a band; scale: that row's. */
static inline void quantise_in_band(const float *x, int n, lane *band, int place, float *scale) {
    int parts = parts_of(n);
    lane *high = band + place * TILE_DEPTH, *low = high + (int64_t)parts * TILE_LANES;
    int8_t planes[2][TILE_DEPTH] __attribute__((aligned(64)));
    float inverse = row_inverse(x, n, scale);
    for (int part = 0; part < parts; part++) {
        int64_t at = (int64_t)part * TILE_LANES;
        int length = n - part * TILE_DEPTH;
        if (inverse == 0.0f) memset(planes, 0, sizeof(planes));
        else if (length >= TILE_DEPTH) /* a constant length, so that it unrolls */
            split(x + part * TILE_DEPTH, TILE_DEPTH, inverse, planes[0], planes[1]);
        else split(x + part * TILE_DEPTH, length, inverse, planes[0], planes[1]);
        lanes_of(planes[0], TILE_DEPTH, high + at);
        lanes_of(planes[1], TILE_DEPTH, low + at);
    }
}

/* ---- sums of one band and one pair of panels ----
 * out: (4, 16, 16) int32: high rows by left panel, high by right, low by left, low by right.
 * The panels' tiles lie one after the other, or, where `order` is not NULL, tile i of each lies
 * order[i] * stride bytes from the panel's start, as in the blocks of a cache. */
static inline int64_t tile_at(int part, const int32_t *order, int64_t stride) {
    return order ? order[part] * stride : (int64_t)part * TILE_BYTES;
}

#ifdef __AMX_INT8__
#include <sys/syscall.h>
#include <unistd.h>
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));

/* Tiles 0..3 sum, 4 and 5 hold a band's planes (`count` rows), 6 and 7 hold weights. */
static void tiles_begin(int count) {
    struct tile_config config;
    memset(&config, 0, sizeof(config));
    config.palette = 1;
    for (int t = 0; t < 8; t++) {
        config.bytes[t] = 64;
        config.rows[t] = (uint8_t)(t < 6 ? count : TILE_ROWS);
    }
    /* Some compilers believe that the instruction reads 8 of the 64 bytes and leave the rest out. */
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}
static void tiles_end(void) { _tile_release(); }

static inline void tile_sums(const lane *band, int parts, const int8_t *left,
                             const int8_t *right, const int32_t *order, int64_t stride,
                             int32_t *out) {
    const int8_t *low = band + (int64_t)parts * TILE_BYTES;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int part = 0; part < parts; part++) {
        int64_t at = (int64_t)part * TILE_BYTES, from = tile_at(part, order, stride);
        _tile_loadd(6, left + from, 64);
        _tile_loadd(4, band + at, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, right + from, 64);
        _tile_dpbssd(1, 4, 7);
        _tile_loadd(5, low + at, 64);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(0, out, 64);
    _tile_stored(1, out + 256, 64);
    _tile_stored(2, out + 512, 64);
    _tile_stored(3, out + 768, 64);
}

/* 1 where this process may use tile registers. */
static int tiles_allowed(void) {
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#else
static void tiles_begin(int count) { (void)count; }
static void tiles_end(void) {}
static inline void tile_sums(const lane *band, int parts, const int8_t *left,
                             const int8_t *right, const int32_t *order, int64_t stride,
                             int32_t *out) {
    (void)band, (void)parts, (void)left, (void)right, (void)order, (void)stride, (void)out;
    abort(); /* never called: tiles_allowed said no */
}
static int tiles_allowed(void) { return 0; }
#endif

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define VECTOR_ROUTINE "avx512-vnni"
/* Four bytes of a row against 16 columns at once. The instruction takes one side unsigned, so rows
 * are shifted by 128 and the shift times the sum of the weights comes off at the end. */
static inline void vector_sums(const lane *band, int parts, int count, const int8_t *left,
                               const int8_t *right, const int32_t *order, int64_t stride,
                               int32_t *out) {
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    for (int plane = 0; plane < 2; plane++)
        for (int first = 0; first < count; first += 4) {
            __m512i acc[4][2], shift[2];
            for (int side = 0; side < 2; side++) {
                shift[side] = _mm512_setzero_si512();
                for (int r = 0; r < 4; r++) acc[r][side] = _mm512_setzero_si512();
            }
            for (int part = 0; part < parts; part++) {
                const int8_t *rows =
                    band + ((int64_t)plane * parts + part) * TILE_BYTES + first * TILE_DEPTH;
                for (int j = 0; j < 16; j++) {
                    int64_t at = tile_at(part, order, stride) + j * 64;
                    __m512i w[2] = {_mm512_loadu_si512(left + at), _mm512_loadu_si512(right + at)};
                    for (int side = 0; side < 2; side++)
                        shift[side] = _mm512_dpbusd_epi32(shift[side], flip, w[side]);
                    for (int r = 0; r < 4; r++) {
                        int32_t four;
                        memcpy(&four, rows + r * TILE_DEPTH + 4 * j, 4);
                        __m512i x = _mm512_xor_si512(_mm512_set1_epi32(four), flip);
                        for (int side = 0; side < 2; side++)
                            acc[r][side] = _mm512_dpbusd_epi32(acc[r][side], x, w[side]);
                    }
                }
            }
            for (int r = 0; r < 4 && first + r < count; r++)
                for (int side = 0; side < 2; side++)
                    _mm512_storeu_si512(out + plane * 512 + side * 256 + (first + r) * 16,
                                        _mm512_sub_epi32(acc[r][side], shift[side]));
        }
}
#elif defined(__AVX2__)
#define VECTOR_ROUTINE "avx2"
/* sum += the products of 16 pairs, two by two. Spelt out, since compilers make all the loads of a step
 * first, run out of registers, and keep the sums in memory. */
static inline __attribute__((always_inline)) void add_products(__m256i *sum, __m256i x, __m256i w) {
    __m256i product;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
            : "+x"(*sum), "=&x"(product)
            : "x"(x), "x"(w));
}

/* Bytes are widened to 16 bits: two products and their sum fit 32 bits, where the byte instruction
 * of this generation would saturate. ROWS rows, both planes, by 4 * GROUPS columns from `columns` on:
 * the sums stay in registers, a row's four elements come as one broadcast, weights are widened once
 * for all rows. The counts are constants where this is inlined. */
static inline __attribute__((always_inline)) void vector_block(
    const lane *high, int parts, const int8_t *weights, const int32_t *order, int64_t stride,
    int32_t *out, const int rows, const int groups) {
    const lane *low = high + (int64_t)parts * TILE_LANES;
    __m256i acc[6][4];
    for (int i = 0; i < 2 * rows; i++)
        for (int g = 0; g < groups; g++) acc[i][g] = _mm256_setzero_si256();
    for (int part = 0; part < parts; part++) {
        const int8_t *w = weights + tile_at(part, order, stride);
        const lane *x[2] = {high + part * TILE_LANES, low + part * TILE_LANES};
        for (int j = 0; j < 16; j++) {
            __m256i wide[4];
            for (int g = 0; g < groups; g++)
                wide[g] = _mm256_cvtepi8_epi16(
                    _mm_loadu_si128((const __m128i *)(w + j * 64 + g * 16)));
            for (int i = 0; i < 2 * rows; i++) {
                int64_t four;
                memcpy(&four, x[i / rows] + i % rows * TILE_DEPTH + 4 * j, 8);
                __m256i element = _mm256_set1_epi64x(four);
                for (int g = 0; g < groups; g++)
                    add_products(&acc[i][g], element, wide[g]);
            }
        }
    }
    for (int i = 0; i < 2 * rows; i++)
        for (int g = 0; g < groups; g += 2) {
            __m256i mixed = _mm256_hadd_epi32(acc[i][g], acc[i][g + 1]);
            _mm256_storeu_si256(
                (__m256i *)(out + i / rows * 512 + i % rows * 16 + g * 4),
                _mm256_permute4x64_epi64(mixed, 0xd8)); /* columns in order again */
        }
}

static inline void vector_sums(const lane *band, int parts, int count, const int8_t *left,
                               const int8_t *right, const int32_t *order, int64_t stride,
                               int32_t *out) {
    for (int side = 0; side < 2; side++) {
        const int8_t *w = side ? right : left;
        int32_t *to = out + side * 256;
        int row = 0;
        for (int taken; row < count; row += taken) {
            int left_over = count - row;
            const lane *x = band + row * TILE_DEPTH;
            int32_t *y = to + row * 16;
            taken = left_over == 4 ? 2 : left_over < 3 ? left_over : 3;
            if (taken == 1) {
                vector_block(x, parts, w, order, stride, y, 1, 4);
                continue;
            }
            for (int half = 0; half < 2; half++) {
                const int8_t *from = w + half * 32;
                if (taken == 2) vector_block(x, parts, from, order, stride, y + half * 8, 2, 2);
                else vector_block(x, parts, from, order, stride, y + half * 8, 3, 2);
            }
        }
    }
}
#else
#define VECTOR_ROUTINE "portable"
static inline void vector_sums(const lane *band, int parts, int count, const int8_t *left,
                               const int8_t *right, const int32_t *order, int64_t stride,
                               int32_t *out) {
    for (int plane = 0; plane < 2; plane++)
        for (int side = 0; side < 2; side++)
            for (int r = 0; r < count; r++) {
                int32_t acc[16] = {0};
                for (int part = 0; part < parts; part++) {
                    const int8_t *x = band + ((int64_t)plane * parts + part) * TILE_BYTES +
                                      r * TILE_DEPTH;
                    const int8_t *w = (side ? right : left) + tile_at(part, order, stride);
                    for (int j = 0; j < 16; j++)
                        for (int c = 0; c < 16; c++)
                            for (int b = 0; b < 4; b++)
                                acc[c] += (int32_t)x[4 * j + b] * (int32_t)w[j * 64 + 4 * c + b];
                }
                memcpy(out + plane * 512 + side * 256 + r * 16, acc, sizeof(acc));
            }
}
#endif

/* use_tiles: whether to use tile registers; only where tiles_allowed said so. */
static inline void band_sums(int use_tiles, const lane *band, int parts, int count,
                             const int8_t *left, const int8_t *right, const int32_t *order,
                             int64_t stride, int32_t *out) {
    if (use_tiles) tile_sums(band, parts, left, right, order, stride, out);
    else vector_sums(band, parts, count, left, right, order, stride, out);
}

/* Around a thread's products: bands of `count` rows. */
static inline void begin_products(int use_tiles, int count) {
    if (use_tiles) tiles_begin(count);
}
static inline void end_products(int use_tiles) {
    if (use_tiles) tiles_end();
}

/* ---- what is done with the sums ---- */

enum then { STORE, ADD, GATE };

static inline v16f panel_floats(const int32_t *high, const int32_t *low, float row_scale,
                                const float *column_scale) {
    v16f sum = floats(*(const v16i *)high) * 256.0f + floats(*(const v16i *)low);
    return sum * (row_scale * load16(column_scale));
}

/* Rows of one band, `count` of them from `row` on, at one pair of panels.
 * STORE: y (rows, n) = the product. ADD: y += it. GATE: y (rows, n/2) = silu(gate) * up. */
static inline __attribute__((always_inline)) void finish_pair(
    const struct weight *w, int pair, const int32_t *sums, const float *row_scale, int row,
    int count, float *y, enum then then) {
    const float *scale = w->scale + (int64_t)pair * 2 * PANEL;
    int width = then == GATE ? w->n / 2 : w->n;
    for (int r = 0; r < count; r++) {
        v16f v[2];
        for (int side = 0; side < 2; side++)
            v[side] = panel_floats(sums + side * 256 + r * 16, sums + 512 + side * 256 + r * 16,
                                   row_scale[row + r], scale + side * PANEL);
        float *out = y + (int64_t)(row + r) * width;
        if (then == GATE) {
            float gate[PANEL] __attribute__((aligned(64))), up[PANEL] __attribute__((aligned(64)));
            memcpy(gate, &v[0], sizeof(gate));
            memcpy(up, &v[1], sizeof(up));
            for (int c = 0; c < PANEL; c++) gate[c] = silu_times(gate[c], up[c]);
            int real = panel_width(w, pair, 0);
            if (real == PANEL) memcpy(out + pair * PANEL, gate, sizeof(gate));
            else memcpy(out + pair * PANEL, gate, sizeof(float) * (unsigned)real);
            continue;
        }
        for (int side = 0; side < 2; side++) {
            int real = panel_width(w, pair, side);
            float *to = out + (2 * pair + side) * PANEL;
            if (real == PANEL) {
                if (then == ADD) v[side] = load16(to) + v[side];
                *(v16f *)to = v[side];
            } else {
                for (int c = 0; c < real; c++)
                    to[c] = then == STORE ? v[side][c] : to[c] + v[side][c];
            }
        }
    }
}

static void pack_weight(const int8_t *values, const float *column_scale, struct weight *w,
                        int threads, int8_t *tiles, float *scale) {
    int parts = parts_of(w->k);
    memset(tiles, 0, (size_t)w->pairs * 2 * (size_t)parts * TILE_BYTES);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int pair = 0; pair < w->pairs; pair++)
        for (int panel = 0; panel < 2; panel++) {
            int first = panel_column(w, pair, panel), real = panel_width(w, pair, panel);
            int64_t place = 2 * (int64_t)pair + panel;
            for (int c = 0; c < PANEL; c++)
                scale[place * PANEL + c] = c < real ? column_scale[first + c] : 0.0f;
            for (int c = 0; c < real; c++)
                for (int i = 0; i < w->k; i++)
                    tiles[(place * parts + i / 64) * TILE_BYTES + i % 64 / 4 * 64 + c * 4 +
                          i % 4] = values[(int64_t)(first + c) * w->k + i];
        }
}

#endif
