// Several ranks compute the bits of one, whatever they compute; each keeps its own share of the weights. What cannot be
// cut is refused.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <inlay/model/load.hpp>

#include "tests/exec/support/ranks.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// Texts that come and go: prompts in parts, generated tokens beside them, blocks that are copied.
std::vector<Logits> written(const RankOfModel& model, int size) {
  LoopComm ranks(size);
  Followers others(ranks, std::vector<RankOfModel>(static_cast<std::size_t>(size), model));
  std::vector<Logits> logits;
  {
    auto engine = model.engine(ranks.comm(0));
    EXPECT_TRUE(engine.has_value()) << engine.error().message();
    if (!engine) return {};
    auto texts = asked(model.config.vocab, 3);
    texts.resize(9);
    Counts counts;
    logits = together(**engine, texts, {.tokens = 11, .requests = 8}, counts);
    EXPECT_GE(counts.copies, 1);
    EXPECT_GT((*engine)->plan_counts().replayed, model.options.plans == Plans::off ? -1 : 5);
  }
  for (int rank = 1; rank < size; ++rank) EXPECT_TRUE(ok(others.of(static_cast<std::size_t>(rank))));
  return logits;
}

void expect_bits_of_one(const RankOfModel& model, const std::vector<int>& sizes) {
  const auto expected = written(model, 1);
  for (const int size : sizes) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    EXPECT_EQ(written(model, size), expected);
  }
}

TEST(ranks, compute_the_bits_of_one_with_weights_of_every_form) {
  for (const char* type : {"f32", "bf16", "int8", "w4a16"}) {
    SCOPED_TRACE(type);
    expect_bits_of_one({.type = type}, {2, 3, 4});
  }
  expect_bits_of_one({.type = "w4a16", .options = {.max_tokens = 11, .context = 96, .activations = Activations::int8}},
                     {2});
}

TEST(ranks, compute_the_bits_of_one_for_models_that_differ) {
  ModelConfig biased = shared();
  biased.qkv_bias = biased.output_bias = biased.mlp_bias = biased.head_bias = biased.sinks = true;
  biased.qk_norm = QkNorm::head;
  ModelConfig layer_norms = shared();
  layer_norms.norm = NormKind::layer, layer_norms.norm_bias = layer_norms.parallel = true;
  layer_norms.norms.before_ffn = false;
  layer_norms.qk_norm = QkNorm::each_head;
  layer_norms.gated = false, layer_norms.activation = Activation::gelu;
  ModelConfig uneven = shared();
  uneven.heads = 9, uneven.kv_heads = 3;
  uneven.tie_embeddings = true;
  uneven.set_layers({{.hidden = 76}, {.hidden = 200, .window = 9}});
  for (const ModelConfig& config : {biased, layer_norms, uneven}) expect_bits_of_one({.config = config}, {2, 3});
}

TEST(ranks, compute_the_bits_of_one_with_and_without_plans_and_threads) {
  for (const Plans plans : {Plans::off, Plans::piecewise, Plans::full})
    expect_bits_of_one({.options = {.max_tokens = 11, .context = 96, .plans = plans}, .kv_type = DType::i8}, {2});
  expect_bits_of_one({.run = [] { return Eager(Reference{}); }}, {2});
}

TEST(ranks, a_session_of_rank_0_writes_and_the_others_follow) {
  const RankOfModel model{.type = "w4a16"};
  const auto prompt = tokens(23, model.config.vocab);
  const auto write = [&](Session& session) {
    std::vector<float> last = all(session, session.append(prompt, 23));
    std::vector<Token> text;
    for (index step = 0; step < 9; ++step) {
      const auto token = session.sample({.logits = {}, .tokens = {}, .temperature = 0.8f, .seed = 5, .step = step});
      EXPECT_TRUE(token.has_value());
      text.push_back(*token);
      const auto logits = all(session, session.decode(*token));
      last.insert(last.end(), logits.begin(), logits.end());
    }
    return std::pair(last, text);
  };
  const auto of_rank = [&](const Comm& comm, auto&& use) {
    const auto cut = RankCut::make(model.config, comm.rank, comm.size);
    EXPECT_TRUE(cut.has_value());
    auto weights = random_weights(model.config, model.type, serial(), 7, *cut);
    EXPECT_TRUE(weights.has_value());
    use(cut->config(), std::move(*weights), Session::Options{.chunk = 7, .comm = comm});
  };
  const auto first = [&](const Comm& comm) {
    std::pair<std::vector<float>, std::vector<Token>> result;
    of_rank(comm, [&](const ModelConfig& config, Weights weights, const Session::Options& options) {
      auto session = Session::make(config, std::move(weights), Eager(Cpu(serial())), options);
      ASSERT_TRUE(session.has_value()) << session.error().message();
      result = write(*session);
    });
    return result;
  };
  const auto expected = first({});
  LoopComm ranks(2);
  std::thread other([&] {
    of_rank(ranks.comm(1), [&](const ModelConfig& config, Weights weights, const Session::Options& options) {
      EXPECT_TRUE(ok(Session::follow(config, std::move(weights), Eager(Cpu(serial())), options)));
    });
  });
  const auto got = first(ranks.comm(0));
  other.join();
  EXPECT_EQ(got, expected);
}

