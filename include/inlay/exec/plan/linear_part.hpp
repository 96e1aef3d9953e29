// A part of a linear: some tokens and some output channels of it. It is the same operator over rows of x, rows of the
// weight, and a rectangle of y:
//
//   channels:     0 .. at  at .. n
//             y  | part   | part   |  tokens 0 .. m
//                |--------+--------|
//                | part            |  tokens m .. all
//
// Channels begin with whole panels, so that packed weights are cut where they lie. An element's sum is the same in its
// part: whoever computes it has its own bits.
#pragma once

#include <inlay/core/experts.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

namespace inlay::exec {

inline constexpr index channel_panel = 16;
static_assert(linear_panel == channel_panel && w4_panel == channel_panel);

struct LinearPart {
  index token = 0, tokens = 0;      // the first one, and how many
  index channel = 0, channels = 0;  // the first a multiple of channel_panel

  bool operator==(const LinearPart&) const = default;
  index elements() const { return tokens * channels; }
  index panel() const { return channel / channel_panel; }  // the first, and how many
  index panels() const { return (channels + channel_panel - 1) / channel_panel; }
  bool overlaps(const LinearPart& other) const {
    return token < other.token + other.tokens && other.token < token + tokens &&
           channel < other.channel + other.channels && other.channel < channel + channels;
  }
};

namespace detail {
// Of a view that has something for each token or channel along its first extent.
template <class V> void take_rows(V& view, index first, index count) {
  if (view.present()) view = view.slice(0, first, count);
}
// One value for all stays.
template <class V> void take_each(V& view, index all, index first, index count) {
  if (view.present() && view.extents[0] == all && all > 1) take_rows(view, first, count);
}
template <class Op> void take_x_and_y(Op& op, const LinearPart& part) {
  take_rows(op.x, part.token, part.tokens);
  op.y = op.y.slice(0, part.token, part.tokens).slice(1, part.channel, part.channels);
}
}  // namespace detail

inline Linear<Host> part_of(Linear<Host> op, const LinearPart& part) {
  detail::take_rows(op.weight, part.panel(), part.panels());
  detail::take_rows(op.weight_rows, part.channel, part.channels);
  detail::take_rows(op.bias, part.channel, part.channels);
  detail::take_x_and_y(op, part);
  return op;
}
inline LinearInt8<Host> part_of(LinearInt8<Host> op, const LinearPart& part) {
  const index tokens = op.y.extents[0], channels = op.y.extents[1];
  detail::take_each(op.x_scale, tokens, part.token, part.tokens);
  detail::take_each(op.x_zero, tokens, part.token, part.tokens);
  detail::take_rows(op.weight, part.panel(), part.panels());
  detail::take_rows(op.weight_sum, part.channel, part.channels);
  detail::take_each(op.weight_scale, channels, part.channel, part.channels);
  detail::take_each(op.weight_zero, channels, part.channel, part.channels);
  detail::take_rows(op.bias, part.channel, part.channels);
  detail::take_x_and_y(op, part);
  return op;
}
inline LinearW4a16<Host> part_of(LinearW4a16<Host> op, const LinearPart& part) {
  op = with_panels(op, part.panel(), part.panels());
  detail::take_rows(op.bias, part.channel, part.channels);
  detail::take_x_and_y(op, part);
  return op;
}

// Those of one weight for all tokens.
template <class Op> bool has_parts(const Op& op) {
  if constexpr (requires { part_of(op, LinearPart()); })
    return !has_experts(op);
  else
    return false;
}

}  // namespace inlay::exec
