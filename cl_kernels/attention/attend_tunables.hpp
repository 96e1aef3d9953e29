// How attention is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter attention_lanes{
    "attention", "lanes", "work-items that share the keys of a unit", one_item, {256, {64, 128, 256}}, false};
inline constexpr ClParameter attention_unit_rows{
    "attention", "unit_rows", "rows of a prompt that a work-item takes", {32, {16, 32, 64}}, one_item, true};

inline constexpr ClParameter attention_part{
    "attention", "part", "keys of a part that decoding takes at most", {1024, {1024}}, {256, {128, 256, 512, 1024}},
    false};

}  // namespace inlay::cl
