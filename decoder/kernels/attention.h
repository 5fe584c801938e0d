/* Attention in exact integers (NUMERICS 7), and the cache it reads.
 *
 * Queries, keys, values and softmax weights are 16 bits in two int8 planes, so scores and weighted
 * sums are products of planes like any other and no order of positions can show in them. Many
 * query vectors of one sequence go through a tile at once; which do is a matter of time alone.
 *
 * The cache holds blocks of 64 positions. For each block and key/value head:
 *   keys    (4 groups of 16 positions, 2 planes, parts of depth) tiles, a position being a column;
 *   values  (groups of 16 elements of the head, 2 planes) tiles, an element being a column and the
 *           block's positions the depth;
 *   scales  64 f32 each.
 */
#ifndef POINTSMAN_ATTENTION_H
#define POINTSMAN_ATTENTION_H

#include "products.h"

#define KEY_GROUPS (BLOCK / PANEL)
#define PROBABILITY_ONE 4194304.0f /* 2^22: what a softmax weight of 1 counts in the sum */

struct shape {
    int32_t heads, kv_heads, d;
};

/* One layer's. */
struct cache {
    int8_t *keys, *values;
    float *key_scale, *value_scale;
};

static inline int value_groups(int d) { return (d + PANEL - 1) / PANEL; }
static inline int64_t key_bytes(int d) {
    return KEY_GROUPS * 2 * (int64_t)parts_of(d) * TILE_BYTES;
}
static inline int64_t value_bytes(int d) { return value_groups(d) * 2 * (int64_t)TILE_BYTES; }

/* What each row sees: the first prefix[row] logical slots of its sequence, and further ones, each
 * once: tail[tail_offsets[row]:tail_offsets[row+1]]. Logical slot s lies in block
 * table[table_offsets[row] + s/BLOCK] at s%BLOCK. */
struct paths {
    const int32_t *table;
    const int64_t *table_offsets;
    const int32_t *prefix, *tail;
    const int64_t *tail_offsets;
};

/* One past the last slot that a row sees. */
static inline int span_of(const struct paths *p, int64_t row) {
    int span = p->prefix[row];
    for (int64_t t = p->tail_offsets[row]; t < p->tail_offsets[row + 1]; t++)
        span = p->tail[t] >= span ? p->tail[t] + 1 : span;
    return span;
}

static inline int longest_span(const struct paths *p, int rows) {
    int longest = 0;
    for (int row = 0; row < rows; row++) {
        int span = span_of(p, row);
        longest = span > longest ? span : longest;
    }
    return longest;
}

/* A thread's own room for paths of up to `span` slots. score: (16, stride) f32, seen: (stride,). */
struct attention_scratch {
    void *memory;
    float *score, *seen;
    float *vector; /* (d,) */
    lane *query, *weight;
    int64_t stride;
};

static void *buffer(int64_t count, int64_t size) {
    void *made = NULL;
    return posix_memalign(&made, 64, (size_t)(count * size) + 64) ? NULL : made;
}

static struct attention_scratch attention_scratch(int span, int d) {
    int64_t blocks = ((int64_t)span + BLOCK - 1) / BLOCK, stride = blocks * BLOCK;
    int64_t scores = TILE_ROWS * stride * (int64_t)sizeof(float);
    int64_t vector = parts_of(d) * BLOCK * (int64_t)sizeof(float);
    int64_t query = band_bytes(d), weight = band_bytes((int)stride);
    int64_t seen = stride * (int64_t)sizeof(float);
    struct attention_scratch made = {.memory = buffer(scores + seen + vector + query + weight, 1)};
    made.stride = stride;
    made.score = made.memory;
    made.seen = made.score + TILE_ROWS * stride;
    made.vector = made.seen + stride;
    made.query = (lane *)(made.vector + parts_of(d) * BLOCK);
    made.weight = made.query + band_lanes(d);
    return made;
}

/* One vector's sums of the four products of planes, put together as NUMERICS 7 says. */
static inline v16f joined(const int32_t *sums, int row) {
    const v16i *at = (const v16i *)(sums + row * 16);
    v16f outer = floats(at[0]), middle = floats(at[16] + at[32]), inner = floats(at[48]);
    return (outer * 65536.0f + middle * 256.0f) + inner;
}

