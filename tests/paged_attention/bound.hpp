// What a case must give, worked out again in double without the words of the contract, and how far a backend may be
// from it. docs/ops/paged_attention.md states the same bound.
//
// In units of eps(f32), for a row with scores s_j, weights p_j (the sink's is p_sink), m = max s_j and n visible
// tokens:
//
//   r_j = (sqrt(dim) + 4) scale sum_d |q_d k_jd| + 2 |bias_j| + |s_j - m| + 4
//         what rounding may take from a score and from its weight, with a sign of its own for each j: a sum of dim
//         products, whose errors walk at random, the bias, the difference to the maximum, exp
//   c_j = 3 |scale dot_j| + |s_j - m|  (+ 4 |s_j| behind a softcap)
//         what all scores have in common: the rounded scales, the factors between tiles and parts, tanh
//
//   lse     sqrt(sum p_j^2 r_j^2) + sum p_j c_j + 3 + sqrt(n / 64) + p_sink |sink - m|
//           + |lse - max(m, sink)| + |lse|        the logarithm is rounded, and its sum with the maximum
//   out_d   sqrt(sum p_j^2 (v_jd - out_d)^2 r_j^2) + sum p_j |v_jd - out_d| c_j         weights move, their sum stays 1
//           + 3 sqrt(sum_j S_j^2) + 6 sum p_j |v_jd|      S_j: the sum of the first j products, each rounded once
//           + (sqrt(n / 64) + p_sink |sink - m|) |out_d|   the sum of the weights, tile after tile, and the sink
#pragma once

#include "tests/paged_attention/case.hpp"

