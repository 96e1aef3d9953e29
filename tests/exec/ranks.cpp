// Several ranks compute the bits of one, whatever they compute; each keeps its own share of the weights. What cannot be
// cut is refused, ranks that differ are, and one that is lost is told of.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "tests/exec/support/ranks.hpp"
#include "tests/support/handed_out.hpp"

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
  for (const Plans plans : {Plans::off, Plans::full})
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

// Two ranks of which the second differs: what both say.
std::string met(const RankOfModel& second, RankOfModel first = {}) {
  LoopComm ranks(2);
  Followers other(ranks, {first, second});
  auto engine = first.engine(ranks.comm(0));
  EXPECT_FALSE(engine.has_value());
  if (engine) return "";
  EXPECT_EQ(other.of(1).message(), engine.error().message());
  return std::string(engine.error().message());
}

TEST(ranks, that_differ_are_refused_by_name) {
  const std::string same = " on rank 0; it must be the same on all ranks";
  EXPECT_EQ(met({.run = [] { return Eager(Reference{}); }}),
            "the backend is reference on rank 1 and cpu " + std::string(name(Cpu().isa())) + same);
  EXPECT_EQ(met({.options = {.max_tokens = 12, .context = 96}}), "max_tokens is 12 on rank 1 and 11" + same);
  EXPECT_EQ(met({.options = {.max_tokens = 11, .context = 95}}), "context is 95 on rank 1 and 96" + same);
  EXPECT_EQ(met({.kv_type = DType::f32}), "the cache's type is f32 on rank 1 and f16" + same);
  EXPECT_NE(met({.seed = 8}).find("the model's digest is "), std::string::npos);
  RankOfModel wide;
  wide.config.vocab = 117;
  EXPECT_EQ(met(wide), "the model's vocab is 117 on rank 1 and 101" + same);
  const RankOfModel codes{.type = "w4a16"};
  RankOfModel rounded = codes;
  rounded.options.activations = Activations::int8;
  EXPECT_EQ(met(rounded, codes), "activations is 1 on rank 1 and 0" + same);
}

// A rank to which something happens behind so many exchanges: it gives up, or comes no more until it is let go, or
// waits for others no longer than 200 ms from then on.
struct Counted {
  enum What { gives_up, hangs, hurries };

  Comm comm;
  index left;
  What what;
  std::atomic<bool>* let_go;

  Status next(double& seconds) {
    if (left-- > 0) return {};
    if (what == hurries) {
      seconds = 0.2;
      return {};
    }
    if (what == hangs) {
      while (!let_go->load()) std::this_thread::yield();
      return {StatusCode::internal, "it was let go"};
    }
    const Status lost(StatusCode::out_of_memory, "it is lost");
    give_up(comm, lost);
    return {lost.code(), lost.message()};
  }
  Comm as_comm() {
    Comm wrapped = comm;
    wrapped.context = this;
    wrapped.all_gather = [](void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                            double seconds) {
      Counted& self = *static_cast<Counted*>(context);
      Status status = self.next(seconds);
      return status.ok() ? self.comm.all_gather(self.comm.context, own, bytes, all, seconds) : std::move(status);
    };
    wrapped.broadcast = [](void* context, void* bytes, std::size_t count, double seconds) {
      Counted& self = *static_cast<Counted*>(context);
      Status status = self.next(seconds);
      return status.ok() ? self.comm.broadcast(self.comm.context, bytes, count, seconds) : std::move(status);
    };
    wrapped.abort = [](void* context, std::string_view why) {
      Counted& self = *static_cast<Counted*>(context);
      self.comm.abort(self.comm.context, why);
    };
    return wrapped;
  }
};

// A prompt and two tokens.
Status pass(Engine& engine) {
  Sequence text;
  Batch batch;
  const auto prompt = tokens(5, engine.config().vocab);
  Status status = engine.reserve_logits(1);
  if (status.ok()) status = batch.add_prompt(engine.blocks(), text, prompt, 1);
  if (status.ok()) status = engine.forward(batch, 0);
  text.length = 5;
  for (Token token = 0; token < 2 && status.ok(); ++token, ++text.length) {
    batch.clear();
    status = batch.add_generated(engine.blocks(), text, {&token, 1});
    if (status.ok()) status = engine.forward(batch, 0);
  }
  return status;
}

struct Ended {
  std::string first, second, third;  // what the ranks say; empty: all is well
};
// Of three ranks one is lost behind so many exchanges.
Ended lose(int rank, index exchanges, Counted::What what) {
  LoopComm ranks(3, 60);
  std::atomic<bool> let_go = false;
  Status ended[3];
  const auto run = [&](int each) {
    Counted counted{ranks.comm(each), exchanges, each == rank ? what : Counted::hurries, &let_go};
    const Comm comm = each == rank || what == Counted::hangs ? counted.as_comm() : ranks.comm(each);
    auto engine = RankOfModel().engine(comm);
    if (!engine) return std::move(engine.error());
    return each == 0 ? pass(**engine) : follow(**engine, comm);
  };
  std::vector<std::thread> threads;
  std::atomic<int> at_work = 2;
  for (int each = 0; each < 3; ++each)
    threads.emplace_back([&, each] {
      ended[each] = run(each);
      if (each != rank && --at_work == 0) let_go = true;  // the others know, whatever the lost one does
    });
  for (std::thread& each : threads) each.join();
  const auto words = [](const Status& status) { return status.ok() ? "" : std::string(status.message()); };
  return {words(ended[0]), words(ended[1]), words(ended[2])};
}

TEST(ranks, one_that_gives_up_at_any_step_ends_the_others) {
  index gathers = 0;
  const index all = 2 + 1 + 3 * (2 + 9);  // to meet, to reserve logits, and for each pass: its words and its steps
  for (const int rank : {0, 2}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const Ended well = lose(rank, all + 1, Counted::gives_up);
    EXPECT_EQ(well.first + well.second + well.third, "");
    for (index exchanges = 0; exchanges < all; ++exchanges) {
      SCOPED_TRACE("exchange " + std::to_string(exchanges));
      const Ended ended = lose(rank, exchanges, Counted::gives_up);
      const std::string& own = rank == 0 ? ended.first : ended.third;
      EXPECT_NE(own.find("it is lost"), std::string::npos) << own;
      const std::string by = "rank " + std::to_string(rank) + " gave up: ";
      for (const std::string& other : {rank == 0 ? ended.third : ended.first, ended.second})
        EXPECT_NE(other.find(by), std::string::npos) << other;
      if (own.starts_with("all_gather of ")) ++gathers;
    }
  }
  EXPECT_EQ(gathers, 2 * 3 * 9);
}

TEST(ranks, one_that_hangs_is_named_with_the_step_within_the_deadline) {
  // Behind what they say to meet, to reserve logits and to begin a pass: the first steps of layer 0.
  const Ended ended = lose(2, 2 + 1 + 2 + 1, Counted::hangs);
  EXPECT_EQ(ended.third, "all_gather of attn_output in layer 0, step 2 of pass 1: it was let go");
  for (const std::string& other : {ended.first, ended.second}) {
    EXPECT_NE(other.find("all_gather of attn_output in layer 0, step 2 of pass 1: "), std::string::npos) << other;
    EXPECT_NE(other.find(" has not come within 200 ms"), std::string::npos) << other;
  }
}

}  // namespace
}  // namespace inlay::exec::test
