#include "npu_kernels/attention/staged_loads.hpp"

#include <algorithm>

namespace inlay::npu {

StagedLoads::StagedLoads(Core& core, const AttentionProblem& problem, const MatrixPlan& plan)
    : core_(core),
      problem_(problem),
      plan_(plan),
      t_(plan.tiles),
      q_(core.ring("q", Space::staging, {plan.q_pieces * t_.rows, problem.k.dim}, DType::f16,
                   {2, Pipe::load, Pipe::feed}, Layout::nz)),
      k_(core.ring("k", Space::staging, {t_.tokens, problem.k.dim}, DType::f16, {2, Pipe::load, Pipe::feed},
                   Layout::nz)),
      v_(core.ring("v", Space::staging, {t_.tokens, problem.v.dim}, DType::f16, {2, Pipe::load, Pipe::feed},
                   Layout::nz)) {}

// The blocks of a tile: read once, for K and two steps later for V.
void StagedLoads::read_table(const KeyWork& work, std::vector<index>& blocks) {
  blocks.clear();
  const index size = problem_.block_size;
  if (size == 0 || !core_.runs(Pipe::load)) return;
  const Tensor table = problem_.table.at(0, work.unit->sequence).matrix();
  for (index i = work.tile.first / size; i * size < work.tile.first + work.tile.count; ++i)
    blocks.push_back(static_cast<index>(core_.scalar_read(table, 0, i)));
}

void StagedLoads::load_cache(const Tensor& tile, const Cached& cached, const KeyWork& work,
                             const std::vector<index>& blocks) {
  const Sequence& s = problem_.sequences[static_cast<std::size_t>(work.unit->sequence)];
  const NdTensor& view = cached.views[static_cast<std::size_t>(s.view)];
  const auto load = [&](index outer, index row, index at, index count) {
    const NdTensor rows = view.at(0, outer).slice(0, row, count).at(1, work.unit->kv_head);
    core_.nd2nz(tile.row_slice(at, count), rows.at(1, 0).matrix());
  };
  const index size = problem_.block_size, first = work.tile.first;
  if (size == 0) return load(s.outer, s.row + first, 0, work.tile.count);
  if (!core_.runs(Pipe::load)) return;
  for (index at = 0, n; at < work.tile.count; at += n) {
    const index key = first + at;
    n = std::min(size - key % size, work.tile.count - at);
    load(blocks[static_cast<std::size_t>(key / size - first / size)], key % size, at, n);
  }
}

void StagedLoads::load_k(const KeyWork& work, std::vector<index>& blocks) {
  const WorkUnit& unit = *work.unit;
  if (work.first) {
    const Sequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
    const Tensor slot = q_.acquire();
    if (plan_.q_as_it_is) {
      const NdTensor row = problem_.q.at(0, s.q_outer).at(0, s.q_row + unit.query);
      core_.nd2nz(slot.row_slice(0, unit.heads), row.slice(0, unit.head, unit.heads).matrix());
    }
    for (index piece = 0; piece < plan_.q_pieces && !plan_.q_as_it_is; ++piece) {
      const index rows = problem_.to.out.extent(1), group = problem_.group();
      const index head = (piece * problem_.q.extent(0) + s.q_outer) * problem_.kv_heads + unit.kv_head;
      const index first = (head * rows + s.q_row + unit.query) * group + unit.head - unit.kv_head * group;
      core_.nd2nz(slot.row_slice(piece * t_.rows, unit.rows()), plan_.q.row_slice(first, unit.rows()));
    }
    q_.commit();
  }
  read_table(work, blocks);
  load_cache(k_.acquire(), problem_.k, work, blocks);
  k_.commit();
}

void StagedLoads::load_v(const KeyWork& work, const std::vector<index>& blocks) {
  load_cache(v_.acquire(), problem_.v, work, blocks);
  v_.commit();
}

}  // namespace inlay::npu
