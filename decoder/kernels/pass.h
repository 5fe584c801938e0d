/* A whole forward pass in one parallel region (NUMERICS 10).
 *
 * Two ways to share the work, which change the time and no bit. With many rows, each thread takes
 * bands of rows through all of a layer and the threads meet once a layer, when keys and values are
 * stored. With few, each takes a share of every product's columns, and they meet at every step.
 */
#ifndef POINTSMAN_PASS_H
#define POINTSMAN_PASS_H

#include <omp.h>

#include "attention.h"
#include "products.h"

struct layer {
    const float *attention_norm, *ffn_norm, *bias, *q_norm, *k_norm;
    struct weight qkv, output, gate_up, down;
};

struct model {
    int32_t layers, hidden, width, use_tiles;
    struct shape shape;
    float eps, softmax_scale;
    const float *cosine, *sine; /* (positions, d/2) */
    const int8_t *embedding;    /* (vocab, hidden) */
    const float *embedding_scale, *final_norm;
    const struct layer *layer;
};

struct rows {
    int32_t count, wanted;
    const int32_t *ids, *position;
    const int64_t *slot, *wanted_rows;
    struct paths paths;
    struct cache cache; /* the first layer's */
    int64_t blocks;     /* of a layer */
};

static inline struct cache layer_cache(const struct rows *r, int index, const struct shape *s) {
    int64_t places = index * r->blocks * s->kv_heads;
    struct cache c = {
        r->cache.keys + places * key_bytes(s->d), r->cache.values + places * value_bytes(s->d),
        r->cache.key_scale + places * BLOCK, r->cache.value_scale + places * BLOCK,
    };
    return c;
}

/* Rows that a thread must have, on the average, for sharing by rows to pay. */
#define ROWS_A_THREAD 40

/* How many pairs of panels before they are needed weights are asked for. */
#define AHEAD 4

/* How `count` rows lie in bands, and which are this thread's. */
struct share {
    int thread, threads, count, bands, height, by_rows, use_tiles;
};

static struct share share_rows(int count, int thread, int threads, int use_tiles) {
    struct share s = {thread, threads, count, 0, 0, count >= ROWS_A_THREAD * threads, use_tiles};
    int sharers = s.by_rows ? threads : 1;
    int wanted = (count + TILE_ROWS * sharers - 1) / (TILE_ROWS * sharers) * sharers;
    s.height = (count + wanted - 1) / wanted; /* equal bands: no thread has a full one more */
    s.bands = (count + s.height - 1) / s.height;
    return s;
}

static inline int most_bands(int count, int threads) { return count / TILE_ROWS + threads + 1; }

/* Bands go to and fro among the threads, since later rows see more and cost more. */
static inline int owns_band(const struct share *s, int band) {
    int turn = band / s->threads, place = band % s->threads;
    return s->thread == (turn % 2 ? s->threads - 1 - place : place);
}
static inline int owns_row(const struct share *s, int row) {
    return s->by_rows ? owns_band(s, row / s->height) : row % s->threads == s->thread;
}
static inline void meet(const struct share *s) {
    if (s->by_rows) return;
#pragma omp barrier
}

/* What a pass works in. Buffers lie a row or a band apart by their own width, never by that of the
 * step at hand: threads that share by rows are at different steps at the same time.
 * x (rows, hidden), qkv (rows, qkv width), y (rows, width), attended (rows, heads*d), scale (rows,),
 * tiles (bands, band_stride). scratch and
 * attention are the thread's own. */
struct workspace {
    float *x, *qkv, *y, *attended, *scale;
    lane *tiles;
    int64_t band_stride; /* lanes */
    float *scratch;
    struct attention_scratch attention;
};

/* One row into its band's tiles. */
static void quantise_tiles(const float *x, int n, const struct share *s, int row,
                           const struct workspace *w) {
    quantise_in_band(x, n, w->tiles + row / s->height * w->band_stride, row % s->height,
                     w->scale + row);
}

