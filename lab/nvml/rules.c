#include "rules.h"

#include <string.h>

#include "json.h"

const char* read_word(const char* at, const Word* words, long long* out) {
  char text[32];
  if (*at != '"') return json_number(at, out);
  at = json_string(at, text, sizeof text);
  for (const Word* word = words; at && word->word; word++)
    if (!strcmp(word->word, text)) return (*out = word->value), at;
  return 0;
}

static const char* add_rule(const char* key, const char* after, long long value, Rules* rules) {
  if (!after || rules->count == RULES_MAX) return 0;
  Rule* rule = &rules->rule[rules->count++];
  strncpy(rule->name, key, sizeof rule->name - 1);
  rule->value = value;
  return after;
}

typedef struct {
  const Word* words;
  Rules* rules;
} Errors;

static const char* error_member(const char* key, const char* at, void* into) {
  const Errors* errors = into;
  long long code = 0;
  at = read_word(at, errors->words, &code);
  return add_rule(key, at, code, errors->rules);
}

const char* read_errors(const char* at, const Word* words, Rules* rules) {
  Errors errors = {words, rules};
  return json_object(at, error_member, &errors);
}

static const char* hang_member(const char* key, const char* at, void* into) {
  long long ms = 0;
  at = json_number(at, &ms);
  return add_rule(key, at, ms, into);
}

const char* read_hangs(const char* at, Rules* rules) {
  return *at == '{' ? json_object(at, hang_member, rules) : hang_member("*", at, rules);
}

long long rule_for(const Rules* rules, const char* name) {
  for (unsigned int i = 0; i < rules->count; i++)
    if (!strcmp(rules->rule[i].name, name) || !strcmp(rules->rule[i].name, "*")) return rules->rule[i].value;
  return 0;
}
