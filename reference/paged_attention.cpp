#include <inlay/ops/paged_attention.hpp>

#include <limits>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/online_softmax.hpp>

namespace inlay::reference {

namespace {

// One head of one sequence: all scores, their softmax, the weighted sum.
class Row {
 public:
  Row(const PagedAttention<Host>& op, index b, index h)
      : op_(op), b_(b), h_(h), kv_head_(h / (op.q.extents[1] / kv_head_count(op.k))) {}

  void compute() {
    const index length = static_cast<index>(at(op_.kv_lens, b_));
    const KeyRange keys = visible_keys(op_, length);
    const double slope = op_.alibi_slopes.present() ? at(op_.alibi_slopes, h_) : 0;
    const ScoreRule rule = score_rule(op_, op_.q.extents[2]);
    std::vector<double> scores;
    for (index j = keys.begin; j < keys.end; ++j)
      scores.push_back(score(rule, dot(j), slope * static_cast<double>(j - (length - 1))));
    const double sink = op_.sinks.present() ? at(op_.sinks, h_) : SoftmaxState<double>::minus_infinity;
    SoftmaxState<double> softmax{sink, 0};
    for (double s : scores)
      if (s > softmax.max) softmax.max = s;
    softmax.sum = softmax.weight(sink);
    std::vector<double> sums(static_cast<std::size_t>(op_.out.extents[2]));
    for (index j = keys.begin; j < keys.end; ++j) {
      const double weight = softmax.weight(scores[static_cast<std::size_t>(j - keys.begin)]);
      softmax.sum += weight;
      add_values(j, weight, sums);
    }
    for (index d = 0; d < op_.out.extents[2]; ++d)
      put(op_.out, b_, h_, d, sums[static_cast<std::size_t>(d)] * softmax.inverse());
    if (op_.lse.present()) put(op_.lse, b_, h_, softmax.lse());
  }

 private:
  index slot(index j) const {
    const index block_size = block_size_of(op_.k);
    return static_cast<index>(at(op_.block_table, b_, j / block_size)) * block_size + j % block_size;
  }
  double scale(const ConstView<3>& scales, float whole, index j) const {
    if (!scales.present()) return whole;
    const index s = slot(j), block_size = block_size_of(op_.k);
    return whole * at(scales, s / block_size, kv_head_, s % block_size);
  }
  double dot(index j) const {
    const auto& keys = op_.k;
    const index place = slot_offset(keys, slot(j), kv_head_);
    double sum = 0;
    for (index d = 0; d < op_.q.extents[2]; ++d)
      sum += at(op_.q, b_, h_, d) * load_element(keys.data, keys.dtype, place + dim_offset(keys, d));
    return sum * scale(op_.k_scale, op_.k_tensor_scale, j);
  }
  void add_values(index j, double weight, std::vector<double>& sums) const {
    const auto& values = op_.v;
    const index place = slot_offset(values, slot(j), kv_head_);
    const double scaled = scale(op_.v_scale, op_.v_tensor_scale, j);
    for (std::size_t d = 0; d < sums.size(); ++d)
      sums[d] += weight *
                 (scaled * load_element(values.data, values.dtype, place + dim_offset(values, static_cast<index>(d))));
  }

  const PagedAttention<Host>& op_;
  index b_, h_, kv_head_;
};

}  // namespace

template <> Status compute(const PagedAttention<Host>& op) {
  for (index b = 0; b < op.q.extents[0]; ++b)
    for (index h = 0; h < op.q.extents[1]; ++h) Row(op, b, h).compute();
  return {};
}

}  // namespace inlay::reference
