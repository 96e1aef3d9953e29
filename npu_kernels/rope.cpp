// (a, b) -> (a cos - b sin, a sin + b cos) for each pair of each head. The tables of RopeTable are made on the host:
// angles take double, which vector units lack, and a model makes them once a forward pass.
//
//   load_vector   the pairs of some tokens and heads, cos, sin     vector   four products, two sums     store   them
//
// A tile holds the first elements of all its pairs, then the second ones. In the half form the DMA brings them there:
//
//   x   | a0 .. ap b0 .. bp |   of each head       tile   | a0 .. ap |  token after token of a head, or head after
//                                                         | ..       |  head of a token: the way with fewer
//                                                         | b0 .. bp |  instructions, as a product has either
//                                                         | ..       |  cos of all its tokens or of one
//
// Interleaved pairs are permuted by the vector unit, before and after. What is not rotated goes through without it.
#include <inlay/ops/rope.hpp>

#include <algorithm>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/copy_through.hpp"
#include "npu_kernels/rows/tiles.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

struct RopeOperands {
  NdTensor x{}, y{}, cos{}, sin{};  // x and y: [tokens, heads, head_dim]
  Tensor positions{};
  index first = 0, pairs = 0;
  index width = 0;  // columns of a walk for each head: its pairs, padded to granules of the memory
  bool interleaved = false, at_positions = false, in_place = false;

  index heads() const { return x.extent(1); }
  rows::Grid grid() const { return {.rows = x.extent(0), .columns = heads() * width}; }
  rows::Need need() const {
    rows::Need all = rows::Need().output(x.first.dtype).output(x.first.dtype).spare().spare();
    all.input(cos.first.dtype);  // of both tables, for one head of a tile's tokens
    if (interleaved) all.spare(x.first.dtype).spare(x.first.dtype);
    return all;
  }
};

