#include "npu_kernels/attention/problem.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

NdTensor spread(const NdTensor& tensor, int axis, index extent) {
  NdTensor result = tensor;
  const auto a = static_cast<std::size_t>(axis);
  if (tensor.extents[a] == 1) result.extents[a] = extent, result.strides[a] = 0;
  return result;
}

NdTensor with_axis(const NdTensor& tensor, int axis) {
  NdTensor result = tensor;
  for (auto a = static_cast<std::size_t>(tensor.rank); a > static_cast<std::size_t>(axis); --a) {
    result.extents[a] = tensor.extents[a - 1];
    result.strides[a] = tensor.strides[a - 1];
  }
  result.extents[static_cast<std::size_t>(axis)] = 1;
  result.strides[static_cast<std::size_t>(axis)] = 0;
  ++result.rank;
  return result;
}

std::vector<QueryTile> units_of(const AttentionProblem& problem, index rows) {
  std::vector<QueryTile> units;
  const index group = problem.group(), heads = std::min(group, rows), queries = std::max<index>(1, rows / heads);
  for (std::size_t b = 0; b < problem.sequences.size(); ++b) {
    const Sequence& s = problem.sequences[b];
    for (index kv_head = 0; kv_head < problem.kv_heads; ++kv_head)
      for (index query = 0; query < s.queries; query += queries) {
        const index count = std::min(queries, s.queries - query);
        const index begin = problem.visible(s, query).begin, end = problem.visible(s, query + count - 1).end;
        for (index head = 0; head < group; head += heads)
          for (index split = 0; split < problem.splits; ++split) {
            QueryTile unit{static_cast<index>(b),
                           kv_head,
                           kv_head * group + head,
                           std::min(heads, group - head),
                           query,
                           count,
                           std::max<index>(0, begin),
                           std::max<index>(0, end),
                           split};
            if (problem.splits > 1) {
              unit.begin = std::max(unit.begin, split * problem.split);
              unit.end = std::min(unit.end, (split + 1) * problem.split);
            }
            units.push_back(unit);
          }
      }
  }
  return units;
}

std::vector<KeyTile> key_tiles(const AttentionProblem& problem, const QueryTile& unit, index tokens) {
  std::vector<KeyTile> tiles;
  index first = problem.by_chunks ? unit.begin / tokens * tokens : unit.begin;
  for (; first < unit.end; first += tokens) tiles.push_back({first, std::min(tokens, unit.end - first), false});
  if (!tiles.empty()) tiles.back().last = true;
  return tiles;
}

RooflineWork bounds_of(const AttentionProblem& p) {
  double bytes = 0, pairs = 0;
  const auto element = [](const NdTensor& t) { return static_cast<double>(bits(t.first.dtype)) / 8; };
  const double token = static_cast<double>(p.k.dim) * element(p.k.views.front()) +
                       static_cast<double>(p.v.dim) * element(p.v.views.front());
  const double row = static_cast<double>(p.k.dim) * element(p.q) + static_cast<double>(p.v.dim) * element(p.to.out);
  for (const Sequence& s : p.sequences) {
    index begin = s.keys, end = 0;
    for (index i = 0; i < s.queries; ++i) {
      const KeyRange keys = p.visible(s, i);
      if (keys.empty()) continue;
      begin = std::min(begin, keys.begin), end = std::max(end, keys.end);
      pairs += static_cast<double>((keys.end - keys.begin) * p.heads());
    }
    bytes += static_cast<double>(s.queries * p.heads()) * row;
    if (begin < end) bytes += static_cast<double>((end - begin) * p.kv_heads) * token;
  }
  const auto operations = static_cast<std::uint64_t>(2 * pairs * static_cast<double>(p.k.dim + p.v.dim));
  return {.bytes = static_cast<std::uint64_t>(bytes), .products = {{DType::f16, DType::f32, operations}}};
}

}  // namespace inlay::npu
