// m = max_s lse_s     w_s = exp(lse_s - m)     out = sum_s w_s out_s / sum_s w_s     lse = m + log sum_s w_s
//
// A tile of rows (token, head) after the other; the lse of its parts go by twice, the parts once:
//
//   load_vector   lse_0 .. lse_n    lse_0, part_0   lse_1, part_1   ..
//   vector           m                 w_0 part_0 +    w_1 part_1 + ..      / total
//   store                                                                       out, lse
//
// A part with lse -inf is left out by selection: 0 times what lies in its place need not be 0.
#include <inlay/ops/merge_states.hpp>

#include <algorithm>
#include <limits>

#include "npu_kernels/attention/softmax.hpp"
#include "npu_kernels/backend/operator.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr index most_elements = 4096, widest = 2048, max_rows = 64;  // of a tile

struct MergeOperands {
  NdTensor parts, part_lse, out, lse;  // [states, tokens, heads, dim], [states, tokens, heads], ..
  bool with_lse;

  index states() const { return parts.extent(0); }
  index tokens() const { return parts.extent(1); }
  index heads() const { return parts.extent(2); }
  index dim() const { return parts.extent(3); }
};

// Heads of a token, or all heads of several.
struct RowTile {
  index tokens, heads, columns;
  RowTile(const Device& device, const MergeOperands& op) {
    // Two parts on their way, one in f32, the sum and what goes out; the rest is for columns.
    constexpr index bytes_of_an_element = 5 * sizeof(float) + 4;
    const index fit = static_cast<index>(device.memory(Space::vector).bytes) / bytes_of_an_element;
    columns = std::clamp<index>(op.dim(), 2, std::min(widest, round_down(fit, 64)));
    const index rows = std::clamp<index>(std::min(most_elements, fit) / columns, 1, max_rows);
    heads = std::min(op.heads(), rows);
    tokens = std::min(op.tokens(), std::max<index>(1, rows / heads));
  }
  index count(const MergeOperands& op) const { return ceil_div(op.tokens(), tokens) * ceil_div(op.heads(), heads); }
};

class Merge {
 public:
  Merge(Core& core, const MergeOperands& op)
      : core_(core),
        op_(op),
        tile_(core.device(), op),
        chain_(core.auto_barrier(Pipe::vector)),
        rows_(tile_.tokens * tile_.heads),
        lse_in_(
            core.ring("lse of a part", Space::vector, {rows_, 2}, DType::f32, {2, Pipe::load_vector, Pipe::vector})),
        part_(core.ring("part", Space::vector, {rows_, tile_.columns}, op.parts.first.dtype,
                        {2, Pipe::load_vector, Pipe::vector})),
        out_(core.ring("out", Space::vector, {rows_, tile_.columns}, op.out.first.dtype,
                       {1, Pipe::vector, Pipe::store})),
        lse_out_(core.ring("lse", Space::vector, {rows_, 2}, DType::f32, {1, Pipe::vector, Pipe::store})),
        wide_(core.alloc("part in f32", Space::vector, {rows_, tile_.columns}, DType::f32)),
        sum_(core.alloc("sum", Space::vector, {rows_, tile_.columns}, DType::f32)),
        zero_(core.alloc("zero", Space::vector, {1, 1}, DType::f32)),
        maximum_(column("maximum")),
        total_(column("total")),
        weight_(column("weight")),
        seen_(column("seen")),
        none_(column("none")) {
    core.vfill(zero_, 0);
  }

  void run() {
    const index across = ceil_div(op_.heads(), tile_.heads), tiles = tile_.count(op_);
    for (index i = core_.vector_worker(); i < tiles; i += core_.vector_workers()) {
      token_ = i / across * tile_.tokens, head_ = i % across * tile_.heads;
      tokens_ = std::min(tile_.tokens, op_.tokens() - token_), heads_ = std::min(tile_.heads, op_.heads() - head_);
      used_ = tokens_ * heads_;
      find_maximum();
      index column = 0;
      do merge(column, std::min(tile_.columns, op_.dim() - column));
      while ((column += tile_.columns) < op_.dim());
    }
  }

