// What tokens do inside of a string, worked out without its surroundings and kept for all sessions.

#ifndef POINTSMAN_BASES_H
#define POINTSMAN_BASES_H

#include "steps.h"

static const int64_t MAX_BASE_BYTES = (int64_t)64 << 20;

// What a Base depends on. `lacking`: characters that must come before the quote; `room`: most
// characters. Both are cut where more of them makes no difference to any token. `node`: where in
// the vocabulary the string begins, 0 where the token begins inside of it.
typedef struct {
  int32_t automaton, state, partial, lacking, room, node;
} BaseKey;
enum { KEY_WORDS = 6 };

typedef struct {
  int32_t node, label;  // a vocabulary node after the quote that has children; the label there
} StringEnd;

typedef struct {
  BaseKey key;
  uint32_t *bits;  // tokens that stay inside, or end with the quote
  StringEnd *ends;
  int32_t end_count, end_capacity;
} Base;

// One for all sessions of a machine.
typedef struct {
  Grammar g;
  int32_t words;      // of a mask
  int32_t most;       // characters that a token can have at most
  Base **bases;       // a table by key
  int32_t base_count, base_slots;
  int64_t base_bytes;
  // Of tokens read from within a string of any characters, in the vocabulary's order: characters
  // that each needs, a begun one counted, 0 where it can't be read. `ends_any`: nodes after a
  // quote that have children, and characters before it.
  uint16_t *needs;
  uint8_t *closes;
  StringEnd *ends_any;
  int32_t ends_any_count, ends_any_capacity;
  int lent;           // these three belong to another machine
} Machine;

static inline void set_bit(uint32_t *bits, int32_t token) { bits[token >> 5] |= 1u << (token & 31); }

static inline void set_tokens(const Grammar *g, int32_t node, uint32_t *bits) {
  for (int32_t i = g->token_starts[node]; i < g->token_starts[node + 1]; i++)
    set_bit(bits, g->tokens[i]);
}

static int push_end(StringEnd **ends, int32_t *count, int32_t *capacity, StringEnd end) {
  if (*count == *capacity) {
    int32_t more = *capacity ? *capacity * 2 : 64;
    StringEnd *grown = realloc(*ends, sizeof(StringEnd) * (size_t)more);
    if (!grown) return NO_MEMORY;
    *ends = grown;
    *capacity = more;
  }
  (*ends)[(*count)++] = end;
  return OK;
}

// Strings of any characters

static int learn_any(Machine *m, int32_t node, int32_t partial, int32_t chars) {
  const Grammar *g = &m->g;
  int32_t end = g->vocab_ends[node];
  for (int32_t c = node + 1; c < end; c = g->vocab_ends[c]) {
    int byte = g->vocab_bytes[c];
    int32_t next = partial, code_point, count = chars;
    int closes = byte == QUOTE && !partial;
    if (!closes) {
      int read = read_byte(&next, byte, &code_point);
      if (read == DEAD) continue;
      if (read == CHARACTER) {
        next = 0;
        count++;
      }
    }
    for (int32_t i = g->token_starts[c]; i < g->token_starts[c + 1]; i++) {
      m->needs[i] = (uint16_t)(1 + count + (!closes && next != 0));
      m->closes[i] = (uint8_t)closes;
    }
    if (g->vocab_ends[c] == c + 1) continue;
    if (closes)
      TRY(push_end(&m->ends_any, &m->ends_any_count, &m->ends_any_capacity, (StringEnd){c, count}));
    else
      TRY(learn_any(m, c, next, count));
  }
  return OK;
}

