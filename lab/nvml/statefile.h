/* The file that a stand-in library reads anew at each call, and the clock of a call that hangs. */
#pragma once

#include <stddef.h>

/* The file named by the environment variable, else the default one. Cut at size - 1 and ended by a zero byte. 0: it is
 * not there. */
int read_state_file(const char* variable, const char* default_path, char* text, size_t size, size_t* length);

long long now_ms(void);
/* A moment of a hang: short, so that it ends soon after the file no longer asks for it. */
void nap(void);
