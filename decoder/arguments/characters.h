// Characters of JSON strings as they come, byte by byte; characters.py is the definition.

#ifndef POINTSMAN_CHARACTERS_H
#define POINTSMAN_CHARACTERS_H

#include <stdint.h>

enum { WHOLE, ESCAPE, TWO, THREE, FOUR, HEX, HIGH, LOW };
enum { DEAD = -1, PARTIAL = 0, CHARACTER = 1 };
enum { MAX_CODE_POINT = 0x10FFFF, QUOTE = 0x22, BACKSLASH = 0x5C };

typedef struct {
  int32_t first, last;
} Range;

// A partial character in one word: kind, bytes or digits to come, bits known. 0 is none.
static inline int32_t partial_of(int kind, int left, int32_t bits) {
  return (int32_t)((uint32_t)kind << 28 | (uint32_t)left << 24 | (uint32_t)bits);
}
static inline int partial_kind(int32_t partial) { return (int)((uint32_t)partial >> 28); }
static inline int partial_left(int32_t partial) { return partial >> 24 & 0xF; }
static inline int32_t partial_bits(int32_t partial) { return partial & 0xFFFFFF; }

static int without_surrogates(int32_t first, int32_t last, Range *out) {
  int n = 0;
  int32_t low_end = last < 0xD7FF ? last : 0xD7FF;
  int32_t high_start = first > 0xE000 ? first : 0xE000;
  if (first <= low_end) out[n++] = (Range){first, low_end};
  if (high_start <= last) out[n++] = (Range){high_start, last};
  return n;
}

// The code points that it can become: up to three ranges, surrogates left out.
static int character_ranges(int32_t partial, Range out[3]) {
  static const int32_t lowest[] = {0x80, 0x800, 0x10000};
  static const int32_t highest[] = {0x7FF, 0xFFFF, MAX_CODE_POINT};
  int kind = partial_kind(partial), left = partial_left(partial);
  int32_t bits = partial_bits(partial), first, last;
  switch (kind) {
    case WHOLE:
    case ESCAPE:
      return without_surrogates(0, MAX_CODE_POINT, out);
    case TWO:
    case THREE:
    case FOUR:
      first = bits << 6 * left;
      last = first + (1 << 6 * left) - 1;
      if (first < lowest[kind - TWO]) first = lowest[kind - TWO];
      if (last > highest[kind - TWO]) last = highest[kind - TWO];
      return without_surrogates(first, last, out);
    case HEX: {
      first = bits << 4 * left;
      last = first + (1 << 4 * left) - 1;
      int n = without_surrogates(first, last, out);
      int32_t from = first > 0xD800 ? first : 0xD800, to = last < 0xDBFF ? last : 0xDBFF;
      if (from <= to)
        out[n++] = (Range){0x10000 + ((from - 0xD800) << 10), 0x10000 + ((to - 0xD7FF) << 10) - 1};
      return n;
    }
    default: {
      static const int open_low[] = {0, 4, 8, 10, 10};
      int open = kind == HIGH ? 10 : open_low[left];
      first = 0x10000 + (bits << open);
      out[0] = (Range){first, first + (1 << open) - 1};
      return 1;
    }
  }
}

static int hex_digit(int byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

// Whether what is known so far is whole, goes on, or can be no character.
static int known(int kind, int left, int32_t bits, int32_t *partial, int32_t *code_point) {
  Range ranges[3];
  if (kind == HEX && left == 0 && bits >= 0xD800 && bits <= 0xDBFF) {
    *partial = partial_of(HIGH, 2, bits - 0xD800);
    return PARTIAL;
  }
  int32_t next = partial_of(kind, left, bits);
  if (!character_ranges(next, ranges)) return DEAD;
  if (left == 0) {
    *code_point = ranges[0].first;
    return CHARACTER;
  }
  *partial = next;
  return PARTIAL;
}

// What a byte makes of a partial character. The closing quote is not asked about here.
static int read_byte(int32_t *partial, int byte, int32_t *code_point) {
  int kind = partial_kind(*partial), left = partial_left(*partial);
  int32_t bits = partial_bits(*partial);
  switch (kind) {
    case WHOLE:
      if (byte < 0x20 || byte == QUOTE) return DEAD;
      if (byte == BACKSLASH) {
        *partial = partial_of(ESCAPE, 0, 0);
        return PARTIAL;
      }
      if (byte < 0x80) {
        *code_point = byte;
        return CHARACTER;
      }
      if (byte < 0xC2 || byte > 0xF4) return DEAD;
      if (byte < 0xE0) *partial = partial_of(TWO, 1, byte & 0x1F);
      else if (byte < 0xF0) *partial = partial_of(THREE, 2, byte & 0x0F);
      else *partial = partial_of(FOUR, 3, byte & 0x07);
      return PARTIAL;
    case ESCAPE:
      switch (byte) {
        case 'u': *partial = partial_of(HEX, 4, 0); return PARTIAL;
        case '"': case '\\': case '/': *code_point = byte; break;
        case 'b': *code_point = '\b'; break;
        case 'f': *code_point = '\f'; break;
        case 'n': *code_point = '\n'; break;
        case 'r': *code_point = '\r'; break;
        case 't': *code_point = '\t'; break;
        default: return DEAD;
      }
      return CHARACTER;
    case TWO:
    case THREE:
    case FOUR:
      if ((byte & 0xC0) != 0x80) return DEAD;
      return known(kind, left - 1, bits << 6 | (byte & 0x3F), partial, code_point);
    case HIGH:
      if (byte != (left == 2 ? BACKSLASH : 'u')) return DEAD;
      *partial = left == 2 ? partial_of(HIGH, 1, bits) : partial_of(LOW, 4, bits);
      return PARTIAL;
    default: {
      int digit = hex_digit(byte);
      if (digit < 0) return DEAD;
      if (kind == HEX) return known(HEX, left - 1, bits << 4 | digit, partial, code_point);
      if (left == 4) {
        if (digit != 0xD) return DEAD;
        *partial = partial_of(LOW, 3, bits);
        return PARTIAL;
      }
      if (left == 3) {
        if (digit < 0xC) return DEAD;
        *partial = partial_of(LOW, 2, bits << 2 | (digit - 0xC));
        return PARTIAL;
      }
      return known(LOW, left - 1, bits << 4 | digit, partial, code_point);
    }
  }
}

#endif
