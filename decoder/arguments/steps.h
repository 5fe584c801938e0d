// Which stacks a byte leads to; reference.py is the definition.
//
// A frame's fields by its kind:
//   OPENING   node, depth
//   LITERAL   node: a place in the tries
//   STRING    node, a: state, b: characters, c: partial character
//   DIGITS    node: automaton, a: state
//   LIST      node, a: items begun, phase, depth
//   CHOICES   node, a and b: used literals, c: a place in the tries where the phase is KEY, phase
//   MEMBERS   node, a: next property, b: members begun, c: a place or a label, d: used keys,
//             phase, depth
//   FREE_KEY  node: automaton, a: state, b: text, c: partial character; above: its MEMBERS
// Characters, items and members are counted only as far as a bound makes a difference, so that
// what is alike is stored once.

#ifndef POINTSMAN_STEPS_H
#define POINTSMAN_STEPS_H

#include "arena.h"
#include "grammar.h"

enum { END, OPENING, LITERAL, STRING, DIGITS, LIST, CHOICES, MEMBERS, FREE_KEY };
enum { FIRST, AFTER, SPACE, ITEM, KEY, COLON, VALUE };  // as in stacks.py

// A free key of which it is known that no used key begins so: masks of such keys are the same.
enum { NO_SUCH_TEXT = -1 };

typedef struct {
  int32_t *items;
  int32_t count, capacity;
} List;

