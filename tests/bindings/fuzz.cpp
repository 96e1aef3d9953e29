// Random calls of every operator through inlay.h. Nearly valid ones do what the same struct does in C++: the same bits,
// or the same refusal. Those that are spoiled in a way that only C has, and calls of random tensors and scalars under
// random names, are refused in words and have written nothing, or run; they never touch other memory.
//
//   INLAY_FUZZ_RUNS, INLAY_FUZZ_SEED   as of fuzz/operators.cpp: calls of each operator, and the first one's seed
#include <gtest/gtest.h>

#include <iostream>

#include <inlay/core/quantization.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include "tests/bindings/fuzz/calls.hpp"

namespace inlay::fuzz {
namespace {

template <class Op> class Bindings : public ::testing::Test {};
TYPED_TEST_SUITE(Bindings, EveryOperator, OperatorNames);

TYPED_TEST(Bindings, calls_do_as_in_cpp_or_are_refused) {
  if constexpr (TypeParam::name == "skeleton") return;  // which C does not name
  constexpr std::uint64_t few = 4200;
  const std::uint64_t first = number("INLAY_FUZZ_SEED", 1), runs = number("INLAY_FUZZ_RUNS", few);
  Calls<TypeParam> calls;
  for (std::uint64_t i = 0; i < runs; ++i) {
    calls.run(first + i);
    if (::testing::Test::HasFailure()) return;
  }
  calls.report(std::cout);
  // Calls that never pass test nothing behind the refusals.
  if (runs >= few) {
    EXPECT_TRUE(calls.ran_enough(runs));
  }
}

// A call of a packer that is nearly valid: its tensors lie one behind the other in `memory`, whose bytes are anything.
class PackerCalls {
 public:
  PackerCalls(Draw& d, std::byte* memory, std::size_t bytes) : d_(d), at_(memory), end_(memory + bytes) {}

  Call draw(const std::string& packer) {
    bits_ = d_.chance(60) ? 4 : 8, per_word_ = 32 / bits_;
    group_ = d_.pick<index>({0, 8, 16, 24, 32, 64});
    k_ = d_.chance(70) ? 8 * d_.between(1, 16) : d_.between(1, 70);
    n_ = d_.chance(50) ? 8 * d_.between(1, 6) : d_.between(1, 40);
    const index groups = w4_groups(k_, group_);
    if (packer == "pack_linear" || packer == "quantize_int8" || packer == "quantize_w4a16") {
      give<2>("weight", a_float(), {n_, k_});
    } else if (packer == "pack_linear_int8") {
      give<2>("weight", d_.chance(50) ? DType::i8 : DType::u8, {n_, k_});
    } else if (packer == "import_gptq") {
      k_ = groups_of(k_, per_word_) * per_word_;
      give<2>("qweight", DType::i32, {k_ / per_word_, n_});
      give<2>("qzeros", DType::i32, {w4_groups(k_, group_), groups_of(n_, per_word_)});
      give<2>("scales", a_float(), {w4_groups(k_, group_), n_});
      if (d_.chance(30)) give<1>("g_idx", DType::i32, {k_});
      call_.give("v2", d_.chance(50));
    } else if (packer == "import_awq") {
      n_ = groups_of(n_, 8) * 8;
      give<2>("qweight", DType::i32, {k_, n_ / 8});
      give<2>("qzeros", DType::i32, {groups, n_ / 8});
      give<2>("scales", a_float(), {groups, n_});
    } else if (packer == "import_gguf") {
      const GgmlType type = d_.pick({GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1, GgmlType::Q8_0,
                                     GgmlType::Q2_K, GgmlType::Q6_K, GgmlType::IQ4_XS, GgmlType::MXFP4, GgmlType::F16});
      const index bytes = std::max<index>(ggml_format(type).bytes, 1) * d_.between(1, 2);
      k_ = bytes / ggml_format(type).bytes * ggml_format(type).block;
      give<2>("rows", DType::u8, {n_, bytes});
      call_.give("type", type);
    } else {
      if (group_ == 0) group_ = 8;
      const index blocks = groups_of(k_, group_);
      give<3>("b", DType::u8, {n_, blocks, group_ * bits_ / 8});
      give<2>("scales", a_float(), {n_, blocks});
      if (d_.chance(40)) give<2>("zero_points", DType::u8, {n_, (blocks * bits_ + 7) / 8});
      call_.give("k", k_);
    }
    const bool has_bits = packer == "quantize_w4a16" || packer == "import_gptq" || packer == "import_onnx";
    if (has_bits) call_.give("bits", d_.chance(95) ? bits_ : d_.pick<index>({0, 3, -4, 1 << 20, largest}));
    if (has_bits || packer == "import_awq")
      call_.give("group", d_.chance(90) ? group_ : d_.pick<index>({-8, 4, largest, largest - 7, least}));
    return std::move(call_);
  }

