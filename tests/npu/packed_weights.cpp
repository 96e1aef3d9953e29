// Weights that are packed once: the bits of the calls that lay them out, read from the blocks and from nowhere else,
// for as long as nobody forgets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include <inlay/npu.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "tests/support/cases.hpp"
#include "tests/support/growth.hpp"
#include "tests/support/tensor.hpp"

namespace inlay::test {
namespace {

Npu npu_of(std::string_view device, NpuMode mode = NpuMode::functional) {
  NpuOptions options{.device = std::string(device), .mode = mode, .cores = 2};
  auto npu = Npu::make(options);
  options.cores = 1;
  if (!npu) npu = Npu::make(options);  // it has one
  EXPECT_TRUE(npu.has_value());
  return std::move(*npu);
}

// Memory at a multiple of 64, poisoned.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : all_(bytes + workspace_alignment, std::byte{0xa5}), bytes_(bytes) {}
  std::span<std::byte> get() {
    void* first = all_.data();
    std::size_t room = all_.size();
    return {static_cast<std::byte*>(std::align(workspace_alignment, bytes_, first, room)), bytes_};
  }
  bool untouched() const {
    return std::all_of(all_.begin(), all_.end(), [](std::byte b) { return b == std::byte{0xa5}; });
  }

 private:
  std::vector<std::byte> all_;
  std::size_t bytes_;
};

template <class Op> Status run_in_scratch(const Npu& npu, const Op& op) {
  Memory memory(workspace_bytes(npu, op));
  return run(npu, op, memory.get());
}

// A layer: n channels of k inputs, in one panel or several, the last one cut short.
struct Layer {
  index m, n, k;
};
constexpr Layer layers[] = {{1, 40, 70}, {37, 100, 129}, {5, 16, 32}, {130, 33, 256}};

struct Int8Case {
  Tensor<2> x, w, y;
  Tensor<3> weight;
  Tensor<1> sums, scale, x_scale, zeros;

  Int8Case(Layer layer, DType x_type, Rng& rng)
      : x(x_type, {layer.m, layer.k}),
        w(DType::i8, {layer.n, layer.k}),
        y(DType::f32, {layer.m, layer.n}),
        weight(DType::i8, linear_int8::packed_extents(layer.n, layer.k)),
        sums(DType::i32, {layer.n}),
        scale(DType::f32, {layer.n}),
        x_scale(DType::f32, {1}),
        zeros(DType::i8, {layer.n}) {
    if (x_type == DType::i8)
      x.integers(rng, -128, 127);
    else
      x.uniform(rng, -2, 2);
    w.integers(rng, -128, 127);
    zeros.integers(rng, -128, 127);
    scale.uniform(rng, 0.01, 0.02);
    x_scale.fill(0.01);
    EXPECT_TRUE(pack_linear_int8(w, weight, sums).ok());
    y.poison();
  }
  LinearInt8<Host> op() {
    return {.x = x,
            .x_scale = x_scale,
            .weight = weight,
            .weight_sum = sums,
            .weight_scale = scale,
            .weight_zero = zeros,
            .y = y};
  }
};

struct FloatCase {
  Tensor<2> x, w, y;
  Tensor<3> weight;
  bool rows;

