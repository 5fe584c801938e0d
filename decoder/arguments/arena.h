// What one session knows: frames, the texts of free keys, configurations and where bytes lead.
// Each is stored once and has a number; nothing is taken out until the whole arena is.

#ifndef POINTSMAN_ARENA_H
#define POINTSMAN_ARENA_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

enum { OK = 0, REFUSED = -1, NO_MEMORY = -2, TOO_LARGE = -3 };
enum { MAX_ENTRIES = 1 << 19, MAX_CONFIG_FRAMES = 1 << 22, MAX_STACKS = 4096 };

typedef struct {
  int32_t kind;   // a kind below
  int32_t node;   // node; trie place of literals; automaton of numbers and free keys
  int32_t a, b;   // see steps.h
  int32_t c, d;
  int32_t phase, depth;
  int32_t above;  // the frame around it; 0 is the end of the whole value
} Frame;

typedef struct {
  int32_t before, code_point, length, unused;
} KeyText;  // a text of a free key: the text before its last character; number 0 is empty

typedef struct {
  int32_t before, text, count, unused;
} UsedKeys;  // number 0 is none

typedef struct {
  int32_t first, count, mask, unused;
} Config;  // frames[first:first+count], ascending; mask: handle of its mask, or -1

typedef struct {
  int32_t config, byte, target, unused;
} Move;

// An array of equal items and a table of places in it, found by their content.
typedef struct {
  void *items;
  int32_t *slots;
  int32_t count, capacity, slot_mask;
} Store;

static uint32_t hash_words(const int32_t *words, int count) {
  uint64_t h = 0x9E3779B97F4A7C15u;
  for (int i = 0; i < count; i++) {
    h = (h ^ (uint32_t)words[i]) * 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  }
  return (uint32_t)(h ^ h >> 29);
}

static int store_grow(Store *store, size_t size) {
  int32_t capacity = store->capacity ? store->capacity * 2 : 64;
  void *items = realloc(store->items, size * (size_t)capacity);
  if (!items) return NO_MEMORY;
  store->items = items;
  store->capacity = capacity;
  return OK;
}

// Make room for one more item and its slot. `hash_at` tells an item's hash, to move slots.
static int store_reserve(
    Store *store, size_t size, uint32_t (*hash_at)(const void *, int32_t), const void *context) {
  if (store->count >= MAX_ENTRIES) return TOO_LARGE;
  if (store->count == store->capacity) {
    int failed = store_grow(store, size);
    if (failed) return failed;
  }
  if (!store->slots || store->count * 2 > store->slot_mask) {
    int32_t slots = store->slots ? (store->slot_mask + 1) * 2 : 128;
    int32_t *table = malloc(sizeof(int32_t) * (size_t)slots);
    if (!table) return NO_MEMORY;
    memset(table, 0xFF, sizeof(int32_t) * (size_t)slots);
    for (int32_t i = 0; i < store->count; i++) {
      uint32_t at = hash_at(context, i) & (uint32_t)(slots - 1);
      while (table[at] >= 0) at = (at + 1) & (uint32_t)(slots - 1);
      table[at] = i;
    }
    free(store->slots);
    store->slots = table;
    store->slot_mask = slots - 1;
  }
  return OK;
}

// Items whose first `words` words are their key.
typedef struct {
  const Store *store;
  int size_words, words;
} Keyed;

static uint32_t keyed_hash(const void *context, int32_t i) {
  const Keyed *k = context;
  return hash_words((const int32_t *)k->store->items + (int64_t)i * k->size_words, k->words);
}

// The number of an item, stored first where it is new.
static int store_put(Store *store, const void *item, int size_words, int words, int32_t *number) {
  const int32_t *key = item;
  uint32_t hash = hash_words(key, words);
  if (store->slots) {
    uint32_t mask = (uint32_t)store->slot_mask;
    for (uint32_t at = hash & mask; store->slots[at] >= 0; at = (at + 1) & mask) {
      const int32_t *other = (const int32_t *)store->items + (int64_t)store->slots[at] * size_words;
      if (!memcmp(other, key, sizeof(int32_t) * (size_t)words)) {
        *number = store->slots[at];
        return OK;
      }
    }
  }
  Keyed keyed = {store, size_words, words};
  int failed = store_reserve(store, sizeof(int32_t) * (size_t)size_words, keyed_hash, &keyed);
  if (failed) return failed;
  uint32_t mask = (uint32_t)store->slot_mask, at = hash & mask;
  while (store->slots[at] >= 0) at = (at + 1) & mask;
  *number = store->count;
  store->slots[at] = *number;
  memcpy((int32_t *)store->items + (int64_t)*number * size_words, item,
         sizeof(int32_t) * (size_t)size_words);
  store->count++;
  return OK;
}

