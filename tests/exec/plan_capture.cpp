// What the capture of a model leaves alone, and what a replay does not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/plan_cache.hpp>
#include <inlay/exec/plan/recorder.hpp>

#include "tests/exec/support/known_tensors.hpp"
#include "tests/exec/support/planned_passes.hpp"
#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

std::span<std::byte> contents(const Params& params) {
  const auto memory = params.memory();
  return {const_cast<std::byte*>(memory.data()), memory.size()};
}

// A model with all of its memory in view.
template <class Backend> class Line {
 public:
  Line(const ModelConfig& config, const std::string& type, DType kv_type, Backend backend)
      : chain_(std::move(backend)), logits_(static_cast<std::size_t>(max_tokens * config.vocab)) {
    auto weights = random_weights(config, type, serial(), 7);
    auto decoder = Decoder<>::make(config, std::move(*weights), max_tokens, tensors_);
    EXPECT_TRUE(decoder.has_value()) << decoder.error().message();
    decoder_.emplace(std::move(*decoder));
    const BlockPool::Shape shape = cache_shape(config, kv_type, block_size, blocks * block_size);
    pool_.emplace(std::move(*KvPool<>::make(shape, tensors_)));
    params_.emplace(std::move(*Params::make(config, shape, max_tokens)));
  }

  BlockPool& pool() { return *pool_; }
  const Params& params() const { return *params_; }

  void poison() {
    tensors_.fill(nan_byte);
    std::memset(logits_.data(), nan_byte, logits_.size() * sizeof(float));
    std::ranges::fill(contents(*params_), static_cast<std::byte>(far_byte));
  }
  // What a pass may write.
  std::vector<std::byte> memory() const {
    auto bytes = tensors_.contents();
    const auto logits = std::as_bytes(std::span(logits_));
    bytes.insert(bytes.end(), logits.begin(), logits.end());
    return bytes;
  }

  std::vector<float> eager(const Batch& batch) {
    decoder_->forward(chain_, *pool_, batch.views(), rows(batch));
    EXPECT_TRUE(ok(chain_.take_status()));
    return written(batch);
  }
  // Of the batch's shapes: what it holds is not there.
  Tape capture(const Batch& batch) {
    EXPECT_TRUE(ok(params_->commit(batch.views())));
    std::ranges::fill(contents(*params_), static_cast<std::byte>(far_byte));
    const auto before = memory();
    Recorder record(chain_, params_->memory());
    decoder_->forward(record, *pool_, params_->views(), rows(batch));
    auto tape = std::move(record).take();
    EXPECT_TRUE(tape.has_value()) << tape.error().message();
    EXPECT_EQ(memory(), before);
    return std::move(*tape);
  }
  std::vector<float> replay(const Tape& tape, const Batch& batch) {
    EXPECT_TRUE(ok(params_->commit(batch.views())));
    EXPECT_TRUE(ok(tape.replay()));
    return written(batch);
  }

 private:
  View<2> rows(const Batch& batch) { return {logits_.data(), {batch.logit_rows(), decoder_->config().vocab}}; }
  std::vector<float> written(const Batch& batch) const {
    return {logits_.begin(), logits_.begin() + batch.logit_rows() * decoder_->config().vocab};
  }

  KnownTensors tensors_;
  Chain<Backend> chain_;
  std::optional<Decoder<>> decoder_;
  std::optional<KvPool<>> pool_;
  std::optional<Params> params_;
  std::vector<float> logits_;
};

// NaN in every slot, scale, activation and logit that a pass does not write, and ids that reach nowhere where Params
// holds nothing of the pass.
template <class Backend>
void expect_nothing_to_be_read(const ModelConfig& config, const std::string& type, DType kv_type, Backend backend) {
  Line<Backend> clean(config, type, kv_type, backend), poisoned(config, type, kv_type, backend);
  expect_dead_contents_to_change_nothing(clean, poisoned);
  const auto& table = poisoned.params().views().generated.block_table;
  ASSERT_EQ(table.extents, (std::array<index, 2>{2, 8}));
  for (const index column : {5, 6, 7}) EXPECT_EQ(table.template as<std::int32_t>()[column], -1);
}

TEST(plan_capture, writes_nothing_and_reads_nothing_that_is_not_there) {
  for (const Cpu& cpu : cpus()) {
    SCOPED_TRACE(inlay::test::name(cpu));
    expect_nothing_to_be_read(windowed(), "f32", DType::f16, cpu);
    expect_nothing_to_be_read(windowed(), "f32", DType::i8, cpu);
    expect_nothing_to_be_read(tiny_mixture(), "w4a16", DType::f16, cpu);
  }
  for (const DType kv_type : {DType::f16, DType::i8})
    expect_nothing_to_be_read(tiny_mixture(), "f16", kv_type, Reference());
}

}  // namespace
}  // namespace inlay::exec::test
