// A KV cache of int8: what a model computes over it is what it computes over a cache of floats that holds the rounded
// keys and values; scales lie, and are counted, beside what they scale; and where it cannot be, it is refused.
// texts_together.cpp, plans.cpp, plan_capture.cpp, spaces.cpp and on_cl.cpp have it in their cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>

#include "tests/exec/support/many_texts.hpp"
#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

// Counts what is asked for.
class CountedTensors : public HostTensors {
 public:
  template <int Rank> Expected<View<Rank>> make(DType dtype, const std::array<index, Rank>& extents) {
    auto made = HostTensors::make<Rank>(dtype, extents);
    if (made) bytes += byte_size(dtype, made->size());
    return made;
  }
  index bytes = 0;
};

TEST(int8_cache, scales_lie_beside_keys_and_values_and_are_counted) {
  for (const DType type : {DType::i8, DType::f16}) {
    CountedTensors tensors;
    const BlockPool::Shape shape = {
        .layers = 3, .kv_heads = 2, .head_dim = 20, .value_dim = 9, .dtype = type, .block_size = 4, .blocks = 5};
    const auto pool = KvPool<>::make(shape, tensors);
    ASSERT_TRUE(pool.has_value());
    EXPECT_EQ(bytes_a_token(shape), 3 * 2 * (type == DType::i8 ? 20 + 9 + 2 * 4 : 2 * (20 + 9)));
    EXPECT_EQ(pool->bytes(), static_cast<std::size_t>(5 * 4 * bytes_a_token(shape)));
    EXPECT_EQ(static_cast<std::size_t>(tensors.bytes), pool->bytes());
    std::set<const float*> scales;
    for (index layer = 0; layer < 3; ++layer) {
      const KvLayer<Host> of = pool->layer(layer);
      EXPECT_EQ(of.k.dtype, type);
      EXPECT_EQ(of.k_scale.present(), type == DType::i8);
      EXPECT_EQ(of.v_scale.present(), type == DType::i8);
      EXPECT_EQ(of.k_scale_rows().present(), type == DType::i8);
      EXPECT_EQ(of.v_scale_rows().present(), type == DType::i8);
      if (type != DType::i8) continue;
      for (const auto& [scale, rows] :
           {std::pair(of.k_scale, of.k_scale_rows()), std::pair(of.v_scale, of.v_scale_rows())}) {
        ASSERT_EQ(scale.extents, (std::array<index, 3>{5, 2, 4}));
        ASSERT_EQ(rows.extents, (std::array<index, 4>{5, 4, 2, 1}));
        for (index block = 0; block < 5; ++block)
          for (index head = 0; head < 2; ++head)
            for (index slot = 0; slot < 4; ++slot) {
              const float* const at = scale.as<float>() + offset(scale, block, head, slot);
              EXPECT_EQ(rows.as<float>() + offset(rows, block, slot, head, index{0}), at);
              EXPECT_TRUE(scales.insert(at).second);
            }
      }
    }
    EXPECT_EQ(scales.size(), type == DType::i8 ? 3u * 2 * 5 * 2 * 4 : 0u);
  }
}

// Each head of each token to 8 bits and back.
std::vector<float> rounded(const ConstView<3>& x) {
  std::vector<float> values;
  for (index t = 0; t < x.extents[0]; ++t)
    for (index h = 0; h < x.extents[1]; ++h) {
      const float* const row = x.as<float>() + offset(x, t, h, index{0});
      float largest = 0;
      for (index d = 0; d < x.extents[2]; ++d) largest = std::max(largest, std::abs(row[d]));
      const float scale = largest / 127;
      for (index d = 0; d < x.extents[2]; ++d) values.push_back(std::nearbyint(row[d] / scale) * scale);
    }
  return values;
}

// Rounds what goes into a cache of floats.
template <class... Backends> class RoundedCache {
 public:
  explicit RoundedCache(Backends... backends) : chain_(std::move(backends)...) {}

  template <class Op> void operator()(const Op& op) {
    if constexpr (std::is_same_v<Op, ReshapeAndCache<Host>>) {
      EXPECT_EQ(op.k_cache.dtype, DType::f32);
      const std::vector<float> k = rounded(op.k), v = rounded(op.v);
      Op of_rounded = op;
      of_rounded.k = {k.data(), op.k.extents};
      of_rounded.v = {v.data(), op.v.extents};
      chain_(of_rounded);
    } else {
      chain_(op);
    }
  }
  Status take_status() { return chain_.take_status(); }

 private:
  Chain<Backends...> chain_;
};

constexpr index block_size = 16;  // that the NPU's flash attention takes as a tile

