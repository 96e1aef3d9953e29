// Linears in all forms that a weight may have, and models whose linears of one x are joined or apart.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <inlay/model/fused_linears.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {

inline constexpr index group = 16;

inline std::vector<float> random_floats(index count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& each : values) each = normal(random);
  return values;
}

inline LinearWeight floats_of(DType type, index n, index k, unsigned seed) {
  const auto rows = random_floats(n * k, seed);
  auto packed = OwnedTensor<3>::make(type, linear_packed_extents(n, k, type));
  EXPECT_TRUE(packed.has_value());
  EXPECT_TRUE(inlay::test::ok(pack_linear(serial(), {rows.data(), {n, k}}, *packed)));
  return {n, LinearWeight::Float{std::move(*packed)}};
}

inline LinearWeight int8_of(index n, index k, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int8_t> rows(static_cast<std::size_t>(n * k));
  for (auto& each : rows) each = static_cast<std::int8_t>(random());
  auto packed = OwnedTensor<3>::make(DType::i8, linear_int8::packed_extents(n, k));
  auto sums = OwnedTensor<1>::make(DType::i32, {n});
  auto scales = OwnedTensor<1>::make(DType::f32, {n});
  EXPECT_TRUE(packed && sums && scales);
  for (index o = 0; o < n; ++o) scales->view().as<float>()[o] = 0x1p-7f + 0x1p-12f * static_cast<float>(random() % 64);
  EXPECT_TRUE(inlay::test::ok(pack_linear_int8({rows.data(), DType::i8, {n, k}}, *packed, *sums)));
  return {n, LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)}};
}

inline PackedW4 codes_of(index n, index k, unsigned seed, index bits = 4, bool symmetric = true,
                         DType scales = DType::f16) {
  const auto rows = random_floats(n * k, seed);
  return *quantize_w4a16({rows.data(), {n, k}}, group, bits, symmetric, scales);
}
inline PackedW4 with_offsets(index n, index k, unsigned seed) {
  PackedW4 weight = codes_of(n, k, seed);
  weight.offsets = detail::pack_per_group(weight, weight.scale_type, serial(),
                                          [&](index c, index g) { return 0.25 * ((c * 7 + g * 3) % 9 - 4); });
  return weight;
}
// Scales and offsets are whole numbers, in units of super-blocks, as GGUF's K formats have them.
inline PackedW4 in_units(index n, index k, unsigned seed) {
  PackedW4 weight = codes_of(n, k, seed);
  weight.scale_type = DType::i8;
  const auto counts = [&](index step) {
    return detail::pack_per_group(weight, DType::i8, serial(),
                                  [=](index c, index g) { return (c * step + g * 5) % 64; });
  };
  const auto units = [&](double unit) {
    return detail::pack_lines(weight, w4_super_blocks(k), DType::f16, serial(), [=](index c, index block) {
      return unit * static_cast<double>(1 + (c + 3 * block) % 7);
    });
  };
  weight.scales = counts(7), weight.offsets = counts(11);
  weight.super_scales = units(0x1p-9), weight.super_offsets = units(-0x1p-7);
  return weight;
}
inline PackedW4 with_codebook(index n, index k, unsigned seed, std::int8_t last = 113) {
  PackedW4 weight = codes_of(n, k, seed);
  for (int value : {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89})
    weight.codebook.push_back(static_cast<std::int8_t>(value));
  weight.codebook.push_back(last);
  return weight;
}
// By groups that are not those of neighbours, as GPTQ's act-order has them.
inline PackedW4 in_another_order(index n, index k, unsigned seed, index step = 7) {
  PackedW4 weight = codes_of(n, k, seed, 4, false);
  for (index s = 0; s < k; ++s) weight.perm.push_back(static_cast<std::int32_t>(s * step % k));
  return weight;
}

