// The model as a whole: every backend and level against the reference, chunks against the whole
// prompt, decoding against prefill, and third-party models where ../shared/data exists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/generate.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>

#include "tests/exec/support/greedy_text.hpp"
#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/handed_out.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec {
namespace {

using inlay::test::ok, inlay::test::cpus;
using test::all, test::distance, test::magnitude, test::session, test::tiny, test::tiny_mixture, test::tokens;

// What sets the architectures apart.
std::vector<std::pair<std::string, ModelConfig>> variants() {
  std::vector<std::pair<std::string, ModelConfig>> list = {{"llama", tiny()}};
  list[0].second.ropes[0].pairing = RopeConfig::Pairing::interleaved;
  list.emplace_back("qwen2", tiny());
  list.back().second.qkv_bias = true;
  list.emplace_back("qwen3", tiny());
  list.back().second.qk_norm = QkNorm::head;
  list.emplace_back("mistral", tiny());
  list.back().second.sliding_window = 5;
  list.emplace_back("partial rope", tiny());
  list.back().second.ropes[0].dim = 8;
  list.emplace_back("experts", tiny_mixture());
  return list;
}

// Rounding grows from layer to layer; two layers of exact formats stay within some hundred eps of the
// largest logit. int8 activations may fall on the other side of a rounding: one step in 127 of one
// factor among `dim` (48).
double bound(const std::string& type, double largest) { return (type == "int8" ? 0.01 : 2e-5) * largest; }

TEST(decoder, every_level_and_thread_count_agrees_with_the_reference) {
  for (const auto& [name, config] : variants())
    for (const std::string type : {"f32", "f16", "bf16", "int8", "w4a16"}) {
      if (type != "f32" && name != "llama" && name != "experts")
        continue;  // forms of weights and architectures do not interact
      SCOPED_TRACE(name + " " + type);
      const auto prompt = tokens(21, config.vocab);
      Session reference = session(config, type, Eager(Reference{}), {.kv_type = DType::f32});
      const auto expected = all(reference, reference.append(prompt, 21));
      const auto next = all(reference, reference.decode(5));
      for (const Cpu& cpu : cpus()) {
        SCOPED_TRACE(inlay::test::name(cpu));
        Session fast = session(config, type, Eager(cpu), {.kv_type = DType::f32});
        EXPECT_LE(distance(all(fast, fast.append(prompt, 21)), expected), bound(type, magnitude(expected)));
        EXPECT_LE(distance(all(fast, fast.decode(5)), next), bound(type, magnitude(next)));
      }
    }
}

TEST(decoder, chunks_give_the_bits_of_the_whole_prompt) {
  for (const auto& [name, config] : variants())
    for (const std::string type : {"f32", "w4a16", "int8"}) {
      SCOPED_TRACE(name + " " + type);
      const auto prompt = tokens(70, config.vocab);
      Session whole = session(config, type, Eager(Cpu(inlay::test::handed_out(2))), {.chunk = 70});
      const auto expected = all(whole, whole.append(prompt, 70));
      for (index chunk : {1, 7, 16, 32, 69}) {
        Session parts = session(config, type, Eager(Cpu(inlay::test::handed_out(2))), {.chunk = chunk});
        EXPECT_EQ(all(parts, parts.append(prompt, 70)), expected) << "chunk " << chunk;
      }
    }
}

TEST(decoder, threads_and_block_sizes_do_not_change_a_bit) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(40, config.vocab);
  Session one = session(config, "f32", Eager(Cpu(serial())), {});
  const auto expected = all(one, one.append(prompt, 40)), next = all(one, one.decode(3));
  for (int threads : {2, 3, 7})
    for (index block : {1, 5, 32}) {
      Session other = session(config, "f32", Eager(Cpu(inlay::test::handed_out(threads))), {.block_size = block});
      EXPECT_EQ(all(other, other.append(prompt, 40)), expected) << threads << " threads, blocks of " << block;
      EXPECT_EQ(all(other, other.decode(3)), next) << threads << " threads, blocks of " << block;
    }
}