// The logits of a prompt in two passes, and of three tokens behind it.
template <class Run> std::vector<float> story(const ModelConfig& config, DType kv_type, Run&& run) {
  auto weights = random_weights(config, "f32", serial(), 7);
  HostTensors tensors;
  auto decoder = Decoder<>::make(config, std::move(*weights), 32, tensors);
  EXPECT_TRUE(decoder.has_value()) << decoder.error().message();
  auto pool = KvPool<>::make(cache_shape(config, kv_type, block_size, config.context), tensors);
  EXPECT_TRUE(pool.has_value());
  std::vector<float> all;
  Sequence text;
  for (const index count : {23, 14, 1, 1, 1}) {
    Batch batch;
    const auto more = tokens(count, config.vocab);
    EXPECT_TRUE(ok(count > 1 ? batch.add_prompt(*pool, text, more, count) : batch.add_generated(*pool, text, more)));
    text.length += count;
    std::vector<float> logits(static_cast<std::size_t>(count * config.vocab));
    decoder->forward(run, *pool, batch.views(), View<2>(logits.data(), {count, config.vocab}));
    EXPECT_TRUE(ok(run.take_status()));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// Of one layer: its keys and values are there before anything is read of the cache, and so the same bits over both.
std::vector<ModelConfig> of_one_layer() {
  std::vector<ModelConfig> all(3, tiny());
  for (ModelConfig& config : all) config.layers = 1;
  all[1].sliding_window = 5;
  all[2].qkv_bias = true, all[2].qk_norm = QkNorm::head, all[2].attn_softcap = 3;
  return all;
}

// Keys times their scale are rounded once more than sums times theirs: as far apart as two orders of a sum.
TEST(int8_cache, a_model_computes_what_it_does_over_rounded_keys_and_values) {
  for (const ModelConfig& config : of_one_layer()) {
    SCOPED_TRACE(std::to_string(config.sliding_window) + " " + std::to_string(config.attn_softcap));
    const auto expected = story(config, DType::f32, RoundedCache<Reference>(Reference{}));
    const double bound = 2e-5 * magnitude(expected);
    EXPECT_LE(distance(story(config, DType::i8, Chain(Reference{})), expected), bound);
    for (const Cpu& cpu : cpus()) {
      SCOPED_TRACE(inlay::test::name(cpu));
      EXPECT_LE(distance(story(config, DType::i8, Chain(cpu)), story(config, DType::f32, RoundedCache<Cpu>(cpu))),
                bound);
    }
#ifdef INLAY_HAS_NPU
    const auto npu = [] { return std::move(*Npu::make({.device = "hexagon-htp-like"})); };
    EXPECT_LE(distance(story(config, DType::i8, Chain(npu(), Cpu(serial()))),
                       story(config, DType::f32, RoundedCache<Npu, Cpu>(npu(), Cpu(serial())))),
              bound);
#endif
    // The rounding is seen.
    EXPECT_GE(distance(story(config, DType::f32, Chain(Reference{})), expected), 50 * bound);
  }
}

Session int8_session(const ModelConfig& config, const std::string& type, Eager run, Session::Options options = {}) {
  options.kv_type = DType::i8;
  return session(config, type, std::move(run), options);
}

// An element of a key may fall on the other side of a rounding: one step in 127 of one factor among 12, as with int8
// activations (decoder.cpp).
TEST(int8_cache, every_level_and_backend_agrees_with_the_reference) {
  ModelConfig config = tiny();
  config.set_layers({{.hidden = 80}, {.hidden = 80, .window = 9}});
  for (const std::string type : {"f32", "w4a16"}) {
    SCOPED_TRACE(type);
    const auto prompt = tokens(37, config.vocab);
    const auto write = [&](Session text) {
      std::vector<float> logits = all(text, text.append(prompt, 37));
      for (const Token token : {5, 17, 3}) {
        const auto next = all(text, text.decode(token));
        logits.insert(logits.end(), next.begin(), next.end());
      }
      return logits;
    };
    const Session::Options options{.chunk = 16};
    const auto expected = write(int8_session(config, type, Eager(Reference{}), options));
    const double bound = 0.01 * magnitude(expected);
    for (const Cpu& cpu : cpus()) {
      SCOPED_TRACE(inlay::test::name(cpu));
      EXPECT_LE(distance(write(int8_session(config, type, Eager(cpu), options)), expected), bound);
    }
#ifdef INLAY_HAS_NPU
    auto npu = Npu::make({.device = "hexagon-htp-like"});
    Session on_npu = int8_session(config, type, Eager(std::move(*npu), Cpu(serial())), options);
    EXPECT_LE(distance(write(std::move(on_npu)), expected), bound);
#endif
  }
}

TEST(int8_cache, chunks_threads_and_block_sizes_do_not_change_a_bit) {
  const ModelConfig config = tiny();
  const auto prompt = tokens(70, config.vocab);
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)));
    Session whole = int8_session(config, "w4a16", Eager(Cpu(isa, serial())), {.chunk = 70});
    const auto expected = all(whole, whole.append(prompt, 70)), next = all(whole, whole.decode(3));
    for (const auto& [chunk, block, threads] :
         {std::tuple<index, index, int>{1, 16, 2}, {7, 5, 3}, {16, 1, 2}, {69, 32, 7}}) {
      SCOPED_TRACE(chunk);
      Session text = int8_session(config, "w4a16", Eager(Cpu(isa, inlay::test::handed_out(threads))),
                                  {.chunk = chunk, .block_size = block});
      EXPECT_EQ(all(text, text.append(prompt, 70)), expected);
      EXPECT_EQ(all(text, text.decode(3)), next);
    }
  }
}

