// Arrays and objects: which frames a byte leads theirs to; grammar.py and reference.py define it.

#ifndef POINTSMAN_CONTAINERS_H
#define POINTSMAN_CONTAINERS_H

#include "frames.h"

// Arrays

static int32_t next_item(const Grammar *g, const Frame *f) {
  const int32_t *row = row_of(g, f->node);
  if (row[5] != NONE && f->a >= row[5]) return NONE;
  int32_t item = f->a < row[2] - row[1] ? g->lists[row[1] + f->a] : row[3];
  return item != NONE && fits(g, item, f->depth) ? item : NONE;
}

static int yield_items(Walker *w, const Frame *f) {
  const int32_t *row = row_of(w->g, f->node);
  if (f->phase == FIRST && row[4] == 0) TRY(yield_frame(w, f));
  int32_t item = next_item(w->g, f);
  if (item == NONE) return OK;
  Frame after = *f;
  after.phase = AFTER;
  int32_t held = row[2] - row[1], enough = row[4] > held ? row[4] : held, id;
  if (row[5] != NONE || f->a < enough) after.a = f->a + 1;
  TRY(put_frame(&w->arena, &after, &id));
  return yield_value(w, item, f->depth, id);
}

static int step_list(Walker *w, const Frame *f, int byte) {
  Frame after = *f;
  if (byte == ']' && (f->phase == FIRST || f->phase == AFTER))
    return f->a >= row_of(w->g, f->node)[4] ? yield_id(w, f->above) : OK;
  if (byte == ',' && f->phase == AFTER) {
    after.phase = SPACE;
    return next_item(w->g, f) != NONE ? yield_frame(w, &after) : OK;
  }
  if (byte == ' ' && f->phase == SPACE) {
    after.phase = ITEM;
    return yield_items(w, &after);
  }
  return OK;
}

// Arrays of distinct literals

static inline uint64_t used_bits(const Frame *f) {
  return (uint64_t)(uint32_t)f->a | (uint64_t)(uint32_t)f->b << 32;
}

static int yield_choice_at(Walker *w, const Frame *f) {
  const Grammar *g = w->g;
  uint64_t used = used_bits(f);
  int32_t here = g->trie_values[f->c];
  int32_t low = g->trie_leaves[2 * f->c], high = g->trie_leaves[2 * f->c + 1];
  for (int32_t i = low; i < high; i++) {
    int32_t value = g->trie_order[i];
    if (value == here || used >> value & 1) continue;
    TRY(yield_frame(w, f));
    break;
  }
  if (here == NONE || used >> here & 1) return OK;
  Frame after = *f;
  used |= (uint64_t)1 << here;
  after.a = (int32_t)(uint32_t)used;
  after.b = (int32_t)(uint32_t)(used >> 32);
  after.c = NONE;
  after.phase = AFTER;
  return yield_frame(w, &after);
}

static int yield_choices(Walker *w, const Frame *f) {
  const int32_t *row = row_of(w->g, f->node);
  if (f->phase == FIRST && row[3] == 0) TRY(yield_frame(w, f));
  if (__builtin_popcountll(used_bits(f)) >= row[4]) return OK;
  Frame key = *f;
  key.phase = KEY;
  key.c = row[1];
  return yield_choice_at(w, &key);
}

static int step_choices(Walker *w, const Frame *f, int byte) {
  const int32_t *row = row_of(w->g, f->node);
  int32_t count = __builtin_popcountll(used_bits(f));
  Frame after = *f;
  if (f->phase == KEY) {
    after.c = trie_follow(w->g, f->c, byte);
    return after.c == NONE ? OK : yield_choice_at(w, &after);
  }
  if (byte == ']' && (f->phase == FIRST || f->phase == AFTER))
    return count >= row[3] ? yield_id(w, f->above) : OK;
  if (byte == ',' && f->phase == AFTER) {
    after.phase = SPACE;
    return count < row[4] ? yield_frame(w, &after) : OK;
  }
  if (byte == ' ' && f->phase == SPACE) {
    after.phase = ITEM;
    return yield_choices(w, &after);
  }
  return OK;
}

// Objects

static inline int32_t required_from(const Grammar *g, const int32_t *row, int32_t position) {
  return g->required[row[2]] - g->required[row[1] + position];
}

static int may_close(const Grammar *g, const Frame *f) {
  const int32_t *row = row_of(g, f->node);
  return f->b >= row[6] && !required_from(g, row, f->a);
}

static int64_t free_left(const Walker *w, const Frame *f) {
  const Grammar *g = w->g;
  int32_t keys = free_keys(g, f->node, f->depth);
  if (keys == NONE) return 0;
  int64_t texts = g->texts[automaton_row(g, keys)[4]];
  return texts >= MANY ? texts : texts - used_at(&w->arena, f->d)->count;
}

