// A random tile program: verbs of every kind on random shapes, types and options, each on its own tiles, with
// a barrier between any two. Its data and its course follow from the seed alone.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

inline constexpr std::size_t random_steps = 24;

class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : seed_(seed) {
    std::mt19937 random(seed);
    const auto fill = [&]<class T>(std::vector<T>& data, float low, float high) {
      for (T& value : data) value = static_cast<T>(low + (high - low) * static_cast<float>(random()) / 4294967296.0f);
    };
    fill(f32_, -4, 4);
    fill(f16_, -4, 4);
    fill(bf16_, -4, 4);
    fill(i8_, -128, 127);
    fill(i32_, -1000, 1000);
    fill(columns_, 0, side - 1);
    fill(blocks_, 0, 15.99f);
  }

  void place(GlobalMemory& machine) {
    const Shape shape{side, side};
    inputs_ = {machine.global("f32", std::span(std::as_const(f32_)), shape),
               machine.global("f16", std::span(std::as_const(f16_)), shape),
               machine.global("bf16", std::span(std::as_const(bf16_)), shape),
               machine.global("i32", std::span(std::as_const(i32_)), shape),
               machine.global("i8", std::span(std::as_const(i8_)), shape)};
    nibbles_ = machine.add("i4", reinterpret_cast<std::byte*>(i8_.data()), i8_.size(), DType::i4, shape, Use::in);
    order_ = machine.global("columns", std::span(std::as_const(columns_)), {1, side});
    table_ = machine.global("table", std::span(std::as_const(blocks_)), {1, 16});
    result_.assign(static_cast<std::size_t>(machine.cores() * length * side * side * 4), std::byte{0});
    const auto add = [&](std::uint32_t core, index step) {
      const std::size_t at = (core * length + static_cast<std::size_t>(step)) * side * side * 4;
      return std::pair(result_.data() + at, static_cast<std::uint64_t>(side * side * 4));
    };
    results_.clear();
    for (std::uint32_t core = 0; core < machine.cores(); ++core)
      for (index step = 0; step < length; ++step) {
        const auto [data, bytes] = add(core, step);
        std::array<Tensor, 5> views;
        for (std::size_t type = 0; type < types.size(); ++type)
          views[type] = machine.add("result", data, bytes, types[type], shape, Use::in_out);
        results_.push_back(views);
      }
  }

  void run(Core& m) {
    std::mt19937 random(seed_ * 16 + m.block_idx() + 1);
    for (index step = 0; step < length; ++step) {
      const std::size_t kind = random() % random_steps;
      ++executed_[kind];
      place_ = &results_[static_cast<std::size_t>(m.block_idx() * length + step)];
      one(m, kind, random);
      m.barrier_all();
      for (const Tensor& tensor : held_) m.release(tensor);
      held_.clear();
    }
  }

  const std::vector<std::byte>& memory() const { return result_; }
  std::uint64_t executed(std::size_t step) const { return executed_[step]; }

 private:
  static constexpr index side = 96, length = 6;
  static constexpr std::array<DType, 5> types = {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i8};

  Tensor make(Core& m, Space space, Shape shape, DType dtype, Layout layout = Layout::nd) {
    held_.push_back(m.alloc("tile", space, shape, dtype, layout));
    return held_.back();
  }
  // A vector tile of random data.
  Tensor data(Core& m, Shape shape, std::size_t type, std::mt19937& random) {
    const Tensor tile = make(m, Space::vector, shape, types[type]);
    m.copy(tile, at(inputs_[type], shape, random));
    m.barrier_all();
    return tile;
  }
  static Tensor at(const Tensor& from, Shape shape, std::mt19937& random) {
    const auto row = static_cast<index>(random()) % (side - shape.rows + 1);
    const auto column = static_cast<index>(random()) % (side - shape.columns + 1);
    return from.slice(row, shape.rows, bits(from.dtype) == 4 ? column / 2 * 2 : column, shape.columns);
  }
  void keep(Core& m, const Tensor& tile) {
    const auto type = static_cast<std::size_t>(std::find(types.begin(), types.end(), tile.dtype) - types.begin());
    m.barrier_all();
    m.copy((*place_)[type].slice(0, tile.rows(), 0, tile.columns()), tile);
  }

  void product(Core& m, DType in, DType out, std::mt19937& random) {
    const auto up_to = [&](index limit) { return 1 + static_cast<index>(random()) % limit; };
    const Shape shape{up_to(32), up_to(64)};
    const Tensor& source = in == DType::i4 ? nibbles_ : in == DType::i8 ? inputs_[4] : inputs_[1];
    const Tensor acc = make(m, Space::accumulator, shape, out);
    const int rounds = 1 + static_cast<int>(random() % 2);
    for (int round = 0; round < rounds; ++round) {
      const index k = up_to(side);
      const bool transpose = random() % 2 == 0;
      const Shape b_shape = transpose ? Shape{shape.columns, k} : Shape{k, shape.columns};
      const Tensor a = make(m, Space::staging, {shape.rows, k}, in, Layout::nz);
      const Tensor b = make(m, Space::staging, b_shape, in, Layout::nz);
      m.nd2nz(a, at(source, a.shape, random));
      m.nd2nz(b, at(source, b_shape, random));
      m.barrier_all();
      const Tensor left = make(m, Space::left, a.shape, in, Layout::nz);
      const Tensor right = make(m, Space::right, {k, shape.columns}, in, Layout::nz);
      m.load_a(left, a);
      m.load_b(right, b, transpose);
      m.barrier_all();
      m.mma(acc, left, right, round == 0);
      m.barrier_all();
    }
    const std::vector<DrainForm>& forms = m.device().matrix.drain;
    std::size_t which = random() % forms.size();
    while (forms[which].from != out || forms[which].to == DType::u8) which = (which + 1) % forms.size();
    const DrainForm& form = forms[which];
    const DType to = form.to;
    DrainOptions options;
    options.relu = random() % 2 == 0;
    if (form.scales != DrainScales::none && random() % 2 == 0) options.scale = 0.37f;
    if (to == DType::i8 && form.scales != DrainScales::none) options.zero = static_cast<int>(random() % 9) - 4;
    const auto row = [&] {
      const Tensor tile = make(m, Space::staging, {1, shape.columns}, DType::f32);
      m.copy(tile, at(inputs_[0], tile.shape, random));
      m.barrier_all();
      return tile;
    };
    if (form.scales == DrainScales::columns && random() % 2 == 0) options.scale_row = row();
    if (form.bias && random() % 2 == 0) options.bias_row = row();
    if (m.device().path(Space::accumulator, Space::vector) == nullptr) {
      const auto type = static_cast<std::size_t>(std::find(types.begin(), types.end(), to) - types.begin());
      return m.drain((*place_)[type].slice(0, shape.rows, 0, shape.columns), acc, options);
    }
    const Tensor tile = make(m, Space::vector, shape, to);
    m.drain(tile, acc, options);
    keep(m, tile);
  }

  void one(Core& m, std::size_t kind, std::mt19937& random) {
    const auto up_to = [&](index limit) { return 1 + static_cast<index>(random()) % limit; };
    const auto pick = [&](std::initializer_list<VectorOp> ops) { return ops.begin()[random() % ops.size()]; };
    const Shape shape{up_to(40), 2 + up_to(side - 2)};
    const Shape shapes[] = {shape, {1, shape.columns}, {shape.rows, 1}};
    const std::size_t type = random() % 4;  // f32 f16 bf16 i32
    const auto made = [&](Shape extents, std::size_t of) { return make(m, Space::vector, extents, types[of]); };
    switch (kind) {
      case 0: return product(m, DType::f16, DType::f32, random);
      case 1: return product(m, DType::i8, DType::i32, random);
      case 2: {
        const Tensor dst = made(shape, type);
        const VectorOp op =
            pick({VectorOp::add, VectorOp::sub, VectorOp::mul, VectorOp::div, VectorOp::max, VectorOp::min});
        m.vbinary(op, dst, data(m, shape, type, random), data(m, shapes[random() % 3], type, random));
        return keep(m, dst);
      }
      case 3: {
        const Tensor dst = made(shape, type);
        m.vscalar(pick({VectorOp::add, VectorOp::mul, VectorOp::max}), dst, data(m, shape, type, random), 1.7f);
        return keep(m, dst);
      }
      case 4: {
        const Tensor dst = made(shape, type % 3);
        m.vunary(pick({VectorOp::exp, VectorOp::rsqrt, VectorOp::recip, VectorOp::log, VectorOp::sqrt, VectorOp::tanh,
                       VectorOp::erf, VectorOp::abs}),
                 dst, data(m, shape, type % 3, random));
        return keep(m, dst);
      }
      case 5: {
        const Tensor dst = made({shape.rows, 1}, type % 3);
        m.vreduce(pick({VectorOp::reduce_sum, VectorOp::reduce_max, VectorOp::reduce_min}), dst,
                  data(m, shape, type % 3, random));
        return keep(m, dst);
      }
      case 6: {
        const Tensor dst = made(shape, type);
        m.vbroadcast_row(dst, data(m, shapes[1 + random() % 2], type, random));
        return keep(m, dst);
      }
      case 7: {
        const Tensor dst = made(shape, random() % 5);
        const Round rounds[] = {Round::nearest, Round::floor, Round::ceil, Round::zero};
        m.vcast(dst, data(m, shape, random() % 5, random), rounds[random() % 4]);
        return keep(m, dst);
      }
      case 8: {
        const Tensor dst = made(shape, type), mask = data(m, shape, 4, random);
        m.vselect(dst, mask, data(m, shape, type, random), data(m, shapes[random() % 3], type, random));
        return keep(m, dst);
      }
      case 9: {
        const Shape even{shape.rows, shape.columns / 2 * 2};
        const Tensor dst = made(even, 4), packed = make(m, Space::vector, even, DType::i4);
        m.copy(packed, at(nibbles_, even, random));
        m.barrier_all();
        m.unpack4(dst, packed);
        return keep(m, dst);
      }
      case 10: {
        const Tensor dst = made(shape, type), order = made({1, shape.columns}, 3);
        m.copy(order, order_.slice(0, 1, 0, shape.columns));
        m.barrier_all();
        m.vshuffle(dst, data(m, {shape.rows, side}, type, random), order);
        return keep(m, dst);
      }
      case 11: {
        const index block_rows = 6;  // sixteen of them in the pool
        const Tensor dst = made(shape, type);
        const index first = static_cast<index>(random()) % (side - shape.rows + 1);
        const auto column = static_cast<index>(random()) % (side - shape.columns + 1);
        m.gather_blocks(dst, inputs_[type].slice(0, side, column, shape.columns), table_, first, block_rows);
        return keep(m, dst);
      }
      case 12: {
        const Tensor dst = made(shape, 3);
        const VectorOp op =
            pick({VectorOp::bit_and, VectorOp::bit_or, VectorOp::bit_xor, VectorOp::shift_left, VectorOp::shift_right});
        if (random() % 2 == 0)
          m.vscalar(op, dst, data(m, shape, 3, random), static_cast<std::int32_t>(random() % 40));
        else
          m.vbinary(op, dst, data(m, shape, 3, random), data(m, shapes[random() % 3], 3, random));
        return keep(m, dst);
      }
      case 13: {
        const Tensor mask = made(shape, 4);
        const auto how = static_cast<Compare>(random() % 6);
        if (random() % 2 == 0)
          m.vcompare(how, mask, data(m, shape, type, random), 0.5f);
        else
          m.vcompare(how, mask, data(m, shape, type, random), data(m, shapes[random() % 3], type, random));
        return keep(m, mask);
      }
      case 14: {
        const Tensor dst = made(shape, type);
        m.viota(dst, {static_cast<double>(random() % 100), 0.5, static_cast<double>(random() % 7) - 3});
        return keep(m, dst);
      }
      case 15: {
        const Tensor dst = made({1, shape.columns}, type);
        m.vreduce_columns(pick({VectorOp::column_sum, VectorOp::column_max}), dst, data(m, shape, type, random));
        return keep(m, dst);
      }
      case 16: {
        const index k =
            m.device().vector.cost[static_cast<std::size_t>(VectorOp::sort)].available ? up_to(shape.columns) : 1;
        const Tensor values = made({shape.rows, k}, type % 3), columns = made({shape.rows, k}, 3);
        const Tensor from = data(m, shape, type % 3, random);
        if (k == 1)
          m.vargmax(values, columns, from);
        else
          m.vtopk(values, columns, from);
        return keep(m, random() % 2 == 0 ? values : columns);
      }
      case 17: {
        const Tensor dst = made(shape, type), order = made({1, shape.columns}, 3);
        m.copy(order, order_.slice(0, 1, 0, shape.columns));
        m.barrier_all();
        m.vgather(dst, data(m, {random() % 2 == 0 ? 1 : shape.rows, side}, type, random), order);
        return keep(m, dst);
      }
      case 18: {
        const index group = up_to(40);
        const Tensor dst = made(shape, type);
        const Shape groups{random() % 2 == 0 ? 1 : shape.rows, (shape.columns + group - 1) / group};
        m.vgrouped(pick({VectorOp::mul, VectorOp::add, VectorOp::sub}), dst, data(m, shape, 4, random),
                   data(m, groups, type % 3, random), group);
        return keep(m, dst);
      }
      case 19: {
        const Shape even{shape.rows, shape.columns / 2 * 2};
        const Tensor packed = make(m, Space::vector, even, random() % 2 == 0 ? DType::i4 : DType::u4);
        const Tensor dst = made(even, 4);
        m.vcast(packed, data(m, even, random() % 5, random));
        m.barrier_all();
        m.vcast(dst, packed);
        return keep(m, dst);
      }
      case 20: {
        const std::size_t of = 1 + random() % 4;
        const Tensor from = data(m, shape, of, random), dst = made({shape.columns, shape.rows}, of);
        m.vtranspose(dst, from);
        if (types[of] != DType::f16) return keep(m, dst);
        const Tensor packed = make(m, Space::vector, shape, DType::f16, Layout::nz), again = made(shape, of);
        m.vpack_nz(packed, from);
        m.barrier_all();
        m.vunpack_nz(again, packed);
        m.barrier_all();
        m.vtranspose(dst, again);
        return keep(m, dst);
      }
      case 22: {  // rows in another order, by axes
        const index inner = up_to(6), rows = inner * up_to(6);
        const Tensor dst = made({rows, shape.columns}, type);
        const Tensor from = at(inputs_[type], {rows, shape.columns}, random);
        m.copy(by_axes(dst).split(0, rows / inner), by_axes(from).split(0, inner).permuted({1, 0, 2}));
        return keep(m, dst);
      }
      case 21: return product(m, m.device().rate(DType::i4, DType::i32) ? DType::i4 : DType::i8, DType::i32, random);
      default: {
        const Tensor addend = data(m, shape, type, random);
        for (int twice = 0; twice < 2; ++twice) {
          m.atomic_add((*place_)[type].slice(0, shape.rows, 0, shape.columns), addend);
          m.barrier_all();
        }
      }
    }
  }

  std::uint32_t seed_;
  std::vector<float> f32_ = std::vector<float>(side * side);
  std::vector<f16> f16_ = std::vector<f16>(side * side);
  std::vector<bf16> bf16_ = std::vector<bf16>(side * side);
  std::vector<std::int32_t> i32_ = std::vector<std::int32_t>(side * side);
  std::vector<std::int8_t> i8_ = std::vector<std::int8_t>(side * side);
  std::vector<std::int32_t> columns_ = std::vector<std::int32_t>(side), blocks_ = std::vector<std::int32_t>(16);
  std::array<Tensor, 5> inputs_;
  Tensor nibbles_, order_, table_;
  std::vector<std::byte> result_;
  std::vector<std::array<Tensor, 5>> results_;
  const std::array<Tensor, 5>* place_ = nullptr;
  std::vector<Tensor> held_;
  std::array<std::uint64_t, random_steps> executed_{};
};

}  // namespace inlay::npu
