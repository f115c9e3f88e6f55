// `homeostat-agent classify`: kernel lines in, one row each out. Survives any bytes, lines of any length and a missing
// last newline.
#pragma once

#include "core/result.hpp"

namespace homeostat::agent {

// Reads until the end of `in_fd`. Memory stays bounded: of a longer line only the first 8 KiB are looked at.
Result<void> classify_stream(int in_fd, int out_fd);

}  // namespace homeostat::agent
