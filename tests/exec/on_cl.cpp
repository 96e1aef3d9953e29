// Whole models on OpenCL, in both shapes: the reference's logits, the text that llama2.c writes, and no memory asked
// for after the first token.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>

#include "tests/exec/support/fused_weights.hpp"
#include "tests/exec/support/greedy_text.hpp"
#include "tests/exec/support/on_cl.hpp"
#include "tests/exec/support/random_session.hpp"
#include "tests/support/files.hpp"
#include "tests/support/handed_out.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec::test {
namespace {

// Two layers stay within some hundred eps of the largest logit; int8 activations, keys and values may fall on the other
// side of a rounding (tests/exec/decoder.cpp).
TEST_F(OnCl, logits_are_those_of_the_reference) {
  ModelConfig config = tiny();
  config.qkv_bias = true;
  config.qk_norm = QkNorm::head;
  config.sliding_window = 5;
  for (const ModelConfig& each : {config, tiny_mixture()})
    for (const auto& [type, kv_type] : {std::pair<std::string, DType>("f32", DType::f32),
                                        {"f16", DType::f32},
                                        {"bf16", DType::f32},
                                        {"int8", DType::f32},
                                        {"w4a16", DType::f32},
                                        {"f32", DType::i8},
                                        {"w4a16", DType::i8}}) {
      SCOPED_TRACE(type + ", cache " + std::string(name(kv_type)));
      const auto prompt = tokens(21, each.vocab);
      Session reference = session(each, type, Eager(Reference{}), {.chunk = 8, .kv_type = kv_type});
      const auto expected = all(reference, reference.append(prompt, 21));
      const auto next = all(reference, reference.decode(5));
      const double bound = type == "int8" || kv_type == DType::i8 ? 0.01 : 2e-5;
      on_each_shape([&, &type = type, &kv_type = kv_type](Cl& cl) {
        Session ours = session(each, type, Chain(std::ref(cl)), {.chunk = 8, .kv_type = kv_type, .block_size = 5});
        EXPECT_LE(distance(all(ours, ours.append(prompt, 21)), expected), bound * magnitude(expected));
        EXPECT_LE(distance(all(ours, ours.decode(5)), next), bound * magnitude(next));
        EXPECT_TRUE(ours.fallbacks().empty());
      });
    }
}

TEST_F(OnCl, fused_linears_are_their_parts_bit_for_bit) {
  ModelConfig config = config_of_panels();
  config.qkv_bias = true;
  for (const auto& [name, make] : forms()) {
    SCOPED_TRACE(name);
    const auto [apart, together] = weights_of(config, make);
    const Activations activations = apart.all_linears_are(true) ? Activations::exact : Activations::int8;
    on_each_shape([&, &apart = apart, &together = together](Cl& cl) {
      EXPECT_EQ(logits(config, together, Chain(std::ref(cl)), activations),
                logits(config, apart, Chain(std::ref(cl)), activations));
    });
  }
}

TEST_F(OnCl, a_step_asks_the_driver_for_no_memory) {
  const ModelConfig config = tiny();
  on_each_shape([&](Cl& cl) {
    Session made = session(config, "w4a16", Chain(std::ref(cl)), {.chunk = 8});
    ASSERT_TRUE(made.append(tokens(8, config.vocab)).ok());
    std::size_t before = 0;
    for (int step = 0; step < 20; ++step) {
      const auto token = made.sample({.logits = {}, .tokens = {}, .temperature = 0});
      ASSERT_TRUE(token.has_value()) << token.error().message();
      ASSERT_TRUE(made.decode(*token).ok());
      if (step == 1) before = cl.allocations();
    }
    EXPECT_EQ(cl.allocations(), before);
  });
}

// The greedy text of `file`, 200 tokens from its beginning.
template <class Run> std::string write(const std::shared_ptr<const ModelFile>& file, Run run) {
  const auto tokenizer = Tokenizer::make(file->tokenizer);
  auto weights = load_weights(file, inlay::test::handed_out(2));
  EXPECT_TRUE(tokenizer && weights);
  auto session =
      Session::make(file->config, std::move(*weights), std::move(run), {.context = 256, .kv_type = DType::f32});
  EXPECT_TRUE(session.has_value()) << session.error().message();
  return greedy_text(*session, *tokenizer, 200);
}

std::shared_ptr<const ModelFile> loaded(const std::string& path) {
  auto file = load_model(path);
  EXPECT_TRUE(file.has_value()) << file.error().message();
  return std::make_shared<const ModelFile>(std::move(*file));
}

TEST_F(OnCl, our_model_writes_the_same_story) {
  const auto file = loaded(inlay::test::source_path("models/stories.gguf"));
  const std::string expected = write(file, Eager(Cpu(inlay::test::handed_out(2))));
  EXPECT_GT(expected.size(), 100u);
  on_each_shape([&](Cl& cl) { EXPECT_EQ(write(file, Chain(std::ref(cl))), expected); });
}

TEST_F(OnCl, stories260k_writes_the_text_of_llama2c) {
  INLAY_NEEDS_DATA("stories260K");
  const TemporaryDirectory folder;
  const std::string data = shared_data + "stories260K/";
  const auto report = convert_llama2c(data + "stories260K.bin", data + "tok512.bin", folder / "model.gguf");
  ASSERT_TRUE(report.has_value()) << report.error().message();
  const auto file = loaded(folder / "model.gguf");
  on_each_shape([&](Cl& cl) { EXPECT_EQ(write(file, Chain(std::ref(cl))), read_text(data + "greedy_bos_n200.txt")); });
}

}  // namespace
}  // namespace inlay::exec::test