TEST(decoder, decoding_continues_what_prefill_began) {
  for (const auto& [name, config] : variants()) {
    SCOPED_TRACE(name);
    const auto prompt = tokens(30, config.vocab);
    Session whole = session(config, "f32", Eager(Cpu()), {.kv_type = DType::f32});
    const auto expected = all(whole, whole.append(prompt, 1));
    Session steps = session(config, "f32", Eager(Cpu()), {.kv_type = DType::f32});
    (void)all(steps, steps.append({prompt.begin(), prompt.begin() + 9}));
    std::vector<float> last;
    for (std::size_t i = 9; i < prompt.size(); ++i) last = all(steps, steps.decode(prompt[i]));
    EXPECT_LE(distance(last, expected), 2e-5 * magnitude(expected));
  }
}

TEST(decoder, what_does_not_fit_is_refused_and_nothing_is_lost) {
  const ModelConfig config = tiny();
  Session session = test::session(config, "f32", Eager(Cpu()), {});
  const auto before = all(session, session.append(tokens(90, config.vocab)));
  const Status refused = session.append(tokens(7, config.vocab));
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.message().find("97"), std::string_view::npos);
  EXPECT_NE(refused.message().find("96"), std::string_view::npos);
  EXPECT_FALSE(session.append({}).ok());
  EXPECT_FALSE(session.append({static_cast<Token>(config.vocab)}).ok());
  EXPECT_FALSE(session.append({-1}).ok());
  EXPECT_EQ(session.length(), 90);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(ok(session.decode(1)));
  EXPECT_FALSE(session.decode(1).ok());
  session.reset();
  EXPECT_EQ(all(session, session.append(tokens(90, config.vocab))), before);
}

// What was appended before an interruption stays, and the text goes on from there with the bits of the whole.
TEST(decoder, a_prompt_is_interrupted_between_its_chunks) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(40, config.vocab);
  const Session::Options options{.chunk = 16};
  Session whole = session(config, "f32", Eager(Cpu()), options);
  const auto expected = all(whole, whole.append(prompt));
  Session text = session(config, "f32", Eager(Cpu()), options);
  index done = 0;
  const auto append = [&](index most) {
    return text.append(
        {prompt.begin() + text.length(), prompt.end()}, 1, [&](index now, index) { done = now; },
        [&done, most] { return done >= most; });
  };
  ASSERT_TRUE(ok(append(0)));
  EXPECT_EQ(text.length(), 0);
  ASSERT_TRUE(ok(append(16)));
  EXPECT_EQ(text.length(), 16);
  EXPECT_FALSE(text.logits());
  EXPECT_FALSE(text.sample({.logits = {}, .tokens = {}, .temperature = 0}));
  EXPECT_FALSE(text.truncate(17).ok());
  EXPECT_EQ(all(text, text.append({prompt.begin() + 16, prompt.end()})), expected);
  ASSERT_TRUE(ok(text.truncate(16)));
  EXPECT_FALSE(text.logits());
  EXPECT_EQ(all(text, text.append({prompt.begin() + 16, prompt.end()})), expected);
}

TEST(kv_pool, blocks_are_taken_once_and_come_back) {
  BlockPool pool({.layers = 1, .kv_heads = 1, .head_dim = 2, .block_size = 4, .blocks = 6});
  Sequence a, b;
  ASSERT_TRUE(ok(pool.reserve(a, 9)));   // 3 blocks
  ASSERT_TRUE(ok(pool.reserve(b, 12)));  // 3 blocks
  EXPECT_EQ(pool.free_blocks(), 0);
  std::vector<int> owners(6);
  for (const Sequence* s : {&a, &b})
    for (std::int32_t block : s->blocks) ++owners[block];
  EXPECT_EQ(owners, std::vector<int>(6, 1));
  const Status full = pool.reserve(a, 13);
  EXPECT_EQ(full.code(), StatusCode::out_of_memory);
  EXPECT_EQ(a.blocks.size(), 3u);  // nothing was taken
  EXPECT_EQ(pool.slot(a, 5), a.blocks[1] * 4 + 1);
  pool.release(b);
  EXPECT_EQ(pool.free_blocks(), 3);
  EXPECT_TRUE(b.blocks.empty());
  ASSERT_TRUE(ok(pool.reserve(a, 13)));
}

