// Which stacks a byte leads to; reference.py is the definition.

#ifndef POINTSMAN_STEPS_H
#define POINTSMAN_STEPS_H

#include "containers.h"

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
      case DIGITS: {
        const int32_t *row = automaton_row(g, f->node);
        for (int32_t k = row[0]; k < row[1] && g->interval_starts[k] < 0x80; k++) {
          if (interval_target(g, row, f->a, k) == NONE) continue;
          int32_t end = k + 1 < row[1] ? g->interval_starts[k + 1] : 0x80;
          for (int32_t byte = g->interval_starts[k]; byte < end && byte < 0x80; byte++) CAN(byte);
        }
        break;
      }
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
