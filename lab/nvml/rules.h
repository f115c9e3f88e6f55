/* What a stand-in library is told to do wrong, as its JSON file says it: which function answers with which code, which
 * one hangs. Pure. */
#pragma once

enum { RULES_MAX = 12 };

/* A word of the file and what it stands for; the last one of a list is {0, 0}. */
typedef struct {
  const char* word;
  int value;
} Word;

/* "this function (or every one: "*") answers so": a code, or how long it hangs. */
typedef struct {
  char name[48];
  long long value;
} Rule;

typedef struct {
  unsigned int count;
  Rule rule[RULES_MAX];
} Rules;

/* A word of the list, or its number. Gives the place after it, or 0. */
const char* read_word(const char* at, const Word* words, long long* out);
/* {"function": "WORD", ...} */
const char* read_errors(const char* at, const Word* words, Rules* rules);
/* {"function": 1000, ...}, or a number for every function */
const char* read_hangs(const char* at, Rules* rules);
/* What the rules say of a function; 0: nothing. */
long long rule_for(const Rules* rules, const char* name);
