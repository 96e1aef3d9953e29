#include "npu_kernels/linear/w4_rows.hpp"

#include <algorithm>
#include <utility>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

W4Weight w4_weight(GlobalMemory& memory, const LinearW4a16<Host>& op) {
  const index n = op.y.extents[1], slots = op.slots();
  const ConstView<3> words{op.codes.data, DType::i32, {op.codes.extents[0], op.codes.extents[1], panel_rows}};
  W4Weight weight{.codes = {.rows = {},
                            .panels = memory.bind("codes", words),
                            .dtype = op.bits == 4 ? DType::u4 : DType::u8,
                            .count = n,
                            .depth = slots},
                  .scales = {},
                  .zeros = {},
                  .offsets = {}};
  const auto per_group = [&](const char* name, const ConstView<3>& view) {
    if (!view.present()) return RowSource{};
    return RowSource{
        .rows = {}, .panels = memory.bind(name, view), .dtype = view.dtype, .count = n, .depth = view.extents[1]};
  };
  weight.scales = per_group("scales", op.scales);
  weight.zeros = per_group("zeros", op.zeros);
  weight.offsets = per_group("offsets", op.offsets);
  weight.group = op.group == 0 ? std::max<index>(slots, 1) : std::min(op.group, std::max<index>(slots, 1));
  weight.middle = op.bits == 4 ? 8 : 128;
  return weight;
}

DType turn_upper_bits(Core& core, const Tensor& words, DType codes) {
  const bool four = codes == DType::u4;
  core.vscalar(VectorOp::bit_xor, words, words, static_cast<std::int32_t>(four ? 0x88888888u : 0x80808080u));
  return four ? DType::i4 : DType::i8;
}

W4Reader::W4Reader(Core& core, Scratch& scratch, const W4Weight& weight, index depth)
    : core_(core),
      weight_(weight),
      codes_(core, scratch, weight.codes, panel_rows, depth),
      scales_(core, scratch, weight.scales, panel_rows, depth / weight.group + 2),
      w_(scratch.alloc("w", {panel_rows, std::max<index>(2, depth)}, DType::f32)) {
  if (weight.shifts()) others_.emplace(core, scratch, weight.zeros_or_offsets(), panel_rows, depth / weight.group + 2);
}

// w (op)= what each group has, in columns of which the first is of w's first slot.
void W4Reader::combine(VectorOp op, RowReader& from, const Tensor& w, index row, index k) {
  const index group = weight_.group, groups = ceil_div(k % group + w.columns(), group);
  const Tensor of_groups = from.read(row, w.rows(), k / group, groups);
  if (groups == 1)
    core_.vbinary(op, w, w, of_groups);
  else
    core_.vgrouped(op, w, w, of_groups, group);
  from.release();
}

Tensor W4Reader::read(index row, index rows, index k, index depth) {
  const Tensor all = w_.slice(0, rows, 0, depth);
  core_.vcast(all, codes_.read(row, rows, k, depth));
  codes_.release();
  const bool zeros = weight_.zeros.count > 0, offsets = weight_.offsets.count > 0;
  if (!weight_.shifts()) core_.vscalar(VectorOp::sub, all, all, weight_.middle);
  const index group = weight_.group, head = k % group == 0 ? 0 : std::min(depth, group - k % group);
  for (const auto& [first, count] : {std::pair{index{0}, head}, std::pair{head, depth - head}}) {
    if (count == 0) continue;
    const Tensor w = all.slice(0, rows, first, count);
    if (zeros) combine(VectorOp::sub, *others_, w, row, k + first);
    combine(VectorOp::mul, scales_, w, row, k + first);
    if (offsets) combine(VectorOp::add, *others_, w, row, k + first);
  }
  return all;
}

}  // namespace inlay::npu
