// Frames, and those with which a value begins; reference.py is the definition.
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

#ifndef POINTSMAN_FRAMES_H
#define POINTSMAN_FRAMES_H

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

#endif
