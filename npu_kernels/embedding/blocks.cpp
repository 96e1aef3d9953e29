#include "npu_kernels/embedding/blocks.hpp"

#include <optional>

#include "npu_kernels/embedding/block_program.hpp"

namespace inlay::npu {

namespace {

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
    case GgmlType::Q6_K: return Q6K(core, op).run();
    default: return embed_bit_fields(core, op);
  }
}

}  // namespace inlay::npu
