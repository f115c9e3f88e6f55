#define _GNU_SOURCE
#include "statefile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NAP_MS = 20 };

int read_state_file(const char* variable, const char* default_path, char* text, size_t size, size_t* length) {
  const char* path = getenv(variable);
  int file = open(path && *path ? path : default_path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t got;
  *length = 0;
  while (*length + 1 < size && (got = read(file, text + *length, size - 1 - *length)) > 0) *length += (size_t)got;
  close(file);
  text[*length] = '\0';
  return 1;
}

long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void nap(void) {
  struct timespec slice = {0, NAP_MS * 1000000l};
  nanosleep(&slice, 0);
}
