/* Figures of a stand-in library's state: where a number of its JSON file goes. Pure. */
#pragma once

#include <stddef.h>

enum { PLAIN, WIDE, FLAG }; /* unsigned int; unsigned long long; unsigned int from true, false or a number */

typedef struct {
  const char* key;
  size_t offset; /* in the structure that holds the figures */
  int kind;
} Figure;

/* The one of `count` figures that `key` names, or 0. */
const Figure* find_figure(const Figure* figures, size_t count, const char* key);
/* Reads the value at `at` to its place in `into`; what is too large for it becomes the largest. Gives the place after
 * the value, or 0. */
const char* read_figure(const Figure* figure, const char* at, void* into);
