// What tunables of several launchers have in common. A launcher's own stand beside it, in <launcher>_tunables.hpp: one
// a line that begins `inline constexpr ClParameter`, by which cmake/list_tunables.cmake finds them.
//
// A value that a kernel is built with costs a build for each one that a test or a tuner tries: lists are short.
#pragma once

#include <inlay/cl_tuning.hpp>

namespace inlay::cl {

// In the per-item shape a row has one work-item.
inline constexpr ClParameter::Choice one_item{1, {1}};
inline constexpr ClParameter::Choice row_lanes{128, {32, 64, 128, 256}};
// A GPU moves 16 bytes a lane, which is eight numbers of 16 bits.
inline constexpr ClParameter::Choice item_width{16, {8, 16}}, group_width{8, {8}};

// Some microseconds of memory traffic for a thread of a CPU; two vectors of eight for each of 128 work-items.
inline constexpr ClParameter::Choice item_piece{16384, {4096, 8192, 16384, 32768, 65536}};
inline constexpr ClParameter::Choice group_piece{2048, {1024, 2048, 4096, 8192}};

inline constexpr std::string_view share_a_row = "work-items that share a row";
inline constexpr std::string_view vector_elements = "elements of a vector";
inline constexpr std::string_view piece_elements = "elements of a row that a group takes";

}  // namespace inlay::cl