TEST(batch, sequences_of_different_lengths_decode_together_as_they_do_alone) {
  const ModelConfig config = tiny();
  auto weights = random_weights(config, "f32", serial(), 7);
  ASSERT_TRUE(weights.has_value());
  HostTensors tensors;
  auto decoder = Decoder<>::make(config, std::move(*weights), 64, tensors);
  ASSERT_TRUE(decoder.has_value());
  auto pool = KvPool<>::make(cache_shape(config, DType::f32, 5, 200), tensors);
  ASSERT_TRUE(pool.has_value());
  Chain run{Cpu(inlay::test::handed_out(2))};  // an Eager is every operator of every backend
  const auto pass = [&](Batch& batch, index rows) {
    std::vector<float> logits(static_cast<std::size_t>(rows * config.vocab));
    decoder->forward(run, *pool, batch.views(), View<2>(logits.data(), {rows, config.vocab}));
    EXPECT_TRUE(ok(run.take_status()));
    return logits;
  };
  const index lengths[] = {3, 17, 8};
  // Together: one ragged prefill, one batch of three decoding.
  Sequence together[3];
  Batch prefill;
  for (int s = 0; s < 3; ++s) ASSERT_TRUE(ok(prefill.add_prompt(*pool, together[s], tokens(lengths[s], config.vocab))));
  (void)pass(prefill, 28);
  Batch decode;
  for (int s = 0; s < 3; ++s) {
    together[s].length = lengths[s];
    const Token token = 40 + s;
    ASSERT_TRUE(ok(decode.add_generated(*pool, together[s], {&token, 1})));
  }
  const auto batched = pass(decode, 3);
  for (int s = 0; s < 3; ++s) {
    Sequence alone;
    Batch one;
    ASSERT_TRUE(ok(one.add_prompt(*pool, alone, tokens(lengths[s], config.vocab))));
    (void)pass(one, lengths[s]);
    alone.length = lengths[s];
    Batch step;
    const Token token = 40 + s;
    ASSERT_TRUE(ok(step.add_generated(*pool, alone, {&token, 1})));
    const auto expected = pass(step, 1);
    const std::vector<float> got(batched.begin() + s * config.vocab, batched.begin() + (s + 1) * config.vocab);
    EXPECT_EQ(got, expected) << "sequence " << s;
  }
}

// Third-party models.