/* The largest of a row; exact, so its order can't matter. */
static inline float row_max(const float *x, int n) {
    float top = x[0];
    int i = 0;
    if (n >= 16) {
        v16f lanes = load16(x);
        for (i = 16; i + 16 <= n; i += 16) {
            v16f next = load16(x + i);
            v16i larger = next > lanes;
            lanes = (v16f)(((v16i)next & larger) | ((v16i)lanes & ~larger));
        }
        for (int l = 0; l < 16; l++) top = lanes[l] > top ? lanes[l] : top;
    }
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* Counts of the softmax weights, exactly. NaN counts as anything: its row is lost anyway. */
static inline uint64_t count_weights(const float *p, int n) {
    uint64_t total = 0;
    for (int start = 0; start < n; start += 512) {
        int end = start + 512 < n ? start + 512 : n;
        uint32_t part = 0; /* 512 * 2^22 = 2^31 */
        for (int t = start; t < end; t++)
            part += (uint32_t)(int32_t)round_even(p[t] * PROBABILITY_ONE);
        total += part;
    }
    return total;
}

/* Scores (16 vectors, stride) of the query band against the slots of the first `span`. */
static void scores_of(const struct attention_scratch *a, const float *query_scale, int count,
                      const struct cache *c, const int32_t *blocks, const struct shape *s, int kv,
                      int span, int use_tiles) {
    int32_t sums[4 * 256] __attribute__((aligned(64)));
    int parts = parts_of(s->d);
    for (int start = 0; start < span; start += PANEL) {
        int64_t place = (int64_t)blocks[start / BLOCK] * s->kv_heads + kv;
        const int8_t *high = c->keys + place * key_bytes(s->d) +
                             start % BLOCK / PANEL * 2 * (int64_t)parts * TILE_BYTES;
        const float *key_scale = c->key_scale + place * BLOCK + start % BLOCK;
        band_sums(use_tiles, a->query, parts, count, high, high + (int64_t)parts * TILE_BYTES,
                  NULL, 0, sums);
        for (int v = 0; v < count; v++) {
            *(v16f *)(a->score + v * a->stride + start) =
                joined(sums, v) * (query_scale[v] * load16(key_scale));
        }
    }
}

/* One vector's scores, in place, into its softmax weights times the values' scales; 0 where the row
 * sees nothing. Returns the sum of the softmax weights. */
static float weights_of(float *score, float *seen, const struct cache *c, const int32_t *blocks,
                        const struct shape *s, int kv, int prefix, const int32_t *tail,
                        int tail_count, int whole) {
    float top = prefix ? row_max(score, prefix) : score[tail[0]];
    for (int i = 0; i < tail_count; i++) top = score[tail[i]] > top ? score[tail[i]] : top;
    for (int i = 0; i < tail_count; i++) seen[i] = exp_stated(score[tail[i]] - top);
    for (int t = 0; t < prefix; t++) score[t] = exp_stated(score[t] - top);
    for (int t = prefix; t < whole; t++) score[t] = 0.0f;
    uint64_t total = count_weights(score, prefix) + count_weights(seen, tail_count);
    for (int start = 0; start < prefix; start += BLOCK) {
        int length = prefix - start < BLOCK ? prefix - start : BLOCK;
        const float *scale =
            c->value_scale + ((int64_t)blocks[start / BLOCK] * s->kv_heads + kv) * BLOCK;
        for (int t = 0; t < length; t++) score[start + t] = score[start + t] * scale[t];
    }
    for (int i = 0; i < tail_count; i++) {
        int64_t place = (int64_t)blocks[tail[i] / BLOCK] * s->kv_heads + kv;
        score[tail[i]] = seen[i] * c->value_scale[place * BLOCK + tail[i] % BLOCK];
    }
    return (float)((double)total * (1.0 / PROBABILITY_ONE));
}

/* Rows [first, end) of one sequence at one key/value head; `origin`: where row i stands in q and
 * paths, or NULL. Query vectors go sixteen at a time. */
static void attend_sequence(const float *q, int64_t q_stride, const int64_t *origin,
                            const struct cache *c, const struct paths *p, const struct shape *s,
                            int first, int end, int kv, float softmax_scale, int use_tiles,
                            const struct attention_scratch *a, float *out) {
    int group = s->heads / s->kv_heads, d = s->d, inner = s->heads * d;
    int vectors = (end - first) * group;
    const int32_t *blocks = p->table + p->table_offsets[origin ? origin[first] : first];
    for (int from = 0; from < vectors; from += TILE_ROWS) {
        int count = vectors - from < TILE_ROWS ? vectors - from : TILE_ROWS, span = 0;
        float query_scale[TILE_ROWS], weight_scale[TILE_ROWS], total[TILE_ROWS];
        for (int v = 0; v < count; v++) {
            int row = first + (from + v) / group;
            int64_t at = origin ? origin[row] : row;
            const float *vector = q + at * q_stride + (kv * group + (from + v) % group) * d;
            for (int i = 0; i < d; i++) a->vector[i] = vector[i] * softmax_scale;
            quantise_in_band(a->vector, d, a->query, v, query_scale + v);
            int own = span_of(p, at);
            span = own > span ? own : span;
        }
        scores_of(a, query_scale, count, c, blocks, s, kv, span, use_tiles);
        int used = (span + BLOCK - 1) / BLOCK, whole = used * BLOCK;
        for (int v = 0; v < count; v++) {
            int row = first + (from + v) / group;
            int64_t at = origin ? origin[row] : row;
            float *score = a->score + v * a->stride;
            total[v] = weights_of(score, a->seen, c, blocks, s, kv, p->prefix[at],
                                  p->tail + p->tail_offsets[at],
                                  (int)(p->tail_offsets[at + 1] - p->tail_offsets[at]), whole);
            quantise_in_band(score, whole, a->weight, v, weight_scale + v);
        }
        int32_t sums[4 * 256] __attribute__((aligned(64)));
        int64_t stride = s->kv_heads * value_bytes(d);
        const int8_t *values = c->values + kv * value_bytes(d);
        for (int g = 0; g < value_groups(d); g++) {
            const int8_t *high = values + g * 2 * TILE_BYTES;
            band_sums(use_tiles, a->weight, used, count, high, high + TILE_BYTES, blocks, stride,
                      sums);
            int real = d - g * PANEL < PANEL ? d - g * PANEL : PANEL;
            for (int v = 0; v < count; v++) {
                v16f row = joined(sums, v) * weight_scale[v] / total[v];
                float *to = out + (int64_t)(first + (from + v) / group) * inner +
                            (kv * group + (from + v) % group) * d + g * PANEL;
                if (real == PANEL) *(v16f *)to = row;
                else memcpy(to, &row, sizeof(float) * (unsigned)real);
            }
        }
    }
}

/* Rows [first, end), of any sequences. out: (rows, heads*d). Tile registers must be set up for 16
 * rows. */
static void attend_rows(const float *q, int64_t q_stride, const int64_t *origin,
                        const struct cache *c, const struct paths *p, const struct shape *s,
                        int first, int end, int kv, float softmax_scale, int use_tiles,
                        const struct attention_scratch *a, float *out) {
    while (first < end) {
        int64_t mine = p->table_offsets[origin ? origin[first] : first];
        int next = first + 1;
        while (next < end && p->table_offsets[origin ? origin[next] : next] == mine) next++;
        attend_sequence(q, q_stride, origin, c, p, s, first, next, kv, softmax_scale, use_tiles, a,
                        out);
        first = next;
    }
}

/* One position of one head into the cache. */
static void store_key(const float *x, int d, int8_t *block, int offset, float *scale) {
    int parts = parts_of(d);
    int8_t planes[2][TILE_DEPTH];
    float inverse = row_inverse(x, d, scale);
    int8_t *to = block + offset / PANEL * 2 * (int64_t)parts * TILE_BYTES + offset % PANEL * 4;
    for (int part = 0; part < parts; part++) {
        int length = d - part * TILE_DEPTH < TILE_DEPTH ? d - part * TILE_DEPTH : TILE_DEPTH;
        memset(planes, 0, sizeof(planes));
        if (inverse != 0.0f)
            split(x + part * TILE_DEPTH, length, inverse, planes[0], planes[1]);
        for (int plane = 0; plane < 2; plane++)
            for (int r = 0; r < 16; r++)
                memcpy(to + ((int64_t)plane * parts + part) * TILE_BYTES + r * 64,
                       planes[plane] + 4 * r, 4);
    }
}

static void store_value(const float *x, int d, int8_t *block, int offset, float *scale) {
    int8_t planes[2][PANEL];
    float inverse = row_inverse(x, d, scale);
    for (int g = 0; g < value_groups(d); g++) {
        int length = d - g * PANEL < PANEL ? d - g * PANEL : PANEL;
        memset(planes, 0, sizeof(planes));
        if (inverse != 0.0f) split(x + g * PANEL, length, inverse, planes[0], planes[1]);
        for (int plane = 0; plane < 2; plane++) {
            int8_t *to = block + (2 * g + plane) * TILE_BYTES + offset / 4 * 64 + offset % 4;
            for (int i = 0; i < PANEL; i++) to[4 * i] = planes[plane][i];
        }
    }
}

/* One row of queries, keys and values as they come from the product, y ((heads + 2*kv_heads)*d):
 * bias, norm and rotation in place; keys and values stored at `slot`. Pointers may be NULL where
 * the model has no such step. normed: (d,) scratch. */
static void rotate_and_store(float *y, const float *bias, const float *q_norm, const float *k_norm,
                             float eps, const float *cosine, const float *sine, int64_t slot,
                             const struct shape *s, const struct cache *c, float *normed) {
    int heads = s->heads, kv_heads = s->kv_heads, d = s->d;
    if (bias)
        for (int i = 0; i < (heads + 2 * kv_heads) * d; i++) y[i] = y[i] + bias[i];
    for (int h = 0; h < heads + kv_heads; h++) {
        const float *w = h < heads ? q_norm : k_norm;
        if (w) {
            rms_row(y + h * d, w, d, eps, normed);
            memcpy(y + h * d, normed, sizeof(float) * (unsigned)d);
        }
        if (cosine) rotate_head(y + h * d, d, cosine, sine);
    }
    for (int h = 0; h < kv_heads; h++) {
        int64_t place = slot / BLOCK * kv_heads + h;
        int offset = (int)(slot % BLOCK);
        store_key(y + (heads + h) * d, d, c->keys + place * key_bytes(d), offset,
                  c->key_scale + place * BLOCK + offset);
        store_value(y + (heads + kv_heads + h) * d, d, c->values + place * value_bytes(d), offset,
                    c->value_scale + place * BLOCK + offset);
    }
}

#endif
