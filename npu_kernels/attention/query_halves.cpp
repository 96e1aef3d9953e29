#include "npu_kernels/attention/query_halves.hpp"

#include <algorithm>

#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

void convert(Core& core, const AttentionProblem& p, const MatrixPlan& plan) {
  const index outers = p.q.extent(0), rows = p.to.out.extent(1), group = p.group(), dim = p.k.dim;
  const bool halves = plan.factors.present();
  // q twice, its halves twice, two tiles of f32; columns.
  const Memory& memory = core.device().memory(Space::vector);
  const index row_bytes = 24 * round_up(dim, 64) + 5 * index{memory.align};
  const index most = std::clamp<index>(static_cast<index>(memory.bytes) * 3 / 4 / row_bytes, 1, 32);
  const index heads = std::min(group, most), tokens = std::min(rows, std::max<index>(1, most / heads));
  const index columns = std::max<index>(dim, 2), tile_rows = std::max<index>(heads * tokens, 2);
  Ring in = core.ring("q", Space::vector, {tile_rows, columns}, p.q.first.dtype, {2, Pipe::load_vector, Pipe::vector});
  auto out = core.ring<3>("halves",
                          {{{"high", Space::vector, {tile_rows, columns}, DType::f16, Layout::nd},
                            {"low", Space::vector, {tile_rows, columns}, DType::f16, Layout::nd},
                            {"factor", Space::vector, {tile_rows, 2}, DType::f32, Layout::nd}}},
                          {2, Pipe::vector, Pipe::store});
  const Tensor wide = core.alloc("q in f32", Space::vector, {tile_rows, columns}, DType::f32);
  const Tensor work = core.alloc("magnitudes", Space::vector, {tile_rows, columns}, DType::f32);
  const Tensor peak = core.alloc("peak", Space::vector, {tile_rows, 1}, DType::f32);
  const Tensor inverse = core.alloc("1 / peak", Space::vector, {tile_rows, 1}, DType::f32);

  const Chain chain = core.chain(Pipe::vector);
  const index of_a_group = ceil_div(group, heads), across = p.kv_heads * of_a_group, along = ceil_div(rows, tokens);
  for (index i = core.vector_worker(); i < outers * along * across; i += core.vector_workers()) {
    const index outer = i / across / along, row = i / across % along * tokens, kv_head = i % across / of_a_group;
    const index first = i % of_a_group * heads, head = kv_head * group + first;  // of the group, and of q
    const index n = std::min(tokens, rows - row), m = std::min(heads, group - first);
    const auto used = [&](const Tensor& tile) { return tile.slice(0, n * m, 0, dim); };
    const auto column = [&](const Tensor& tile) { return tile.slice(0, n * m, 0, 1); };
    const auto axes = [&](const Tensor& tile) { return by_axes(tile).split(0, m); };
    const auto window = [&](const NdTensor& of_outer) { return of_outer.slice(0, row, n).slice(1, head, m); };
    core.copy(axes(used(in.acquire())), window(p.q.at(0, outer)));
    in.commit();
    if (halves) {
      core.vcast(used(wide), used(in.wait()));
      core.vunary(VectorOp::abs, used(work), used(wide));
      core.vreduce(VectorOp::reduce_max, column(peak), used(work));
      core.vscalar(VectorOp::max, column(peak), column(peak), 1e-30f);  // a row of zeros stays one
      core.vunary(VectorOp::recip, column(inverse), column(peak));
      core.vbinary(VectorOp::mul, used(wide), used(wide), column(inverse));
    }
    const auto slots = out.acquire();
    if (halves) {
      core.vscalar(VectorOp::mul, used(slots[0]), used(wide), plan.q_pieces > 1 ? below_one : 1.0f);
      if (plan.q_pieces > 1) core.vbinary(VectorOp::sub, used(slots[1]), used(wide), used(slots[0]));
      core.vscalar(VectorOp::mul, column(slots[2]), column(peak), p.scale * p.key_factor);
    } else {
      core.vcast(used(slots[0]), used(in.wait()));
    }
    in.release();
    out.commit();
    const auto filled = out.wait();
    for (index piece = 0; piece < plan.q_pieces; ++piece) {
      const index at = ((piece * outers + outer) * p.kv_heads + kv_head) * rows + row;
      const NdTensor to = by_axes(plan.q.row_slice(at * group, n * group)).split(0, group).slice(1, first, m);
      core.copy(to, axes(used(filled[static_cast<std::size_t>(piece)])));
    }
    if (halves) core.copy(with_axis(window(plan.factors.at(0, outer)), 2), axes(column(filled[2])));
    out.release();
  }
  for (const Tensor& each : {wide, work, peak, inverse}) core.release(each);
}

}  // namespace

void make_query_halves(Core& core, const AttentionProblem& problem, const MatrixPlan& plan) {
  if (core.runs(Pipe::vector)) convert(core, problem, plan);
  core.sync_all();
}

}  // namespace inlay::npu