// The words of a prompt may come again under a presence penalty, those of the answer may not; the repetition penalty
// knows both. Our model writes a token that its prompt holds: what comes first, and whether it does, tells.
TEST(generate, penalties_tell_the_prompt_from_the_answer) {
  auto loaded = load_model(inlay::test::source_path("models/stories.gguf"));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const auto file = std::make_shared<const ModelFile>(std::move(*loaded));
  const auto tokenizer = Tokenizer::make(file->tokenizer);
  ASSERT_TRUE(tokenizer.has_value());
  auto session = Session::make(file, Eager(Cpu(serial())), {.context = 256});
  ASSERT_TRUE(session.has_value()) << session.error().message();
  const auto write = [&](const std::vector<Token>& prompt, index count, Sampling<Host> sampling) {
    std::vector<Token> answer;
    sampling.temperature = 0;
    session->reset();
    const auto end = generate(*session, *tokenizer, prompt, count, sampling, [&](Token token) {
      answer.push_back(token);
      return true;
    });
    EXPECT_TRUE(end.has_value());
    return answer;
  };
  const std::vector<Token> story = write({tokenizer->bos()}, 100, {.logits = {}, .tokens = {}});
  std::vector<Token> prompt{tokenizer->bos()};
  std::size_t next = 0;
  while (std::find(prompt.begin(), prompt.end(), story.at(next)) == prompt.end()) prompt.push_back(story.at(next++));

  const Sampling<Host> presence{.logits = {}, .tokens = {}, .presence_penalty = 1e4f};
  const Sampling<Host> repetition{.logits = {}, .tokens = {}, .repetition_penalty = 1e4f};
  EXPECT_EQ(write(prompt, 1, presence), std::vector<Token>{story[next]});
  EXPECT_NE(write(prompt, 1, repetition), std::vector<Token>{story[next]});
  std::vector<Token> answer = write(prompt, 60, presence);
  std::sort(answer.begin(), answer.end());
  EXPECT_EQ(std::adjacent_find(answer.begin(), answer.end()), answer.end());  // no token twice
}

const std::filesystem::path shared = inlay::test::third_party("");

TEST(third_party, stories260k_writes_the_text_of_llama2c) {
  INLAY_NEEDS_DATA("stories260K");
  const auto gguf =
      (std::filesystem::temp_directory_path() / ("inlay_stories260K_" + std::to_string(::getpid()) + ".gguf")).string();
  const auto report = convert_llama2c((shared / "stories260K/stories260K.bin").string(),
                                      (shared / "stories260K/tok512.bin").string(), gguf);
  ASSERT_TRUE(report.has_value()) << report.error().message();
  auto loaded = load_model(gguf);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const auto file = std::make_shared<const ModelFile>(std::move(*loaded));
  std::filesystem::remove(gguf);
  const auto tokenizer = Tokenizer::make(file->tokenizer);
  ASSERT_TRUE(tokenizer.has_value());
  std::ifstream stream(shared / "stories260K/greedy_bos_n200.txt", std::ios::binary);
  std::stringstream expected;
  expected << stream.rdbuf();

  const auto write = [&](Eager run) {
    auto session = Session::make(file, std::move(run), {.kv_type = DType::f32});
    EXPECT_TRUE(session.has_value());
    return test::greedy_text(*session, *tokenizer, 200);
  };
  EXPECT_EQ(write(Eager(Reference{})), expected.str());
  for (const Cpu& cpu : cpus()) EXPECT_EQ(write(Eager(cpu)), expected.str()) << inlay::test::name(cpu);
}

TEST(third_party, tiny_models_load_and_run) {
  INLAY_NEEDS_DATA("tiny_models");
  for (const char* name : {"tiny_llama3", "tiny_qwen3", "llama-2-tiny-random/llama-2-tiny-random.gguf"}) {
    SCOPED_TRACE(name);
    auto loaded = load_model((shared / "tiny_models" / name).string());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
    const auto file = std::make_shared<const ModelFile>(std::move(*loaded));
    const auto prompt = tokens(20, file->config.vocab);
    auto reference = Session::make(file, Eager(Reference{}), {.context = 64, .kv_type = DType::f32});
    ASSERT_TRUE(reference.has_value()) << reference.error().message();
    const auto expected = all(*reference, reference->append(prompt, 20));
    for (float v : expected) ASSERT_TRUE(std::isfinite(v));
    for (const Cpu& cpu : cpus()) {
      auto fast = Session::make(file, Eager(cpu), {.context = 64, .kv_type = DType::f32});
      ASSERT_TRUE(fast.has_value());
      EXPECT_LE(distance(all(*fast, fast->append(prompt, 20)), expected), 1e-4 * magnitude(expected))
          << inlay::test::name(cpu);
    }
  }
}

}  // namespace
}  // namespace inlay::exec