  FloatCase(Layer layer, DType x_type, DType w_type, bool as_rows, Rng& rng)
      : x(x_type, {layer.m, layer.k}),
        w(w_type, {layer.n, layer.k}),
        y(DType::f32, {layer.m, layer.n}),
        weight(w_type, linear_packed_extents(layer.n, layer.k, w_type)),
        rows(as_rows) {
    x.uniform(rng, -2, 2);
    w.uniform(rng, -2, 2);
    EXPECT_TRUE(pack_linear(serial(), w, weight).ok());
    y.poison();
  }
  Linear<Host> op() {
    Linear<Host> op{.x = x, .y = y};
    if (rows)
      op.weight_rows = w;
    else
      op.weight = weight;
    return op;
  }
};

// Packed, the weight's elements gone: y is as before. False: this program lays nothing out.
template <class Case, class Poison> bool same_from_blocks(const Npu& npu, Case given, Poison&& poison) {
  Case unpacked = given, packed = given;
  EXPECT_TRUE(run_in_scratch(npu, unpacked.op()).ok());
  const std::size_t bytes = packed_bytes(npu, packed.op());
  if (bytes == 0) return false;
  Memory memory(bytes);
  const Status status = pack(npu, packed.op(), memory.get());
  EXPECT_TRUE(status.ok()) << status.message();
  poison(packed);
  for (int time = 0; time < 2; ++time) {  // the program runs, and plays again
    packed.y.poison();
    const Status ran = run_in_scratch(npu, packed.op());
    EXPECT_TRUE(ran.ok()) << ran.message();
    EXPECT_TRUE(packed.y.same_bytes(unpacked.y));
  }
  EXPECT_EQ(forget(npu, memory.get()), 1u);
  return true;
}

TEST(packed_weights, give_the_bits_of_the_call_that_lays_them_out) {
  Rng rng(1);
  for (const NpuMode mode : {NpuMode::functional, NpuMode::checked})
    for (const std::string_view device : npu_devices()) {
      const Npu npu = npu_of(device, mode);
      std::size_t packed = 0;
      for (const Layer& layer : layers) {
        SCOPED_TRACE(std::string(device) + ": " + std::to_string(layer.m) + " x " + std::to_string(layer.n) + " x " +
                     std::to_string(layer.k));
        for (const DType x : {DType::i8, DType::f32})
          packed += same_from_blocks(npu, Int8Case(layer, x, rng), [](Int8Case& c) { c.weight.fill(1); });
        for (const DType x : {DType::f32, DType::f16, DType::bf16})
          for (const DType w : {DType::f32, DType::f16, DType::bf16})
            for (const bool rows : {false, true})
              packed += same_from_blocks(npu, FloatCase(layer, x, w, rows, rng), [](FloatCase& c) {
                c.weight.fill(1);
                c.w.fill(1);
              });
      }
      EXPECT_GE(packed, std::size(layers) * 8) << device;  // f32 and bf16 in both forms at least
    }
}

constexpr Layer layer{5, 40, 70};

TEST(packed_weights, are_read_until_they_are_forgotten) {
  const Npu npu = npu_of("ascend-a2-like"), other = npu_of("ascend-a2-like");
  Rng rng(2);
  Int8Case before(layer, DType::i8, rng), after = before;
  ASSERT_TRUE(run_in_scratch(npu, before.op()).ok());
  Memory memory(packed_bytes(npu, after.op())), elsewhere(packed_bytes(npu, after.op()));
  ASSERT_TRUE(pack(npu, after.op(), memory.get()).ok());
  after.w.fill(1);
  ASSERT_TRUE(pack_linear_int8(after.w, after.weight, after.sums).ok());
  Int8Case fresh = after;
  ASSERT_TRUE(run_in_scratch(other, fresh.op()).ok());
  const auto expect_reads = [&](const Npu& on, bool weight) {
    LinearInt8<Host> op = after.op();
    op.weight_sum = weight ? after.sums : before.sums;
    after.y.poison();
    ASSERT_TRUE(run_in_scratch(on, op).ok());
    EXPECT_TRUE(after.y.same_bytes(weight ? fresh.y : before.y));
  };
  expect_reads(npu, false);
  expect_reads(other, true);  // an Npu knows its own
  // Packed again: in other memory, then in its own.
  ASSERT_TRUE(pack(npu, after.op(), elsewhere.get()).ok());
  expect_reads(npu, true);
  EXPECT_EQ(forget(npu, memory.get()), 0u);
  ASSERT_TRUE(pack(npu, after.op(), elsewhere.get()).ok());
  // Another weight at another address is none of it, nor is a view of fewer rows or of other strides.
  Int8Case same_elsewhere = after;
  const double known = estimate(npu, after.op())->cycles;
  EXPECT_GT(estimate(npu, same_elsewhere.op())->cycles, known);
  EXPECT_EQ(forget(npu, elsewhere.get().first(1)), 1u);
  EXPECT_EQ(forget(npu, elsewhere.get()), 0u);
  EXPECT_GT(estimate(npu, after.op())->cycles, known);
  expect_reads(npu, true);
}

TEST(packed_weights, serve_any_number_of_rows_and_any_x_of_the_same_blocks) {
  const Npu npu = npu_of("systolic32");
  Rng rng(3);
  FloatCase many({37, 40, 70}, DType::f32, DType::bf16, false, rng), unpacked = many;
  Memory memory(packed_bytes(npu, many.op()));
  ASSERT_TRUE(pack(npu, many.op(), memory.get()).ok());
  ASSERT_TRUE(run_in_scratch(npu_of("systolic32"), unpacked.op()).ok());
  many.weight.fill(1);
  Linear<Host> one = many.op();
  one.x = one.x.slice(0, 36, 1);
  one.y = one.y.slice(0, 36, 1);
  ASSERT_TRUE(run_in_scratch(npu, one).ok());
  for (index c = 0; c < 40; ++c) EXPECT_EQ(many.y.get(36 * 40 + c), unpacked.y.get(36 * 40 + c));
  // bf16 beside bf16 has blocks of bf16, where the unit takes them: those are others.
  for (const std::string_view device : {"ascend-a2-like", "systolic32"}) {
    const Npu fresh = npu_of(device);
    FloatCase halves(layer, DType::f32, DType::bf16, false, rng), both(layer, DType::bf16, DType::bf16, false, rng);
    Linear<Host> op = both.op();
    Memory blocks(packed_bytes(fresh, op));
    ASSERT_TRUE(pack(fresh, op, blocks.get()).ok());
    op.x = halves.x;
    EXPECT_GT(packed_bytes(fresh, op), 0u);
    halves.weight = both.weight;
    ASSERT_TRUE(run_in_scratch(npu_of(device), halves.op()).ok());
    const View<2> y = halves.y;
    both.y.poison();
    ASSERT_TRUE(run_in_scratch(fresh, op).ok());
    for (index i = 0; i < y.size(); ++i) ASSERT_EQ(both.y.get(i), halves.y.get(i));
  }
}

// The view of the weight is all that counts: whole panels of it, and whole words, whoever packed them.
TEST(packed_weights, of_fewer_channels_and_inputs_are_those_of_the_same_view) {
  const Npu npu = npu_of("ascend-a2-like");
  Rng rng(8);
  Int8Case all({5, 40, 72}, DType::i8, rng), unpacked = all;
  ASSERT_TRUE(run_in_scratch(npu, unpacked.op()).ok());
  LinearInt8<Host> fewer = all.op();
  fewer.x = fewer.x.slice(1, 0, 70);
  fewer.y = fewer.y.slice(1, 0, 35);
  for (ConstView<1>* of_channels : {&fewer.weight_sum, &fewer.weight_scale, &fewer.weight_zero})
    *of_channels = of_channels->slice(0, 0, 35);
  Memory memory(packed_bytes(npu, fewer));
  ASSERT_EQ(packed_bytes(npu, fewer), packed_bytes(npu, all.op()));
  ASSERT_TRUE(pack(npu, fewer, memory.get()).ok());
  all.weight.fill(1);
  ASSERT_TRUE(run_in_scratch(npu, all.op()).ok());
  EXPECT_TRUE(all.y.same_bytes(unpacked.y));
}

TEST(packed_weights, what_cannot_be_packed_is_said_before_anything_is_written) {
  const Npu npu = npu_of("ascend-a2-like");
  Rng rng(4);
  Int8Case c(layer, DType::i8, rng), other(layer, DType::i8, rng);
  const std::size_t bytes = packed_bytes(npu, c.op());
  Memory memory(bytes + 64);
  const auto refused = [&](const auto& op, std::span<std::byte> to, std::string_view why) {
    const Status status = pack(npu, op, to);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
  };
  refused(c.op(), memory.get().first(bytes - 1),
          "memory has " + std::to_string(bytes - 1) + " bytes; it must have at least " + std::to_string(bytes));
  refused(c.op(), {}, "memory has 0 bytes");
  refused(c.op(), memory.get().subspan(1, bytes), "memory begins at an address that is no multiple of 64");
  LinearInt8<Host> wrong = c.op();
  wrong.weight.extents[1] += 1;
  refused(wrong, memory.get(), "weight");
  EXPECT_TRUE(memory.untouched());
  EXPECT_EQ(packed_bytes(npu, wrong), 0u);
  // Over the end of the weight, and over its start.
  const auto* const weight = static_cast<const std::byte*>(c.op().weight.data);
  const auto weight_bytes = static_cast<std::size_t>(c.weight.size());
  Memory both(2 * bytes + weight_bytes);
  std::byte* const moved = both.get().data() + bytes / 64 * 64;
  std::copy(weight, weight + weight_bytes, moved);
  LinearInt8<Host> there = c.op();
  there.weight.data = moved;
  refused(there, both.get().subspan(64, bytes), "memory overlaps the weight");
  refused(there, {moved + 64, bytes}, "memory overlaps the weight");
  EXPECT_TRUE(std::equal(weight, weight + weight_bytes, moved));
  // Over the blocks of another weight, until those are forgotten.
  ASSERT_TRUE(pack(npu, c.op(), memory.get().first(bytes)).ok());
  const std::vector<std::byte> blocks(memory.get().begin(), memory.get().end());
  refused(other.op(), memory.get().subspan(64, bytes), "memory holds the blocks of another weight");
  EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), memory.get().begin()));
  EXPECT_EQ(forget(npu, memory.get()), 1u);
  EXPECT_TRUE(pack(npu, other.op(), memory.get().subspan(64, bytes)).ok());

  FloatCase floats(layer, DType::f32, DType::f32, false, rng);
  Linear<Host> on_the_cpu = floats.op();
  on_the_cpu.compute = LinearCompute::bf16_products;
  EXPECT_EQ(packed_bytes(npu, on_the_cpu), 0u);
  EXPECT_EQ(pack(npu, on_the_cpu, memory.get()).code(), StatusCode::unsupported);
}

