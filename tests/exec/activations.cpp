// The option that rounds what linears multiply with: which weights it reaches, that every level computes the rounded
// product, what it costs in the logits, and where it is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/ggml_blocks.hpp"
#include "tests/support/handed_out.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

constexpr Sampling<Host> greedy{.logits = {}, .tokens = {}, .temperature = 0};

double rms(const std::vector<float>& a) {
  double sum = 0;
  for (float v : a) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(a.size()));
}
double rms_distance(std::vector<float> a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return rms(a);
}

// x with each group of a row rounded to 8 bits. Groups of these tests divide the kernel's blocks of 128.
std::vector<float> rounded(const ConstView<2>& x, index group) {
  std::vector<float> values;
  const index k = x.extents[1];
  for (index t = 0; t < x.extents[0]; ++t) {
    const float* row = x.as<float>() + t * x.strides[0];
    for (index begin = 0; begin < k; begin += group) {
      const index end = std::min(begin + group, k);
      float largest = 0;
      for (index i = begin; i < end; ++i) largest = std::max(largest, std::abs(row[i]));
      const float step = largest / 127, inverse = step > 0 ? 1 / step : 0;
      for (index i = begin; i < end; ++i) values.push_back(std::nearbyint(row[i] * inverse) * step);
    }
  }
  return values;
}

// The reference backend computes linear_w4a16 exactly whatever is asked for. This one rounds first.
class RoundedReference {
 public:
  template <class Op> void operator()(const Op& op) {
    if (!status_.ok()) return;
    if constexpr (std::is_same_v<Op, LinearW4a16<Host>>) {
      EXPECT_EQ(op.compute, W4Compute::int8_activations);
      const std::vector<float> x = rounded(op.x, op.group);
      Op of_rounded = op;
      of_rounded.x = {x.data(), {op.x.extents[0], op.x.extents[1]}};
      status_ = run(reference_, of_rounded);
    } else {
      status_ = run(reference_, op);
    }
  }
  Status take_status() { return std::exchange(status_, Status()); }

 private:
  Reference reference_;
  Status status_;
};

// Which operator a linear became.
struct Emitted {
  std::string operation;
  void operator()(const Linear<Host>& op) {
    operation = op.compute == LinearCompute::bf16_products ? "bf16 products" : "float";
  }
  void operator()(const LinearInt8<Host>&) { operation = "int8"; }
  void operator()(const LinearW4a16<Host>& op) {
    EXPECT_TRUE(ok(check(op)));
    operation = op.compute == W4Compute::int8_activations ? "codes, int8 activations" : "codes, exact";
  }
};

// Bytes of a [n, k] weight that a file may hold.
std::vector<std::byte> weight_bytes(GgmlType type, index n, index k) {
  std::mt19937 random(3);
  std::vector<std::byte> bytes(static_cast<std::size_t>(n * ggml_row_bytes(type, k)));
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  const auto block = static_cast<std::size_t>(ggml_format(type).bytes);
  for (std::size_t at = 0; at < bytes.size(); at += block)
    for (const index exponent : inlay::test::exponents_in(type))
      bytes[at + static_cast<std::size_t>(exponent)] = std::byte{inlay::test::small_exponent(type)};
  return bytes;
}

