// Linears of one x as one: every number is that of the parts, whatever the form of the weights, and what cannot be
// joined stays apart.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/tensors.hpp>

#include "tests/exec/support/fused_weights.hpp"
#include "tests/model/support/tiny_model.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

// y of linears side by side.
template <class Backend>
std::vector<float> product(const Backend& backend, const std::vector<LinearWeight>& linears, const ConstView<2>& x,
                           Activations activations) {
  Chain<Backend> run(backend);
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
TEST(fused_linears, are_their_parts_bit_for_bit) {
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
            EXPECT_EQ(product(cpu, one, x, activations), product(cpu, parts, x, activations))
                << inlay::test::name(cpu) << ", " << tokens << " tokens";
          EXPECT_EQ(product(Reference(), one, x, activations), product(Reference(), parts, x, activations));
        }
    }
}

TEST(fused_linears, stay_apart_where_they_differ) {
  constexpr index n = 16, k = 48;
  const auto parts_of = [](auto... forms) { return std::vector<LinearWeight>{LinearWeight(n, std::move(forms))...}; };
  const auto of_group = [](index other) {
    const auto rows = random_floats(n * k, 1);
    return *quantize_w4a16({rows.data(), {n, k}}, other);
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
      {"units", parts_of(with_offsets(n, k, 1), in_units(n, k, 1))},
      {"a codebook", parts_of(codes_of(n, k, 1), with_codebook(n, k, 1))},
      {"codebooks", parts_of(with_codebook(n, k, 1), with_codebook(n, k, 1, 112))},
      {"an order", parts_of(codes_of(n, k, 1, 4, false), in_another_order(n, k, 1))},
      {"orders", parts_of(in_another_order(n, k, 1, 7), in_another_order(n, k, 1, 5))},
  };
  std::vector<OwnedTensor<1>> vectors;
  for (const auto& [what, parts] : cases) {
    EXPECT_EQ(joined_once(parts, vectors).size(), parts.size()) << what;
    EXPECT_EQ(joined_once({parts.rbegin(), parts.rend()}, vectors).size(), parts.size()) << what;
  }
}

