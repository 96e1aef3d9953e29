#include <inlay/ops/incre_flash_attention.hpp>

#include <inlay/core/backend.hpp>

#include "reference/attention.hpp"

namespace inlay::reference {

template <> Status compute(const IncreFlashAttention<Host>& op) {
  const index dim = op.q.extents[3], q_heads = op.q.extents[2], v_dim = op.out.extents[3];
  const ScoreRule rule = score_rule(op, dim);
  std::vector<double> out(static_cast<std::size_t>(v_dim));
  for (index b = 0; b < op.q.extents[0]; ++b) {
    const ConstView<3> k = op.keys(b), v = op.values(b);
    const KeyRange slots = key_slots(op, b);
    const index keys = slots.end - slots.begin, group = q_heads / k.extents[1];
    for (index i = 0; i < op.q.extents[1]; ++i)
      for (index h = 0; h < q_heads; ++h) {
        const index position = keys - op.q.extents[1] + i;
        const KeyRange window = visible_keys(position, keys, op.window_left, op.causal ? 0 : -1);
        const auto score_of = [&](index j, double& s) {
          const index slot = slots.begin + j;
          if (j < window.begin || j >= window.end) return false;
          if (op.mask.present() && at_broadcast(op.mask, b, i, slot) != 0) return false;
          double bias = op.bias.present() ? at_broadcast(op.bias, b, h, i, slot) : 0;
          if (bias == -HUGE_VAL) return false;
          if (op.alibi_slopes.present()) bias += at(op.alibi_slopes, h) * static_cast<double>(j - position);
          double dot = 0;
          for (index d = 0; d < dim; ++d)
            dot += at(op.q, b, i, h, d) *
                   antiquant(at(k, slot, h / group, d), op.k_scale, op.k_offset, b, slot, h / group, d);
          s = score(rule, dot, bias);
          return true;
        };
        const auto value_of = [&](index j, index d) {
          const index slot = slots.begin + j;
          return antiquant(at(v, slot, h / group, d), op.v_scale, op.v_offset, b, slot, h / group, d);
        };
        const double lse = attention_row(keys, score_of, value_of, sink_of(op.sinks, h), out);
        for (index d = 0; d < v_dim; ++d) {
          double y = out[static_cast<std::size_t>(d)];
          if (op.out_scale.present()) {
            const double offset = op.out_offset.present() ? at_broadcast(op.out_offset, h, d) : 0;
            y = y * at_broadcast(op.out_scale, h, d) + offset;
            if (std::isnan(y)) y = offset;
          }
          put(op.out, b, i, h, d, y);
        }
        if (op.lse.present()) put(op.lse, b, i, h, lse);
      }
  }
  return {};
}

}  // namespace inlay::reference