// Every block format can be asked for: no group or shape of theirs is beyond int8_activations.
TEST(activations, reach_every_block_format_at_every_level) {
  constexpr index tokens = 5, n = 19, k = 512;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<float> x(tokens * k), y(tokens * n);
  for (float& each : x) each = normal(random);
  const ConstView<2> x_view(x.data(), {tokens, k});
  const View<2> y_view(y.data(), {tokens, n});
  for (const GgmlType type : inlay::test::block_formats) {
    SCOPED_TRACE(ggml_format(type).name);
    const auto bytes = weight_bytes(type, n, k);
    std::vector<float> w(n * k);
    for (index o = 0; o < n; ++o)
      ASSERT_TRUE(dequantize_row(type, bytes.data() + o * ggml_row_bytes(type, k), k, w.data() + o * k));
    ModelFile file;
    file.set_tensors({{.name = "w", .type = type, .rank = 2, .extents = {n, k}, .data = bytes.data()}},
                     {Mapping::borrow(bytes)});
    const auto weight = pack_weight(serial(), file, *file.find("w"));
    ASSERT_TRUE(weight.has_value()) << weight.error().message();
    Emitted emitted;
    (*weight)(emitted, x_view, y_view, Activations::exact);
    EXPECT_EQ(emitted.operation, "codes, exact");
    (*weight)(emitted, x_view, y_view, Activations::int8);
    EXPECT_EQ(emitted.operation, "codes, int8 activations");
    (*weight)(emitted, x_view, y_view, Activations::bf16);
    EXPECT_EQ(emitted.operation, "codes, exact");

    const std::vector<float> xq = rounded(x_view, inlay::test::group_of(type));
    // Dot products are exact. A group's two terms, codes and offset, are up to 8 times their sum (Q6_K: codes
    // near 128 for weights near 16 steps) and go through three roundings.
    const double rounding = 3 * 8 * inlay::test::epsilon(DType::f32);
    for (const Cpu& cpu : cpus()) {
      SCOPED_TRACE(inlay::test::name(cpu));
      Chain<Cpu> run(cpu);
      (*weight)(run, x_view, y_view, Activations::int8);
      ASSERT_TRUE(ok(run.take_status()));
      for (index t = 0; t < tokens; ++t)
        for (index o = 0; o < n; ++o) {
          double expected = 0, size = 0;
          for (index i = 0; i < k; ++i) {
            const double product = static_cast<double>(xq[t * k + i]) * w[o * k + i];
            expected += product;
            size += std::abs(product);
          }
          EXPECT_NEAR(y[static_cast<std::size_t>(t * n + o)], expected, rounding * size);
        }
    }
  }
}

TEST(activations, other_weights_run_as_before) {
  const ModelConfig config = tiny();
  const index n = config.heads * config.head_dim;
  std::vector<float> x(static_cast<std::size_t>(config.dim)), y(static_cast<std::size_t>(n));
  for (const auto& [type, operation] :
       {std::pair("f32", "float"), {"f16", "float"}, {"bf16", "float"}, {"int8", "int8"}})
    for (const Activations activations : {Activations::exact, Activations::int8, Activations::bf16}) {
      const auto weights = random_weights(config, type, serial(), 7);
      ASSERT_TRUE(weights.has_value());
      Emitted emitted;
      weights->layers[0].qkv[0](emitted, {x.data(), {1, config.dim}}, {y.data(), {1, n}}, activations);
      const bool rounds = activations == Activations::bf16 && operation == std::string("float");
      EXPECT_EQ(emitted.operation, rounds ? "bf16 products" : operation) << type;
    }
}

TEST(activations, a_model_that_rounds_nothing_refuses) {
  const ModelConfig config = tiny();
  const auto make = [&](const std::string& type, Activations activations) {
    auto weights = random_weights(config, type, serial(), 7);
    EXPECT_TRUE(weights.has_value());
    return Session::make(config, std::move(*weights), Eager(Cpu()), {.context = 32, .activations = activations});
  };
  const auto expect_refusal = [&](const char* type, Activations activations, const char* words) {
    const auto refused = make(type, activations);
    ASSERT_FALSE(refused.has_value()) << type;
    EXPECT_EQ(refused.error().code(), StatusCode::invalid_argument);
    EXPECT_NE(refused.error().message().find(words), std::string_view::npos) << refused.error().message();
  };
  for (const char* type : {"f32", "f16", "bf16"}) expect_refusal(type, Activations::int8, "activations is int8");
  for (const char* type : {"int8", "w4a16"}) expect_refusal(type, Activations::bf16, "activations is bf16");
  // W8A8 rounds anyway: both options are the same bits.
  auto int8 = make("int8", Activations::int8);
  ASSERT_TRUE(int8.has_value()) << int8.error().message();
  Session plain = session(config, "int8", Eager(Cpu()), {});
  EXPECT_EQ(all(*int8, int8->append(tokens(20, config.vocab), 20)),
            all(plain, plain.append(tokens(20, config.vocab), 20)));
}

