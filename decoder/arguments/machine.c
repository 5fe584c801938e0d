// The argument machine over bytes and tokens; what it answers is defined by reference.py, and the
// tests hold it to that. Strings' insides are shared by all sessions (masks.h), all else belongs
// to one session (arena.h). Callers hold Python's lock throughout, so nothing here is locked.

#include "masks.h"

#define API __attribute__((visibility("default")))
enum { ACCEPTS = 1, FINISHED = 2, IN_STRING = 4, CLOSABLE = 8, FULL = 16 };
enum { FULL_ENTRIES = MAX_ENTRIES / 4 };  // from here on a session should begin a new arena

API int am_version(void) { return 4; }

API void am_machine_free(Machine *m) {
  if (!m) return;
  drop_bases(m);
  if (!m->lent) {
    free(m->needs);
    free(m->closes);
    free(m->ends_any);
  }
  free(m);
}

// What is known of the vocabulary alone is lent by another machine of the same vocabulary, which
// then has to live as long; NULL learns it.
API Machine *am_machine_new(const Grammar *g, const Machine *lender) {
  Machine *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->g = *g;
  m->words = (int32_t)((g->vocabulary_size + 31) / 32);
  m->most = (int32_t)g->longest;
  if (lender) {
    m->lent = 1;
    m->needs = lender->needs;
    m->closes = lender->closes;
    m->ends_any = lender->ends_any;
    m->ends_any_count = lender->ends_any_count;
    return m;
  }
  m->needs = calloc((size_t)g->token_count, sizeof *m->needs);
  m->closes = calloc((size_t)g->token_count, sizeof *m->closes);
  if (!m->needs || !m->closes || learn_any(m, 0, 0, 0)) {
    am_machine_free(m);
    return NULL;
  }
  return m;
}

static void session_free(Session *s) {
  arena_free(&s->w.arena);
  free(s->w.found.items);
  free(s->rest.items);
  free(s->banned.items);
  free(s->scratch);
  free(s->kept);
  free(s);
}

API void am_session_free(Session *s) {
  if (s) session_free(s);
}

API Session *am_session_new(Machine *m, int32_t root, uint32_t *bits) {
  Session *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->m = m;
  s->w.g = &m->g;
  s->bits = bits;
  s->scratch = calloc((size_t)m->words, sizeof(uint32_t));
  if (!s->scratch || arena_begin(&s->w.arena) || yield_value(&s->w, root, 0, 0) ||
      config_of_found(&s->w, &s->config)) {
    session_free(s);
    return NULL;
  }
  return s;
}

static int flags_of(const Session *s) {
  const Arena *a = &s->w.arena;
  const Grammar *g = &s->m->g;
  const Config *c = config_at(a, s->config);
  int flags = 0;
  for (int32_t i = 0; i < c->count; i++) {
    const Frame *f = frame_at(a, a->members[c->first + i]);
    if (f->kind == END) flags |= c->count == 1 ? ACCEPTS | FINISHED : ACCEPTS;
    if (f->kind == FREE_KEY) flags |= IN_STRING;
    if (f->kind == STRING) {
      const int32_t *row = row_of(g, f->node);
      flags |= IN_STRING;
      if (!f->c && f->b >= row[2] && accept_label(g, row[1], f->a) != NONE) flags |= CLOSABLE;
    }
  }
  if (a->frames.count > FULL_ENTRIES || a->moves.count > FULL_ENTRIES ||
      a->configs.count > FULL_ENTRIES || a->texts.count > FULL_ENTRIES ||
      a->used.count > FULL_ENTRIES || a->member_count > MAX_CONFIG_FRAMES / 4)
    flags |= FULL;
  return flags;
}

API int am_flags(const Session *s) { return flags_of(s); }

// Read bytes; the flags after them, or an error, and then nothing is read.
API int am_advance(Session *s, const uint8_t *text, int64_t length) {
  int32_t config = s->config;
  for (int64_t i = 0; i < length; i++) {
    TRY(step_config(&s->w, config, text[i], &config));
    if (!config) return REFUSED;
  }
  s->config = config;
  return flags_of(s);
}

API int am_advance_token(Session *s, int64_t token) {
  const Grammar *g = &s->m->g;
  if (token < 0 || token >= g->vocabulary_size) return REFUSED;
  int32_t first = g->spelling_starts[token], end = g->spelling_starts[token + 1];
  return first == end ? REFUSED : am_advance(s, g->spellings + first, end - first);
}

// The number of the mask that the session has now; equal numbers are equal masks. Its bits are
// written to where am_session_new was told.
API int am_mask(Session *s) {
  int32_t plain;
  TRY(plainest_config(s, s->config, &plain));
  int32_t known = config_at(&s->w.arena, plain)->mask;
  if (known != NONE) {
    int64_t words = s->m->words;
    memcpy(s->bits, s->kept + (known - s->first_kept) * words, sizeof(uint32_t) * (size_t)words);
    return known;
  }
  TRY(mark(s, plain));
  TRY(keep_mask(s, plain));
  return config_at(&s->w.arena, plain)->mask;
}

