// bf16_products: what x and the weight are rounded to, and in which order their products are added.
#include "tests/linear/case.hpp"

namespace inlay::test {
namespace {

// Products are exact, so the bound is that of exact_float over rounded operands.
TEST(linear, bf16_products_of_every_combination_of_types) {
  Rng rng(41);
  const std::vector<index> depths = {1, 2, 15, 17, 32, 33, 111, cpu::linear_k_block + 1, 2 * cpu::linear_k_block};
  std::size_t at = 0;
  for (Types type : all_types())
    for (index tokens : {1, 4, 7, 12, 27}) {
      ++at;
      type.compute = LinearCompute::bf16_products;
      const index k = depths[at % depths.size()], n = static_cast<index>(at * 7 % 70) + 1;
      Case c = make(type, tokens, n, k, layouts[at % layouts.size()], rng);
      if (at % 3 == 0) c.add_bias(float_types[at % float_types.size()], rng);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// A value, and what it is as bf16.
struct Rounding {
  float value;
  double rounded;
};
constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
// NaN of f32 whose payload a cut would lose, or a carry turn into an infinity, or into zero with the other sign.
const float low_payload = std::bit_cast<float>(0x7f800001u), full_payload = std::bit_cast<float>(0x7fffffffu),
            negative_payload = std::bit_cast<float>(0xffffffffu);
const std::vector<Rounding> roundings_of_f32 = {{1, 1},
                                                {-0.0f, -0.0},
                                                {1 + 0x1p-8f, 1},           // a tie, to even
                                                {1 + 0x3p-8f, 1 + 0x1p-6},  // a tie, upwards
                                                {1 + 0x1p-8f + 0x1p-23f, 1 + 0x1p-7},
                                                {-1 - 0x3p-8f + 0x1p-23f, -1 - 0x1p-7},
                                                {0x1.ffp0f, 2},  // into the next power of two
                                                {0x1p-126f, 0x1p-126},
                                                {-0x1.fefffep127f, -0x1.fep127},
                                                {0x1.ffp127f, infinity},  // finite, and no bf16
                                                {0x1.fffffep127f, infinity},
                                                {-infinity, -infinity},
                                                {low_payload, nan},
                                                {full_payload, nan},
                                                {negative_payload, nan},
                                                {nan, nan}};
const std::vector<Rounding> roundings_of_f16 = {
    {1, 1},           {1 + 0x1p-8f, 1},    {1 + 0x3p-8f, 1 + 0x1p-6}, {1 + 0x1p-8f + 0x1p-10f, 1 + 0x1p-7},
    {-65504, -65536}, {0x1p-24f, 0x1p-24}, {0x1.ffp-15f, 0x1p-14},    {infinity, infinity},
    {nan, nan}};

// A factor beside a 1, in either half of a pair; the rows of x by each way through the kernels, from one to more tiles.
TEST(linear, bf16_products_round_each_factor_to_nearest_even) {
  Rng rng(42);
  for (DType type : {DType::f32, DType::f16})
    for (index tokens : {1, 3, 12, 31})
      for (index k : {1, 2, 3, 34})
        for (bool of_weight : {false, true}) {
          const std::vector<Rounding>& list = type == DType::f32 ? roundings_of_f32 : roundings_of_f16;
          const auto value = [&](index i) { return list[static_cast<std::size_t>(i) % list.size()]; };
          constexpr index n = 37;
          Case start = make({type, type, DType::f32, LinearCompute::bf16_products}, tokens, n, k, {}, rng);
          start.x.fill(0);
          start.rows.fill(0);
          const auto set = [&](Tensor<2>& of, index i, float factor) {
            if (type == DType::f32)
              of.data<float>()[i] = factor;  // as it is: a double has no signaling NaN of it
            else
              of.set(i, factor);
          };
          for (index t = 0; t < tokens; ++t) set(start.x, t * k + k - 1, of_weight ? 1 : value(t + k).value);
          for (index c = 0; c < n; ++c) set(start.rows, c * k + k - 1, of_weight ? value(c + k).value : 1);
          start.pack();
          SCOPED_TRACE(describe(start.op()));
          each_form(start, [&](const Case& got) {
            for (index t = 0; t < tokens; ++t)
              for (index c = 0; c < n; ++c) {
                const double g = got.y.get(t * n + c), e = value((of_weight ? c : t) + k).rounded;
                ASSERT_TRUE(g == e || (std::isnan(g) && std::isnan(e))) << t << ' ' << c << ": " << g << ", not " << e;
              }
          });
        }
}

// The order of the page, number for number: over ascending k in blocks; the instruction adds the odd k of a pair first.
TEST(linear, the_sum_of_bf16_products_is_the_chain_that_the_page_states) {
  Rng rng(43);
  constexpr index tokens = 13, n = 35, k = 2 * cpu::linear_k_block + 31;
  for (DType type : float_types) {
    Case start = make({DType::f32, type, DType::f32, LinearCompute::bf16_products}, tokens, n, k, {}, rng);
    const auto factor = [](const Tensor<2>& of, index i) {
      return static_cast<float>(round_to(DType::bf16, of.get(i)));
    };
    const auto chain = [&](index t, index c, index begin, bool odd_first) {
      float sum = 0;
      for (index i = begin; i < std::min(k, begin + cpu::linear_k_block); ++i) {
        const index at = odd_first && (i ^ 1) < k ? i ^ 1 : i;
        sum = std::fma(factor(start.x, t * k + at), factor(start.rows, c * k + at), sum);
      }
      return sum;
    };
    Tensor<2> expected[] = {{DType::f32, {tokens, n}}, {DType::f32, {tokens, n}}};
    for (const bool odd_first : {false, true})
      for (index t = 0; t < tokens; ++t)
        for (index c = 0; c < n; ++c) {
          float total = 0;
          for (index begin = 0; begin < k; begin += cpu::linear_k_block) total += chain(t, c, begin, odd_first);
          expected[odd_first].set(t * n + c, total);
        }
    expect_chains(start,
                  [&](const std::string& label) -> const Tensor<2>& { return expected[multiplies_bf16(label)]; });
  }
}

}  // namespace
}  // namespace inlay::test
