// Linears of one x as one: every number is that of the parts, whatever the form of the weights, and what cannot be
// joined stays apart.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <inlay/model/joined_linears.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/handed_out.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

constexpr index group = 16;

std::vector<float> random_floats(index count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& each : values) each = normal(random);
  return values;
}

LinearWeight floats_of(DType type, index n, index k, unsigned seed) {
  const auto rows = random_floats(n * k, seed);
  auto packed = OwnedTensor<3>::make(type, linear_packed_extents(n, k, type));
  EXPECT_TRUE(packed.has_value());
  EXPECT_TRUE(ok(pack_linear(serial(), {rows.data(), {n, k}}, *packed)));
  return {n, LinearWeight::Float{std::move(*packed)}};
}

LinearWeight int8_of(index n, index k, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int8_t> rows(static_cast<std::size_t>(n * k));
  for (auto& each : rows) each = static_cast<std::int8_t>(random());
  auto packed = OwnedTensor<3>::make(DType::i8, linear_int8::packed_extents(n, k));
  auto sums = OwnedTensor<1>::make(DType::i32, {n});
  auto scales = OwnedTensor<1>::make(DType::f32, {n});
  EXPECT_TRUE(packed && sums && scales);
  for (index o = 0; o < n; ++o) scales->view().as<float>()[o] = 0x1p-7f + 0x1p-12f * static_cast<float>(random() % 64);
  EXPECT_TRUE(ok(pack_linear_int8({rows.data(), DType::i8, {n, k}}, *packed, *sums)));
  return {n, LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)}};
}

PackedW4 codes_of(index n, index k, unsigned seed, index bits = 4, bool symmetric = true, DType scales = DType::f16) {
  const auto rows = random_floats(n * k, seed);
  return quantize_w4a16({rows.data(), {n, k}}, group, bits, symmetric, scales);
}
PackedW4 with_offsets(index n, index k, unsigned seed) {
  PackedW4 weight = codes_of(n, k, seed);
  weight.offsets = detail::pack_per_group(weight, weight.scale_type, serial(),
                                          [&](index c, index g) { return 0.25 * ((c * 7 + g * 3) % 9 - 4); });
  return weight;
}
// By groups that are not those of neighbours, as GPTQ's act-order has them.
PackedW4 in_another_order(index n, index k, unsigned seed, index step = 7) {
  PackedW4 weight = codes_of(n, k, seed, 4, false);
  for (index s = 0; s < k; ++s) weight.perm.push_back(static_cast<std::int32_t>(s * step % k));
  return weight;
}

// All that a weight may be. `k` is a multiple of `group` and no multiple of 7.
using Make = std::function<LinearWeight(index n, index k, unsigned seed)>;
std::vector<std::pair<std::string, Make>> forms() {
  return {
      {"f32", [](index n, index k, unsigned seed) { return floats_of(DType::f32, n, k, seed); }},
      {"f16", [](index n, index k, unsigned seed) { return floats_of(DType::f16, n, k, seed); }},
      {"bf16", [](index n, index k, unsigned seed) { return floats_of(DType::bf16, n, k, seed); }},
      {"int8", int8_of},
      {"symmetric", [](index n, index k, unsigned seed) { return LinearWeight(n, codes_of(n, k, seed)); }},
      {"8 bits", [](index n, index k, unsigned seed) { return LinearWeight(n, codes_of(n, k, seed, 8)); }},
      {"zeros", [](index n, index k, unsigned seed) { return LinearWeight(n, codes_of(n, k, seed, 4, false)); }},
      {"offsets", [](index n, index k, unsigned seed) { return LinearWeight(n, with_offsets(n, k, seed)); }},
      {"perm", [](index n, index k, unsigned seed) { return LinearWeight(n, in_another_order(n, k, seed)); }},
  };
}

std::vector<LinearWeight> joined_once(const std::vector<LinearWeight>& parts, std::vector<OwnedTensor<1>>& vectors,
                                      std::size_t most_bytes = joined_bytes_most) {
  auto made = joined(parts, vectors, most_bytes);
  EXPECT_TRUE(made.has_value());
  return made ? std::move(*made) : std::vector<LinearWeight>();
}

