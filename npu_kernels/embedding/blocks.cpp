#include "npu_kernels/embedding/blocks.hpp"

#include <optional>

namespace inlay::npu {

namespace {

class BlockProgram {
 public:
  BlockProgram(Core& core, const BlockTable& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, {.rows = op.y.extent(0), .columns = op.y.extent(1)}, need(),
              {.column_group = op.block(), .min_columns = op.block(), .max_rows = 1}),
        blocks_(walk_.tile().columns / op.block()) {}
  virtual ~BlockProgram() = default;

  void run() {
    for (index step = 0; step < walk_.steps(); ++step) {
      window_ = walk_.at(step);
      now_ = window_.columns / op_.block();
      unpack();
    }
  }

 protected:
  virtual void unpack() = 0;

  // `count` numbers of each block, from `byte` on.
  rows::Input field(const char* name, DType type, index byte, index count) {
    const auto extents = [block = op_.block(), count](const rows::Window& window) {
      return Shape{window.columns / block, count};
    };
    const auto load = [&op = op_, type, byte, count](Core& core, const Tensor& tile, const rows::Window& window) {
      const index size = bits(type) / 8, first = window.column / op.block() * op.bytes() + byte;
      NdTensor part = op.table.at(0, 0).slice(0, first, 1);  // bytes anywhere, as numbers
      part.first.dtype = type;
      part.rank = 2;
      part.extents = {tile.rows(), count};
      part.strides = {op.bytes() / size, 1};
      core.copy_row(by_axes(tile), part, NamedRow::of(op.table, op.ids, window.row));
    };
    return {core_, name, walk_, type, Shape{blocks_, std::max<index>(2, count)}, extents, load, 1};
  }
  Tensor tile(DType type, index columns) { return core_.alloc("codes", Space::vector, {blocks_, columns}, type); }
  static Tensor part(const Tensor& of, index rows) { return of.slice(0, rows, 0, of.columns()); }
  Tensor now(const Tensor& of) const { return part(of, now_); }

  // f32 of the low or the high halves of bytes; `spare` is of bytes.
  void half(const Tensor& to, const Tensor& bytes, bool high, const Tensor& spare) {
    core_.vscalar(high ? VectorOp::shift_right : VectorOp::bit_and, spare, bytes, std::int32_t{high ? 4 : 15});
    core_.vcast(to, spare);
  }

  // Values, `run` side by side in y, are part `at` of the `parts` that take turns there: [blocks, .., parts, run].
  Ring results(index run) {
    return core_.ring("y", Space::vector, {walk_.tile().columns / run, run}, op_.y.first.dtype,
                      {2, Pipe::vector, Pipe::store});
  }
  void give(Ring& y, const Tensor& values, index run, index parts, index at) {
    core_.vscalar(VectorOp::mul, values, values, op_.scale);
    const index count = values.elements() / run;
    const Tensor slot = y.acquire().slice(0, count, 0, run);
    core_.vcast(slot, values.columns() == run ? values : values.reshape({count, run}));
    y.commit();
    const NdTensor row = op_.y.at(0, window_.row).slice(0, window_.column, window_.columns);
    core_.copy(row.split(0, run).split(0, parts).at(1, at), by_axes(y.wait().slice(0, count, 0, run)));
    y.release();
  }

  Core& core_;
  const BlockTable& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  const index blocks_;  // of a whole tile
  rows::Window window_;
  index now_ = 0;  // blocks of this step

 private:
  static rows::Need need() {
    rows::Need all;
    for (int tile = 0; tile < 20; ++tile) all.spare();  // small fields start at granules, whatever they hold
    return all;
  }
};

class Bytes : public BlockProgram {  // Q8_0
 public:
  Bytes(Core& core, const BlockTable& op)
      : BlockProgram(core, op), d_(field("d", DType::f16, 0, 1)), q_(field("q", DType::i8, 2, 32)), y_(results(32)) {}

 private:
  void unpack() override {
    const Tensor q = q_.wide();
    core_.vbinary(VectorOp::mul, q, q, d_.wide());
    give(y_, q, 32, 1, 0);
  }
  rows::Input d_, q_;
  Ring y_;
};

class SplitF16 : public BlockProgram {  // Q4_0, Q4_1
 public:
  SplitF16(Core& core, const BlockTable& op)
      : BlockProgram(core, op),
        with_min_(op.format == GgmlType::Q4_1),
        d_(field("d", DType::f16, 0, 1)),
        q_(field("q", DType::u8, with_min_ ? 4 : 2, 16)),
        y_(results(16)),
        codes_(tile(DType::u8, 16)),
        values_(tile(DType::f32, 16)) {
    if (with_min_) m_.emplace(field("m", DType::f16, 2, 1));
  }

