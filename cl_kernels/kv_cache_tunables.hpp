// How kv_cache is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter kv_cache_lanes{
    "kv_cache", "lanes", "work-items that write a head of a token", one_item, {32, {16, 32, 64, 128}}, true};
inline constexpr ClParameter kv_cache_copy_lanes{
    "kv_cache", "copy_lanes", "work-items that copy runs of a block", one_item, {256, {64, 128, 256}}, true};
inline constexpr ClParameter kv_cache_tokens{
    "kv_cache", "tokens", "tokens that a work-item writes one after the other", {16, {1, 4, 8, 16}}, one_item, true};

}  // namespace inlay::cl