// The tokens of a mask, ascending; how many.
API int am_tokens(const uint32_t *bits, int64_t words, int32_t *tokens) {
  int count = 0;
  for (int64_t w = 0; w < words; w++)
    for (uint32_t rest = bits[w]; rest; rest &= rest - 1)
      tokens[count++] = (int32_t)(32 * w) + __builtin_ctz(rest);
  return count;
}

// The bytes that must follow, at most `capacity`; how many.
API int am_forced(Session *s, uint8_t *text, int64_t capacity) {
  Arena *a = &s->w.arena;
  int32_t config = s->config;
  int64_t length = 0;
  while (length < capacity) {
    const Config *c = config_at(a, config);
    if (c->count && a->members[c->first] == 0) break;  // it may end here
    uint32_t can[8];
    int32_t only = 0, byte = -1, found = 0;
    candidates(&s->w, config, can);
    for (int b = 0; b < 256 && found < 2; b++) {
      int32_t after;
      if (!(can[b >> 5] >> (b & 31) & 1)) continue;
      TRY(step_config(&s->w, config, b, &after));
      if (!after) continue;
      found++;
      only = after;
      byte = b;
    }
    if (found != 1) break;
    text[length++] = (uint8_t)byte;
    config = only;
  }
  return (int)length;
}

// The frames at the tops of the stacks; how many, or TOO_LARGE where they are more.
API int am_tops(const Session *s, int32_t *ids, int64_t capacity) {
  const Arena *a = &s->w.arena;
  const Config *c = config_at(a, s->config);
  if (c->count > capacity) return TOO_LARGE;
  memcpy(ids, a->members + c->first, sizeof(int32_t) * (size_t)c->count);
  return c->count;
}

API void am_frame(const Session *s, int32_t id, Frame *frame) {
  *frame = *frame_at(&s->w.arena, id);
}

// A used key: its text, and the used keys before it.
API void am_used(const Session *s, int32_t used, int32_t *before, int32_t *text) {
  *before = used_at(&s->w.arena, used)->before;
  *text = used_at(&s->w.arena, used)->text;
}

// The last character of a key's text, and the text before it.
API void am_text(const Session *s, int32_t text, int32_t *before, int32_t *code_point) {
  *before = text_at(&s->w.arena, text)->before;
  *code_point = text_at(&s->w.arena, text)->code_point;
}

// A new arena

static int copy_text(const Arena *from, Arena *to, int32_t text, int32_t *copied) {
  int32_t length = text_at(from, text)->length;
  int32_t *characters = malloc(sizeof(int32_t) * ((size_t)length + 1));
  if (!characters) return NO_MEMORY;
  for (int32_t i = length; i > 0; i--) {
    characters[i - 1] = text_at(from, text)->code_point;
    text = text_at(from, text)->before;
  }
  int failed = OK;
  *copied = 0;
  for (int32_t i = 0; i < length && !failed; i++)
    failed = put_text(to, *copied, characters[i], copied);
  free(characters);
  return failed;
}

static int copy_used(const Arena *from, Arena *to, int32_t used, int32_t *copied) {
  int32_t count = used_at(from, used)->count, failed = OK;
  int32_t *keys = malloc(sizeof(int32_t) * ((size_t)count + 1));
  if (!keys) return NO_MEMORY;
  for (int32_t i = count; i > 0; i--) {
    keys[i - 1] = used_at(from, used)->text;
    used = used_at(from, used)->before;
  }
  *copied = 0;
  for (int32_t i = 0; i < count && !failed; i++) {
    int32_t text;
    failed = copy_text(from, to, keys[i], &text);
    if (!failed) failed = put_used(to, *copied, text, copied);
  }
  free(keys);
  return failed;
}

static int copy_frame(const Arena *from, Arena *to, int32_t id, int32_t *copied) {
  int32_t chain[2 * MAX_DEPTH + 8], length = 0;
  for (; id; id = frame_at(from, id)->above) {
    if (length == (int32_t)(sizeof chain / sizeof *chain)) return TOO_LARGE;
    chain[length++] = id;
  }
  *copied = 0;
  while (length) {
    Frame f = *frame_at(from, chain[--length]);
    f.above = *copied;
    if (f.kind == FREE_KEY && f.b != NO_SUCH_TEXT) TRY(copy_text(from, to, f.b, &f.b));
    if (f.kind == MEMBERS) TRY(copy_used(from, to, f.d, &f.d));
    TRY(put_frame(to, &f, copied));
  }
  return OK;
}

// Begin a new arena with what the session has read, and drop all that it had worked out.
API int am_restart(Session *s) {
  Arena old = s->w.arena, *a = &s->w.arena;
  int32_t config = 0;
  int failed = arena_begin(a);
  s->w.found.count = 0;
  const Config *c = config_at(&old, s->config);
  for (int32_t i = 0; i < c->count && !failed; i++) {
    int32_t copied;
    failed = copy_frame(&old, a, old.members[c->first + i], &copied);
    if (!failed) failed = list_push(&s->w.found, copied);
  }
  if (!failed) failed = config_of_found(&s->w, &config);
  if (failed) {
    arena_free(a);
    *a = old;
    return failed;
  }
  s->config = config;
  s->first_kept = s->next_mask;  // no configuration of the new arena has a mask
  arena_free(&old);
  return OK;
}