 private:
  void unpack() override {
    const Tensor bytes = q_.next(), d = d_.wide(), values = now(values_);
    const Tensor m = with_min_ ? m_->wide() : Tensor();
    for (bool high : {false, true}) {
      half(values, bytes, high, now(codes_));
      if (!with_min_) core_.vscalar(VectorOp::sub, values, values, 8.0f);
      core_.vbinary(VectorOp::mul, values, values, d);
      if (with_min_) core_.vbinary(VectorOp::add, values, values, m);
      give(y_, values, 16, 2, high);
    }
    q_.done();
  }
  const bool with_min_;
  rows::Input d_, q_;
  std::optional<rows::Input> m_;
  Ring y_;
  const Tensor codes_, values_;
};

// Scales of eight groups in 12 bytes: six bits each, the upper two of the last four in the first eight bytes.
class Q4K : public BlockProgram {
 public:
  Q4K(Core& core, const BlockTable& op)
      : BlockProgram(core, op),
        d_(field("d", DType::f16, 0, 1)),
        dmin_(field("dmin", DType::f16, 2, 1)),
        scales_(field("scales", DType::u8, 4, 4)),
        mins_(field("mins", DType::u8, 8, 4)),
        rest_(field("upper groups", DType::u8, 12, 4)),
        q_(field("q", DType::u8, 16, 128)),
        y_(results(32)),
        codes_(tile(DType::u8, 128)),
        values_(tile(DType::f32, 128)),
        low_(tile(DType::u8, 4)),
        high_(tile(DType::u8, 4)),
        six_scales_(tile(DType::f32, beside + 4)),
        six_mins_(tile(DType::f32, beside + 4)),
        turn_{tile(DType::f32, 4), tile(DType::f32, 4)},
        which_(core.alloc("groups", Space::vector, {1, 4}, DType::i32)),
        pair_(core.alloc("pairs of groups", Space::vector, {1, 4}, DType::i32)) {
    core.vfill(six_scales_, 0);
    core.vfill(six_mins_, 0);
  }

 private:
  static constexpr index beside = 32;  // the last four groups start at a granule

  void unpack() override {
    const Tensor a = scales_.next(), b = mins_.next(), c = rest_.next();
    groups(six_scales_, d_.wide(), a, c, false);
    groups(six_mins_, dmin_.wide(), b, c, true);
    for (rows::Input* each : {&scales_, &mins_, &rest_}) each->done();
    const Tensor bytes = q_.next(), values = now(values_), scales = now(turn_[0]), mins = now(turn_[1]);
    for (bool high : {false, true}) {
      pick(high);
      core_.vshuffle(scales, now(six_scales_), which_);
      core_.vshuffle(mins, now(six_mins_), which_);
      half(values, bytes, high, now(codes_));
      core_.vgrouped(VectorOp::mul, values, values, scales, 32);
      core_.vgrouped(VectorOp::sub, values, values, mins, 32);
      give(y_, values, 32, 2, high);
    }
    q_.done();
  }

  // d times 63 of the first four, and of the last four a half of c with the upper two bits of the first.
  void groups(const Tensor& six, const Tensor& d, const Tensor& first, const Tensor& c, bool upper) {
    const Tensor low = now(low_), high = now(high_);
    const auto at = [&](index column) { return now(six).slice(0, now_, column, 4); };
    core_.vscalar(VectorOp::bit_and, low, first, 63);
    core_.vcast(at(0), low);
    core_.vscalar(upper ? VectorOp::shift_right : VectorOp::bit_and, low, c, std::int32_t{upper ? 4 : 15});
    core_.vscalar(VectorOp::shift_right, high, first, 6);
    core_.vscalar(VectorOp::shift_left, high, high, 4);
    core_.vbinary(VectorOp::bit_or, low, low, high);
    core_.vcast(at(beside), low);
    core_.vbinary(VectorOp::mul, at(0), at(0), d);
    core_.vbinary(VectorOp::mul, at(beside), at(beside), d);
  }

