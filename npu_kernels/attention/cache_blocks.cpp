#include "npu_kernels/attention/cache_blocks.hpp"

#include <algorithm>

#include "npu_kernels/attention/cache_tiles.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr index granule = 32;  // keys: whole blocks, of any matrix unit

index seen_keys(const AttentionProblem& problem, const Sequence& s) {
  return s.queries > 0 ? std::max<index>(0, problem.visible(s, s.queries - 1).end) : 0;
}

}  // namespace

Tensor CacheBlocks::of(const Tensor& all, const AttentionProblem& problem, index sequence, index kv_head,
                       index dim) const {
  const Sequence& s = problem.sequences[static_cast<std::size_t>(sequence)];
  const index rows = round_up(seen_keys(problem, s), granule);
  Tensor blocks = all.row_slice(kv_head * keys + first[static_cast<std::size_t>(sequence)], rows);
  blocks.layout = Layout::nz;
  blocks.block = all.block;
  blocks.pitch = rows;
  blocks.shape.columns = dim;
  return blocks;
}

bool blocks_pay(const Device& device, const AttentionProblem& problem, const std::vector<WorkUnit>& units) {
  const Path& path = *device.path(Space::global, Space::staging);
  // Loads that a tile's blocks must spare: to make them takes a load, a store, and all units wait for it.
  constexpr double spared = 6;
  index seen = 0, loaded = 0;
  for (const Sequence& s : problem.sequences) seen += seen_keys(problem, s) * problem.kv_heads;
  for (const WorkUnit& unit : units) loaded += std::max<index>(0, unit.end - unit.begin);
  return problem.by_chunks && static_cast<double>(loaded) * path.nd2nz_extra() >= spared * static_cast<double>(seen) &&
         path.nd2nz_extra() > 0;
}

CacheBlocks cache_blocks(GlobalMemory& memory, const AttentionProblem& problem) {
  CacheBlocks result;
  for (const Sequence& s : problem.sequences) {
    result.first.push_back(result.keys);
    result.keys += round_up(seen_keys(problem, s), granule);
  }
  const index block = memory.device().fractal_block(DType::f16);
  const auto all = [&](const char* name, index dim) {
    Tensor rows = memory.workspace(name, {result.keys * problem.kv_heads, round_up(dim, block)}, DType::f16);
    rows.block = block;
    return rows;
  };
  result.k = all("k in blocks", problem.k.dim), result.v = all("v in blocks", problem.v.dim);
  return result;
}

void make_cache_blocks(Core& core, const AttentionProblem& p, const CacheBlocks& to) {
  const index tokens = 128, dim = std::max(p.k.dim, p.v.dim);
  Ring in = core.ring("rows", Space::vector, {tokens, dim}, DType::f16, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("blocks", Space::vector, {tokens, dim}, DType::f16, {2, Pipe::vector, Pipe::store}, Layout::nz);
  const Chain chain = core.chain(Pipe::vector);
  index turn = 0;
  for (index b = 0; b < static_cast<index>(p.sequences.size()); ++b) {
    const Sequence& s = p.sequences[static_cast<std::size_t>(b)];
    const index end = seen_keys(p, s);
    for (index first = 0; first < end; first += tokens)
      for (index head = 0; head < p.kv_heads; ++head)
        for (const Cached* cached : {&p.k, &p.v}) {
          if (turn++ % core.vector_workers() != core.vector_worker()) continue;
          const index count = std::min(tokens, end - first);
          TokenRange range{&s, head, first, count, nullptr};
          const std::vector<index> blocks = blocks_of(core, p, range);
          range.blocks = &blocks;
          const NdTensor& view = cached->views[static_cast<std::size_t>(s.view)];
          const Tensor slot = in.acquire().slice(0, count, 0, cached->dim);
          for_parts(p, range, [&](index outer, index row, index at, index n) {
            core.copy(slot.row_slice(at, n), view.at(0, outer).slice(0, row, n).at(1, head).at(1, 0).matrix());
          });
          in.commit();
          const auto used = [&](const Tensor& tile) { return tile.slice(0, count, 0, cached->dim); };
          core.vpack_nz(used(out.acquire()), used(in.wait()));
          in.release();
          out.commit();
          const Tensor all = to.of(cached == &p.k ? to.k : to.v, p, b, head, cached->dim);
          core.copy(all.row_slice(first, count), used(out.wait()));
          out.release();
        }
  }
}

}  // namespace inlay::npu
