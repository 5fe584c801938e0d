// Which tokens may follow a configuration.
//
// Most tokens are letters within a string, whatever is around it. So what happens inside of one is
// shared (bases.h), and only the few tokens that go on beyond its closing quote are walked under
// what is around it.

#ifndef POINTSMAN_MASKS_H
#define POINTSMAN_MASKS_H

#include "bases.h"

typedef struct {
  Walker w;
  Machine *m;
  int32_t config;
  uint32_t *bits;     // the mask that is being made, or was asked for last
  uint32_t *scratch;  // a Base's bits without the keys that are used
  int32_t next_mask, first_kept;
  uint32_t *kept;     // masks first_kept and on, one after the other
  int64_t kept_capacity;
  List rest, banned;
} Session;

// Free keys without number: which of them are used then matters at their own letters alone.
static int has_base(const Session *s, const Frame *f) {
  const Grammar *g = &s->m->g;
  if (f->kind == STRING) return 1;
  return f->kind == FREE_KEY && !g->keys_within_tokens &&
         g->texts[automaton_row(g, f->node)[4]] >= MANY;
}

// Whether a key that begins like this one was used.
static int is_touched(const Session *s, const Frame *f) {
  const Arena *a = &s->w.arena;
  int32_t used = frame_at(a, f->above)->d;
  return used_within(a, used, f->b, NULL, 0) || is_used(a, used, f->b);
}

// The same frame for all that have the same mask.
static Frame plainest(const Session *s, const Frame *f) {
  Frame plain = *f;
  if (f->kind == STRING) {
    const int32_t *row = row_of(&s->m->g, f->node);
    BaseKey key = key_of_frame(s->m, f, 0);
    plain.b = f->b >= row[2] ? row[2] : 0;
    BaseKey other = key_of_frame(s->m, &plain, 0);
    if (memcmp(&key, &other, sizeof key)) plain.b = f->b;
  } else if (f->kind == FREE_KEY && has_base(s, f) && f->b != NO_SUCH_TEXT && !is_touched(s, f)) {
    plain.b = NO_SUCH_TEXT;
  }
  return plain;
}

static int walk(Session *s, int32_t config, int32_t node);

// A used key, by the texts of its beginnings: texts[i] has i characters.
typedef struct {
  const int32_t *texts;
  int32_t length, used;
} UsedKey;

// Take out the tokens that spell a used key, or what could become a used one alone. `chars` are
// there of it; `banned` gets the vocabulary nodes where those tokens begin.
static int ban(
    Session *s, const UsedKey *key, int32_t automaton, int32_t node, int32_t state, int32_t partial,
    int32_t chars) {
  const Grammar *g = &s->m->g;
  const Arena *a = &s->w.arena;
  for (int32_t c = node + 1; c < g->vocab_ends[node]; c = g->vocab_ends[c]) {
    int byte = g->vocab_bytes[c];
    if (byte == QUOTE && !partial) {
      if (chars == key->length) TRY(list_push(&s->banned, c));
      continue;
    }
    if (chars == key->length) continue;
    int32_t next = partial, code_point = 0, after = state;
    int read = read_byte(&next, byte, &code_point);
    if (read == DEAD) continue;
    Range ranges[3] = {{code_point, code_point}};
    int count = read == PARTIAL ? character_ranges(next, ranges) : 1, within = 0;
    int32_t wanted = text_at(a, key->texts[chars + 1])->code_point;
    for (int i = 0; i < count; i++)
      within |= ranges[i].first <= wanted && wanted <= ranges[i].last;
    if (!within) continue;
    int64_t texts = texts_within(g, automaton, state, ranges, count);
    if (texts < MANY && texts <= used_within(a, key->used, key->texts[chars], ranges, count)) {
      TRY(list_push(&s->banned, c));
      continue;
    }
    if (read == CHARACTER) {
      after = automaton_step(g, automaton, state, code_point);
      if (after == NONE) continue;
      next = 0;
    }
    TRY(ban(s, key, automaton, c, after, next, chars + (read == CHARACTER)));
  }
  return OK;
}

static int ban_used(Session *s, const Frame *f, int32_t node) {
  const Arena *a = &s->w.arena;
  int32_t used = frame_at(a, f->above)->d;
  int32_t length = text_at(a, f->b)->length;
  for (int32_t u = used; u; u = used_at(a, u)->before) {
    int32_t text = used_at(a, u)->text, size = text_at(a, text)->length;
    if (size < length) continue;
    int32_t *texts = malloc(sizeof(int32_t) * ((size_t)size + 1));
    if (!texts) return NO_MEMORY;
    for (int32_t i = size; i >= 0; i--) {
      texts[i] = text;
      text = text_at(a, text)->before;
    }
    UsedKey key = {texts, size, used};
    int failed = texts[length] == f->b ? ban(s, &key, f->node, node, f->a, f->c, length) : OK;
    free(texts);
    TRY(failed);
  }
  return OK;
}

static void clear_below(const Grammar *g, int32_t node, uint32_t *bits) {
  int32_t end = g->token_starts[g->vocab_ends[node]];
  for (int32_t i = g->token_starts[node]; i < end; i++)
    bits[g->tokens[i] >> 5] &= ~(1u << (g->tokens[i] & 31));
}

static int is_banned(const Session *s, int32_t first, int32_t node) {
  const Grammar *g = &s->m->g;
  for (int32_t i = first; i < s->banned.count; i++)
    if (s->banned.items[i] <= node && node < g->vocab_ends[s->banned.items[i]]) return 1;
  return 0;
}

