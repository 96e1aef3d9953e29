// Mixtures of experts between the file and the operators: how their weights are packed, what rounds and what does not,
// and how much memory a pass has room for.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/fused_linears.hpp>
#include <inlay/model/load.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/support/files.hpp"

namespace inlay::exec::test {
namespace {

// Qwen2-MoE of three experts, whose widths are no multiple of a panel but of a block.
ModelConfig tiny_qwen() {
  ModelConfig c = tiny_config("qwen2moe");
  c.qkv_bias = true, c.hidden = 32;
  c.experts = {.count = 3, .top_k = 2, .hidden = 32, .shared_hidden = 64, .shared_gate = true};
  return c;
}

// The bytes of one member of a packed form, in the order of memory.
std::string bytes_of(const void* data, std::size_t size) { return {static_cast<const char*>(data), size}; }
template <int rank> std::string bytes_of(const OwnedTensor<rank>& tensor) {
  const View<rank> view = tensor.view();
  return bytes_of(view.data, static_cast<std::size_t>(byte_size(view.dtype, view.size())));
}
std::string bytes_of(const AlignedBytes& bytes) { return bytes_of(bytes.data(), bytes.size()); }

std::vector<std::string> members(const LinearWeight& weight) {
  if (const auto* plain = std::get_if<LinearWeight::Float>(&weight.form())) return {bytes_of(plain->packed)};
  if (const auto* int8 = std::get_if<LinearWeight::Int8>(&weight.form()))
    return {bytes_of(int8->packed), bytes_of(int8->sums), bytes_of(int8->scales)};
  const auto& codes = std::get<PackedW4>(weight.form());
  std::vector<std::string> all;
  for (auto part : PackedW4::by_panel) all.push_back(bytes_of(codes.*part));
  return all;
}

// Expert e alone, as a file that has nothing else would pack it.
LinearWeight packed_alone(const ModelFile& file, const WeightTensor& tensor, index e) {
  ModelFile alone;
  std::vector<WeightTensor> tensors = {tensor.matrix_of(e)};
  if (const WeightTensor* scales = file.scales_of(tensor)) {
    WeightTensor own = *scales;
    own.extents[0] = tensor.extents[1], own.bytes = own.extents[0] * 4, own.data += e * own.bytes;
    tensors.push_back(own);
  }
  alone.set_tensors(std::move(tensors), {});
  auto packed = pack_weight(serial(), alone, *alone.find(tensor.name));
  EXPECT_TRUE(packed) << packed.error().message();
  return std::move(*packed);
}

TEST(mixtures, experts_are_packed_one_by_one_in_every_form) {
  ModelConfig config = tiny_qwen();
  config.experts.hidden = 64 + 32;
  config.dim = 40, config.head_dim = config.ropes[0].dim = 10;  // an expert of down ends within a panel
  const TinyModel from = tiny_model(config);
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16, WeightFormat::int8,
                                    WeightFormat::q8_0, WeightFormat::q4_0}) {
    SCOPED_TRACE(static_cast<int>(format));
    const TemporaryDirectory d;
    ASSERT_TRUE(write_gguf(from.file, d / "m.gguf", {.weights = format}));
    const auto file = load_model(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"}) {
      const WeightTensor& tensor = *file->find(name);
      const auto together = pack_weight(serial(), *file, tensor);
      ASSERT_TRUE(together) << together.error().message();
      EXPECT_EQ(together->experts(), 3);
      EXPECT_EQ(together->channels(), tensor.extents[1]);
      std::vector<std::string> expected;
      for (index e = 0; e < 3; ++e) {
        const auto own = members(packed_alone(*file, tensor, e));
        expected.resize(own.size());
        for (std::size_t i = 0; i < own.size(); ++i) expected[i] += own[i];
      }
      EXPECT_EQ(members(*together), expected) << name;
      // Views count whole panels.
      const auto* codes = std::get_if<PackedW4>(&together->form());
      const index panels = codes ? codes->codes_view().extents[0] : 3 * w4_panels(tensor.extents[1]);
      EXPECT_EQ(panels, 3 * w4_panels(tensor.extents[1])) << name;
    }
  }
}

TEST(mixtures, experts_of_several_forms_are_refused) {
  const auto one = [](const char* type, index hidden) {
    ModelConfig config = tiny();
    config.hidden = hidden;
    auto weights = random_weights(config, type, serial());
    EXPECT_TRUE(weights);
    return std::move(weights->layers[0].down);
  };
  for (const auto& [type, hidden] : {std::pair{"f16", 80}, {"w4a16", 80}, {"f32", 96}}) {
    std::vector<LinearWeight> experts;
    experts.push_back(one("f32", 80)), experts.push_back(one(type, hidden));
    const auto all = stacked(std::move(experts));
    ASSERT_FALSE(all) << type;
    EXPECT_EQ(all.error().code(), StatusCode::unsupported);
    EXPECT_NE(all.error().message().find("experts"), std::string_view::npos) << all.error().message();
  }
}