// What was cut off leaves nothing: what is written in its place has scales of its own.
TEST(int8_cache, a_text_that_was_cut_goes_on_as_if_the_rest_had_never_been) {
  const ModelConfig config = tiny();
  const auto text = tokens(40, config.vocab);
  Session whole = int8_session(config, "f32", Eager(Cpu(serial())));
  const auto expected = all(whole, whole.append(text)), next = all(whole, whole.decode(9));
  Session cut = int8_session(config, "f32", Eager(Cpu(serial())));
  for (const index kept : {21, 32, 1, 0}) {
    SCOPED_TRACE(kept);
    const index had = cut.length();
    if (had == 0) (void)all(cut, cut.append({text.begin(), text.begin() + 33}));
    for (Token token = 50; token < 56; ++token) (void)all(cut, cut.decode(token));
    ASSERT_TRUE(ok(cut.truncate(std::min(kept, cut.length()))));
    EXPECT_EQ(all(cut, cut.append({text.begin() + kept, text.end()})), expected);
    EXPECT_EQ(all(cut, cut.decode(9)), next);
  }
}

// Plans hold the places of their own cache: two models write by turns, each as alone.
TEST(int8_cache, two_caches_are_apart) {
  const ModelConfig config = tiny();
  const auto make = [&] { return int8_session(config, "f32", Eager(Cpu(serial())), {.plans = Plans::full}); };
  const auto begin = [&](Session& text, int which) {
    return all(text, text.append(tokens(9 + 8 * which, config.vocab)));
  };
  std::vector<std::vector<float>> expected[2];
  for (const int which : {0, 1}) {
    Session alone = make();
    expected[which].push_back(begin(alone, which));
    for (Token token = 1; token < 9; ++token) expected[which].push_back(all(alone, alone.decode(token + which)));
  }
  Session both[] = {make(), make()};
  for (const int which : {0, 1}) EXPECT_EQ(begin(both[which], which), expected[which][0]);
  for (Token token = 1; token < 9; ++token)
    for (const int which : {0, 1})
      EXPECT_EQ(all(both[which], both[which].decode(token + which)), expected[which][static_cast<std::size_t>(token)]);
  EXPECT_GT(both[0].plan_counts().replayed, 5);
}

TEST(int8_cache, what_cannot_be_is_refused_by_name) {
  const auto weights = [](const ModelConfig& config) { return std::move(*random_weights(config, "f32", serial(), 7)); };
  for (const auto& [config, type, code, words] :
       {std::tuple(tiny_latent(24), DType::i8, StatusCode::unsupported,
                   "kv_type is i8; it must be f32, f16 or bf16 for latent attention"),
        std::tuple(tiny(), DType::u8, StatusCode::invalid_argument,
                   "kv_type is u8; it must be f32, f16, bf16 or i8")}) {
    SCOPED_TRACE(words);
    const auto expect_refused = [&, &code = code, &words = words](const auto& made) {
      ASSERT_FALSE(made.has_value());
      EXPECT_EQ(made.error().code(), code);
      EXPECT_EQ(made.error().message().find(words), 0u) << made.error().message();
    };
    expect_refused(Session::make(config, weights(config), Eager(Cpu()), {.context = 32, .kv_type = type}));
    expect_refused(make_engine(config, weights(config), Eager(Cpu()),
                               {.max_tokens = 8, .context = 32, .cache = cache_shape(config, type, 16, 32)}));
  }
}

}  // namespace
}  // namespace inlay::exec::test
