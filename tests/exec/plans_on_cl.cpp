// Passes that a device's launches are recorded of, and replayed: the bits of passes that are not. A capture gives
// nothing to the device; what a pass does not bring is not read; plans end where scratch moves.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/plan/params.hpp>

#include "tests/exec/support/as_eager.hpp"
#include "tests/exec/support/on_cl.hpp"
#include "tests/exec/support/planned_passes.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;
using PlansOnCl = OnCl;

TEST_F(PlansOnCl, replay_is_eager_bit_for_bit) {
  on_each_shape([](Cl& cl) {
    const auto run = [&] { return Chain(std::ref(cl)); };
    const auto expect = [&](const ModelConfig& config, const char* type, Activations activations, DType kv_type) {
      ASSERT_NO_FATAL_FAILURE(expect_as_eager(config, type, run, activations, 5, kv_type, 9));
    };
    expect(windowed(), "w4a16", Activations::exact, DType::i8);
    if (cl.options().shape == ClShape::per_group) return;  // slow here, and nothing else is kept of a launch
    expect(windowed(), "f32", Activations::exact, DType::f16);
    expect(tiny_mixture(), "w4a16", Activations::int8, DType::f16);
    expect(tiny_latent(48, true), "f16", Activations::exact, DType::f16);
  });
}

// Knows all memory that it gave.
class KnownTensors : public DeviceTensors<Cl> {
 public:
  explicit KnownTensors(Cl& cl) : DeviceTensors(cl), cl_(cl) {}

