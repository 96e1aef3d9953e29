#include "npu_kernels/attention/finite_values.hpp"

#include <algorithm>

#include "npu_kernels/attention/cache_tiles.hpp"

namespace inlay::npu {

namespace {

constexpr index tokens = 64;  // of a tile

// 0 v is 0 for a number, and NaN for all others: so is the sum of them.
void look(Core& core, const AttentionProblem& p, const Tensor& flags) {
  const index dim = std::max<index>(p.v.dim, 2);
  const Tensor wide = core.alloc("v in f32", Space::vector, {tokens, dim}, DType::f32);
  const Tensor rows = core.alloc("sums of a tile", Space::vector, {tokens, 1}, DType::f32);
  const Tensor sums = core.alloc("sums", Space::vector, {tokens, 1}, DType::f32);
  const Tensor sum = core.alloc("sum", Space::vector, {1, 1}, DType::f32);
  Ring out = core.ring("flag", Space::vector, {1, 2}, DType::f32, {1, Pipe::vector, Pipe::store});
  CacheTiles v(core, p, p.v, "v", tokens, nullptr, wide);
  const Chain chain = core.chain(Pipe::vector);
  core.vfill(sums, 0);
  index turn = 0;
  for (const Sequence& s : p.sequences) {
    if (s.queries == 0) continue;
    // Where tiles start at fixed keys, some are loaded that nobody sees.
    const index begin = p.by_chunks ? 0 : std::max<index>(0, p.visible(s, 0).begin);
    const index end = p.visible(s, s.queries - 1).end;
    for (index kv_head = 0; kv_head < p.kv_heads; ++kv_head)
      for (index first = begin; first < end; first += tokens) {
        if (turn++ % core.vector_workers() != core.vector_worker()) continue;
        TokenRange range{&s, kv_head, first, std::min(tokens, end - first), nullptr};
        const std::vector<index> blocks = blocks_of(core, p, s, range);
        range.blocks = &blocks;
        v.load(range);
        const Tensor tile = v.widen(range, wide), of_tile = rows.row_slice(0, range.count);
        core.vscalar(VectorOp::mul, wide.slice(0, range.count, 0, p.v.dim), tile, 0.0f);
        core.vreduce(VectorOp::reduce_sum, of_tile, wide.slice(0, range.count, 0, p.v.dim));
        v.release();
        core.vbinary(VectorOp::add, sums.row_slice(0, range.count), sums.row_slice(0, range.count), of_tile);
      }
  }
  core.vreduce(VectorOp::reduce_sum, sum, sums.reshape({1, tokens}));
  core.vcompare(Compare::not_equal, out.acquire().slice(0, 1, 0, 1), sum, sum);
  out.commit();
  core.copy(flags.slice(core.vector_worker(), 1, 0, 1), out.wait().slice(0, 1, 0, 1));
  out.release();
  for (const Tensor& each : {wide, rows, sums, sum}) core.release(each);
}

}  // namespace

Tensor finite_flags(GlobalMemory& memory) {
  const Device& device = memory.device();
  const index vectors = device.vector_units();
  return memory.workspace("not finite", {static_cast<index>(memory.cores()) * vectors, 1}, DType::f32);
}

bool values_are_finite(Core& core, const AttentionProblem& problem, const Tensor& flags) {
  if (core.runs(Pipe::vector)) look(core, problem, flags);
  core.sync_all();
  bool finite = true;
  for (index worker = 0; worker < core.vector_workers(); ++worker)
    finite = core.scalar_read(flags, worker, 0) == 0 && finite;
  return finite;
}

}  // namespace inlay::npu