TEST(fused_linears, stay_apart_within_a_panel_and_beyond_the_bound) {
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

TEST(fused_linears, biases_are_joined_or_keep_their_linears_apart) {
  const auto values = random_floats(32, 1);
  const std::vector<f16> halves(values.begin(), values.end());
  std::vector<LinearWeight> parts = {floats_of(DType::f32, 16, 48, 1), floats_of(DType::f32, 16, 48, 2)};
  std::vector<OwnedTensor<1>> vectors;
  parts[0].bias = {values.data(), {16}};
  EXPECT_EQ(joined_once(parts, vectors).size(), 2u);
  std::swap(parts[0].bias, parts[1].bias);
  EXPECT_EQ(joined_once(parts, vectors).size(), 2u);
  parts[0].bias = {halves.data(), {16}};
  EXPECT_EQ(joined_once(parts, vectors).size(), 2u);
  EXPECT_TRUE(vectors.empty());
  parts[1].bias = {halves.data() + 31, DType::f16, {16}, {-1}};
  const auto one = joined_once(parts, vectors);
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(vectors.size(), 1u);
  const ConstView<1> bias = one[0].bias;
  EXPECT_EQ(bias.data, vectors[0].view().data);
  ASSERT_EQ(bias.dtype, DType::f16);
  ASSERT_TRUE(bias.contiguous());
  for (index i = 0; i < 32; ++i)
    EXPECT_EQ(float(bias.as<f16>()[i]), float(halves[static_cast<std::size_t>(i < 16 ? i : 47 - i)]));
}

TEST(fused_linears, change_no_logit_of_a_model) {
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

#ifdef INLAY_HAS_NPU
TEST(fused_linears, change_no_logit_on_an_npu) {
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
#endif

// Where the linears of q, k and v and of gate and up write, and who reads it there.
struct Seen {
  struct Columns {
    const float* first;
    index count;
    bool operator==(const Columns&) const = default;
  };
  template <class V> static Columns columns(const V& view) { return {view.template as<float>(), view.extents[1]}; }
  static Columns heads(const ConstView<3>& view) { return {view.as<float>(), view.extents[1] * view.extents[2]}; }

  std::vector<Columns> written, read;  // in the order of the layers; read: q, k, v, gate, up of each
  const float* query = nullptr;

  template <class Op> void operator()(const Op& op) {
    if constexpr (std::is_same_v<Op, Linear<Host>>) written.push_back(columns(op.y));
    if constexpr (std::is_same_v<Op, FlashAttention<Host>>) query = op.q.template as<float>();
    if constexpr (std::is_same_v<Op, ReshapeAndCache<Host>>) read.insert(read.end(), {heads(op.k), heads(op.v)});
    if constexpr (std::is_same_v<Op, Swiglu<Host>>) read.insert(read.end(), {columns(op.gate), columns(op.up)});
  }
};

// Each layer's gate and up lie side by side in its own width, not in the widest one.
TEST(fused_linears, write_what_the_layer_reads) {
  ModelConfig config = config_of_panels();
  config.set_layers({{.hidden = 80}, {.hidden = 48}});
  for (const bool one : {true, false}) {
    auto weights = random_weights(config, "f32", serial(), 7);
    ASSERT_TRUE(weights.has_value());
    if (!one)
      for (index i = 0; LayerWeights & layer : weights->layers) {
        const index hidden = config.layer(i++).hidden;
        layer.qkv = {floats_of(DType::f32, 48, 48, 1), floats_of(DType::f32, 16, 48, 2),
                     floats_of(DType::f32, 16, 48, 3)};
        layer.gate_up = {floats_of(DType::f32, hidden, 48, 4), floats_of(DType::f32, hidden, 48, 5)};
      }
    HostTensors tensors;
    auto decoder = Decoder<>::make(config, std::move(*weights), 16, tensors);
    ASSERT_TRUE(decoder.has_value()) << decoder.error().message();
    auto pool = KvPool<>::make({.layers = 2, .kv_heads = 1, .head_dim = 16, .block_size = 16, .blocks = 1}, tensors);
    ASSERT_TRUE(pool.has_value());
    Sequence sequence;
    Batch batch;
    ASSERT_TRUE(ok(batch.add_prompt(*pool, sequence, tokens(4, config.vocab))));
    std::vector<float> logits(static_cast<std::size_t>(config.vocab));
    Seen seen;
    decoder->forward(seen, *pool, batch.views(), View<2>(logits.data(), {1, config.vocab}));
    ASSERT_EQ(seen.read.size(), 8u);
    ASSERT_EQ(seen.written.size(), one ? 9u : 15u);
    std::size_t at = 0;
    for (const std::size_t layer : {0u, 1u}) {
      const index hidden = config.layer(static_cast<index>(layer)).hidden;
      const float *qkv = seen.query, *gate_up = seen.read[4 * layer + 2].first;
      const std::vector<Seen::Columns> apart[] = {{{qkv, 48}, {qkv + 48, 16}, {qkv + 64, 16}},
                                                  {{gate_up, hidden}, {gate_up + hidden, hidden}}};
      EXPECT_EQ(seen.read[4 * layer], apart[0][1]);
      EXPECT_EQ(seen.read[4 * layer + 1], apart[0][2]);
      EXPECT_EQ(seen.read[4 * layer + 3], apart[1][1]);
      for (const auto& parts : apart) {
        if (one)
          EXPECT_EQ(seen.written[at++], (Seen::Columns{parts[0].first, &parts == apart ? 80 : 2 * hidden}));
        else
          for (const Seen::Columns& part : parts) EXPECT_EQ(seen.written[at++], part);
        ++at;  // output, down
      }
    }
  }
}

TEST(fused_linears, are_what_a_model_is_loaded_to) {
  const auto parts = [](const Weights& weights) {
    return std::pair(weights.layers[0].qkv.size(), weights.layers[0].gate_up.size());
  };
  const std::pair<std::size_t, std::size_t> one_each(1, 1), gate_up_alone(3, 1);
  ModelConfig config = tiny_config("qwen2");
  config.head_dim = config.ropes[0].dim = 16;
  const TinyModel model = tiny_model(config);
  const auto loaded = load_weights(std::make_shared<const ModelFile>(model.file), serial());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(parts(*loaded), one_each);
  // q | k | v with their biases.
  const LinearWeight& qkv = loaded->layers[0].qkv[0];
  const std::vector<float> x(32, 1.0f);
  const auto y = product(Reference(), {qkv}, {x.data(), {1, 32}}, Activations::exact);
  std::vector<float> expected;
  for (const std::string part : {"q", "k", "v"}) {
    const WeightTensor* weight = model.file.find("blk.0.attn_" + part + ".weight");
    const WeightTensor* bias = model.file.find("blk.0.attn_" + part + ".bias");
    std::vector<float> row;
    for (index o = 0; o < weight->extents[0]; ++o) {
      ASSERT_TRUE(model.file.read_row(*weight, o, row));
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

  config.head_dim = config.ropes[0].dim = 12;  // k ends within a panel
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
