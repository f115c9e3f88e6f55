#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

const char* json_skip_space(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
  return at;
}

const char* json_string(const char* at, char* out, size_t size) {
  if (*at++ != '"') return 0;
  size_t length = 0;
  for (; *at != '"'; at++) {
    if (*at == '\\') at++;
    if (*at == '\0') return 0;
    if (length + 1 < size) out[length++] = *at;
  }
  if (size > 0) out[length] = '\0';
  return at + 1;
}

const char* json_number(const char* at, long long* out) {
  char* end;
  if (*at != '-' && (*at < '0' || *at > '9')) return 0; /* strtod takes more than JSON has */
  double value = strtod(at, &end);
  if (end == at || !(value >= -1e15 && value <= 1e15)) return 0;
  *out = (long long)value;
  return end;
}

const char* json_flag(const char* at, unsigned int* out) {
  long long number = 0;
  if (!strncmp(at, "true", 4)) return (*out = 1), at + 4;
  if (!strncmp(at, "false", 5)) return (*out = 0), at + 5;
  at = json_number(at, &number);
  *out = number != 0;
  return at;
}

static const char* skip_value(const char* at, int depth);

static const char* skip_group(const char* at, char close, int depth) {
  at = json_skip_space(at + 1);
  if (*at == close) return at + 1;
  for (;;) {
    if (close == '}') {
      at = json_string(json_skip_space(at), 0, 0);
      if (!at || *(at = json_skip_space(at)) != ':') return 0;
      at++;
    }
    at = skip_value(json_skip_space(at), depth + 1);
    if (!at) return 0;
    at = json_skip_space(at);
    if (*at == close) return at + 1;
    if (*at++ != ',') return 0;
  }
}

static const char* skip_value(const char* at, int depth) {
  long long number;
  if (depth > MAX_DEPTH) return 0;
  if (*at == '"') return json_string(at, 0, 0);
  if (*at == '{') return skip_group(at, '}', depth);
  if (*at == '[') return skip_group(at, ']', depth);
  if (!strncmp(at, "true", 4) || !strncmp(at, "null", 4)) return at + 4;
  if (!strncmp(at, "false", 5)) return at + 5;
  return json_number(at, &number);
}

const char* json_skip_value(const char* at) { return skip_value(at, 0); }

const char* json_object(const char* at, JsonMember member, void* into) {
  char key[48];
  if (*at != '{') return 0;
  at = json_skip_space(at + 1);
  if (*at == '}') return at + 1;
  for (;;) {
    at = json_string(json_skip_space(at), key, sizeof key);
    if (!at || *(at = json_skip_space(at)) != ':') return 0;
    at = member(key, json_skip_space(at + 1), into);
    if (!at) return 0;
    at = json_skip_space(at);
    if (*at == '}') return at + 1;
    if (*at++ != ',') return 0;
  }
}

const char* json_array(const char* at, JsonItem item, void* into) {
  if (*at != '[') return 0;
  at = json_skip_space(at + 1);
  if (*at == ']') return at + 1;
  for (;;) {
    at = item(json_skip_space(at), into);
    if (!at) return 0;
    at = json_skip_space(at);
    if (*at == ']') return at + 1;
    if (*at++ != ',') return 0;
  }
}
