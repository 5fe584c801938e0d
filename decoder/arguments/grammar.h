// The tables as C sees them, and the rules of automata; grammar.py is the definition. Every index
// in them was checked before they came here.

#ifndef POINTSMAN_GRAMMAR_H
#define POINTSMAN_GRAMMAR_H

#include <stdint.h>

#include "characters.h"

enum { UNION, LITERALS, TEXT, NUMBER, ARRAY, DISTINCT, OBJECT };
enum { NONE = -1, COLUMNS = 8, NEVER = 1 << 29, MAX_DEPTH = 64 };
static const int64_t MANY = (int64_t)1 << 20;

// Pointers into arrays that the caller keeps alive; the order is known to native.py.
typedef struct {
  const int32_t *nodes, *lists, *property_nodes;
  const int32_t *trie_edges, *trie_bytes, *trie_targets, *trie_values, *trie_leaves, *trie_order;
  const int32_t *automata, *interval_starts, *interval_classes, *transitions, *accepts;
  const int32_t *distance, *farthest, *universal, *depth, *required;
  const int32_t *levels, *level_depths, *level_keys;
  const int64_t *texts;
  // The vocabulary: its trie, its tokens, and their spellings.
  const int32_t *vocab_bytes, *vocab_ends, *token_starts, *tokens;
  const int32_t *child_starts, *child_nodes, *spelling_starts;
  const uint8_t *spellings, *child_bytes;
  int64_t vocab_nodes, token_count, vocabulary_size, longest, keys_within_tokens;
} Grammar;

static inline const int32_t *row_of(const Grammar *g, int32_t node) {
  return g->nodes + (int64_t)COLUMNS * node;
}

static inline const int32_t *automaton_row(const Grammar *g, int32_t automaton) {
  return g->automata + 5 * (int64_t)automaton;
}

static inline int32_t accept_label(const Grammar *g, int32_t automaton, int32_t state) {
  return automaton == NONE ? 0 : g->accepts[automaton_row(g, automaton)[4] + state];
}

static inline int32_t shortest_rest(const Grammar *g, int32_t automaton, int32_t state) {
  return automaton == NONE ? 0 : g->distance[automaton_row(g, automaton)[4] + state];
}

// Whether any character leads from the state back to it, and a text may end there.
static inline int is_universal(const Grammar *g, int32_t automaton, int32_t state) {
  return automaton == NONE || g->universal[automaton_row(g, automaton)[4] + state];
}

static inline int32_t interval_of(const Grammar *g, const int32_t *row, int32_t code_point) {
  int32_t low = row[0], high = row[1];  // the last start that is not above it
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (g->interval_starts[middle] <= code_point) low = middle;
    else high = middle;
  }
  return low;
}

static inline int32_t interval_target(
    const Grammar *g, const int32_t *row, int32_t state, int32_t interval) {
  int32_t target = g->transitions[row[3] + (int64_t)state * row[2] + g->interval_classes[interval]];
  return target != NONE && g->distance[row[4] + target] < NEVER ? target : NONE;
}

static inline int32_t automaton_step(
    const Grammar *g, int32_t automaton, int32_t state, int32_t code_point) {
  if (automaton == NONE) return 0;
  const int32_t *row = automaton_row(g, automaton);
  return interval_target(g, row, state, interval_of(g, row, code_point));
}

// Whether some character of the ranges leads to where the rest has at most `room` characters.
static int some_character(
    const Grammar *g, int32_t automaton, int32_t state, const Range *ranges, int count,
    int64_t room) {
  if (automaton == NONE) return room >= 0;
  const int32_t *row = automaton_row(g, automaton);
  for (int i = 0; i < count; i++) {
    int32_t interval = interval_of(g, row, ranges[i].first);
    for (; interval < row[1] && g->interval_starts[interval] <= ranges[i].last; interval++) {
      int32_t target = interval_target(g, row, state, interval);
      if (target != NONE && g->distance[row[4] + target] <= room) return 1;
    }
  }
  return 0;
}

// How many texts begin with a character of the ranges, at most MANY.
static int64_t texts_within(
    const Grammar *g, int32_t automaton, int32_t state, const Range *ranges, int count) {
  const int32_t *row = automaton_row(g, automaton);
  int64_t total = 0;
  for (int i = 0; i < count; i++) {
    int32_t interval = interval_of(g, row, ranges[i].first);
    for (; interval < row[1] && g->interval_starts[interval] <= ranges[i].last; interval++) {
      int32_t target = interval_target(g, row, state, interval);
      if (target == NONE) continue;
      int64_t each = g->texts[row[4] + target];
      int32_t first = g->interval_starts[interval];
      int32_t last = interval + 1 < row[1] ? g->interval_starts[interval + 1] - 1 : MAX_CODE_POINT;
      if (first < ranges[i].first) first = ranges[i].first;
      if (last > ranges[i].last) last = ranges[i].last;
      if (each >= MANY) return MANY;
      double sum = (double)total + (double)each * (last - first + 1);
      if (sum >= (double)MANY) return MANY;
      total += each * (last - first + 1);
    }
  }
  return total;
}

static inline int32_t trie_follow(const Grammar *g, int32_t place, int byte) {
  for (int32_t e = g->trie_edges[place]; e < g->trie_edges[place + 1]; e++)
    if (g->trie_bytes[e] == byte) return g->trie_targets[e];
  return NONE;
}

static inline int has_edges(const Grammar *g, int32_t place) {
  return g->trie_edges[place + 1] > g->trie_edges[place];
}

static inline int fits(const Grammar *g, int32_t node, int32_t depth) {
  return g->depth[node] + depth <= MAX_DEPTH;
}

// The automaton of an object's free keys whose values fit, or NONE where there are none.
static inline int32_t free_keys(const Grammar *g, int32_t node, int32_t depth) {
  int32_t level = g->levels[node + 1] - 1;
  while (level >= g->levels[node] && g->level_depths[level] + depth > MAX_DEPTH) level--;
  return level >= g->levels[node] ? g->level_keys[level] : NONE;
}

#endif