namespace inlay::test {

struct Bound {
  std::vector<double> out, lse;              // what is right
  std::vector<double> out_error, lse_error;  // in units of eps(f32)
};

inline Bound bound(const Case& start) {
  Case c = start;
  const PagedAttention<Host> op = c.op();
  const index seqs = c.lens.size(), kv_heads = op.k.extents[1], group = c.q_heads / kv_heads;
  const index dim = c.q.extents()[2], v_dim = c.out.extents()[2], keys_dim = c.q.extents()[1] * dim;
  const double scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(dim)), cap = op.softcap;
  Bound all;
  all.out.assign(c.out.size(), untouched), all.out_error.assign(c.out.size(), 0);
  all.lse.assign(c.lse.size(), untouched), all.lse_error.assign(c.lse.size(), 0);
  std::vector<double> k, v, s, p, random, common;
  for (index b = 0; b < seqs; ++b)
    for (index kv = 0; kv < kv_heads; ++kv) {
      const index length = static_cast<index>(c.lens.get(b));
      const index first = op.window_left < 0 ? 0 : std::max<index>(0, length - 1 - op.window_left), n = length - first;
      k.assign(n * dim, 0), v.assign(n * v_dim, 0);
      for (index j = 0; j < n; ++j) {
        const index slot = c.slot_of(b, first + j);
        const double key = op.k_tensor_scale * c.scale_of(c.k_scale, slot, kv);
        const double value = op.v_tensor_scale * c.scale_of(c.v_scale, slot, kv);
        for (index d = 0; d < dim; ++d) k[j * dim + d] = key * c.keys.get(slot, kv, d);
        for (index d = 0; d < v_dim; ++d) v[j * v_dim + d] = value * c.values.get(slot, kv, d);
      }
      for (index h = kv * group; h < (kv + 1) * group; ++h) {
        const double sink = c.sinks.present() ? c.sinks.get(h) : -infinity;
        std::vector<double> q(dim);
        for (index d = 0; d < dim; ++d) q[d] = c.q.get(b * keys_dim + (c.spare + h) * dim + d);
        s.assign(n, 0), p.assign(n, 0), random.assign(n, 0), common.assign(n, 0);
        double m = -infinity;
        for (index j = 0; j < n; ++j) {
          double dot = 0, size = 0;
          for (index d = 0; d < dim; ++d) dot += q[d] * k[j * dim + d], size += std::abs(q[d] * k[j * dim + d]);
          double bias = c.slopes.present() ? c.slopes.get(h) * static_cast<double>(first + j - (length - 1)) : 0;
          if (op.bias_order == BiasOrder::bias_scale_softcap) bias *= scale;
          const bool behind = op.bias_order == BiasOrder::scale_softcap_bias;
          const double inside = scale * dot + (behind ? 0 : bias);
          s[j] = (cap > 0 ? cap * std::tanh(inside / cap) : inside) + (behind ? bias : 0);
          random[j] = (std::sqrt(static_cast<double>(dim)) + 4) * std::abs(scale) * size + 2 * std::abs(bias) + 4;
          common[j] = 3 * std::abs(scale * dot) + (cap > 0 ? 4 * std::min(std::abs(inside), cap) : 0);
          m = std::max(m, s[j]);
        }
        const double top = std::max(m, sink);
        double sum = sink == -infinity ? 0 : std::exp(sink - top);
        const double sink_weight = sum;
        for (index j = 0; j < n; ++j) sum += p[j] = std::exp(s[j] - top);
        const double tiles = std::sqrt(static_cast<double>(n) / 64);
        const double of_sink = sink == -infinity || n == 0 ? 0 : sink_weight / sum * std::abs(sink - m);
        double random_lse = 0, common_lse = 0;
        for (index j = 0; j < n; ++j) {
          p[j] /= sum;
          random[j] += m - s[j], common[j] += m - s[j];
          random_lse += p[j] * p[j] * random[j] * random[j];
          common_lse += p[j] * common[j];
        }
        const double lse = sum == 0 ? -infinity : top + std::log(sum);
        all.lse[c.lse_at(b, h)] = lse;
        all.lse_error[c.lse_at(b, h)] =
            n == 0 ? 0 : std::sqrt(random_lse) + common_lse + std::abs(lse) + std::abs(lse - top) + 3 + tiles + of_sink;
        for (index d = 0; d < v_dim; ++d) {
          double o = 0, size = 0, walk = 0, moved = 0, apart = 0;
          for (index j = 0; j < n; ++j) {
            o += p[j] * v[j * v_dim + d];
            size += p[j] * std::abs(v[j * v_dim + d]);
            walk += o * o;
          }
          for (index j = 0; j < n; ++j) {
            const double distance = p[j] * std::abs(v[j * v_dim + d] - o);
            moved += distance * distance * random[j] * random[j];
            apart += distance * common[j];
          }
          all.out[c.out_at(b, h, d)] = o;
          all.out_error[c.out_at(b, h, d)] =
              std::sqrt(moved) + apart + 3 * std::sqrt(walk) + 6 * size + (tiles + of_sink) * std::abs(o);
        }
      }
    }
  return all;
}

// The reference agrees with the second oracle, each backend with the reference; nothing is written beside the outputs.
struct Compare {
  Bound limit;

  void operator()(const Case& expected, const Case& got, const Allow& allow = {}) const {
    for (index k = 0; k < expected.out.size(); ++k) ASSERT_TRUE(agree(expected.out.get(k), limit.out[k])) << k;
    for (index k = 0; k < expected.lse.size(); ++k) ASSERT_TRUE(agree(expected.lse.get(k), limit.lse[k])) << k;
    expect_close(
        got.out, expected.out, 1, [&](index k) { return limit.out_error[k]; }, allow);
    expect_close(
        got.lse, expected.lse, 1, [&](index k) { return limit.lse_error[k]; }, allow);
    EXPECT_TRUE(got.out.gaps_untouched());
    EXPECT_TRUE(got.lse.gaps_untouched());
  }

 private:
  // The reference's result is rounded to f32, and the sums in double are not in the same order.
  static bool agree(double reference, double oracle) {
    return reference == oracle ||
           std::abs(reference - oracle) <= half_ulp(DType::f32, std::abs(oracle) + 1e-12) + 1e-12;
  }
};

inline void compare(const Case& start, SweptOn where = SweptOn::every_backend) {
  against_the_reference(start, Compare{bound(start)}, where);
}

}  // namespace inlay::test