// The configuration after the quote: of a string what is around it, of a free key its colon.
// That key is not noted as used, since no token holds the next one as well.
static int config_after(Session *s, const Frame *f, int32_t label, int32_t *config) {
  Walker *w = &s->w;
  w->found.count = 0;
  if (f->kind == STRING) {
    TRY(yield_id(w, f->above));
  } else {
    Frame above = *frame_at(&w->arena, f->above);
    above.phase = COLON;
    above.c = label;
    TRY(yield_frame(w, &above));
  }
  return config_of_found(w, config);
}

// Mark the tokens below a vocabulary node that lead a string or a free key on.
static int mark_string(Session *s, const Frame *f, int32_t node) {
  Machine *m = s->m;
  const Grammar *g = &m->g;
  BaseKey key = key_of_frame(m, f, node);
  const Base *base;
  TRY(find_base(m, &key, &base));
  int32_t banned = s->banned.count;
  const uint32_t *bits = base->bits;
  if (f->kind == FREE_KEY && f->b != NO_SUCH_TEXT && is_touched(s, f)) {
    TRY(ban_used(s, f, node));
    memcpy(s->scratch, bits, sizeof(uint32_t) * (size_t)m->words);
    bits = s->scratch;
    for (int32_t i = banned; i < s->banned.count; i++)
      clear_below(g, s->banned.items[i], s->scratch);
  }
  for (int32_t i = 0; i < m->words; i++) s->bits[i] |= bits[i];
  int32_t label = NONE, after = 0;
  for (int32_t i = 0; i < base->end_count; i++) {
    StringEnd end = base->ends[i];
    if (is_banned(s, banned, end.node)) continue;
    if (!after || (f->kind == FREE_KEY && end.label != label)) {
      label = end.label;
      TRY(config_after(s, f, label, &after));
    }
    TRY(walk(s, after, end.node));
  }
  s->banned.count = banned;
  return OK;
}

enum { WORTH_A_BASE = 64 };  // vocabulary nodes below which a string is walked as all else is

// Mark the tokens below a vocabulary node that lead a configuration on.
static int walk(Session *s, int32_t config, int32_t node) {
  const Grammar *g = &s->m->g;
  Arena *a = &s->w.arena;
  int32_t end = g->vocab_ends[node];
  if (end - node > WORTH_A_BASE && config_at(a, config)->count == 1) {
    Frame f = *frame_at(a, a->members[config_at(a, config)->first]);
    if (has_base(s, &f)) return mark_string(s, &f, node);
  }
  uint32_t can[8];
  candidates(&s->w, config, can);
  for (int32_t i = g->child_starts[node]; i < g->child_starts[node + 1]; i++) {
    int byte = g->child_bytes[i];
    int32_t after, c = g->child_nodes[i];
    if (!(can[byte >> 5] >> (byte & 31) & 1)) continue;
    TRY(step_config(&s->w, config, byte, &after));
    if (!after) continue;
    set_tokens(g, c, s->bits);
    if (g->vocab_ends[c] > c + 1) TRY(walk(s, after, c));
  }
  return OK;
}

// The configuration whose mask a configuration has.
static int plainest_config(Session *s, int32_t config, int32_t *plain) {
  Arena *a = &s->w.arena;
  Walker *w = &s->w;
  w->found.count = 0;
  for (int32_t i = 0; i < config_at(a, config)->count; i++) {
    int32_t id = a->members[config_at(a, config)->first + i];
    Frame f = *frame_at(a, id), other = plainest(s, &f);
    if (memcmp(&f, &other, sizeof f)) TRY(yield_frame(w, &other));
    else TRY(yield_id(w, id));
  }
  return config_of_found(w, plain);
}

static int mark(Session *s, int32_t config) {
  Arena *a = &s->w.arena;
  memset(s->bits, 0, sizeof(uint32_t) * (size_t)s->m->words);
  if (s->m->base_bytes > MAX_BASE_BYTES) drop_bases(s->m);
  s->rest.count = s->banned.count = 0;
  for (int32_t i = 0; i < config_at(a, config)->count; i++) {
    int32_t id = a->members[config_at(a, config)->first + i];
    Frame f = *frame_at(a, id);
    if (has_base(s, &f)) TRY(mark_string(s, &f, 0));
    else TRY(list_push(&s->rest, id));
  }
  if (!s->rest.count) return OK;
  int32_t rest;
  TRY(put_config(a, s->rest.items, s->rest.count, &rest));
  return walk(s, rest, 0);
}

enum { MAX_MASK_BYTES = 32 << 20 };  // of the masks that a session keeps

// Forget which masks were made. Numbers are not given again, since the caller may know them.
static void forget_masks(Session *s) {
  for (int32_t i = 0; i < s->w.arena.configs.count; i++) config_at(&s->w.arena, i)->mask = NONE;
  s->first_kept = s->next_mask;
}

// Keep the mask that was made last, as a configuration's.
static int keep_mask(Session *s, int32_t config) {
  int64_t words = s->m->words, count = s->next_mask - s->first_kept;
  if ((count + 1) * words * (int64_t)sizeof(uint32_t) > MAX_MASK_BYTES) {
    forget_masks(s);
    count = 0;
  }
  if (count == s->kept_capacity) {
    int64_t capacity = count ? count * 2 : 8;
    uint32_t *more = realloc(s->kept, sizeof(uint32_t) * (size_t)(capacity * words));
    if (!more) return NO_MEMORY;
    s->kept = more;
    s->kept_capacity = capacity;
  }
  memcpy(s->kept + count * words, s->bits, sizeof(uint32_t) * (size_t)words);
  config_at(&s->w.arena, config)->mask = s->next_mask++;
  return OK;
}

#endif