// All that a weight may be. `k` is a multiple of `group` and no multiple of 7.
using Make = std::function<LinearWeight(index n, index k, unsigned seed)>;
inline std::vector<std::pair<std::string, Make>> forms() {
  return {
      {"f32", [](index n, index k, unsigned seed) { return floats_of(DType::f32, n, k, seed); }},
      {"f16", [](index n, index k, unsigned seed) { return floats_of(DType::f16, n, k, seed); }},
      {"bf16", [](index n, index k, unsigned seed) { return floats_of(DType::bf16, n, k, seed); }},
      {"int8", int8_of},
      {"symmetric", [](index n, index k, unsigned seed) { return LinearWeight(n, codes_of(n, k, seed)); }},
      {"8 bits", [](index n, index k, unsigned seed) { return LinearWeight(n, codes_of(n, k, seed, 8)); }},
      {"zeros", [](index n, index k, unsigned seed) { return LinearWeight(n, codes_of(n, k, seed, 4, false)); }},
      {"offsets", [](index n, index k, unsigned seed) { return LinearWeight(n, with_offsets(n, k, seed)); }},
      {"units", [](index n, index k, unsigned seed) { return LinearWeight(n, in_units(n, k, seed)); }},
      {"codebook", [](index n, index k, unsigned seed) { return LinearWeight(n, with_codebook(n, k, seed)); }},
      {"perm", [](index n, index k, unsigned seed) { return LinearWeight(n, in_another_order(n, k, seed)); }},
  };
}

inline std::vector<LinearWeight> joined_once(const std::vector<LinearWeight>& parts,
                                             std::vector<OwnedTensor<1>>& vectors,
                                             std::size_t max_bytes = joined_bytes_most) {
  auto made = joined(parts, vectors, max_bytes);
  EXPECT_TRUE(made.has_value());
  return made ? std::move(*made) : std::vector<LinearWeight>();
}

// Heads of 16 and an odd number of panels in gate and up: neither ends where a kernel's blocks of panels do.
inline ModelConfig config_of_panels() {
  ModelConfig config = tiny();
  config.heads = 3;
  config.kv_heads = 1;
  config.head_dim = config.ropes[0].dim = 16;
  return config;
}

// The same weights apart and joined.
inline std::pair<Weights, Weights> weights_of(const ModelConfig& config, const Make& make) {
  auto apart = random_weights(config, "f32", serial(), 7);
  EXPECT_TRUE(apart.has_value());
  unsigned seed = 1;
  const index q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  for (LayerWeights& layer : apart->layers) {
    layer.qkv = {make(q, config.dim, seed), make(kv, config.dim, seed + 1), make(kv, config.dim, seed + 2)};
    layer.output = make(config.dim, q, seed + 3);
    layer.gate_up = {make(config.hidden, config.dim, seed + 4), make(config.hidden, config.dim, seed + 5)};
    layer.down = make(config.dim, config.hidden, seed + 6);
    seed += 7;
    if (!config.qkv_bias) continue;
    for (LinearWeight& each : layer.qkv) {
      const auto values = random_floats(each.channels(), seed++);
      auto bias = OwnedTensor<1>::make(DType::f32, {each.channels()});
      EXPECT_TRUE(bias.has_value());
      std::copy(values.begin(), values.end(), bias->view().as<float>());
      each.bias = bias->view();
      apart->vectors.push_back(std::move(*bias));
    }
  }
  Weights together = *apart;
  for (LayerWeights& layer : together.layers)
    for (FusedLinears* linears : {&layer.qkv, &layer.gate_up}) {
      *linears = joined_once(*linears, together.vectors);
      EXPECT_EQ(linears->size(), 1u);
    }
  return {std::move(*apart), std::move(together)};
}

// Of a prompt in two chunks and a token behind it.
template <class Run>
std::vector<float> logits(const ModelConfig& config, const Weights& weights, Run run, Activations activations) {
  auto one = Session::make(config, weights, std::move(run),
                           {.context = 64, .chunk = 16, .kv_type = DType::f32, .activations = activations});
  EXPECT_TRUE(one.has_value()) << one.error().message();
  std::vector<float> result = all(*one, one->append(tokens(21, config.vocab), 21));
  const auto next = all(*one, one->decode(5));
  result.insert(result.end(), next.begin(), next.end());
  return result;
}

}  // namespace inlay::exec::test