 private:
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {rows_, 1}, DType::f32); }
  Tensor rows(const Tensor& tile) const { return tile.row_slice(0, used_); }
  // A tile's rows as [tokens, heads, columns].
  NdTensor axes(const Tensor& tile) const { return by_axes(rows(tile)).split(0, heads_); }
  template <class N> NdTensor window(const N& of_tokens) const {
    return of_tokens.slice(0, token_, tokens_).slice(1, head_, heads_);
  }
  // [tokens, heads] as rows of one column.
  NdTensor rows_of(const NdTensor& lse) const { return window(lse).split(1, 1); }

  // Of part s, in the first column of a tile whose rows start where transfers may.
  Tensor load_lse(index s) {
    core_.copy(axes(lse_in_.acquire().slice(0, rows_, 0, 1)), rows_of(op_.part_lse.at(0, s)));
    lse_in_.commit();
    return rows(lse_in_.wait().slice(0, rows_, 0, 1));
  }

  void find_maximum() {
    core_.vfill(rows(maximum_), lowest_score);
    for (index s = 0; s < op_.states(); ++s) {
      core_.vbinary(VectorOp::max, rows(maximum_), rows(maximum_), load_lse(s));
      lse_in_.release();
    }
  }

  void merge(index first, index columns) {
    const auto part = [&](const Tensor& tile) { return tile.slice(0, used_, 0, columns); };
    const Tensor weight = rows(weight_), seen = rows(seen_), total = rows(total_);
    core_.vfill(total, 0);
    if (columns > 0) core_.vfill(part(sum_), 0);
    for (index s = 0; s < op_.states(); ++s) {
      const Tensor lse = load_lse(s);
      core_.vcompare(Compare::not_equal, seen, lse, -std::numeric_limits<float>::infinity());
      core_.vbinary(VectorOp::sub, weight, lse, rows(maximum_));
      lse_in_.release();
      core_.vunary(VectorOp::exp, weight, weight);
      core_.vbinary(VectorOp::add, total, total, weight);
      if (columns == 0) continue;
      core_.copy(by_axes(part(part_.acquire())).split(0, heads_), window(op_.parts.at(0, s)).slice(2, first, columns));
      part_.commit();
      core_.vcast(part(wide_), part(part_.wait()));
      part_.release();
      core_.vbinary(VectorOp::mul, part(wide_), part(wide_), weight);
      core_.vselect(part(wide_), seen, part(wide_), zero_);
      core_.vbinary(VectorOp::add, part(sum_), part(sum_), part(wide_));
    }
    if (op_.with_lse && first == 0) {
      core_.vunary(VectorOp::log, weight, total);
      core_.vbinary(VectorOp::add, rows(lse_out_.acquire().slice(0, rows_, 0, 1)), weight, rows(maximum_));
      lse_out_.commit();
      core_.copy(rows_of(op_.lse), axes(lse_out_.wait().slice(0, rows_, 0, 1)));
      lse_out_.release();
    }
    if (columns == 0) return;
    inverse_of(core_, total, total, rows(none_), zero_);
    core_.vbinary(VectorOp::mul, part(out_.acquire()), part(sum_), total);
    out_.commit();
    core_.copy(window(op_.out).slice(2, first, columns), by_axes(part(out_.wait())).split(0, heads_));
    out_.release();
  }

  Core& core_;
  const MergeOperands& op_;
  const RowTile tile_;
  const AutoBarrier chain_;
  const index rows_;
  Ring lse_in_, part_, out_, lse_out_;
  Tensor wide_, sum_, zero_, maximum_, total_, weight_, seen_, none_;
  index token_ = 0, head_ = 0, tokens_ = 0, heads_ = 0, used_ = 0;  // of the tile that is worked on
};

}  // namespace

Program program(GlobalMemory& memory, const MergeStates<Host>& op, const Choices&) {
  MergeOperands operands{.parts = memory.bind("partial_out", op.partial_out),
                         .part_lse = memory.bind("partial_lse", op.partial_lse),
                         .out = memory.bind("out", op.out, Use::out),
                         .lse = {},
                         .with_lse = op.lse.present()};
  if (operands.with_lse) operands.lse = memory.bind("lse", op.lse, Use::out);
  const index elements = operands.parts.size() / std::max<index>(1, operands.states());
  const index bytes = byte_size(op.partial_out.dtype, operands.parts.size()) + byte_size(op.out.dtype, elements) +
                      byte_size(DType::f32, operands.part_lse.size());
  return {.body = [operands](Core& core) { Merge(core, operands).run(); },
          .problem = {.bytes = static_cast<std::uint64_t>(bytes)},
          .launch = {.cores = cores_for(RowTile(memory.device(), operands).count(operands), 2, memory.cores())}};
}

template struct Operator<MergeStates<Host>>;

}  // namespace inlay::npu