// Nothing to gain: there is no weight, it lies as the unit reads it, or blocks are made where they are used.
TEST(packed_weights, are_none_where_no_call_lays_them_out) {
  Rng rng(5);
  Memory memory(64);
  const auto expect_none = [&](const char* device, const auto& op) {
    const Npu npu = npu_of(device);
    EXPECT_EQ(packed_bytes(npu, op), 0u) << device;
    EXPECT_TRUE(pack(npu, op, memory.get()).ok());
    EXPECT_EQ(forget(npu, memory.get()), 0u);
  };
  FloatCase f16(layer, DType::f16, DType::f16, false, rng), nothing({3, 20, 0}, DType::f32, DType::f32, false, rng);
  Int8Case int8(layer, DType::i8, rng);
  expect_none("ascend-a2-like", Add<Host>{.a = f16.x, .b = f16.x, .y = f16.x});
  expect_none("ascend-a2-like", f16.op());
  expect_none("hexagon-htp-like", int8.op());
  expect_none("systolic128", int8.op());
  expect_none("systolic32", nothing.op());
  EXPECT_TRUE(memory.untouched());
}

TEST(packed_weights, have_a_estimate_of_their_own_that_is_kept) {
  Rng rng(6);
  const Npu npu = npu_of("ascend-a2-like");
  Int8Case c({1, 512, 512}, DType::i8, rng);
  const double unpacked = estimate(npu, c.op())->cycles;
  Memory memory(packed_bytes(npu, c.op()));
  ASSERT_TRUE(pack(npu, c.op(), memory.get()).ok());
  const double packed = estimate(npu, c.op())->cycles;
  EXPECT_LT(packed, unpacked);
  const Growth growth;
  const auto again = npu::about(c.op(), [&](const npu::AnyOperator& any) { return npu::estimate(npu, any); });
  EXPECT_LE(growth.allocations(), 1u);
  EXPECT_EQ(again->cycles, packed);
  EXPECT_EQ(forget(npu, memory.get()), 1u);
  EXPECT_EQ(estimate(npu, c.op())->cycles, unpacked);
}

TEST(packed_weights, a_second_call_allocates_nothing) {
  Rng rng(7);
  const Npu npu = npu_of("systolic32");
  Int8Case c(layer, DType::i8, rng);
  Memory memory(packed_bytes(npu, c.op()));
  ASSERT_TRUE(pack(npu, c.op(), memory.get()).ok());
  Memory scratch(workspace_bytes(npu, c.op()));
  ASSERT_TRUE(run(npu, c.op(), scratch.get()).ok());
  const LinearInt8<Host> op = c.op();
  const Workspace workspace = scratch.get();
  const Growth growth;
  EXPECT_TRUE(compute(npu, op, workspace).ok());
  EXPECT_EQ(growth.allocations(), 0u);
}

}  // namespace
}  // namespace inlay::test
