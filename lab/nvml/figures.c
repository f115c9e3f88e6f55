#include "figures.h"

#include <string.h>

#include "json.h"

const Figure* find_figure(const Figure* figures, size_t count, const char* key) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(key, figures[i].key)) return &figures[i];
  return 0;
}

const char* read_figure(const Figure* figure, const char* at, void* into) {
  char* place = (char*)into + figure->offset;
  if (figure->kind == FLAG) return json_flag(at, (unsigned int*)place);
  long long number = 0;
  at = json_number(at, &number);
  if (!at || number < 0) return 0;
  if (figure->kind == WIDE)
    *(unsigned long long*)place = (unsigned long long)number;
  else
    *(unsigned int*)place = number > 0xffffffffll ? 0xffffffff : (unsigned int)number;
  return at;
}
