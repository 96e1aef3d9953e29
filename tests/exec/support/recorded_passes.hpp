// A small model with random weights and a few passes of it, recorded as one line of steps: chunks of a prompt beside
// texts that are being written, as a pipeline has them in flight. Passes share activations, each has Params and logits
// of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/step_graph.hpp>

#include "tests/exec/support/known_tensors.hpp"
#include "tests/exec/support/random_session.hpp"

namespace inlay::exec::test {

// `More`: backends that steps are recorded for besides.
template <class... More> class RecordedPassesFor {
 public:
  static constexpr index max_tokens = 32, block_size = 4, blocks = 40;

  struct Part {
    std::size_t text;
    index tokens;
    bool is_prompt;
  };
  // Of two texts: the first one's prompt in three chunks, the second one's in one; it goes on beside the others.
  static std::vector<std::vector<Part>> chunks() {
    return {{{0, 9, true}, {1, 6, true}}, {{1, 1, false}, {0, 9, true}}, {{1, 1, false}, {0, 7, true}}};
  }

  RecordedPassesFor(const ModelConfig& config, const std::string& type, DType kv_type,
                    const std::vector<std::vector<Part>>& passes = chunks()) {
    auto decoder = Decoder<>::make(config, std::move(*random_weights(config, type, serial(), 7)), max_tokens, tensors_);
    EXPECT_TRUE(decoder.has_value()) << decoder.error().message();
    decoder_.emplace(std::move(*decoder));
    const BlockPool::Shape shape = cache_shape(config, kv_type, block_size, blocks * block_size);
    pool_.emplace(std::move(*KvPool<>::make(shape, tensors_)));
    for (const auto& pass : passes) record(config, shape, pass);
    const std::vector<ByteRange> cache = pool_->ranges();
    kept_.insert(kept_.end(), cache.begin(), cache.end());
  }

  StepGraph& graph() { return graph_; }
  // What outlives the passes.
  const std::vector<ByteRange>& kept() const { return kept_; }
  BlockPool& pool() { return *pool_; }
  std::vector<Sequence>& texts() { return texts_; }

  // As before the first pass: nothing that a step reads, but NaN in all that one may write.
  void reset() {
    tensors_.fill(0xff);
    for (const ByteRange& range : kept_) std::memset(memory(range), 0xff, size(range));
  }
  // What the passes leave.
  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes;
    for (const ByteRange& range : kept_) bytes.insert(bytes.end(), memory(range), memory(range) + size(range));
    return bytes;
  }

  // After a reset; the first failure.
  template <class Runner> Status run(Runner& runner, const std::vector<index>& order) {
    reset();
    for (const index step : order)
      if (Status status = runner.run(std::as_const(graph_).steps()[static_cast<std::size_t>(step)]); !status.ok())
        return status;
    return {};
  }

 private:
  void record(const ModelConfig& config, const BlockPool::Shape& shape, const std::vector<Part>& pass) {
    Batch batch;
    for (const Part& part : pass) {
      if (texts_.size() <= part.text) texts_.resize(part.text + 1);
      const auto more = tokens(part.tokens, config.vocab);
      const Status added = part.is_prompt ? batch.add_prompt(*pool_, texts_[part.text], more, 1)
                                          : batch.add_generated(*pool_, texts_[part.text], more);
      EXPECT_TRUE(added.ok()) << added.message();
      texts_[part.text].length += part.tokens;
    }
    Params& params = params_.emplace_back(std::move(*Params::make(config, shape, max_tokens)));
    EXPECT_TRUE(params.commit(batch.views()).ok());
    auto& logits = logits_.emplace_back(static_cast<std::size_t>(batch.logit_rows() * config.vocab));
    const View<2> rows(logits.data(), {batch.logit_rows(), config.vocab});
    kept_.push_back(byte_range(rows));
#ifdef INLAY_HAS_NPU
    GraphRecorder<Cpu, Reference, NpuEstimator, More...> record(graph_, std::ssize(params_) - 1);
#else
    GraphRecorder<Cpu, Reference, More...> record(graph_, std::ssize(params_) - 1);
#endif
    decoder_->forward(record, *pool_, params.views(), rows);
    const Status recorded = record.take_status();
    EXPECT_TRUE(recorded.ok()) << recorded.message();
  }
  static std::byte* memory(const ByteRange& range) { return reinterpret_cast<std::byte*>(range.begin); }
  static std::size_t size(const ByteRange& range) { return static_cast<std::size_t>(range.end - range.begin); }

  KnownTensors tensors_;
  std::optional<Decoder<>> decoder_;
  std::optional<KvPool<>> pool_;
  std::vector<Sequence> texts_;
  std::list<Params> params_;
  std::list<std::vector<float>> logits_;
  std::vector<ByteRange> kept_;
  StepGraph graph_;
};
using RecordedPasses = RecordedPassesFor<>;

}  // namespace inlay::exec::test
