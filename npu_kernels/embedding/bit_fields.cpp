// GGUF blocks by description: a code, or a group's scale, is a number of a few bits in some byte of the block.
//
//   number e = (block[place(e)] >> shift(e) & mask)  +  the same of its high bits, further up
//
// Places and shifts are sums of bits of e, so that the vector unit makes the tables of a format once, at the start:
//
//   block, a row each   --shuffle by places-->  bytes of all e  --shift by a row, mask-->  codes  --cast-->  f32
//   --minus zero, or a look-up of values-->  times scales by groups, less minima by groups-->  y
#include <optional>

#include "npu_kernels/embedding/block_program.hpp"

namespace inlay::npu {

namespace {

// Bits from, from + 1, .. of a number, moved to bits to, to + 1, ...
struct MovedBits {
  int from = 0, count = 0, to = 0;
};
struct BitSum {
  int base = 0;
  MovedBits first = {}, second = {};
};
struct BitField {
  BitSum place, shift;
  int mask = 0;  // 0: there is none
};
struct Numbers {
  index count = 0;
  BitField low, high = {};
  int high_shift = 0;
  float zero = 0;
};

// Where d and dmin lie; they are columns of f16. Without `scales` and `minima` they count as they are, an `m` added.
struct BlockDescription {
  Numbers codes;
  index d = 0, dmin = -1;
  Numbers scales = {}, minima = {};
  const std::int8_t* values = nullptr;  // that codes stand for
};

constexpr BitSum nibble_places(int base) { return {base, {0, 4, 0}}; }
constexpr BitSum nibble_shifts = {0, {4, 1, 2}};
// A bit for each of 32 elements.
constexpr BitField fifth_bits(int base) { return {{base, {3, 2, 0}}, {0, {0, 3, 0}}, 1}; }
// Two bits of each element of a half of 128 in 32 bytes; a bit of each run of 32 elements in as many bytes.
constexpr BitField pairs_of_bits(int base) { return {{base, {0, 5, 0}, {7, 1, 5}}, {0, {5, 2, 1}}, 3}; }
constexpr BitField bits_of_runs(int base) { return {{base, {0, 5, 0}}, {0, {5, 3, 0}}, 1}; }

BlockDescription description(GgmlType format) {
  switch (format) {
    case GgmlType::Q5_0: return {.codes = {32, {nibble_places(6), nibble_shifts, 15}, fifth_bits(2), 4, 16}};
    case GgmlType::Q5_1: return {.codes = {32, {nibble_places(8), nibble_shifts, 15}, fifth_bits(4), 4}, .dmin = 2};
    case GgmlType::IQ4_NL: return {.codes = {32, {nibble_places(2), nibble_shifts, 15}}, .values = ggml::iq4_values};
    case GgmlType::MXFP4:
      return {.codes = {32, {nibble_places(1), nibble_shifts, 15}}, .d = -1, .values = ggml::mxfp4_values};
    case GgmlType::Q2_K:
      return {.codes = {256, pairs_of_bits(16)},
              .d = 80,
              .dmin = 82,
              .scales = {16, {{0, {0, 4, 0}}, {}, 15}},
              .minima = {16, {{0, {0, 4, 0}}, {4}, 15}}};
    case GgmlType::Q3_K:
      return {.codes = {256, pairs_of_bits(32), bits_of_runs(0), 2, 4},
              .d = 108,
              .scales = {16, {{96, {0, 3, 0}}, {0, {3, 1, 2}}, 15}, {{104, {0, 2, 0}}, {0, {2, 2, 1}}, 3}, 4, 32}};
    case GgmlType::Q5_K:
      return {.codes = {256, {{48, {0, 5, 0}, {6, 2, 5}}, {0, {5, 1, 2}}, 15}, bits_of_runs(16), 4},
              .dmin = 2,
              .scales = {8, {{4, {0, 2, 0}, {2, 1, 3}}, {}, 15}, {{4, {0, 2, 0}}, {4, {2, 1, 1}}, 3}, 4},
              .minima = {8, {{8, {0, 2, 0}, {2, 1, 2}}, {0, {2, 1, 2}}, 15}, {{8, {0, 2, 0}}, {4, {2, 1, 1}}, 3}, 4}};
    default:  // IQ4_XS
      return {.codes = {256, {{8, {0, 4, 0}, {5, 3, 4}}, {0, {4, 1, 2}}, 15}},
              .scales = {8, {{4, {1, 2, 0}}, {0, {0, 1, 2}}, 15}, {{2, {2, 1, 0}}, {0, {0, 2, 1}}, 3}, 4, 32},
              .values = ggml::iq4_values};
  }
}

class Unpacked {
 public:
  Unpacked(Core& core, const Numbers& numbers, index blocks)
      : core_(core),
        numbers_(numbers),
        low_(core, numbers.low, numbers.count, blocks),
        numbers_f32_(core.alloc("numbers", Space::vector, {blocks, numbers.count}, DType::f32)) {
    if (numbers.high.mask != 0) high_.emplace(core, numbers.high, numbers.count, blocks);
  }

