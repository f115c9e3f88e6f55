// The text of catalog/*.tsv, compiled in by catalog/embed.cmake.
#pragma once

#include <string_view>

namespace homeostat::fault::tables {
extern const std::string_view xid, sxid, nvlink5, nvlink_registers, kernel, decoded, counters, gpu, actions, policy,
    models;
}