  template <int Rank> Expected<View<Rank, Cl>> make(DType dtype, const std::array<index, Rank>& extents) {
    auto made = DeviceTensors::make<Rank>(dtype, extents);
    if (made) all_.emplace_back(made->data, static_cast<std::size_t>(byte_size(dtype, made->size())));
    return made;
  }
  void fill(int byte) {
    for (const auto& [at, bytes] : all_) {
      const std::vector<std::byte> filled(bytes, static_cast<std::byte>(byte));
      EXPECT_TRUE(ok(cl_.upload(at, filled)));
    }
  }
  std::vector<std::byte> contents() const {
    std::vector<std::byte> all;
    for (const auto& [at, bytes] : all_) {
      std::vector<std::byte> part(bytes);
      EXPECT_TRUE(ok(cl_.download(part, at)));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  Cl& cl_;
  std::vector<std::pair<ClAddress, std::size_t>> all_;
};

// A model with all of its memory in view, on a device.
class Line {
 public:
  Line(const ModelConfig& config, const std::string& type, DType kv_type, Cl& cl)
      : cl_(cl), chain_(std::ref(cl)), tensors_(cl), params_memory_(cl) {
    auto weights = random_weights(config, type, serial(), 7);
    auto decoder = Decoder<Cl>::make(config, std::move(*weights), max_tokens, tensors_);
    EXPECT_TRUE(decoder.has_value()) << decoder.error().message();
    decoder_.emplace(std::move(*decoder));
    const BlockPool::Shape shape = cache_shape(config, kv_type, block_size, blocks * block_size);
    pool_.emplace(std::move(*KvPool<Cl>::make(shape, tensors_)));
    logits_ = *tensors_.make<2>(DType::f32, {max_tokens, config.vocab});
    params_.emplace(std::move(*Params::make(config, shape, max_tokens)));
    brought_ = *params_memory_.make<1>(DType::i8, {std::ssize(params_->memory())});
  }

  BlockPool& pool() { return *pool_; }

  void poison() {
    tensors_.fill(nan_byte);
    params_memory_.fill(far_byte);
  }

  std::vector<float> eager(const Batch& batch) {
    auto there = upload(eager_memory_.emplace(cl_), batch.views());
    EXPECT_TRUE(there.has_value());
    decoder_->forward(chain_, *pool_, *there, rows(batch));
    EXPECT_TRUE(ok(chain_.take_status()));
    return written(batch);
  }
  // Of the batch's shapes: what it holds is not there.
  ClRecording capture(const Batch& batch) {
    EXPECT_TRUE(ok(params_->commit(batch.views())));
    params_memory_.fill(far_byte);
    const auto before = tensors_.contents();
    const auto record = [&] {
      auto recording = cl_.record([&] {
        decoder_->forward(chain_, *pool_, params_->views_in(brought_), rows(batch));
        return chain_.take_status();
      });
      EXPECT_TRUE(recording.has_value()) << recording.error().message();
      return std::move(*recording);
    };
    record();  // scratch is as large as it gets
    ClRecording recording = record();
    EXPECT_TRUE(ok(cl_.finish()));
    EXPECT_EQ(tensors_.contents(), before);
    return recording;
  }
  std::vector<float> replay(const ClRecording& recording, const Batch& batch) {
    EXPECT_TRUE(ok(params_->commit(batch.views())));
    EXPECT_TRUE(ok(cl_.upload(brought_.data, params_->memory().first(params_->used()))));
    EXPECT_TRUE(ok(cl_.replay(recording)));
    EXPECT_TRUE(ok(cl_.finish()));
    return written(batch);
  }

 private:
  View<2, Cl> rows(const Batch& batch) const { return logits_.slice(0, 0, batch.logit_rows()); }
  std::vector<float> written(const Batch& batch) {
    const auto logits = tensors_.to_host(ConstView<2, Cl>(rows(batch)));
    return {logits->as<float>(), logits->as<float>() + logits->size()};
  }

  Cl& cl_;
  Chain<Cl&> chain_;
  KnownTensors tensors_, params_memory_;
  std::optional<DeviceTensors<Cl>> eager_memory_;
  std::optional<Decoder<Cl>> decoder_;
  std::optional<KvPool<Cl>> pool_;
  std::optional<Params> params_;
  View<2, Cl> logits_;
  View<1, Cl> brought_;
};

// NaN in every slot, scale, activation and logit that a pass does not write, and ids that reach nowhere where Params
// holds nothing of the pass.
TEST_F(PlansOnCl, a_capture_writes_nothing_and_a_replay_reads_nothing_that_is_not_there) {
  on_each_shape([](Cl& cl) {
    for (const auto& [config, type, kv_type] : {std::tuple(windowed(), "f32", DType::f16),
                                                {windowed(), "f32", DType::i8},
                                                {tiny_mixture(), "w4a16", DType::f16}}) {
      Line clean(config, type, kv_type, cl), poisoned(config, type, kv_type, cl);
      expect_dead_contents_to_change_nothing(clean, poisoned);
    }
  });
}

// An engine that writes texts, a token at a time.
struct Writer {
  Writer(Cl& cl, Plans plans, const ModelConfig& config = tiny(), index block_size = 5, index max_tokens = 16)
      : made(engine(config, "w4a16", Chain(std::ref(cl)),
                    {.max_tokens = max_tokens,
                     .context = config.context,
                     .cache = cache_shape(config, DType::f16, block_size, 2 * config.context),
                     .plans = plans})) {
    EXPECT_TRUE(ok(made->reserve_logits(1)));
  }
  std::vector<float> decode(Sequence& text, Token token) {
    batch.clear();
    EXPECT_TRUE(ok(batch.add_generated(made->blocks(), text, {&token, 1})));
    return pass(text);
  }
  std::vector<float> append(Sequence& text, const std::vector<Token>& prompt) {
    batch.clear();
    EXPECT_TRUE(ok(batch.add_prompt(made->blocks(), text, prompt, 1)));
    return pass(text);
  }
  const PlanCache::Counts& counts() const { return made->plan_counts(); }

  std::unique_ptr<Engine> made;
  Batch batch;

 private:
  std::vector<float> pass(Sequence& text) {
    const Status passed = made->forward(batch, 0);
    EXPECT_TRUE(ok(passed));
    if (!passed.ok()) return {};
    text.length += batch.size();
    const auto row = made->logits(0, 1);
    return {row->as<float>(), row->as<float>() + row->size()};
  }
};

// Two engines of one device, each with what its passes bring, and texts of equal shapes: all by turns.
TEST_F(PlansOnCl, what_passes_bring_is_their_engines) {
  on_each_shape([](Cl& cl) {
    Writer eager(cl, Plans::off), first(cl, Plans::decode), second(cl, Plans::decode);
    Sequence expected[2], of_first[2], of_second[2];
    for (Token token = 1; token <= 12; ++token)
      for (const int text : {0, 1}) {
        const Token own = token + 40 * text;
        const auto logits = eager.decode(expected[text], own);
        EXPECT_EQ(first.decode(of_first[text], own), logits) << token << " of text " << text;
        EXPECT_EQ(second.decode(of_second[text], own), logits) << token << " of text " << text;
      }
    for (const Writer* each : {&first, &second}) {
      EXPECT_EQ(each->counts().captured, 3);  // 1, 2 and 4 blocks
      EXPECT_EQ(each->counts().replayed, 21);
    }
  });
}

// Tables of 17 blocks of 60 tokens are captured as 32, and decoding, which may have 1920 keys by then, cuts them in
// two; so it does with 5 blocks of 50, where parts are of 256 keys.
TEST_F(PlansOnCl, wider_tables_leave_the_bits) {
  ModelConfig config = tiny();
  config.context = 1500;
  on_each_shape([&](Cl& cl) {
    const bool large = cl.options().shape == ClShape::per_item;
    const index block = large ? 60 : 50, blocks = large ? 17 : 5;
    Writer eager(cl, Plans::off, config, block, 1000), planned(cl, Plans::decode, config, block, 1000);
    Writer pieces(cl, Plans::piecewise, config, block, 1000);
    Sequence expected, got, in_pieces;
    const auto prompt = tokens((blocks - 1) * block + 2, config.vocab);
    EXPECT_EQ(planned.append(got, prompt), eager.append(expected, prompt));
    // Attention of these tokens wants more scratch than anything of the first: pieces end within a pass.
    Sequence first;
    pieces.decode(first, 1), pieces.decode(first, 2);
    pieces.append(in_pieces, prompt);
    for (Token token = 1; token <= 3; ++token) {
      const auto logits = eager.decode(expected, token);
      EXPECT_EQ(planned.decode(got, token), logits);
      EXPECT_EQ(pieces.decode(in_pieces, token), logits);
    }
    EXPECT_GT(pieces.counts().replayed, 0);
    ASSERT_EQ(std::ssize(got.blocks), blocks);
    // A text that is shorter, between tokens of the long one: what the long one's table held is not seen.
    Sequence expected_short, got_short;
    for (Token token = 1; token <= 3; ++token) {
      EXPECT_EQ(planned.decode(got_short, token), eager.decode(expected_short, token));
      EXPECT_EQ(planned.decode(got, token), eager.decode(expected, token));
    }
    EXPECT_EQ(planned.counts().captured, 2);
    EXPECT_EQ(planned.counts().replayed, 7);
  });
}

// A prompt needs more scratch than a token: what the token's plan knew is given back, and may be anybody's.
void expect_captured_anew(Cl& cl, Plans plans) {
  Writer eager(cl, Plans::off), planned(cl, plans);
  Sequence expected[2], got[2];
  const auto decode = [&](Token token) {
    EXPECT_EQ(planned.decode(got[0], token), eager.decode(expected[0], token)) << token;
  };
  decode(1), decode(2);
  const index captured = planned.counts().captured;
  if (plans == Plans::decode) {
    ASSERT_EQ(captured, 1);
  }
  const auto prompt = tokens(16, tiny().vocab);
  EXPECT_EQ(planned.append(got[1], prompt), eager.append(expected[1], prompt));
  // Whoever gets the scratch that was, keeps it as he writes it.
  std::vector<std::pair<ClAddress, std::size_t>> others;
  for (std::size_t bytes = 256; bytes <= 16384; bytes += bytes / 8) {
    others.emplace_back(*cl.allocate(bytes), bytes);
    ASSERT_TRUE(ok(cl.upload(others.back().first, std::vector<std::byte>(bytes, std::byte{0x55}))));
  }
  decode(3), decode(4);
  EXPECT_GT(planned.counts().captured, captured);
  if (plans == Plans::decode) {
    EXPECT_EQ(planned.counts().captured, 2);
  }
  for (const auto& [buffer, bytes] : others) {
    std::vector<std::byte> held(bytes);
    ASSERT_TRUE(ok(cl.download(held, buffer)));
    EXPECT_EQ(held, std::vector<std::byte>(bytes, std::byte{0x55})) << bytes;
    cl.release(buffer);
  }
}

TEST_F(PlansOnCl, scratch_that_moves_ends_what_was_captured) {
  on_each_shape([](Cl& cl) {
    for (const Plans plans : {Plans::decode, Plans::piecewise}) expect_captured_anew(cl, plans);
  });
}

TEST_F(PlansOnCl, memory_that_moves_ends_what_was_captured) {
  on_each_shape([](Cl& cl) {
    Writer eager(cl, Plans::off), planned(cl, Plans::decode);
    Sequence expected, got;
    const auto expect_captures = [&](index captured) {
      for (int i = 0; i < 2; ++i) EXPECT_EQ(planned.decode(got, 7), eager.decode(expected, 7));
      EXPECT_EQ(planned.counts().captured, captured);
    };
    expect_captures(1);
    ASSERT_TRUE(ok(planned.made->reserve_logits(3)));
    expect_captures(2);
  });
}

}  // namespace
}  // namespace inlay::exec::test
