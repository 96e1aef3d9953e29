// A linear by output channels: each part is the same operator over some rows of the weight and columns of y.
//
//   weight   | rows 0 .. at   |  a step of one device        y   | columns 0 .. at | at .. n |
//            | rows at .. n   |  a step of another
//
// Parts begin with whole panels, so that packed weights are cut where they lie. A channel's sum is the same in its
// part: whoever computes it has its own bits.
#pragma once

#include <inlay/core/experts.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

namespace inlay::exec {

inline constexpr index channel_panel = 16;
static_assert(linear_panel == channel_panel && w4_panel == channel_panel);

namespace detail {
// Of a view that has something for each channel, or for each panel, along its first extent.
template <class V> void take_rows(V& view, index first, index count) {
  if (view.present()) view = view.slice(0, first, count);
}
template <class V> void take_panels(V& view, index first, index count) {
  take_rows(view, first / channel_panel, (count + channel_panel - 1) / channel_panel);
}
// One value for all channels stays.
template <class V> void take_each(V& view, index channels, index first, index count) {
  if (view.present() && view.extents[0] == channels && channels > 1) take_rows(view, first, count);
}
}  // namespace detail

// Those channels alone; `first` is a multiple of channel_panel.
inline Linear<Host> channels_of(Linear<Host> op, index first, index count) {
  detail::take_panels(op.weight, first, count);
  detail::take_rows(op.weight_rows, first, count);
  detail::take_rows(op.bias, first, count);
  op.y = op.y.slice(1, first, count);
  return op;
}
inline LinearInt8<Host> channels_of(LinearInt8<Host> op, index first, index count) {
  const index all = op.y.extents[1];
  detail::take_panels(op.weight, first, count);
  detail::take_rows(op.weight_sum, first, count);
  detail::take_each(op.weight_scale, all, first, count);
  detail::take_each(op.weight_zero, all, first, count);
  detail::take_rows(op.bias, first, count);
  op.y = op.y.slice(1, first, count);
  return op;
}
inline LinearW4a16<Host> channels_of(LinearW4a16<Host> op, index first, index count) {
  detail::take_panels(op.codes, first, count);
  detail::take_panels(op.scales, first, count);
  detail::take_panels(op.zeros, first, count);
  detail::take_panels(op.offsets, first, count);
  detail::take_rows(op.bias, first, count);
  op.y = op.y.slice(1, first, count);
  return op;
}

// Those of one weight for all rows.
template <class Op> bool has_channels(const Op& op) {
  if constexpr (requires { channels_of(op, index{}, index{}); })
    return !has_experts(op);
  else
    return false;
}

}  // namespace inlay::exec
