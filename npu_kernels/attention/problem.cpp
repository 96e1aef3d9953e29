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

NdTensor of_heads(const NdTensor& list, const QueryTile& unit) {
  const NdTensor heads = list.extent(0) > 1 ? list.slice(0, unit.head, unit.heads) : spread(list, 0, unit.heads);
  return spread(heads.split(0, unit.heads), 0, unit.queries);
}

QueryTile QueryTile::part(index first, index count) const {
  QueryTile result = *this;
  if (queries > 1)
    result.query += first / heads, result.queries = count / heads;
  else
    result.head += first, result.heads = count;
  return result;
}

std::pair<KeyRange, KeyRange> AttentionCall::ends(const QueryTile& unit) const {
  const AttentionSequence& s = sequence(unit);
  return {visible(s, unit.query), visible(s, unit.query + unit.queries - 1)};
}

NdTensor AttentionCall::rows(const NdTensor& tensor, const QueryTile& unit) const {
  const AttentionSequence& s = sequence(unit);
  return tensor.at(0, s.q_outer).slice(0, s.q_row + unit.query, unit.queries).slice(1, unit.head, unit.heads);
}

Cached bind_cache(GlobalMemory& memory, const std::string& name, const AttentionKv<Host>& cache) {
  Cached bound{.views = {},
               .scale = memory.bind_optional(name + "_scale", cache.scale),
               .offset = memory.bind_optional(name + "_offset", cache.offset),
               .dim = cache.dim};
  const auto bind = [&](const std::string& as, const ConstPagedView<Host>& view) {
    bound.views.push_back(memory.bind(as, view).permuted({0, 3, 1, 2, 4}));
  };
  if (cache.list.empty()) bind(name, cache.cache);
  for (const ConstView<3>& own : cache.list) bind(name + "_list", flat_cache(ragged(own)));
  return bound;
}

AttentionCall attention_call(GlobalMemory& memory, const AttentionProblem<Host>& problem) {
  AttentionCall call{problem};
  const index batch = call.batch();
  // Rows behind the last sequence are not written.
  const index rows = call.q_indptr.present() ? entry(call.q_indptr, batch) : call.q.extents[1];
  call.bound = {
      .q = memory.bind("q", call.q),
      .k = bind_cache(memory, "k", call.k),
      .v = bind_cache(memory, "v", call.v),
      .to = {.out = memory.bind("out", call.out.slice(1, 0, rows), Use::out),
             .lse = call.lse.present() ? memory.bind("lse", call.lse.slice(1, 0, rows), Use::out) : NdTensor{},
             .sinks = memory.bind_optional("sinks", call.sinks),
             .out_scale = memory.bind_optional("out_scale", call.out_scale),
             .out_offset = memory.bind_optional("out_offset", call.out_offset),
             .factor = call.v.factor},
      .block_table = memory.bind_optional("block_table", call.block_table),
      .bias = memory.bind_optional("bias", call.bias),
      .mask = memory.bind_optional("mask", call.mask),
      .packed_mask = memory.bind_optional("packed_mask", call.packed_mask),
      .alibi_slopes = memory.bind_optional("alibi_slopes", call.alibi_slopes)};
  for (index b = 0; b < batch; ++b) call.sequences.push_back(attention_sequence(call, b));
  call.k.list = call.v.list = {};  // the caller's, and a program outlives the call
  return call;
}

std::vector<QueryTile> units_of(const AttentionCall& problem, index rows) {
  std::vector<QueryTile> units;
  const index group = problem.group(), heads = std::min(group, rows), queries = std::max<index>(1, rows / heads);
  for (std::size_t b = 0; b < problem.sequences.size(); ++b) {
    const AttentionSequence& s = problem.sequences[b];
    for (index kv_head = 0; kv_head < problem.kv_heads(); ++kv_head)
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

std::vector<KeyTile> key_tiles(const AttentionCall& problem, const QueryTile& unit, index tokens) {
  std::vector<KeyTile> tiles;
  index first = problem.chunk_invariant ? unit.begin / tokens * tokens : unit.begin;
  for (; first < unit.end; first += tokens) tiles.push_back({first, std::min(tokens, unit.end - first), false});
  if (!tiles.empty()) tiles.back().last = true;
  return tiles;
}

std::vector<index> blocks_of(Core& core, const AttentionCall& problem, const TokenRange& range) {
  std::vector<index> blocks;
  const index size = problem.block_size();
  if (!problem.block_table.present()) return blocks;
  const Tensor row = problem.bound.block_table.at(0, problem.number_of(*range.sequence)).matrix();
  for (index i = range.first / size; i * size < range.first + range.count; ++i)
    blocks.push_back(static_cast<index>(core.scalar_read(row, 0, i)));
  return blocks;
}

RooflineWork bounds_of(const AttentionCall& p) {
  double bytes = 0, pairs = 0;
  const auto bytes_of = [](index dim, DType type) { return static_cast<double>(dim * bits(type)) / 8; };
  const double token = bytes_of(p.k.dim, p.k.dtype()) + bytes_of(p.v.dim, p.v.dtype());
  const double row = bytes_of(p.k.dim, p.q.dtype) + bytes_of(p.v.dim, p.out.dtype);
  for (const AttentionSequence& s : p.sequences) {
    index begin = s.keys, end = 0;
    for (index i = 0; i < s.queries; ++i) {
      const KeyRange keys = p.visible(s, i);
      if (keys.empty()) continue;
      begin = std::min(begin, keys.begin), end = std::max(end, keys.end);
      pairs += static_cast<double>((keys.end - keys.begin) * p.q_heads());
    }
    bytes += static_cast<double>(s.queries * p.q_heads()) * row;
    if (begin < end) bytes += static_cast<double>((end - begin) * p.kv_heads()) * token;
  }
  const auto operations = static_cast<std::uint64_t>(2 * pairs * static_cast<double>(p.k.dim + p.v.dim));
  return {.bytes = static_cast<std::uint64_t>(bytes), .products = {{DType::f16, DType::f32, operations}}};
}

}  // namespace inlay::npu