/* This thread's share of a product over the rows in tiles. */
static inline __attribute__((always_inline)) void share_product(
    const struct weight *w, const struct workspace *work, const struct share *s, float *y,
    enum then then) {
    int32_t sums[4 * 256] __attribute__((aligned(64)));
    int parts = parts_of(w->k);
    int64_t panel_bytes = (int64_t)parts * TILE_BYTES;
    int own = s->by_rows ? (s->bands + s->threads - 1) / s->threads : s->bands;
    /* With one band the weights are all there is to wait for, and hints about them only delay. */
    int step = own < 2 ? 0 : (int)(2 * panel_bytes / 64 / own) + 1;
    int first = s->by_rows ? 0 : (int)((int64_t)w->pairs * s->thread / s->threads);
    int last = s->by_rows ? w->pairs : (int)((int64_t)w->pairs * (s->thread + 1) / s->threads);
    for (int pair = first; pair < last; pair++) {
        const int8_t *left = w->tiles + 2 * pair * panel_bytes;
        const int8_t *ahead = left + AHEAD * 2 * panel_bytes;
        const int8_t *end = ahead + (pair + AHEAD < last ? 2 * panel_bytes : 0);
        for (int band = 0; band < s->bands; band++) {
            if (s->by_rows && !owns_band(s, band)) continue;
            for (int line = 0; line < step && ahead < end; line++, ahead += 64)
                __builtin_prefetch(ahead, 0, 2);
            int row = band * s->height;
            int count = s->count - row < s->height ? s->count - row : s->height;
            band_sums(s->use_tiles, work->tiles + band * work->band_stride, parts, count, left,
                      left + panel_bytes, NULL, 0, sums);
            finish_pair(w, pair, sums, work->scale, row, count, y, then);
        }
    }
}

static void share_norm(const float *norm, int n, float eps, const struct share *s,
                       const struct workspace *w) {
    for (int row = 0; row < s->count; row++)
        if (owns_row(s, row)) {
            rms_row(w->x + (int64_t)row * n, norm, n, eps, w->scratch);
            quantise_tiles(w->scratch, n, s, row, w);
        }
}

static void share_quantise(const float *x, int n, const struct share *s,
                           const struct workspace *w) {
    for (int row = 0; row < s->count; row++)
        if (owns_row(s, row)) quantise_tiles(x + (int64_t)row * n, n, s, row, w);
}

/* Attention of this thread's bands, or of its share of every band. Row i of `s` is row origin[i] of
 * the pass, or i itself. */
static void share_attention(const struct model *m, const struct rows *r, int index,
                            const int64_t *origin, const struct share *s,
                            const struct workspace *w) {
    const struct shape *shape = &m->shape;
    int64_t qkv_width = (int64_t)(shape->heads + 2 * shape->kv_heads) * shape->d;
    struct cache cache = layer_cache(r, index, shape);
    begin_products(s->use_tiles, TILE_ROWS);
    for (int band = 0; band < s->bands; band++) {
        if (s->by_rows && !owns_band(s, band)) continue;
        int first = band * s->height;
        int end = first + s->height < s->count ? first + s->height : s->count;
        for (int kv = 0; kv < shape->kv_heads; kv++) {
            int item = band * shape->kv_heads + kv;
            if (!s->by_rows && item % s->threads != s->thread) continue;
            attend_rows(w->qkv, qkv_width, origin, &cache, &r->paths, shape, first, end, kv,
                        m->softmax_scale, s->use_tiles, &w->attention, w->attended);
        }
    }
    begin_products(s->use_tiles, s->height);
}

/* From attention to the residual after the feed-forward. */
static void share_layer(const struct model *m, const struct rows *r, int index,
                        const int64_t *origin, const struct share *s,
                        const struct workspace *w) {
    const struct layer *l = m->layer + index;
    share_attention(m, r, index, origin, s, w);
    meet(s);
    share_quantise(w->attended, m->shape.heads * m->shape.d, s, w);
    meet(s);
    share_product(&l->output, w, s, w->x, ADD);
    meet(s);
    share_norm(l->ffn_norm, m->hidden, m->eps, s, w);
    meet(s);
    share_product(&l->gate_up, w, s, w->y, GATE);
    meet(s);
    share_quantise(w->y, m->width, s, w);
    meet(s);
    share_product(&l->down, w, s, w->x, ADD);
    meet(s);
}

/* One thread's part of a pass; every thread of the region calls it. final_x: (wanted, hidden).
 * planes: (2*wanted, hidden) int8, plane_scale: (wanted,) f32. */