  // f32, less zero, of the blocks that are rows of `bytes`.
  Tensor next(const Tensor& bytes) {
    const Tensor low = low_.of(bytes), numbers = numbers_f32_.row_slice(0, bytes.rows());
    if (high_) {
      const Tensor high = high_->of(bytes);
      core_.vscalar(VectorOp::shift_left, high, high, std::int32_t{numbers_.high_shift});
      core_.vbinary(VectorOp::bit_or, low, low, high);
    }
    core_.vcast(numbers, low);
    if (numbers_.zero != 0) core_.vscalar(VectorOp::sub, numbers, numbers, numbers_.zero);
    return numbers;
  }

 private:
  class Field {
   public:
    Field(Core& core, const BitField& field, index count, index blocks)
        : core_(core),
          mask_(field.mask),
          places_(core.alloc("places", Space::vector, {1, count}, DType::i32)),
          shifts_(core.alloc("shifts", Space::vector, {1, count}, DType::u8)),
          bytes_(core.alloc("bytes", Space::vector, {blocks, count}, DType::u8)) {
      const Tensor sum = core.alloc("sum", Space::vector, {1, count}, DType::i32);
      const Tensor part = core.alloc("part", Space::vector, {1, count}, DType::i32);
      form(field.shift, sum, part);
      core.vcast(shifts_, sum);
      form(field.place, places_, part);
    }

    Tensor of(const Tensor& bytes) const {
      const Tensor all = bytes_.row_slice(0, bytes.rows());
      core_.vshuffle(all, bytes, places_);
      core_.vbinary(VectorOp::shift_right, all, all, shifts_);
      core_.vscalar(VectorOp::bit_and, all, all, std::int32_t{mask_});
      return all;
    }

   private:
    void form(const BitSum& bits, const Tensor& sum, const Tensor& part) const {
      core_.viota(sum, {.first = static_cast<double>(bits.base), .column_step = 0});
      for (const MovedBits& moved : {bits.first, bits.second}) {
        if (moved.count == 0) continue;
        core_.viota(part, {});
        core_.vscalar(VectorOp::shift_right, part, part, std::int32_t{moved.from});
        core_.vscalar(VectorOp::bit_and, part, part, std::int32_t{(1 << moved.count) - 1});
        core_.vscalar(VectorOp::shift_left, part, part, std::int32_t{moved.to});
        core_.vbinary(VectorOp::add, sum, sum, part);
      }
    }

    Core& core_;
    const int mask_;
    const Tensor places_, shifts_, bytes_;
  };