// The first of the ends at or after a vocabulary node.
static int32_t first_end(const Machine *m, int32_t node) {
  int32_t low = 0, high = m->ends_any_count;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (m->ends_any[middle].node < node) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Tokens below a node that read on within a string of any characters, as seen from the root.
static void copy_any(
    const Machine *m, int32_t node, int32_t lacking, int32_t room, uint32_t *bits) {
  const Grammar *g = &m->g;
  int32_t i = g->token_starts[node + 1], end = g->token_starts[g->vocab_ends[node]];
  for (; i < end; i++) {
    int32_t need = m->needs[i] - 1;
    if (need >= 0 && need <= room && (!m->closes[i] || need >= lacking))
      set_bit(bits, g->tokens[i]);
  }
}

// Bases

typedef struct {
  Machine *m;
  Base *base;
  int32_t ascii[128];  // not used before it is asked for: the interval of each character
} Learner;

static int learn(Learner *l, int32_t node, int32_t state, int32_t partial, int32_t chars) {
  const Machine *m = l->m;
  const Grammar *g = &m->g;
  Base *base = l->base;
  const BaseKey *key = &base->key;
  int32_t automaton = key->automaton, label = accept_label(g, automaton, state);
  if (!partial && !key->partial && !key->node && is_universal(g, automaton, state)) {
    copy_any(m, node, key->lacking, key->room, base->bits);
    for (int32_t i = first_end(m, node); i < m->ends_any_count; i++) {
      StringEnd end = m->ends_any[i];
      if (end.node >= g->vocab_ends[node]) break;
      if (end.label < key->lacking || end.label > key->room) continue;
      end.label = label;
      TRY(push_end(&base->ends, &base->end_count, &base->end_capacity, end));
    }
    return OK;
  }
  int32_t last = g->vocab_ends[node];
  for (int32_t c = node + 1; c < last; c = g->vocab_ends[c]) {
    int byte = g->vocab_bytes[c];
    int leaf = g->vocab_ends[c] == c + 1;
    if (byte == QUOTE && !partial) {
      if (label == NONE || chars < key->lacking) continue;
      set_tokens(g, c, base->bits);
      if (!leaf)
        TRY(push_end(&base->ends, &base->end_count, &base->end_capacity, (StringEnd){c, label}));
      continue;
    }
    int32_t next = partial, code_point, after = state, count = chars;
    int read = read_byte(&next, byte, &code_point);
    if (read == DEAD) continue;
    int64_t room = (int64_t)key->room - chars - 1;
    if (read == PARTIAL) {
      Range ranges[3];
      int n = character_ranges(next, ranges);
      if (!some_character(g, automaton, state, ranges, n, room)) continue;
    } else {
      if (automaton != NONE) {
        const int32_t *row = automaton_row(g, automaton);
        int32_t interval =
            code_point < 128 ? l->ascii[code_point] : interval_of(g, row, code_point);
        after = interval_target(g, row, state, interval);
      }
      if (after == NONE || shortest_rest(g, automaton, after) > room) continue;
      next = 0;
      count++;
    }
    set_tokens(g, c, base->bits);
    if (!leaf) TRY(learn(l, c, after, next, count));
  }
  return OK;
}

static void base_free(Base *base) {
  if (!base) return;
  free(base->bits);
  free(base->ends);
  free(base);
}

static void drop_bases(Machine *m) {
  for (int32_t i = 0; i < m->base_slots; i++) base_free(m->bases[i]);
  free(m->bases);
  m->bases = NULL;
  m->base_count = m->base_slots = 0;
  m->base_bytes = 0;
}

static int grow_bases(Machine *m) {
  int32_t slots = m->base_slots ? m->base_slots * 2 : 64;
  Base **table = calloc((size_t)slots, sizeof *table);
  if (!table) return NO_MEMORY;
  for (int32_t i = 0; i < m->base_slots; i++) {
    if (!m->bases[i]) continue;
    uint32_t at = hash_words(&m->bases[i]->key.automaton, KEY_WORDS) & (uint32_t)(slots - 1);
    while (table[at]) at = (at + 1) & (uint32_t)(slots - 1);
    table[at] = m->bases[i];
  }
  free(m->bases);
  m->bases = table;
  m->base_slots = slots;
  return OK;
}

static int make_base(Machine *m, const BaseKey *key, Base **made) {
  Base *base = calloc(1, sizeof *base);
  if (!base) return NO_MEMORY;
  base->key = *key;
  base->bits = calloc((size_t)m->words, sizeof(uint32_t));
  int failed = base->bits ? OK : NO_MEMORY;
  if (!failed) {
    Learner l = {.m = m, .base = base};
    if (key->automaton != NONE) {
      const int32_t *row = automaton_row(&m->g, key->automaton);
      for (int32_t c = 0; c < 128; c++) l.ascii[c] = interval_of(&m->g, row, c);
    }
    failed = learn(&l, key->node, key->state, key->partial, 0);
  }
  if (failed) {
    base_free(base);
    return failed;
  }
  *made = base;
  return OK;
}

static int find_base(Machine *m, const BaseKey *key, const Base **found) {
  if (m->base_count * 2 >= m->base_slots) TRY(grow_bases(m));
  uint32_t mask = (uint32_t)m->base_slots - 1, at = hash_words(&key->automaton, KEY_WORDS) & mask;
  for (; m->bases[at]; at = (at + 1) & mask) {
    if (!memcmp(&m->bases[at]->key, key, sizeof *key)) {
      *found = m->bases[at];
      return OK;
    }
  }
  Base *base;
  TRY(make_base(m, key, &base));
  m->bases[at] = base;
  m->base_count++;
  m->base_bytes += (int64_t)sizeof *base + (int64_t)m->words * 4 +
                   (int64_t)base->end_capacity * (int64_t)sizeof(StringEnd);
  *found = base;
  return OK;
}

static BaseKey key_of_frame(const Machine *m, const Frame *f, int32_t node) {
  const Grammar *g = &m->g;
  int string = f->kind == STRING;
  const int32_t *row = string ? row_of(g, f->node) : NULL;
  int32_t automaton = string ? row[1] : f->node;
  int32_t enough = m->most + 1 + (automaton == NONE ? 0 : g->farthest[automaton]);
  BaseKey key = {automaton, f->a, f->c, 0, enough, node};
  if (string) {
    if (f->b < row[2]) key.lacking = row[2] - f->b;
    if (key.lacking > m->most) key.lacking = m->most + 1;
    if (row[3] != NONE && row[3] - f->b < enough) key.room = row[3] - f->b;
  }
  // Where every character leads back it makes no difference which automaton it is, as long as
  // its label is the one that any string has.
  if (is_universal(g, automaton, f->a) && (string || !accept_label(g, automaton, f->a))) {
    key.automaton = NONE;
    key.state = 0;
    if (key.room > m->most) key.room = m->most + 1;
  }
  return key;
}

#endif
