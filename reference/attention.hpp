// One row of attention as a textbook has it: all scores, then the softmax, then the weighted sum.
#pragma once

#include <limits>
#include <vector>

#include <inlay/core/attention.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/online_softmax.hpp>

namespace inlay::reference {

// score_of(j) gives the score of key j, or nothing where a mask covers it; value_of(j, d) is V. A sink of
// -inf is none. Writes out[d] and returns lse.
template <class Score, class Value>
double attention_row(index keys, Score&& score_of, Value&& value_of, double sink, std::vector<double>& out) {
  struct Seen {
    index key;
    double score;
  };
  std::vector<Seen> seen;
  for (index j = 0; j < keys; ++j) {
    double s;
    if (score_of(j, s)) seen.push_back({j, s});
  }
  SoftmaxState<double> softmax{sink, 0};
  for (const Seen& one : seen)
    if (one.score > softmax.max) softmax.max = one.score;
  softmax.sum = softmax.weight(sink);
  for (const Seen& one : seen) softmax.sum += softmax.weight(one.score);
  for (double& o : out) o = 0;
  for (const Seen& one : seen) {
    const double weight = softmax.weight(one.score);
    for (std::size_t d = 0; d < out.size(); ++d) out[d] += weight * value_of(one.key, static_cast<index>(d));
  }
  for (double& o : out) o *= softmax.inverse();
  return softmax.lse();
}

inline double sink_of(const ConstView<1>& sinks, index head) {
  return sinks.present() ? at(sinks, head) : -std::numeric_limits<double>::infinity();
}

// Element [i0, i1, ..] of a view whose extents of 1 are broadcast.
template <class V, class... I> double at_broadcast(const V& view, I... i) {
  int d = 0;
  index where = 0;
  ((where += view.extents[d] == 1 ? 0 : static_cast<index>(i) * view.strides[d], ++d), ...);
  return load_element(view.data, view.dtype, where);
}

// An element of K or V: (x + offset) * scale where it is int8.
template <class... I> double antiquant(double x, const ConstView<4>& scale, const ConstView<4>& offset, I... i) {
  if (!scale.present()) return x;
  return (x + (offset.present() ? at_broadcast(offset, i...) : 0)) * at_broadcast(scale, i...);
}

}  // namespace inlay::reference
