// A problem of decode attention with its data, its workspace on a machine, and its result in f64.
#pragma once

#include <cmath>

#include "npu_kernels/attention/decode_attention.hpp"
#include "tests/machine/support/programs.hpp"

namespace inlay::npu {

struct DecodeProblem {
  index sequences, heads, cache_heads, dim, length, splits;
  std::vector<f16> q, k, v, out;

  DecodeProblem(index sequences_, index heads_, index cache_heads_, index dim_, index length_, index splits_)
      : sequences(sequences_), heads(heads_), cache_heads(cache_heads_), dim(dim_), length(length_), splits(splits_) {
    const auto cache = static_cast<std::size_t>(sequences * cache_heads * length * dim);
    q = random_values<f16>(static_cast<std::size_t>(sequences * heads * dim), -2, 2, 1);
    k = random_values<f16>(cache, -1, 1, 2);
    v = random_values<f16>(cache, -1, 1, 3);
    out.resize(q.size());
  }

  // The tensors in the machine's global memory. The problem must outlive the run.
  DecodeOperands on(GlobalMemory& machine, DecodePlan plan = DecodePlan::c1v2) {
    DecodeOperands op;
    op.plan = plan;
    op.q = machine.global("q", std::span(std::as_const(q)), {sequences * heads, dim});
    op.k = machine.global("k", std::span(std::as_const(k)), {sequences * cache_heads * length, dim});
    op.v = machine.global("v", std::span(std::as_const(v)), {sequences * cache_heads * length, dim});
    op.out = machine.global("out", std::span(out), {sequences * heads, dim}, Use::out);
    op.sequences = sequences;
    op.heads = heads;
    op.cache_heads = cache_heads;
    op.length = length;
    op.splits = splits;
    op.scale = 1 / std::sqrt(static_cast<float>(dim));
    add_workspace(machine, op);
    return op;
  }

  std::vector<double> exact() const {
    std::vector<double> result(q.size()), weight(static_cast<std::size_t>(length));
    for (index row = 0; row < sequences * heads; ++row) {
      const index cache = row / heads * cache_heads + row % heads / (heads / cache_heads);
      const auto element = [&](const std::vector<f16>& tensor, index token, index d) {
        return static_cast<double>(tensor[static_cast<std::size_t>((cache * length + token) * dim + d)]);
      };
      double top = -1e300, total = 0;
      for (index token = 0; token < length; ++token) {
        double score = 0;
        for (index d = 0; d < dim; ++d) score += q[static_cast<std::size_t>(row * dim + d)] * element(k, token, d);
        weight[static_cast<std::size_t>(token)] = score / std::sqrt(static_cast<double>(dim));
        top = std::max(top, weight[static_cast<std::size_t>(token)]);
      }
      for (double& w : weight) total += w = std::exp(w - top);
      for (index d = 0; d < dim; ++d) {
        double sum = 0;
        for (index token = 0; token < length; ++token)
          sum += weight[static_cast<std::size_t>(token)] * element(v, token, d);
        result[static_cast<std::size_t>(row * dim + d)] = sum / total;
      }
    }
    return result;
  }
};

}  // namespace inlay::npu