// Of a file each reads its own rows.
TEST(ranks, of_a_file_compute_the_bits_of_one) {
  auto loaded = load_model(inlay::test::source_path("models/stories.gguf"));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const auto file = std::make_shared<const ModelFile>(std::move(*loaded));
  const auto first = [&](const Comm& comm) {
    auto session = Session::make(file, Eager(Cpu(serial())), {.context = 64, .comm = comm});
    EXPECT_TRUE(session.has_value()) << session.error().message();
    return session ? all(*session, session->append(tokens(9, file->config.vocab), 9)) : std::vector<float>();
  };
  LoopComm ranks(3);
  std::vector<std::thread> others;
  for (int rank = 1; rank < 3; ++rank)
    others.emplace_back([&, comm = ranks.comm(rank)] {
      EXPECT_TRUE(ok(Session::follow(file, Eager(Cpu(serial())), {.context = 64, .comm = comm})));
    });
  const auto got = first(ranks.comm(0));
  for (std::thread& each : others) each.join();
  EXPECT_EQ(got, first({}));
}

TEST(ranks, each_keeps_its_share_of_weights_and_cache) {
  ModelConfig config = shared();
  config.dim = 128, config.hidden = 256, config.vocab = 512;
  for (const char* type : {"f32", "int8", "w4a16"}) {
    SCOPED_TRACE(type);
    const auto bytes_of = [&](int rank, int size) {
      const auto cut = RankCut::make(config, rank, size);
      EXPECT_TRUE(cut.has_value());
      const auto weights = random_weights(config, type, serial(), 7, *cut);
      EXPECT_TRUE(weights.has_value());
      return static_cast<double>(weights->linear_bytes);
    };
    const double all = bytes_of(0, 1);
    for (const int size : {2, 4})
      for (int rank = 0; rank < size; ++rank) EXPECT_LE(bytes_of(rank, size), 1.1 / size * all) << rank;
  }
  LoopComm ranks(2);
  Followers other(ranks, {{}, {}});
  const auto engine = RankOfModel().engine(ranks.comm(0));
  ASSERT_TRUE(engine.has_value());
  const auto whole = RankOfModel().engine({});
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(2 * (*engine)->cache_bytes(), (*whole)->cache_bytes());
}

TEST(ranks, what_cannot_be_cut_is_refused) {
  const auto refused = [](const ModelConfig& config, int size) {
    const auto cut = RankCut::make(config, 0, size);
    EXPECT_FALSE(cut.has_value());
    return cut ? std::string() : std::string(cut.error().message());
  };
  ModelConfig config = shared();
  config.heads = 14, config.kv_heads = 2;
  EXPECT_EQ(refused(config, 3),
            "heads is 14:2 (q:kv), and there are 3 ranks; each must have a head of k and v at least");
  EXPECT_EQ(refused(tiny(), 2),
            "head_dim is 12, and there are 2 ranks; it must be a multiple of 16, since heads are cut");
  EXPECT_EQ(refused(tiny_latent(0, true), 2),
            "attention is latent, and there are 2 ranks; it must have keys and values of heads");
  EXPECT_EQ(refused(tiny_mixture(), 2), "experts is 7, and there are 2 ranks; a mixture of experts is not cut");
  config = shared();
  config.qk_norm = QkNorm::row;
  EXPECT_EQ(refused(config, 2),
            "qk_norm is row, and there are 2 ranks; a norm of all heads of q as one row is not cut");
  config = shared();
  config.hidden = 48;
  EXPECT_EQ(refused(config, 4), "hidden is 48, and there are 4 ranks; each must have 16 channels");
  config.hidden = 49;
  EXPECT_TRUE(RankCut::make(config, 3, 4).has_value());
  EXPECT_FALSE(RankCut::make(config, 4, 4).has_value());
  EXPECT_FALSE(RankCut::make(config, -1, 4).has_value());
}

TEST(ranks, weights_that_are_not_the_ranks_are_refused) {
  const ModelConfig config = shared();
  const auto cut = RankCut::make(config, 0, 2);
  ASSERT_TRUE(cut.has_value());
  const EngineOptions options{.max_tokens = 11, .context = 96, .cache = cache_shape(config, DType::f16, 5, 85)};
  auto own = random_weights(config, "f32", serial(), 7, *cut);
  auto made = make_engine(cut->config(), std::move(*own), Eager(Cpu(serial())), options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message(), "the weights are one rank's of several; they must be whole here");
}

}  // namespace
}  // namespace inlay::exec::test