// A value of a group of 32 near-normal ones is off by step / sqrt(12), step = largest / 127 and largest about
// 2.2 times their rms: 0.5%, and so is a linear's result. Between embedding and logits lie four linears in
// series in each of two layers, and the head; independent errors add as squares: 9 of them make 1.5%.
constexpr double min_rounding = 0.005, max_rounding = 0.02;

TEST(activations, every_level_is_the_reference_over_rounded_inputs) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(21, config.vocab);
  const Session::Options options = {.kv_type = DType::f32, .activations = Activations::int8};
  // The decoder itself, since a session runs a backend's own form.
  auto weights = random_weights(config, "w4a16", serial(), 7);
  ASSERT_TRUE(weights.has_value());
  HostTensors tensors;
  auto decoder = Decoder<>::make(config, std::move(*weights), 32, tensors, Activations::int8);
  ASSERT_TRUE(decoder.has_value());
  auto pool = KvPool<>::make(cache_shape(config, DType::f32, 16, 32), tensors);
  ASSERT_TRUE(pool.has_value());
  RoundedReference reference;
  Sequence sequence;
  Batch batch;
  ASSERT_TRUE(ok(batch.add_prompt(*pool, sequence, prompt)));
  std::vector<float> expected(static_cast<std::size_t>(21 * config.vocab));
  decoder->forward(reference, *pool, batch.views(), View<2>(expected.data(), {21, config.vocab}));
  ASSERT_TRUE(ok(reference.take_status()));

  Session plain = session(config, "w4a16", Eager(Reference{}), {.kv_type = DType::f32});
  const double size = rms(expected), rounding = rms_distance(all(plain, plain.append(prompt, 21)), expected);
  EXPECT_GE(rounding, min_rounding * size);
  EXPECT_LE(rounding, max_rounding * size);
  for (const Cpu& cpu : cpus()) {
    SCOPED_TRACE(inlay::test::name(cpu));
    Session fast = session(config, "w4a16", Eager(cpu), options);
    // An input within f32's rounding of a half may fall on its other side: a step in 127 of one among `dim` (48)
    // inputs moves a linear's results by 0.2%, in one row of 21: 0.05% of all.
    EXPECT_LE(rms_distance(all(fast, fast.append(prompt, 21)), expected), 0.001 * size);
    fast.reset();
    (void)all(fast, fast.append({prompt.begin(), prompt.end() - 1}));
    const auto decoded = all(fast, fast.decode(prompt.back()));
    const std::vector<float> last(expected.end() - config.vocab, expected.end());
    EXPECT_LE(rms_distance(decoded, last), 0.003 * rms(last));
  }
}

// Rounding to bf16 is off by 2^-8 / sqrt(3) / 1.36 of a number, 0.17% (mantissas evenly spread by their logarithm); the
// f16 weight too: 0.23%. Nine linears in series make 0.5 to 0.7%; where two of them are multiplied both errors count:
// at most twice that.
TEST(activations, bf16_products_at_every_level_are_those_of_the_reference) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(21, config.vocab);
  for (const char* type : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(type);
    const auto logits = [&](Eager run, Activations activations) {
      Session made = session(config, type, std::move(run), {.kv_type = DType::f32, .activations = activations});
      return all(made, made.append(prompt, 21));
    };
    const auto expected = logits(Eager(Reference{}), Activations::bf16);
    const double size = rms(expected),
                 rounding = rms_distance(logits(Eager(Reference{}), Activations::exact), expected);
    EXPECT_GE(rounding, 0.004 * size);
    EXPECT_LE(rounding, 0.014 * size);
    // An input near the middle between two bf16 may fall on its other side: 2^-8 of one among 48, in one row of 21.
    for (const Cpu& cpu : cpus())
      EXPECT_LE(rms_distance(logits(Eager(cpu), Activations::bf16), expected), 0.0003 * size) << inlay::test::name(cpu);
  }
}