static void store_free(Store *store) {
  free(store->items);
  free(store->slots);
  memset(store, 0, sizeof *store);
}

typedef struct {
  Store frames, texts, used, configs, moves;
  int32_t *members;  // frames of the configurations
  int32_t member_count, member_capacity;
} Arena;

static inline Frame *frame_at(const Arena *a, int32_t i) { return (Frame *)a->frames.items + i; }
static inline KeyText *text_at(const Arena *a, int32_t i) { return (KeyText *)a->texts.items + i; }
static inline UsedKeys *used_at(const Arena *a, int32_t i) { return (UsedKeys *)a->used.items + i; }
static inline Config *config_at(const Arena *a, int32_t i) {
  return (Config *)a->configs.items + i;
}

static int put_frame(Arena *a, const Frame *frame, int32_t *number) {
  return store_put(&a->frames, frame, sizeof(Frame) / 4, sizeof(Frame) / 4, number);
}

static int put_text(Arena *a, int32_t before, int32_t code_point, int32_t *number) {
  KeyText text = {before, code_point, 0, 0};
  if (a->texts.count) text.length = text_at(a, before)->length + 1;
  return store_put(&a->texts, &text, sizeof(KeyText) / 4, 2, number);
}

static int put_used(Arena *a, int32_t before, int32_t text, int32_t *number) {
  UsedKeys used = {before, text, 0, 0};
  if (a->used.count) used.count = used_at(a, before)->count + 1;
  return store_put(&a->used, &used, sizeof(UsedKeys) / 4, 2, number);
}

static uint32_t config_hash(const void *context, int32_t i) {
  const Arena *a = context;
  return hash_words(a->members + config_at(a, i)->first, config_at(a, i)->count);
}

// The number of a set of frames, ascending and distinct. Number 0 is the empty set.
static int put_config(Arena *a, const int32_t *members, int32_t count, int32_t *number) {
  uint32_t hash = hash_words(members, count);
  if (a->configs.slots) {
    uint32_t mask = (uint32_t)a->configs.slot_mask;
    for (uint32_t at = hash & mask; a->configs.slots[at] >= 0; at = (at + 1) & mask) {
      const Config *other = config_at(a, a->configs.slots[at]);
      if (other->count == count && (!count ||
                                     !memcmp(a->members + other->first, members,
                                             sizeof(int32_t) * (size_t)count))) {
        *number = a->configs.slots[at];
        return OK;
      }
    }
  }
  int failed = store_reserve(&a->configs, sizeof(Config), config_hash, a);
  if (failed) return failed;
  if (a->member_count + count > a->member_capacity) {
    int64_t capacity = a->member_capacity ? a->member_capacity : 256;
    while (capacity < a->member_count + (int64_t)count) capacity *= 2;
    if (capacity > MAX_CONFIG_FRAMES) return TOO_LARGE;
    int32_t *more = realloc(a->members, sizeof(int32_t) * (size_t)capacity);
    if (!more) return NO_MEMORY;
    a->members = more;
    a->member_capacity = (int32_t)capacity;
  }
  uint32_t mask = (uint32_t)a->configs.slot_mask, at = hash & mask;
  while (a->configs.slots[at] >= 0) at = (at + 1) & mask;
  *number = a->configs.count;
  a->configs.slots[at] = *number;
  *config_at(a, *number) = (Config){a->member_count, count, -1, 0};
  if (count) memcpy(a->members + a->member_count, members, sizeof(int32_t) * (size_t)count);
  a->member_count += count;
  a->configs.count++;
  return OK;
}

static void arena_free(Arena *a) {
  store_free(&a->frames);
  store_free(&a->texts);
  store_free(&a->used);
  store_free(&a->configs);
  store_free(&a->moves);
  free(a->members);
  memset(a, 0, sizeof *a);
}

// The end of the value, the empty text, no used keys, and the empty configuration: all number 0.
static int arena_begin(Arena *a) {
  memset(a, 0, sizeof *a);
  Frame end;
  memset(&end, 0, sizeof end);
  int32_t number;
  int failed = put_frame(a, &end, &number);
  if (!failed) failed = put_text(a, NONE, NONE, &number);
  if (!failed) failed = put_used(a, NONE, NONE, &number);
  if (!failed) failed = put_config(a, &number, 0, &number);
  if (failed) arena_free(a);
  return failed;
}

#endif