// y of linears side by side.
std::vector<float> product(Eager run, const std::vector<LinearWeight>& linears, const ConstView<2>& x,
                           Activations activations) {
  index n = 0, first = 0;
  for (const LinearWeight& each : linears) n += each.channels();
  std::vector<float> y(static_cast<std::size_t>(x.extents[0] * n));
  const View<2> rows(y.data(), {x.extents[0], n});
  for (const LinearWeight& each : linears) {
    each(run, x, rows.slice(1, first, each.channels()), activations);
    first += each.channels();
  }
  EXPECT_TRUE(ok(run.take_status()));
  return y;
}

// Three parts, of which the last ends within a panel.
TEST(joined_linears, are_their_parts_bit_for_bit) {
  constexpr index k = 48;
  for (const auto& [name, make] : forms())
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(name + (has_bias ? ", bias" : ""));
      std::vector<LinearWeight> parts = {make(48, k, 1), make(16, k, 2), make(21, k, 3)};
      std::vector<OwnedTensor<1>> vectors;
      const auto bias = random_floats(48 + 16 + 21, 5);
      for (index first = 0; LinearWeight & part : parts) {
        if (has_bias) part.bias = {bias.data() + first, {part.channels()}};
        first += part.channels();
      }
      const auto one = joined_once(parts, vectors);
      ASSERT_EQ(one.size(), 1u);
      EXPECT_EQ(one[0].channels(), 48 + 16 + 21);
      EXPECT_EQ(one[0].bias.present(), has_bias);
      for (const Activations activations : {Activations::exact, Activations::int8, Activations::bf16})
        for (const index tokens : {1, 3, 40}) {
          const auto values = random_floats(tokens * k, 4);
          const ConstView<2> x(values.data(), {tokens, k});
          for (const Cpu& cpu : cpus())
            EXPECT_EQ(product(Eager(cpu), one, x, activations), product(Eager(cpu), parts, x, activations))
                << inlay::test::name(cpu) << ", " << tokens << " tokens";
          EXPECT_EQ(product(Eager(Reference()), one, x, activations),
                    product(Eager(Reference()), parts, x, activations));
        }
    }
}

TEST(joined_linears, stay_apart_where_they_differ) {
  constexpr index n = 16, k = 48;
  const auto parts_of = [](auto... forms) { return std::vector<LinearWeight>{LinearWeight(n, std::move(forms))...}; };
  const auto of_group = [](index other) {
    const auto rows = random_floats(n * k, 1);
    return quantize_w4a16({rows.data(), {n, k}}, other);
  };
  PackedW4 f32_zeros = codes_of(n, k, 2, 4, false);
  f32_zeros.zero_type = DType::f32;
  f32_zeros.zeros = detail::pack_per_group(f32_zeros, DType::f32, serial(), [](index, index) { return 7.5; });
  const std::vector<std::pair<const char*, std::vector<LinearWeight>>> cases = {
      {"types", {floats_of(DType::f32, n, k, 1), floats_of(DType::f16, n, k, 1)}},
      {"kinds", {floats_of(DType::f32, n, k, 1), int8_of(n, k, 1)}},
      {"one of three", {floats_of(DType::f32, n, k, 1), floats_of(DType::f32, n, k, 1), int8_of(n, k, 1)}},
      {"inputs of floats", {floats_of(DType::f32, n, k, 1), floats_of(DType::f32, n, k - 1, 1)}},
      {"inputs of int8", {int8_of(n, k, 1), int8_of(n, k - 4, 1)}},
      {"inputs of codes", parts_of(codes_of(n, k, 1), codes_of(n, k - 8, 1))},
      {"bits", parts_of(codes_of(n, k, 1), codes_of(n, k, 1, 8))},
      {"groups", parts_of(of_group(16), of_group(24))},
      {"types of scales", parts_of(codes_of(n, k, 1), codes_of(n, k, 1, 4, true, DType::f32))},
      {"zeros", parts_of(codes_of(n, k, 1), codes_of(n, k, 1, 4, false))},
      {"types of zeros", parts_of(codes_of(n, k, 1, 4, false), f32_zeros)},
      {"offsets", parts_of(codes_of(n, k, 1), with_offsets(n, k, 1))},
      {"zeros and offsets", parts_of(codes_of(n, k, 1, 4, false), with_offsets(n, k, 1))},
      {"an order", parts_of(codes_of(n, k, 1, 4, false), in_another_order(n, k, 1))},
      {"orders", parts_of(in_another_order(n, k, 1, 7), in_another_order(n, k, 1, 5))},
  };
  std::vector<OwnedTensor<1>> vectors;
  for (const auto& [what, parts] : cases) {
    EXPECT_EQ(joined_once(parts, vectors).size(), parts.size()) << what;
    EXPECT_EQ(joined_once({parts.rbegin(), parts.rend()}, vectors).size(), parts.size()) << what;
  }
}