static int list_push(List *list, int32_t item) {
  if (list->count == list->capacity) {
    int32_t capacity = list->capacity ? list->capacity * 2 : 64;
    int32_t *items = realloc(list->items, sizeof(int32_t) * (size_t)capacity);
    if (!items) return NO_MEMORY;
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = item;
  return OK;
}

typedef struct {
  const Grammar *g;
  Arena arena;
  List found;  // frames that a byte leads to
} Walker;

#define TRY(call)              \
  do {                         \
    int failed_ = (call);      \
    if (failed_) return failed_; \
  } while (0)

static int yield_id(Walker *w, int32_t id) {
  if (w->found.count >= MAX_STACKS) return TOO_LARGE;
  return list_push(&w->found, id);
}

static int yield_frame(Walker *w, const Frame *frame) {
  int32_t id;
  TRY(put_frame(&w->arena, frame, &id));
  return yield_id(w, id);
}

static int yield_literal(Walker *w, int32_t place, int32_t above) {
  if (has_edges(w->g, place)) {
    Frame frame = {.kind = LITERAL, .node = place, .above = above};
    TRY(yield_frame(w, &frame));
  }
  return w->g->trie_values[place] == NONE ? OK : yield_id(w, above);
}

static int yield_number(Walker *w, int32_t automaton, int32_t state, int32_t above) {
  Frame frame = {.kind = DIGITS, .node = automaton, .a = state, .above = above};
  TRY(yield_frame(w, &frame));
  return accept_label(w->g, automaton, state) == NONE ? OK : yield_id(w, above);
}

static int yield_value(Walker *w, int32_t node, int32_t depth, int32_t above) {
  const Grammar *g = w->g;
  if (!fits(g, node, depth)) return OK;
  const int32_t *row = row_of(g, node);
  switch (row[0]) {
    case UNION:
      for (int32_t i = row[1]; i < row[2]; i++)  // options are no unions, so it goes no deeper
        TRY(yield_value(w, g->lists[i], depth, above));
      return OK;
    case LITERALS:
      return yield_literal(w, row[1], above);
    case NUMBER:
      return yield_number(w, row[1], 0, above);
    default: {
      Frame frame = {.kind = OPENING, .node = node, .depth = depth, .above = above};
      return yield_frame(w, &frame);
    }
  }
}

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
  const int32_t *row = row_of(g, f->node);
  if (row[4] == NONE) return 0;
  for (int32_t i = 0; i < g->labels[row[4]]; i++)
    if (!fits(g, g->lists[row[5] + i], f->depth)) return 0;
  if (!g->labels[row[4]]) return 0;
  int64_t texts = g->texts[automaton_row(g, row[4])[4]];
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
      Frame key = {.kind = FREE_KEY, .node = row[4], .above = id};
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

// Strings and free keys

static int step_string(Walker *w, const Frame *f, int byte) {
  const Grammar *g = w->g;
  const int32_t *row = row_of(g, f->node);
  if (byte == QUOTE && !f->c)
    return f->b >= row[2] && accept_label(g, row[1], f->a) != NONE ? yield_id(w, f->above) : OK;
  Frame after = *f;
  int32_t code_point;
  int64_t room = row[3] == NONE ? NEVER - 1 : (int64_t)row[3] - f->b - 1;
  switch (read_byte(&after.c, byte, &code_point)) {
    case PARTIAL: {
      Range ranges[3];
      int count = character_ranges(after.c, ranges);
      return some_character(g, row[1], f->a, ranges, count, room) ? yield_frame(w, &after) : OK;
    }
    case CHARACTER:
      after.a = automaton_step(g, row[1], f->a, code_point);
      if (after.a == NONE || shortest_rest(g, row[1], after.a) > room) return OK;
      if (row[3] != NONE || f->b < row[2]) after.b = f->b + 1;
      after.c = 0;
      return yield_frame(w, &after);
    default:
      return OK;
  }
}

// Used keys that begin with `text` and go on with a character of the ranges (NULL: with any).
static int used_within(
    const Arena *a, int32_t used, int32_t text, const Range *ranges, int count) {
  int found = 0;
  if (text == NO_SUCH_TEXT) return 0;
  int32_t length = text_at(a, text)->length;
  for (; used; used = used_at(a, used)->before) {
    int32_t key = used_at(a, used)->text;
    if (text_at(a, key)->length <= length) continue;
    while (text_at(a, key)->length > length + 1) key = text_at(a, key)->before;
    if (text_at(a, key)->before != text) continue;
    int32_t code_point = text_at(a, key)->code_point;
    int within = !ranges;
    for (int i = 0; i < count && !within; i++)
      within = ranges[i].first <= code_point && code_point <= ranges[i].last;
    found += within;
  }
  return found;
}

static int is_used(const Arena *a, int32_t used, int32_t text) {
  for (; used; used = used_at(a, used)->before)
    if (used_at(a, used)->text == text) return 1;
  return 0;
}

static int step_free_key(Walker *w, const Frame *f, int byte) {
  const Grammar *g = w->g;
  Arena *a = &w->arena;
  Frame above = *frame_at(a, f->above);
  if (byte == QUOTE && !f->c) {
    int32_t label = accept_label(g, f->node, f->a);
    if (label == NONE || is_used(a, above.d, f->b)) return OK;
    if (f->b != NO_SUCH_TEXT) TRY(put_used(a, above.d, f->b, &above.d));
    above.phase = COLON;
    above.c = label;
    return yield_frame(w, &above);
  }
  Frame after = *f;
  int32_t code_point = 0;
  int read = read_byte(&after.c, byte, &code_point);
  if (read == DEAD) return OK;
  Range ranges[3] = {{code_point, code_point}};
  int count = read == PARTIAL ? character_ranges(after.c, ranges) : 1;
  int64_t texts = texts_within(g, f->node, f->a, ranges, count);
  if (texts < MANY && texts <= used_within(a, above.d, f->b, ranges, count)) return OK;
  if (read == CHARACTER) {
    after.a = automaton_step(g, f->node, f->a, code_point);
    after.c = 0;
    if (f->b != NO_SUCH_TEXT) TRY(put_text(a, f->b, code_point, &after.b));
  }
  return yield_frame(w, &after);
}

static int step_opening(Walker *w, const Frame *f, int byte) {
  Frame inside = {.node = f->node, .phase = FIRST, .depth = f->depth + 1, .above = f->above};
  switch (row_of(w->g, f->node)[0]) {
    case TEXT:
      inside.kind = STRING;
      inside.phase = inside.depth = 0;
      return byte == QUOTE ? yield_frame(w, &inside) : OK;
    case ARRAY:
      inside.kind = LIST;
      return byte == '[' ? yield_items(w, &inside) : OK;
    case DISTINCT:
      inside.kind = CHOICES;
      inside.c = NONE;
      inside.depth = 0;
      return byte == '[' ? yield_choices(w, &inside) : OK;
    default:
      inside.kind = MEMBERS;
      inside.c = NONE;
      return byte == '{' ? yield_members(w, &inside) : OK;
  }
}

static int step_frame(Walker *w, int32_t id, int byte) {
  Frame f = *frame_at(&w->arena, id);  // a copy, since the frames may move
  switch (f.kind) {
    case OPENING: return step_opening(w, &f, byte);
    case LITERAL: {
      int32_t place = trie_follow(w->g, f.node, byte);
      return place == NONE ? OK : yield_literal(w, place, f.above);
    }
    case STRING: return step_string(w, &f, byte);
    case DIGITS: {
      int32_t state = byte < 0x80 ? automaton_step(w->g, f.node, f.a, byte) : NONE;
      return state == NONE ? OK : yield_number(w, f.node, state, f.above);
    }
    case LIST: return step_list(w, &f, byte);
    case CHOICES: return step_choices(w, &f, byte);
    case MEMBERS: return step_members(w, &f, byte);
    case FREE_KEY: return step_free_key(w, &f, byte);
    default: return OK;
  }
}

static int ascending(const void *left, const void *right) {
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  return (a > b) - (a < b);
}

// The configuration of the frames that were found.
static int config_of_found(Walker *w, int32_t *config) {
  int32_t *items = w->found.items, count = 0;
  if (w->found.count > 1) qsort(items, (size_t)w->found.count, sizeof *items, ascending);
  for (int32_t i = 0; i < w->found.count; i++)
    if (!count || items[count - 1] != items[i]) items[count++] = items[i];
  return put_config(&w->arena, items, count, config);
}

// Where a byte leads a configuration; 0 where it is refused.
static int step_config(Walker *w, int32_t config, int byte, int32_t *after) {
  Arena *a = &w->arena;
  Move move = {config, byte, 0, 0};
  int32_t number;
  if (a->moves.slots) {
    uint32_t mask = (uint32_t)a->moves.slot_mask, at = hash_words(&move.config, 2) & mask;
    for (; a->moves.slots[at] >= 0; at = (at + 1) & mask) {
      const Move *known = (const Move *)a->moves.items + a->moves.slots[at];
      if (known->config == config && known->byte == byte) {
        *after = known->target;
        return OK;
      }
    }
  }
  w->found.count = 0;
  for (int32_t i = 0; i < config_at(a, config)->count; i++)
    TRY(step_frame(w, a->members[config_at(a, config)->first + i], byte));
  TRY(config_of_found(w, &move.target));
  TRY(store_put(&a->moves, &move, sizeof(Move) / 4, 2, &number));
  *after = move.target;
  return OK;
}

// A superset of the bytes that can follow, as bits.
static void candidates(const Walker *w, int32_t config, uint32_t bits[8]) {
  const Arena *a = &w->arena;
  const Grammar *g = w->g;
  memset(bits, 0, 8 * sizeof(uint32_t));
  const Config *c = config_at(a, config);
#define CAN(byte) (bits[(byte) >> 5] |= 1u << ((byte) & 31))
  for (int32_t i = 0; i < c->count; i++) {
    const Frame *f = frame_at(a, a->members[c->first + i]);
    int32_t place = NONE;
    switch (f->kind) {
      case OPENING: {
        int32_t kind = row_of(g, f->node)[0];
        CAN(kind == TEXT ? QUOTE : kind == OBJECT ? '{' : '[');
        break;
      }
      case LITERAL: place = f->node; break;
      case DIGITS: memset(bits, 0xFF, 4 * sizeof(uint32_t)); break;
      case STRING:
      case FREE_KEY: memset(bits, 0xFF, 8 * sizeof(uint32_t)); break;
      case LIST: CAN(','); CAN(' '); CAN(']'); break;
      case CHOICES:
        if (f->phase == KEY) place = f->c;
        else { CAN(','); CAN(' '); CAN(']'); }
        break;
      case MEMBERS:
        if (f->phase == KEY) place = f->c;
        else { CAN(','); CAN(' '); CAN('}'); CAN(QUOTE); CAN(':'); }
        break;
      default: break;
    }
    if (place != NONE)
      for (int32_t e = g->trie_edges[place]; e < g->trie_edges[place + 1]; e++)
        CAN(g->trie_bytes[e]);
  }
#undef CAN
}

#endif
