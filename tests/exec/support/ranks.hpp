// Ranks that are threads, over a small model with random weights.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/comm/loop_comm.hpp>
#include <inlay/exec/kv_pool.hpp>

#include "tests/exec/support/many_texts.hpp"

namespace inlay::exec::test {

// Heads and channels that ranks share unevenly: 4 heads of k and v, panels of 6, 5 and 7, of which the last is ragged.
inline ModelConfig shared() {
  ModelConfig config = tiny();
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = config.ropes[0].dim = 16;
  config.dim = 96;
  config.hidden = 76;
  return config;
}

// What a rank of these is made of.
struct RankOfModel {
  ModelConfig config = shared();
  std::string type = "f32";
  EngineOptions options = {.max_tokens = 11, .context = 96};
  DType kv_type = DType::f16;
  std::function<Eager()> run = [] { return Eager(Cpu(serial())); };
  std::uint64_t seed = 7;
  RankCut::By by = RankCut::By::columns;

  Expected<std::unique_ptr<Engine>> engine(const Comm& comm) const {
    auto cut = RankCut::make(config, comm.rank, comm.size, by);
    if (!cut) return failure(std::move(cut.error()));
    auto weights = random_weights(config, type, serial(), seed, *cut);
    if (!weights) return failure(std::move(weights.error()));
    EngineOptions own = options;
    own.cache = cache_shape(cut->config(), kv_type, 5, 85);
    own.comm = comm;
    return make_engine(cut->config(), std::move(*weights), run(), own);
  }
};

// A prompt, if there is one, and tokens behind it: the logits of the last token of each pass, until one fails.
inline Status add_logits_of(Engine& engine, index prompt, index generated, std::vector<float>& all) {
  Sequence text;
  Batch batch;
  Status status = engine.reserve_logits(1);
  const auto pass = [&](index added) {
    if (status.ok()) status = engine.forward(batch, 0);
    text.length += added;
    batch.clear();
    const auto last = engine.logits(0, 1);
    if (status.ok() && last) all.insert(all.end(), last->as<float>(), last->as<float>() + last->size());
  };
  if (prompt > 0) {
    const auto ids = tokens(prompt, engine.config().vocab);
    if (status.ok()) status = batch.add_prompt(engine.blocks(), text, ids, 1);
    pass(prompt);
  }
  for (Token token = 0; token < generated; ++token) {
    if (status.ok()) status = batch.add_generated(engine.blocks(), text, {&token, 1});
    pass(1);
  }
  engine.blocks().release(text);
  return status;
}
inline std::vector<float> logits_of(Engine& engine, index prompt, index generated) {
  std::vector<float> all;
  EXPECT_TRUE(inlay::test::ok(add_logits_of(engine, prompt, generated, all)));
  return all;
}

// The other ranks, each of which computes along until the first one's engine is gone.
class Followers {
 public:
  using Of = std::function<Comm(Comm)>;

  Followers(LoopComm& ranks, const std::vector<RankOfModel>& models) : ended_(models.size()) {
    for (std::size_t i = 1; i < models.size(); ++i)
      threads_.emplace_back([this, i, model = models[i], comm = ranks.comm(static_cast<int>(i))] {
        auto engine = model.engine(comm);
        ended_[i] = engine ? follow(**engine, comm) : std::move(engine.error());
      });
  }
  ~Followers() { join(); }

  // Of a rank that has ended, as it has.
  const Status& of(std::size_t rank) {
    join();
    return ended_[rank];
  }

 private:
  void join() {
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }

  std::vector<Status> ended_;
  std::vector<std::thread> threads_;
};

}  // namespace inlay::exec::test
