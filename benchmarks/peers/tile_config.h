// Included ahead of llama.cpp's own sources when it is built for the comparison.
//
// GCC's _tile_loadconfig (amxtileintrin.h, seen in GCC 12) tells the compiler that it reads 8 bytes
// of the 64 that the instruction reads. The stores to the rest are then dropped, the processor
// refuses the configuration, and llama.cpp breaks off with a segmentation fault in
// ggml_backend_amx_mul_mat. Saying all 64 bytes gives llama.cpp its tile registers.
#pragma once
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#include <immintrin.h>
#define _tile_loadconfig(config) \
  __asm__ volatile("ldtilecfg\t%0" ::"m"(*(const char(*)[64])(config)))
#endif
