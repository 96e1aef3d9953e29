// How softmax is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter softmax_lanes{
    "softmax", "lanes", "work-items that share a row of more than 512", one_item, {128, {64, 128, 256}}, false};
// Two vectors of eight for each work-item; and 32 of them meet by shuffles alone, where a device has them.
inline constexpr ClParameter softmax_short_lanes{
    "softmax", "short_lanes", "work-items that share a row of up to 512", one_item, {32, {16, 32, 64}}, false};
// A piece stays in the cache of a core over its passes; on a GPU a group has four vectors of it for each work-item.
// Sums of longer ones than these lose more than 32 ulps (`inlay tune` dropped them).
inline constexpr ClParameter softmax_piece{
    "softmax", "piece", piece_elements, {16384, {4096, 8192, 16384}}, {4096, {2048, 4096, 8192, 16384}}, false};
inline constexpr ClParameter softmax_width{"softmax", "width", vector_elements, item_width, group_width, false};

}  // namespace inlay::cl