TEST(joined_linears, stay_apart_within_a_panel_and_beyond_the_bound) {
  std::vector<OwnedTensor<1>> vectors;
  for (const auto& [name, make] : forms()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(joined_once({make(16, 48, 1), make(5, 48, 2)}, vectors).size(), 1u);
    EXPECT_EQ(joined_once({make(5, 48, 1), make(16, 48, 2)}, vectors).size(), 2u);
    EXPECT_EQ(joined_once({make(16, 48, 1), make(24, 48, 2), make(16, 48, 3)}, vectors).size(), 3u);
    const std::vector<LinearWeight> parts = {make(16, 48, 1), make(32, 48, 2)};
    const std::size_t bytes = parts[0].bytes() + parts[1].bytes();
    EXPECT_EQ(joined_once(parts, vectors, bytes).size(), 1u);
    EXPECT_EQ(joined_once(parts, vectors, bytes - 1).size(), 2u);
  }
}

TEST(joined_linears, biases_are_joined_or_keep_their_linears_apart) {
  const std::vector<float> values(32, 0.5f);
  const std::vector<f16> halves(32, f16(0.5f));
  std::vector<LinearWeight> parts = {floats_of(DType::f32, 16, 48, 1), floats_of(DType::f32, 16, 48, 2)};
  std::vector<OwnedTensor<1>> vectors;
  parts[0].bias = {values.data(), {16}};
  EXPECT_EQ(joined_once(parts, vectors).size(), 2u);
  std::swap(parts[0].bias, parts[1].bias);
  EXPECT_EQ(joined_once(parts, vectors).size(), 2u);
  parts[0].bias = {halves.data(), {16}};
  EXPECT_EQ(joined_once(parts, vectors).size(), 2u);
  EXPECT_TRUE(vectors.empty());
  parts[1].bias = {halves.data() + 1, DType::f16, {16}, {-1}};
  parts[1].bias.data = halves.data() + 31;
  const auto one = joined_once(parts, vectors);
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(vectors.size(), 1u);
  EXPECT_EQ(one[0].bias.data, vectors[0].view().data);
  EXPECT_EQ(one[0].bias.dtype, DType::f16);
}

// Heads of 16 and an odd number of panels in gate and up: neither ends where a kernel's blocks of panels do.
ModelConfig config_of_panels() {
  ModelConfig config = tiny();
  config.heads = 3;
  config.kv_heads = 1;
  config.head_dim = config.rope.dim = 16;
  return config;
}