class RopeProgram {
 public:
  RopeProgram(Core& core, const RopeOperands& op)
      : core_(core),
        op_(op),
        type_(op.x.first.dtype),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, op.grid(), op.need(), {.column_group = op.width, .min_columns = op.width}),
        tokens_(walk_.tile().rows),
        pairs_(tokens_ * walk_.tile().columns / op.width),
        by_token_(products(tokens_, pairs_ / tokens_, true) < products(pairs_ / tokens_, tokens_, false)),
        x_(core.ring("x", Space::vector, slot(), type_, {rows::slots, Pipe::load_vector, Pipe::vector})),
        y_(core.ring("y", Space::vector, slot(), type_, {rows::slots, Pipe::vector, Pipe::store})),
        cos_(core, "cos", walk_, op.cos.first.dtype, table(), extents(), rows_of(op.cos)),
        sin_(core, "sin", walk_, op.cos.first.dtype, table(), extents(), rows_of(op.sin)),
        values_(core.alloc("pairs", Space::vector, planes(), DType::f32)),
        crossed_(core.alloc("crossed products", Space::vector, planes(), DType::f32)) {
    if (op.interleaved) permutation();
  }

  void run() {
    index loaded = 0;
    for (index step = 0; step < walk_.steps(); ++step) {
      while (loaded < std::min(step + index{rows::slots}, walk_.steps())) load(loaded++);
      tile_ = of(walk_.at(step));
      take();
      const Tensor sin = sin_.wide(), cos = cos_.wide();  // one after the other: each loads ahead
      rotate(cos, sin);
      cos_.done();
      sin_.done();
      give();
      core_.copy(source(op_.y), in_memory(y_.wait()));
      y_.release();
    }
  }

 private:
  struct Part {  // of tokens and heads
    index token, tokens, head, heads;
    index pairs() const { return tokens * heads; }
  };
  Part of(const rows::Window& w) const { return {w.row, w.rows, w.column / op_.width, w.columns / op_.width}; }

  // Cycles of `outer` products of `inner` rows each: with one row of a table the lanes behind each row stay empty.
  double products(index outer, index inner, bool one_row) const {
    const VectorUnit& unit = core_.device().vector;
    const VectorCost& mul = unit.cost[static_cast<std::size_t>(VectorOp::mul)];
    const index lanes = unit.bytes / index{sizeof(float)};
    const index instructions = one_row ? inner * ceil_div(op_.pairs, lanes) : ceil_div(inner * op_.pairs, lanes);
    return static_cast<double>(outer) * (mul.head + mul.slope * static_cast<double>(instructions));
  }

  Shape planes() const { return {2 * pairs_, std::max<index>(2, op_.pairs)}; }
  Shape slot() const { return op_.interleaved ? Shape{pairs_, 2 * op_.pairs} : planes(); }
  Shape table() const { return {tokens_, std::max<index>(2, op_.pairs)}; }
  rows::Extents extents() const {
    return [pairs = op_.pairs](const rows::Window& window) { return Shape{window.rows, pairs}; };
  }
  rows::Load rows_of(const NdTensor& table) const {
    return [table, &op = op_](Core& core, const Tensor& tile, const rows::Window& window) {
      if (!op.at_positions) return core.copy(by_axes(tile), table.slice(0, window.row, window.rows));
      for (index r = 0; r < window.rows; ++r)
        core.copy_row(by_axes(tile.row_slice(r, 1)), table.slice(0, 0, 1),
                      NamedRow::of(table, op.positions, window.row + r));
    };
  }

  // The tile's part of x or y, in the order in which its slot has it: [2,] outer, inner, columns.
  NdTensor source(const NdTensor& full) const {
    const NdTensor part =
        full.slice(0, tile_.token, tile_.tokens).slice(1, tile_.head, tile_.heads).slice(2, op_.first, 2 * op_.pairs);
    if (op_.interleaved) return by_token_ ? part : part.permuted({1, 0, 2});
    return part.split(2, op_.pairs).permuted({2, by_token_ ? 0 : 1, by_token_ ? 1 : 0, 3});
  }
  NdTensor in_memory(const Tensor& slot) const {
    const NdTensor rows = by_axes(used(slot)).split(0, inner());
    return op_.interleaved ? rows : rows.split(0, outer());
  }
  index inner() const { return by_token_ ? tile_.heads : tile_.tokens; }
  index outer() const { return by_token_ ? tile_.tokens : tile_.heads; }
  Tensor used(const Tensor& slot) const {
    return slot.slice(0, op_.interleaved ? tile_.pairs() : 2 * tile_.pairs(), 0,
                      op_.interleaved ? 2 * op_.pairs : op_.pairs);
  }
  Tensor both(const Tensor& planes) const { return planes.slice(0, 2 * tile_.pairs(), 0, op_.pairs); }
  Tensor firsts(const Tensor& planes) const { return planes.slice(0, tile_.pairs(), 0, op_.pairs); }
  Tensor seconds(const Tensor& planes) const { return planes.slice(tile_.pairs(), tile_.pairs(), 0, op_.pairs); }

  void load(index step) {
    tile_ = of(walk_.at(step));
    core_.copy(in_memory(x_.acquire()), source(op_.x));
    x_.commit();
  }

  void take() {
    const Tensor x = used(x_.wait());
    if (op_.interleaved) {
      core_.vshuffle(firsts(apart_), x, evens_);
      core_.vshuffle(seconds(apart_), x, odds_);
    }
    core_.vcast(both(values_), op_.interleaved ? both(apart_) : x);
    x_.release();
  }

  void rotate(const Tensor& cos, const Tensor& sin) {
    const Tensor a = firsts(values_), b = seconds(values_), as = firsts(crossed_), bs = seconds(crossed_);
    for (index o = 0; o < outer(); ++o) {
      const auto rows = [&](const Tensor& plane) { return plane.row_slice(o * inner(), inner()); };
      const auto of_table = [&](const Tensor& table) { return by_token_ ? table.row_slice(o, 1) : table; };
      core_.vbinary(VectorOp::mul, rows(as), rows(a), of_table(sin));
      core_.vbinary(VectorOp::mul, rows(bs), rows(b), of_table(sin));
      core_.vbinary(VectorOp::mul, rows(a), rows(a), of_table(cos));
      core_.vbinary(VectorOp::mul, rows(b), rows(b), of_table(cos));
    }
    core_.vbinary(VectorOp::sub, a, a, bs);
    core_.vbinary(VectorOp::add, b, b, as);
  }

  void give() {
    if (op_.interleaved) {
      core_.vcast(firsts(together_), firsts(values_));
      core_.vcast(beside(together_), seconds(values_));
      core_.vshuffle(used(y_.acquire()), together_.row_slice(0, tile_.pairs()), back_);
    } else {
      core_.vcast(used(y_.acquire()), both(values_));
    }
    y_.commit();
  }

  // together_: a row has the first elements, then at a granule the second ones.
  Tensor beside(const Tensor& rows) const { return rows.slice(0, tile_.pairs(), op_.width / 2, op_.pairs); }

  void permutation() {
    const index n = op_.pairs;
    apart_ = core_.alloc("apart", Space::vector, planes(), type_);
    together_ = core_.alloc("together", Space::vector, {pairs_, op_.width}, type_);
    evens_ = core_.alloc("evens", Space::vector, {1, n}, DType::i32);
    odds_ = core_.alloc("odds", Space::vector, {1, n}, DType::i32);
    back_ = core_.alloc("back", Space::vector, {1, 2 * n}, DType::i32);
    core_.viota(evens_, {.first = 0, .column_step = 2});
    core_.viota(odds_, {.first = 1, .column_step = 2});
    core_.vfill(together_, 0);
    // Element 2 i from column i, 2 i + 1 from width / 2 + i: columns shifted right, and the odd ones' offset.
    const Tensor odd = core_.alloc("odd", Space::vector, {1, 2 * n}, DType::i32);
    core_.viota(back_, {});
    core_.vscalar(VectorOp::bit_and, odd, back_, 1);
    core_.vscalar(VectorOp::mul, odd, odd, static_cast<std::int32_t>(op_.width / 2));
    core_.vscalar(VectorOp::shift_right, back_, back_, 1);
    core_.vbinary(VectorOp::add, back_, back_, odd);
  }

  Core& core_;
  const RopeOperands& op_;
  const DType type_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  const index tokens_, pairs_;  // of a whole tile; pairs_: tokens x heads
  const bool by_token_;
  Ring x_, y_;
  rows::Input cos_, sin_;
  const Tensor values_, crossed_;
  Tensor apart_, together_, evens_, odds_, back_;
  Part tile_{};
};