// The last declared property that may come next: the first required one, or the last of all.
static int32_t last_candidate(const Grammar *g, const int32_t *row, int32_t next) {
  int32_t size = row[2] - row[1];
  if (!required_from(g, row, next)) return size - 1;
  int32_t low = next, high = size - 1;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (required_from(g, row, middle + 1) < required_from(g, row, next)) high = middle;
    else low = middle + 1;
  }
  return low;
}

static int may_add(const Walker *w, const Frame *f, int32_t position, int64_t free) {
  const Grammar *g = w->g;
  const int32_t *row = row_of(g, f->node);
  if (!fits(g, g->property_nodes[row[1] + position], f->depth)) return 0;
  int64_t count = (int64_t)f->b + 1;
  if (row[7] != NONE && count + required_from(g, row, position + 1) > row[7]) return 0;
  if (count + free >= row[6]) return 1;
  for (int32_t later = position + 1; later < row[2] - row[1]; later++)
    if (fits(g, g->property_nodes[row[1] + later], f->depth) && ++count + free >= row[6]) return 1;
  return 0;
}

static int may_add_any(const Walker *w, const Frame *f, int64_t free) {
  const int32_t *row = row_of(w->g, f->node);
  int32_t last = last_candidate(w->g, row, f->a);
  for (int32_t position = f->a; position <= last; position++)
    if (may_add(w, f, position, free)) return 1;
  return 0;
}

static int may_add_free(const Walker *w, const Frame *f, int64_t free) {
  const int32_t *row = row_of(w->g, f->node);
  return free > 0 && !required_from(w->g, row, f->a) && (row[7] == NONE || f->b < row[7]) &&
         f->b + free >= row[6];
}

static inline int32_t one_more_member(const int32_t *row, int32_t count) {
  return row[7] != NONE || count < row[6] ? count + 1 : count;
}

static int yield_key_at(Walker *w, const Frame *f) {
  const Grammar *g = w->g;
  const int32_t *row = row_of(g, f->node);
  int64_t free = free_left(w, f);
  int32_t here = g->trie_values[f->c], last = last_candidate(g, row, f->a);
  int32_t low = g->trie_leaves[2 * f->c], high = g->trie_leaves[2 * f->c + 1];
  for (int32_t i = low; i < high; i++) {
    int32_t value = g->trie_order[i];
    if (value == here || value < f->a || value > last || !may_add(w, f, value, free)) continue;
    TRY(yield_frame(w, f));
    break;
  }
  if (here == NONE || here < f->a || here > last || !may_add(w, f, here, free)) return OK;
  Frame after = *f;
  int32_t id;
  after.a = here + 1;
  after.b = one_more_member(row, f->b);
  after.phase = AFTER;
  after.c = NONE;
  TRY(put_frame(&w->arena, &after, &id));
  return yield_value(w, g->property_nodes[row[1] + here], f->depth, id);
}

static int yield_members(Walker *w, const Frame *f) {
  const int32_t *row = row_of(w->g, f->node);
  if (f->phase == FIRST && may_close(w->g, f)) TRY(yield_frame(w, f));
  Frame next = *f;
  if (may_add_free(w, f, free_left(w, f))) {
    next.phase = ITEM;
    TRY(yield_frame(w, &next));
  }
  if (row[3] == NONE) return OK;
  next.phase = KEY;
  next.c = row[3];
  return yield_key_at(w, &next);
}

static int step_members(Walker *w, const Frame *f, int byte) {
  const Grammar *g = w->g;
  const int32_t *row = row_of(g, f->node);
  Frame after = *f;
  int32_t id;
  switch (f->phase) {
    case FIRST:
    case AFTER:
      if (byte == '}') return may_close(g, f) ? yield_id(w, f->above) : OK;
      if (byte == ',' && f->phase == AFTER) {
        int64_t free = free_left(w, f);
        after.phase = SPACE;
        return may_add_free(w, f, free) || may_add_any(w, f, free) ? yield_frame(w, &after) : OK;
      }
      return OK;
    case SPACE:
      after.phase = ITEM;
      return byte == ' ' ? yield_members(w, &after) : OK;
    case KEY:
      after.c = trie_follow(g, f->c, byte);
      return after.c == NONE ? OK : yield_key_at(w, &after);
    case ITEM: {
      if (byte != QUOTE) return OK;
      after.a = row[2] - row[1];
      TRY(put_frame(&w->arena, &after, &id));
      Frame key = {.kind = FREE_KEY, .node = free_keys(g, f->node, f->depth), .above = id};
      return yield_frame(w, &key);
    }
    case COLON:
      after.phase = VALUE;
      return byte == ':' ? yield_frame(w, &after) : OK;
    default: {
      if (byte != ' ') return OK;
      int32_t value = g->lists[row[5] + f->c];
      after.b = one_more_member(row, f->b);
      after.phase = AFTER;
      after.c = NONE;
      TRY(put_frame(&w->arena, &after, &id));
      return yield_value(w, value, f->depth, id);
    }
  }
}

#endif