static void run_pass(const struct model *m, const struct rows *r, struct workspace w,
                     float *final_x, int8_t *planes, float *plane_scale) {
    int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    struct share s = share_rows(r->count, thread, threads, m->use_tiles);
    int hidden = m->hidden, d = m->shape.d;
    int qkv_width = (m->shape.heads + 2 * m->shape.kv_heads) * d;
    begin_products(m->use_tiles, s.height);
    for (int row = 0; row < r->count; row++)
        if (owns_row(&s, row)) {
            const int8_t *from = m->embedding + (int64_t)r->ids[row] * hidden;
            float table_scale = m->embedding_scale[r->ids[row]];
            for (int i = 0; i < hidden; i++)
                w.x[(int64_t)row * hidden + i] = (float)from[i] * table_scale;
        }
    for (int index = 0; index < m->layers; index++) {
        const struct layer *l = m->layer + index;
        struct cache cache = layer_cache(r, index, &m->shape);
        share_norm(l->attention_norm, hidden, m->eps, &s, &w);
        meet(&s);
        share_product(&l->qkv, &w, &s, w.qkv, STORE);
        meet(&s);
        for (int row = 0; row < r->count; row++)
            if (owns_row(&s, row)) {
                int64_t angle = (int64_t)r->position[row] * (d / 2);
                rotate_and_store(w.qkv + (int64_t)row * qkv_width, l->bias, l->q_norm, l->k_norm,
                                 m->eps, m->cosine + angle, m->sine + angle, r->slot[row],
                                 &m->shape, &cache, w.scratch);
            }
#pragma omp barrier
        if (index < m->layers - 1) share_layer(m, r, index, NULL, &s, &w);
    }
    if (r->wanted) {
        /* Nothing reads the other rows any more: their keys and values are stored. */
        s = share_rows(r->wanted, thread, threads, m->use_tiles);
        for (int row = 0; row < r->wanted; row++)
            if (owns_row(&s, row))
                memcpy(final_x + (int64_t)row * hidden, w.x + r->wanted_rows[row] * hidden,
                       sizeof(float) * (unsigned)hidden);
#pragma omp barrier
        w.x = final_x;
        begin_products(m->use_tiles, s.height);
        share_layer(m, r, m->layers - 1, r->wanted_rows, &s, &w);
        for (int row = 0; row < r->wanted; row++)
            if (owns_row(&s, row)) {
                rms_row(w.x + (int64_t)row * hidden, m->final_norm, hidden, m->eps, w.scratch);
                quantise_row(w.scratch, hidden, planes + (int64_t)row * hidden,
                             planes + (int64_t)(r->wanted + row) * hidden, plane_scale + row);
            }
    }
    end_products(m->use_tiles);
}

static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* 0, or 1 where memory is short. */
static int whole_pass(const struct model *m, const struct rows *r, int threads, int8_t *planes,
                      float *plane_scale) {
    const struct shape *shape = &m->shape;
    int64_t inner = (int64_t)shape->heads * shape->d, count = r->count;
    int64_t widest = larger(larger(m->hidden, m->width), inner);
    int longest = longest_span(&r->paths, r->count);
    struct workspace w = {
        .x = buffer(count * m->hidden, sizeof(float)),
        .qkv = buffer(count * (inner + 2 * (int64_t)shape->kv_heads * shape->d), sizeof(float)),
        .y = buffer(count * m->width, sizeof(float)),
        .attended = buffer(count * inner, sizeof(float)),
        .scale = buffer(count, sizeof(float)),
        .tiles = buffer(most_bands(r->count, threads), band_bytes((int)widest)),
        .band_stride = band_lanes((int)widest),
        .scratch = buffer(threads * widest, sizeof(float)),
    };
    float *final_x = buffer((int64_t)r->wanted * m->hidden, sizeof(float));
    int made = w.x && w.qkv && w.y && w.attended && w.scale && w.tiles && w.scratch && final_x;
    if (made) {
#pragma omp parallel num_threads(threads)
        {
            struct workspace own = w;
            own.scratch += omp_get_thread_num() * widest;
            own.attention = attention_scratch(longest, shape->d);
            if (!own.attention.memory) {
#pragma omp atomic write
                made = 0;
            }
#pragma omp barrier
            if (made) run_pass(m, r, own, final_x, planes, plane_scale);
            free(own.attention.memory);
        }
    }
    free(w.x);
    free(w.qkv);
    free(w.y);
    free(w.attended);
    free(w.scale);
    free(w.tiles);
    free(w.scratch);
    free(final_x);
    return !made;
}

#endif