  Core& core_;
  const Numbers numbers_;
  const Field low_;
  std::optional<Field> high_;
  const Tensor numbers_f32_;
};

class BitFields : public BlockProgram {
 public:
  BitFields(Core& core, const BlockTable& op)
      : BlockProgram(core, op),
        how_(description(op.format)),
        block_(field("block", DType::u8, 0, op.bytes())),
        codes_(core, how_.codes, blocks_),
        y_(results(op.block())) {
    if (how_.d >= 0) d_.emplace(field("d", DType::f16, how_.d, 1));
    if (how_.dmin >= 0) dmin_.emplace(field("dmin", DType::f16, how_.dmin, 1));
    if (how_.scales.count > 0) scales_.emplace(core, how_.scales, blocks_);
    if (how_.minima.count > 0) minima_.emplace(core, how_.minima, blocks_);
    if (!d_) exponents_ = {tile(DType::i32, 2), tile(DType::i32, 2)};
    if (how_.values == nullptr) return;
    looked_up_ = tile(DType::f32, op.block()), codes_i32_ = tile(DType::i32, op.block());
    values_ = core.alloc("values", Space::vector, {1, 16}, DType::f32);
    fill_values(core.alloc("step", Space::vector, {1, 16}, DType::f32));
  }

 private:
  // Each value is the sum of the steps up to it: a step counts 1 from its place on, min(max(place - v + 1, 0), 1).
  void fill_values(const Tensor& step) const {
    core_.vfill(values_, how_.values[0]);
    for (index v = 1; v < 16; ++v) {
      core_.viota(step, {.first = static_cast<double>(1 - v)});
      core_.vscalar(VectorOp::max, step, step, 0.0f);
      core_.vscalar(VectorOp::min, step, step, 1.0f);
      core_.vscalar(VectorOp::mul, step, step, static_cast<float>(how_.values[v] - how_.values[v - 1]));
      core_.vbinary(VectorOp::add, values_, values_, step);
    }
  }

  void unpack() override {
    const Tensor bytes = block_.next();
    Tensor values = codes_.next(bytes);
    if (how_.values != nullptr) {
      core_.vcast(now(codes_i32_), values);
      values = now(looked_up_);
      core_.vgather(values, values_, now(codes_i32_));
    }
    if (d_)
      times(values, scales_, *d_, VectorOp::mul, bytes);
    else
      times_power(values, bytes);
    // m is added, and dmin's products are taken off.
    if (dmin_) times(values, minima_, *dmin_, minima_ ? VectorOp::sub : VectorOp::add, bytes);
    block_.done();
    give(y_, values, op_.block(), 1, 0);
  }

  // `values` and d, or d's products with the numbers of their groups.
  void times(const Tensor& values, std::optional<Unpacked>& of_groups, rows::Input& d, VectorOp op,
             const Tensor& bytes) {
    if (of_groups) {
      const Tensor scales = of_groups->next(bytes);
      core_.vbinary(VectorOp::mul, scales, scales, d.wide());
      core_.vgrouped(op, values, values, scales, op_.block() / scales.columns());
    } else {
      core_.vbinary(op, values, values, d.wide());
    }
  }

  // Times 2^(e - 128), e the block's first byte: by 2^(e / 2 - 64) and by 2^(e - e / 2 - 64), which are normal f32.
  void times_power(const Tensor& values, const Tensor& bytes) {
    const auto one = [&](const Tensor& of) { return of.slice(0, now_, 0, 1); };
    const Tensor half = one(exponents_[0]), rest = one(exponents_[1]);
    core_.vcast(rest, bytes.slice(0, now_, 0, 1));
    core_.vscalar(VectorOp::shift_right, half, rest, std::int32_t{1});
    core_.vbinary(VectorOp::sub, rest, rest, half);
    for (Tensor exponent : {half, rest}) {
      core_.vscalar(VectorOp::add, exponent, exponent, std::int32_t{127 - 64});
      core_.vscalar(VectorOp::shift_left, exponent, exponent, std::int32_t{23});
      exponent.dtype = DType::f32;
      core_.vbinary(VectorOp::mul, values, values, exponent);
    }
  }

  const BlockDescription how_;
  rows::Input block_;
  Unpacked codes_;
  Ring y_;
  std::optional<rows::Input> d_, dmin_;
  std::optional<Unpacked> scales_, minima_;
  std::array<Tensor, 2> exponents_{};
  Tensor looked_up_{}, codes_i32_{}, values_{};
};

}  // namespace

void embed_bit_fields(Core& core, const BlockTable& op) { BitFields(core, op).run(); }

}  // namespace inlay::npu