// The same weights apart and joined.
std::pair<Weights, Weights> weights_of(const ModelConfig& config, const Make& make) {
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
    for (SideBySide* linears : {&layer.qkv, &layer.gate_up}) {
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

TEST(joined_linears, change_no_logit_of_a_model) {
  for (const auto& [name, make] : forms())
    for (const bool has_bias : {false, true}) {
      ModelConfig config = config_of_panels();
      config.qkv_bias = has_bias;
      const auto [apart, together] = weights_of(config, make);
      for (const Activations activations : {Activations::exact, Activations::int8, Activations::bf16}) {
        SCOPED_TRACE(name + (has_bias ? ", bias" : "") + ", activations " + std::to_string(int(activations)));
        if (activations == Activations::int8 && apart.all_linears_are(true)) continue;  // refused
        const auto expected = logits(config, apart, Eager(Reference()), activations);
        EXPECT_EQ(logits(config, together, Eager(Reference()), activations), expected);
        for (const Cpu& cpu : cpus())
          EXPECT_EQ(logits(config, together, Eager(cpu), activations), logits(config, apart, Eager(cpu), activations))
              << inlay::test::name(cpu);
      }
    }
}

TEST(joined_linears, change_no_logit_on_an_npu) {
  ModelConfig config = config_of_panels();
  config.qkv_bias = true;
  for (const auto& [name, make] : forms()) {
    const auto [apart, together] = weights_of(config, make);
    for (const std::string_view device : npu_devices()) {
      const auto on_npu = [&](const Weights& weights) {
        auto npu = Npu::make({.device = std::string(device)});
        EXPECT_TRUE(npu.has_value());
        return logits(config, weights, Eager(std::move(*npu), Cpu(serial())), Activations::exact);
      };
      EXPECT_EQ(on_npu(together), on_npu(apart)) << name << " on " << device;
    }
  }
}

// Each layer has the width of its own: gate and up lie side by side in that, not in the widest.
TEST(joined_linears, of_layers_of_several_widths) {
  ModelConfig config = config_of_panels();
  config.set_layers({{.hidden = 80}, {.hidden = 48}});
  auto together = random_weights(config, "f32", serial(), 7);
  ASSERT_TRUE(together.has_value());
  EXPECT_EQ(together->layers[0].gate_up[0].channels(), 160);
  EXPECT_EQ(together->layers[1].gate_up[0].channels(), 96);
  const auto expected = logits(config, *together, Eager(Reference()), Activations::exact);
  for (const Cpu& cpu : cpus())
    EXPECT_LE(distance(logits(config, *together, Eager(cpu), Activations::exact), expected),
              2e-5 * magnitude(expected));
}

TEST(joined_linears, are_what_a_model_is_loaded_to) {
  const auto parts = [](const Weights& weights) {
    return std::pair(weights.layers[0].qkv.size(), weights.layers[0].gate_up.size());
  };
  const std::pair<std::size_t, std::size_t> one_each(1, 1), gate_up_alone(3, 1);
  ModelConfig config = tiny_config("qwen2");
  config.head_dim = config.rope.dim = 16;
  const TinyModel model = tiny_model(config);
  const auto loaded = load_weights(std::make_shared<const ModelFile>(model.file), serial());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(parts(*loaded), one_each);
  // q | k | v with their biases.
  const LinearWeight& qkv = loaded->layers[0].qkv[0];
  const std::vector<float> x(32, 1.0f);
  const auto y = product(Eager(Reference()), {qkv}, {x.data(), {1, 32}}, Activations::exact);
  std::vector<float> expected;
  for (const std::string part : {"q", "k", "v"}) {
    const WeightTensor* weight = model.file.find("blk.0.attn_" + part + ".weight");
    const WeightTensor* bias = model.file.find("blk.0.attn_" + part + ".bias");
    std::vector<float> row;
    for (index o = 0; o < weight->extents[0]; ++o) {
      model.file.read_row(*weight, o, row);
      double sum = static_cast<double>(bias->vector().as<float>()[o]);
      for (const float each : row) sum += static_cast<double>(each);
      expected.push_back(static_cast<float>(sum));
    }
  }
  EXPECT_LE(distance(y, expected), 1e-5);
  // What a token reads is the same, joined or apart.
  std::size_t bytes = loaded->head.bytes();
  for (const LayerWeights& w : loaded->layers)
    bytes += w.qkv[0].bytes() + w.output.bytes() + w.gate_up[0].bytes() + w.down.bytes();
  EXPECT_EQ(loaded->linear_bytes, bytes);

  config.head_dim = config.rope.dim = 12;  // k ends within a panel
  const TinyModel other = tiny_model(config);
  const auto apart = load_weights(std::make_shared<const ModelFile>(other.file), serial());
  ASSERT_TRUE(apart.has_value()) << apart.error().message();
  EXPECT_EQ(parts(*apart), gate_up_alone);
  for (const char* type : {"f32", "f16", "bf16", "int8", "w4a16"}) {
    const auto random = random_weights(config_of_panels(), type, serial());
    ASSERT_TRUE(random.has_value());
    EXPECT_EQ(parts(*random), one_each) << type;
  }
}

}  // namespace
}  // namespace inlay::exec::test