TEST(activations, chunks_and_threads_do_not_change_a_bit) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(70, config.vocab);
  for (const auto& [type, activations] :
       {std::pair("w4a16", Activations::int8), {"f16", Activations::bf16}, {"bf16", Activations::bf16}}) {
    const auto logits = [&, type = type, activations = activations](Parallel threads, index chunk) {
      Session made = session(config, type, Eager(Cpu(threads)), {.chunk = chunk, .activations = activations});
      return all(made, made.append(prompt, 70));
    };
    const auto expected = logits(serial(), 70);
    for (index chunk : {1, 7, 16, 32, 69, 70})
      EXPECT_EQ(logits(inlay::test::handed_out(2), chunk), expected) << type << ", chunk " << chunk;
  }
}

// q, K, V and weights are off by 0.17% in the mean square each; a score of two so moves its weight by 0.5%. In each of
// two layers that makes 0.54% of what attention gives, 0.76% of both if it were all that there is. Where the CPU has no
// such product nothing is rounded.
TEST(activations, attention_of_a_prompt_in_bf16) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(70, config.vocab);
  const auto logits = [&](Cpu cpu, AttentionCompute attention, index chunk = 70) {
    Session made = session(config, "f16", Eager(cpu), {.chunk = chunk, .attention = attention});
    return all(made, made.append(prompt, 70));
  };
  for (const Cpu& cpu : cpus()) {
    SCOPED_TRACE(inlay::test::name(cpu));
    const auto exact = logits(cpu, AttentionCompute::exact_float), bf16 = logits(cpu, AttentionCompute::bf16_products);
    if (cpu.isa() != Isa::avx512_bf16) {
      EXPECT_EQ(bf16, exact);
      continue;
    }
    EXPECT_GE(rms_distance(bf16, exact), 0.0001 * rms(exact));
    EXPECT_LE(rms_distance(bf16, exact), 0.0076 * rms(exact));
    for (index chunk : {1, 7, 32, 69}) EXPECT_EQ(logits(cpu, AttentionCompute::bf16_products, chunk), bf16) << chunk;
  }
}

// The model that ships with Inlay, with and without the rounding, whose part in the logits is least .. most.
void expect_the_same_story(WeightFormat weights, Activations rounded, double least, double most) {
  constexpr index count = 60;
  const TemporaryDirectory directory;
  const std::string path = directory / "stories.gguf";
  const auto report = convert(inlay::test::source_path("models/stories.gguf"), path, {.weights = weights});
  ASSERT_TRUE(report.has_value()) << report.error().message();
  auto loaded = load_model(path);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const auto file = std::make_shared<const ModelFile>(std::move(*loaded));
  const auto tokenizer = Tokenizer::make(file->tokenizer);
  ASSERT_TRUE(tokenizer.has_value());
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    std::vector<Token> story[2];
    std::vector<float> logits[2];  // of the exact story
    for (const bool rounds : {false, true}) {
      const Activations activations = rounds ? rounded : Activations::exact;
      auto writer = Session::make(file, Eager(Cpu(isa, inlay::test::handed_out(2))), {.activations = activations});
      ASSERT_TRUE(writer.has_value()) << writer.error().message();
      const auto end = generate(*writer, *tokenizer, {tokenizer->bos()}, count, greedy, [&](Token token) {
        story[rounds].push_back(token);
        return true;
      });
      ASSERT_TRUE(end.has_value()) << end.error().message();
      ASSERT_EQ(end->new_tokens, count);
      writer->reset();
      logits[rounds] = all(*writer, writer->append(story[0], count));
    }
    EXPECT_EQ(story[1], story[0]);
    EXPECT_GE(rms_distance(logits[1], logits[0]), least * rms(logits[0]));
    EXPECT_LE(rms_distance(logits[1], logits[0]), most * rms(logits[0]));
  }
}

// Its head is F16: 24 linears in series, so 2.5% by the rule above.
TEST(activations, our_model_in_4_bits_writes_the_same_story) {
  expect_the_same_story(WeightFormat::q4_0, Activations::int8, min_rounding, 0.025);
}

// 25 linears of 0.17%, or of 0.23% in F16: 0.85 and 1.2%.
TEST(activations, our_model_in_bf16_and_f16_writes_the_same_story) {
  expect_the_same_story(WeightFormat::bf16, Activations::bf16, 0.002, 0.01);
  expect_the_same_story(WeightFormat::keep, Activations::bf16, 0.002, 0.013);
}

}  // namespace
}  // namespace inlay::exec::test
