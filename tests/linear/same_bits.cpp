// What must not change a bit: threads, batches, the form of the weight, the width of a level with fma, a device.
#include "tests/linear/case.hpp"

#include <map>

namespace inlay::test {
namespace {

TEST(linear, a_row_does_not_depend_on_its_batch_threads_or_form_of_weight) {
  Rng rng(11);
  constexpr index tokens = cpu::linear_row_chunk + 14, n = 70, k = cpu::linear_k_block + 77;
  std::vector<Types> types = all_types();
  for (Types type : kinds)
    if (type.compute == LinearCompute::bf16_products) types.push_back(type);
  for (Types type : types) {
    SCOPED_TRACE(describe(type.x, type.weight, type.y));
    Case start = make(type, tokens, n, k, layouts[2], rng);
    start.add_bias(DType::f32, rng);
    std::map<std::string, Tensor<2>> first;
    on_every_backend([&](const std::string& label, auto run) {
      const std::string level = label.substr(0, label.find(','));
      for (Form form : {Form::packed, Form::rows}) {
        Case whole = start;
        whole.form = form;
        ASSERT_TRUE(ok(run(whole.op())));
        ASSERT_TRUE(first.try_emplace(level, whole.y).first->second == whole.y);
        if (level != label && !label.ends_with(", 1 threads")) continue;
        Case parts = start;
        parts.form = form;
        for (index row = 0, count = 1; row < tokens; row += count, count = count % 26 + 1) {
          count = std::min(count, tokens - row);
          Linear<Host> op = parts.op();
          op.x = op.x.slice(0, row, count);
          op.y = op.y.slice(0, row, count);
          ASSERT_TRUE(ok(run(op)));
        }
        ASSERT_TRUE(parts.y == whole.y);
      }
    });
  }
}

// One chain of fused multiply-adds: its width does not show. (Products of bf16 take the instruction where there is one,
// which flushes subnormals and adds odd k first.)
TEST(linear, levels_with_fma_agree_bit_for_bit) {
  Rng rng(12);
  std::vector<Types> types = all_types();
  for (Types type : all_types()) {
    type.compute = LinearCompute::bf16_products;
    types.push_back(type);
  }
  for (Types type : types) {
    Case start = make(type, 14, 37, 3 * cpu::linear_k_block + 24, {}, rng);
    std::map<Isa, Tensor<2>> all;
    for (Isa isa : available_isas()) {
      if (isa == Isa::scalar || (isa == Isa::avx512_bf16 && may_flush(type))) continue;
      Case got = start;
      const Cpu cpu(isa, serial());
      ASSERT_TRUE(ok(run_with_scratch(cpu, got.op())));
      all.emplace(isa, got.y);
      EXPECT_TRUE(all.begin()->second == got.y) << inlay::name(isa);
    }
  }
}

// The documented order of the sum, number for number: fma over ascending k in blocks, the blocks in order, the bias.
TEST(linear, the_sum_is_the_chain_that_the_page_states) {
  Rng rng(13);
  constexpr index tokens = 13, n = 35, k = 2 * cpu::linear_k_block + 31;
  Case start = make({DType::f32, DType::f32, DType::f32}, tokens, n, k, {}, rng);
  start.add_bias(DType::f32, rng);
  Tensor<2> expected(DType::f32, {tokens, n});
  const auto* x = start.x.data<float>();
  const auto* w = start.rows.data<float>();
  for (index t = 0; t < tokens; ++t)
    for (index c = 0; c < n; ++c) {
      float total = 0;
      for (index begin = 0; begin < k; begin += cpu::linear_k_block) {
        float sum = 0;
        for (index i = begin; i < std::min(k, begin + cpu::linear_k_block); ++i)
          sum = std::fma(x[t * k + i], w[c * k + i], sum);
        total += sum;
      }
      expected.set(t * n + c, total + static_cast<float>(start.bias.get(c)));
    }
  expect_chains(start, [&](const std::string&) -> const Tensor<2>& { return expected; });
}

}  // namespace
}  // namespace inlay::test