 private:
  DType a_float() { return d_.pick({DType::f32, DType::f16, DType::bf16}); }
  template <int rank> void give(const char* name, DType dtype, std::array<index, rank> extents) {
    if (d_.chance(3)) extents[static_cast<std::size_t>(d_.below(rank))] += d_.pick<index>({-1, 1, -1000});
    ConstView<rank> view(at_, dtype, extents);
    index size = byte_size(dtype, 1);
    for (index extent : extents) size *= extent < 0 ? 1 : extent;
    at_ += (size + 63) / 64 * 64;
    ASSERT_LE(at_, end_);
    call_.give(name, view);
  }

  Draw& d_;
  std::byte* at_;
  std::byte* const end_;
  Call call_;
  index n_ = 0, k_ = 0, group_ = 0, bits_ = 4, per_word_ = 8;
};

// What packs is what its operator takes; what does not is refused in words. The caller's tensors stay as they are.
TEST(BindingsWeights, are_packed_for_their_operator_or_refused) {
  constexpr std::uint64_t few = 4200;
  const std::uint64_t first = number("INLAY_FUZZ_SEED", 1), runs = number("INLAY_FUZZ_RUNS", few);
  inlay_backend* backend = nullptr;
  ASSERT_EQ(inlay_backend_open(nullptr, &backend), INLAY_OK) << inlay_message();
  Rooms rooms{96, std::size_t{1} << 20};
  Arena arena;
  std::vector<std::byte> bytes(1 << 16), small(1 << 16);  // the second are finite, whatever floats they are
  std::vector<float> x(1024, 1), y(64);
  for (std::size_t p = 0; p < inlay_packer_count(); ++p) {
    const std::string packer = inlay_packer_name(p);
    std::uint64_t packed = 0, refused = 0;
    Draw content(rooms, p);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(content.below(256));
    for (std::byte& byte : small) byte = static_cast<std::byte>(content.below(2));
    std::vector<std::byte>& memory = packer[0] == 'q' ? small : bytes;
    const std::vector<std::byte> before = memory;
    for (std::uint64_t i = 0; i < runs; ++i) {
      SCOPED_TRACE(packer + " INLAY_FUZZ_SEED=" + std::to_string(first + i) + " INLAY_FUZZ_RUNS=1");
      Draw d(rooms, first + i);
      const bool any = d.chance(30);
      const std::size_t begin = 64 * static_cast<std::size_t>(d.below(128));
      Call call = any ? random_call(d, arena, packer)
                      : PackerCalls(d, memory.data() + begin, memory.size() - begin).draw(packer);
      if (!any && d.chance(30)) spoil(d, call);
      inlay_weight* weight = nullptr;
      const inlay_code code =
          inlay_weight_pack(backend, packer.c_str(), call.arguments.data(), call.arguments.size(), &weight);
      ASSERT_TRUE(memory == before && arena.untouched());
      ASSERT_EQ(weight != nullptr, code == INLAY_OK);
      if (code != INLAY_OK) {
        ++refused;
        ASSERT_EQ(code, INLAY_INVALID_ARGUMENT) << inlay_message();
        ASSERT_EQ(std::string(inlay_message()).rfind(packer + ": ", 0), 0u) << inlay_message();
        continue;
      }
      ++packed;
      inlay_weight_info info{};
      info.size = sizeof info;
      ASSERT_EQ(inlay_weight_describe(weight, &info), INLAY_OK) << inlay_message();
      ASSERT_LE(info.k, static_cast<index>(x.size()));
      ASSERT_LE(info.n, static_cast<index>(y.size()));
      Call rest;
      rest.give("x", ConstView<2>(x.data(), {1, info.k}));
      rest.give("y", View<2>(y.data(), {1, info.n}));
      std::vector<float> one{1};
      if (packer == "pack_linear_int8") rest.give("weight_scale", ConstView<1>(one.data(), {1}));
      std::vector<inlay_argument> arguments(info.arguments, info.arguments + info.argument_count);
      arguments.insert(arguments.end(), rest.arguments.begin(), rest.arguments.end());
      ASSERT_EQ(inlay_run(backend, info.op, arguments.data(), arguments.size(), nullptr, 0), INLAY_OK)
          << inlay_message();
      inlay_weight_close(weight);
    }
    std::cout << packer << ": " << packed << " packed, " << refused << " were refused\n";
    if (runs >= few) {
      EXPECT_GE(packed * 8, runs) << packer;
    }
  }
  inlay_backend_close(backend);
}

}  // namespace
}  // namespace inlay::fuzz