  // Groups 0 2 4 6 of low halves, 1 3 5 7 of high ones: columns 0 2 and 0 2 behind `beside`.
  void pick(bool high) {
    core_.viota(pair_, {});
    core_.vscalar(VectorOp::shift_right, pair_, pair_, 1);
    core_.vscalar(VectorOp::mul, pair_, pair_, static_cast<std::int32_t>(beside - 4));
    core_.viota(which_, {.first = high ? 1.0 : 0.0, .column_step = 2});
    core_.vbinary(VectorOp::add, which_, which_, pair_);
  }

  rows::Input d_, dmin_, scales_, mins_, rest_, q_;
  Ring y_;
  const Tensor codes_, values_, low_, high_, six_scales_, six_mins_;
  const std::array<Tensor, 2> turn_;
  const Tensor which_, pair_;
};

class Q6K : public BlockProgram {
 public:
  Q6K(Core& core, const BlockTable& op)
      : BlockProgram(core, op),
        low_(field("low", DType::u8, 0, 128)),
        high_(field("high", DType::u8, 128, 64)),
        scales_(field("scales", DType::i8, 192, 16)),
        d_(field("d", DType::f16, 208, 1)),
        y_(results(32)),
        codes_(tile(DType::u8, 128)),
        lows_(tile(DType::f32, 128)),
        bits_(tile(DType::u8, 64)),
        highs_(tile(DType::f32, 64)),
        values_(tile(DType::f32, 64)),
        turn_(tile(DType::f32, 4)),
        which_(core.alloc("groups", Space::vector, {1, 4}, DType::i32)),
        step_(core.alloc("halves", Space::vector, {1, 4}, DType::i32)),
        place_(core.alloc("places", Space::vector, {1, 64}, DType::i32)),
        run_(core.alloc("runs", Space::vector, {1, 64}, DType::i32)) {}

 private:
  // Quarter by quarter: 32 elements of both halves of a block.
  void unpack() override {
    const Tensor low = low_.next(), high = high_.next(), values = now(values_), highs = now(highs_);
    const Tensor scales = scales_.wide();
    core_.vbinary(VectorOp::mul, scales, scales, d_.wide());
    for (std::int32_t quarter = 0; quarter < 4; ++quarter) {
      if (quarter % 2 == 0) half(now(lows_), low, quarter == 2, now(codes_));
      two_groups_of_four(quarter);
      core_.vshuffle(values, now(lows_), place_);
      core_.vscalar(VectorOp::shift_right, now(bits_), high, 2 * quarter);
      core_.vscalar(VectorOp::bit_and, now(bits_), now(bits_), 3);
      core_.vcast(highs, now(bits_));
      core_.vscalar(VectorOp::mul, highs, highs, 16.0f);
      core_.vbinary(VectorOp::add, values, values, highs);
      core_.vscalar(VectorOp::sub, values, values, 32.0f);
      core_.vshuffle(now(turn_), scales, which_);
      core_.vgrouped(VectorOp::mul, values, values, now(turn_), 16);
      give(y_, values, 32, 4, quarter);
    }
    for (rows::Input* each : {&low_, &high_, &scales_}) each->done();
  }

  // The scales of a quarter, columns 2 q + (0 1 8 9), and its bytes: 32 (q mod 2) + (0 .. 31, 64 .. 95).
  void two_groups_of_four(std::int32_t quarter) {
    const auto places = [&](const Tensor& to, const Tensor& upper, index first, std::int32_t shift,
                            std::int32_t further) {
      core_.viota(upper, {});
      core_.vscalar(VectorOp::shift_right, upper, upper, shift);
      core_.vscalar(VectorOp::mul, upper, upper, further);
      core_.viota(to, {.first = static_cast<double>(first)});
      core_.vbinary(VectorOp::add, to, to, upper);
    };
    places(which_, step_, 2 * quarter, 1, 6);
    places(place_, run_, 32 * (quarter % 2), 5, 32);
  }

  rows::Input low_, high_, scales_, d_;
  Ring y_;
  const Tensor codes_, lows_, bits_, highs_, values_, turn_, which_, step_, place_, run_;
};

}  // namespace

void embed_blocks(Core& core, const BlockTable& op) {
  switch (op.format) {
    case GgmlType::Q8_0: return Bytes(core, op).run();
    case GgmlType::Q4_0:
    case GgmlType::Q4_1: return SplitF16(core, op).run();
    case GgmlType::Q4_K: return Q4K(core, op).run();
    default: return Q6K(core, op).run();
  }
}

}  // namespace inlay::npu
