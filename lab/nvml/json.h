/* Reading JSON without keeping it. Each reader takes the place of a value and returns the place after it, or 0 when it
 * is not there. Pure, bounded in depth, for text that ends in a zero byte. */
#pragma once

#include <stddef.h>

const char* json_skip_space(const char* at);
const char* json_skip_value(const char* at);
/* Longer text is cut. An escaped byte stands for itself: names and ids here need no more. */
const char* json_string(const char* at, char* out, size_t size);
const char* json_number(const char* at, long long* out);  /* cut to whole numbers, within 1e15 */
const char* json_flag(const char* at, unsigned int* out); /* true, false or a number */

typedef const char* (*JsonMember)(const char* key, const char* at, void* into);
const char* json_object(const char* at, JsonMember member, void* into);
typedef const char* (*JsonItem)(const char* at, void* into);
const char* json_array(const char* at, JsonItem item, void* into);