// A pass that is looked at and not computed.
struct Seen {
  std::vector<std::pair<index, LinearCompute>> floats;  // channels of those without experts, and how they multiply
  std::vector<LinearCompute> of_experts;
  std::vector<W4Compute> codes;
  index rows_of_experts = 0;

  template <class Op> void operator()(const Op& op) {
    if constexpr (std::is_same_v<Op, Linear<Host>>) {
      if (op.expert_ends.present())
        of_experts.push_back(op.compute), rows_of_experts = op.x.extents[0];
      else
        floats.emplace_back(op.y.extents[1], op.compute);
    }
    if constexpr (std::is_same_v<Op, LinearW4a16<Host>>) codes.push_back(op.compute);
  }
};

Seen pass_of(const ModelConfig& config, const std::string& type, Activations activations, index count) {
  auto weights = random_weights(config, type, serial(), 7);
  EXPECT_TRUE(weights);
  HostTensors tensors;
  auto decoder = Decoder<>::make(config, std::move(*weights), 16, tensors, activations);
  EXPECT_TRUE(decoder) << decoder.error().message();
  auto pool = KvPool<>::make(cache_shape(config, DType::f16, 16, 16), tensors);
  EXPECT_TRUE(pool);
  Sequence sequence;
  Batch batch;
  EXPECT_TRUE(batch.add_prompt(*pool, sequence, tokens(count, config.vocab)).ok());
  std::vector<float> logits(static_cast<std::size_t>(config.vocab));
  Seen seen;
  decoder->forward(seen, *pool, batch.views(), View<2>(logits.data(), {1, config.vocab}));
  return seen;
}

// Another expert is another answer: the router and the shared expert's gate multiply exact floats, whatever else does.
TEST(mixtures, what_routes_is_never_rounded) {
  const ModelConfig config = tiny_mixture();
  const Seen bf16 = pass_of(config, "f32", Activations::bf16, 5);
  index routers = 0;
  for (const auto& [channels, compute] : bf16.floats) {
    const bool routes = channels == config.experts.count || channels == 1;
    routers += routes;
    EXPECT_EQ(compute, routes ? LinearCompute::exact_float : LinearCompute::bf16_products) << channels;
  }
  EXPECT_EQ(routers, 2);
  EXPECT_EQ(bf16.of_experts, std::vector<LinearCompute>(3, LinearCompute::bf16_products));
  EXPECT_EQ(bf16.rows_of_experts, 5 * config.experts.top_k);
  const Seen int8 = pass_of(config, "w4a16", Activations::int8, 5);
  EXPECT_EQ(int8.floats.size(), 2u);  // the routers alone
  for (const auto& [channels, compute] : int8.floats) EXPECT_EQ(compute, LinearCompute::exact_float) << channels;
  for (const W4Compute compute : int8.codes) EXPECT_EQ(compute, W4Compute::int8_activations);
}

// A model of codes has float routers, and is none of floats.
TEST(mixtures, routers_do_not_make_a_model_one_of_floats) {
  for (const bool floats : {true, false}) {
    const auto weights = random_weights(tiny_mixture(), floats ? "f16" : "w4a16", serial());
    ASSERT_TRUE(weights);
    EXPECT_EQ(weights->all_linears_are(true), floats);
    EXPECT_EQ(weights->all_linears_are(false), !floats);
  }
}

TEST(mixtures, a_token_reads_the_experts_that_it_goes_to) {
  ModelConfig config = tiny_mixture();
  const auto bytes = [&](index top_k) {
    config.experts.top_k = top_k;
    const auto weights = random_weights(config, "f16", serial());
    EXPECT_TRUE(weights);
    return weights->linear_bytes;
  };
  const auto weights = random_weights(config, "f16", serial());
  ASSERT_TRUE(weights);
  const MixtureWeights& m = weights->layers[1].mixture;
  const std::size_t all = m.gate.bytes() + m.up.bytes() + m.down.bytes();
  EXPECT_EQ(bytes(2) - bytes(1), all / 7);
  EXPECT_EQ(bytes(7) - bytes(1), all / 7 * 6);
}

// The shared expert is wider than any layer's own feed-forward, or there is no such layer.
TEST(mixtures, a_pass_has_room_for_the_widest) {
  for (const index shared : {index{0}, index{200}}) {
    ModelConfig config = tiny_mixture();
    config.experts.shared_hidden = shared, config.experts.shared_gate = shared > 0;
    for (const bool dense : {true, false}) {
      config.set_layers({{.hidden = 80, .sparse = !dense}, {.hidden = 80, .sparse = true}});
      const auto prompt = tokens(16, config.vocab);
      Session whole = session(config, "f32", Eager(Cpu(serial())), {.chunk = 16, .kv_type = DType::f32});
      Session reference = session(config, "f32", Eager(Reference{}), {.chunk = 4, .kv_type = DType::f32});
      const auto expected = all(reference, reference.append(prompt, 16));
      EXPECT_LE(distance(all(whole, whole.append(prompt, 16)), expected), 2e-5 * magnitude(expected));
    }
  }
}

}  // namespace
}  // namespace inlay::exec::test
