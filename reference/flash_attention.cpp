#include <inlay/ops/flash_attention.hpp>

#include <inlay/core/backend.hpp>

#include "reference/attention.hpp"

namespace inlay::reference {

namespace {

// Where row j of sequence b lies in k and v.
struct Place {
  index outer, row;
};

Place key_place(const FlashAttention<Host>& op, index b, index j) {
  if (op.block_table.present()) {
    const index block_size = op.k.extents[1];
    return {static_cast<index>(at(op.block_table, b, j / block_size)), j % block_size};
  }
  return op.kv_indptr.present() ? Place{0, entry(op.kv_indptr, b) + j} : Place{b, j};
}

}  // namespace

template <> Status compute(const FlashAttention<Host>& op) {
  const index dim = op.q.extents[3], q_heads = op.q.extents[2], group = q_heads / op.k.extents[2];
  const ScoreRule rule = score_rule(op, dim);
  std::vector<double> out(static_cast<std::size_t>(op.v.extents[3]));
  for (index b = 0; b < op.batch(); ++b) {
    const index queries = query_count(op, b), keys = key_count(op, b);
    const index start = op.q_start.present() ? entry(op.q_start, b) : keys - queries;
    const Place first = op.q_indptr.present() ? Place{0, entry(op.q_indptr, b)} : Place{b, 0};
    for (index i = 0; i < queries; ++i)
      for (index h = 0; h < q_heads; ++h) {
        const index position = start + i;
        const KeyRange window = visible_keys(position, keys, op.window_left, op.causal ? index{0} : op.window_right);
        const auto score_of = [&](index j, double& s) {
          if (j < window.begin || j >= window.end) return false;
          if (op.mask.present() && at_broadcast(op.mask, b, h, i, j) != 0) return false;
          if (op.packed_mask.present() &&
              !packed_bit(op.packed_mask.as<unsigned char>() + entry(op.mask_indptr, b), i * keys + j))
            return false;
          double bias = op.bias.present() ? at_broadcast(op.bias, b, h, i, j) : 0;
          if (bias == -HUGE_VAL) return false;
          if (op.alibi_slopes.present()) bias += at(op.alibi_slopes, h) * static_cast<double>(j - position);
          const Place place = key_place(op, b, j);
          double dot = 0;
          for (index d = 0; d < dim; ++d)
            dot += at(op.q, first.outer, first.row + i, h, d) *
                   antiquant(at(op.k, place.outer, place.row, h / group, d), op.k_scale, op.k_offset, place.outer,
                             place.row, h / group, d);
          s = score(rule, dot, bias);
          return true;
        };
        const auto value_of = [&](index j, index d) {
          const Place place = key_place(op, b, j);
          return antiquant(at(op.v, place.outer, place.row, h / group, d), op.v_scale, op.v_offset, place.outer,
                           place.row, h / group, d);
        };
        const double lse = attention_row(keys, score_of, value_of, sink_of(op.sinks, h), out);
        for (std::size_t d = 0; d < out.size(); ++d)
          put(op.out, first.outer, first.row + i, h, static_cast<index>(d), out[d]);
        if (op.lse.present()) put(op.lse, first.outer, first.row + i, h, lse);
      }
  }
  return {};
}

}  // namespace inlay::reference