void rope(Core& core, const RopeOperands& op) {
  if (op.pairs > 0) RopeProgram(core, op).run();
  if (op.in_place) return;
  const index behind = op.first + 2 * op.pairs;
  rows::copy_through(core, op.y.slice(2, 0, op.first), op.x.slice(2, 0, op.first));
  rows::copy_through(core, op.y.slice(2, behind, op.y.extent(2) - behind),
                     op.x.slice(2, behind, op.x.extent(2) - behind));
}

}  // namespace

Status declined(const Device&, const RopeTable<Host>&) {
  return {StatusCode::unsupported, "the table is made on the host"};
}
Program program(GlobalMemory&, const RopeTable<Host>&, const Choices&) { return {}; }

Program program(GlobalMemory& memory, const Rope<Host>& op, const Choices&) {
  const bool in_place = op.y.data == op.x.data;  // then what is not rotated stays
  RopeOperands operands{.x = memory.bind("x", op.x),
                        .y = memory.bind("y", op.y, in_place ? Use::in_out : Use::out),
                        .cos = memory.bind("cos", op.cos),
                        .sin = memory.bind("sin", op.sin),
                        .first = op.first,
                        .pairs = op.cos.extents[1],
                        .interleaved = op.interleaved,
                        .at_positions = op.positions.present(),
                        .in_place = in_place};
  const index granule = memory.device().memory(Space::vector).align / 2;  // elements of the smallest type
  operands.width = 2 * round_up(std::max<index>(1, operands.pairs), granule);
  if (operands.at_positions) operands.positions = memory.bind("positions", op.positions).matrix();
  const index read = 2 * op.x.extents[0] * byte_size(op.cos.dtype, op.cos.extents[1]);
  return {.body = [operands](Core& core) { rope(core, operands); },
          .problem = {.bytes = static_cast<std::uint64_t>(read) + rows::bytes_of(op.x, op.y, op.positions)},
          .launch = {.cores = rows::cores_of(memory, operands.grid())}};
}

template struct Operator<Rope<Host>>;
template struct Operator<RopeTable<Host>>;

}  // namespace inlay::npu
