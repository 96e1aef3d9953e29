// Ranks that have some inputs of attn_output and ffn_down (RankCut::By::rows): each y is a part of a sum, which all add
// in the order of ranks. What codes do not allow is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <inlay/model/load.hpp>

#include "executor/model/input_cut.hpp"
#include "tests/exec/support/fused_weights.hpp"
#include "tests/exec/support/ranks.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;
constexpr auto by_rows = RankCut::By::rows;

std::vector<float> product(const LinearWeight& weight, ConstView<2> x, Activations activations = Activations::exact) {
  std::vector<float> y(static_cast<std::size_t>(x.extents[0] * weight.channels()));
  Eager run{Reference{}};
  weight(run, x, {y.data(), {x.extents[0], weight.channels()}}, activations);
  EXPECT_TRUE(ok(run.take_status()));
  return y;
}

// A part multiplies its inputs as the whole does where all others are 0.
TEST(ranks_by_rows, a_part_of_the_inputs_is_what_the_whole_makes_of_them) {
  constexpr index n = 37, tokens = 3;
  std::vector<std::pair<std::string, Make>> all = forms();
  all.emplace_back("one group", [](index n, index k, unsigned seed) {
    const auto rows = random_floats(n * k, seed);
    return LinearWeight(n, *quantize_w4a16({rows.data(), {n, k}}, 0));
  });
  for (const auto& [name, make] : all)
    for (const index k : {index{96}, index{76}}) {
      if (name == "perm") continue;
      SCOPED_TRACE(name + " of " + std::to_string(k));
      const LinearWeight whole = make(n, k, 3);
      const auto x = random_floats(tokens * k, 4);
      for (const auto& [first, count] : {std::pair<index, index>{0, 32}, {32, 16}, {48, k - 48}}) {
        auto alone = x;
        for (index i = 0; i < tokens * k; ++i)
          if (i % k < first || i % k >= first + count) alone[static_cast<std::size_t>(i)] = 0;
        const auto part = inputs_of(whole, {first, count, k}, "w");
        ASSERT_TRUE(part.has_value()) << part.error().message();
        const ConstView<2> own = ConstView<2>(x.data(), {tokens, k}).slice(1, first, count);
        EXPECT_EQ(product(*part, own), product(whole, {alone.data(), {tokens, k}})) << first;
      }
    }
}

// Units stay where super-blocks are whole; of one that is cut, groups have their products.
TEST(ranks_by_rows, super_blocks_that_are_cut_have_scales_of_f32) {
  constexpr index n = 37, k = 3 * w4_super_block, tokens = 2;
  const LinearWeight whole(n, in_units(n, k, 3));
  const auto x = random_floats(tokens * k, 4);
  for (const auto& [first, count] : {std::pair<index, index>{0, 256}, {256, 512}, {256, 64}, {144, 400}, {512, 256}}) {
    auto alone = x;
    for (index i = 0; i < tokens * k; ++i)
      if (i % k < first || i % k >= first + count) alone[static_cast<std::size_t>(i)] = 0;
    const auto part = inputs_of(whole, {first, count, k}, "w");
    ASSERT_TRUE(part.has_value()) << part.error().message();
    const bool whole_blocks = first % w4_super_block == 0 && count % w4_super_block == 0;
    EXPECT_EQ(std::get<PackedW4>(part->form()).scale_type, whole_blocks ? DType::i8 : DType::f32) << first;
    const ConstView<2> own = ConstView<2>(x.data(), {tokens, k}).slice(1, first, count);
    EXPECT_EQ(product(*part, own), product(whole, {alone.data(), {tokens, k}})) << first;
  }
}

TEST(ranks_by_rows, inputs_that_end_within_a_group_or_have_another_order_are_refused) {
  const auto refused = [](const LinearWeight& whole, const InputRange& own) {
    const auto part = inputs_of(whole, own, "blk.0.ffn_down.weight");
    EXPECT_FALSE(part.has_value());
    return part ? std::string() : std::string(part.error().message());
  };
  const LinearWeight codes(32, codes_of(32, 96, 1));  // groups of 16
  EXPECT_EQ(
      refused(codes, {24, 72, 96}),
      "the tensor blk.0.ffn_down.weight has groups of 16 inputs, and a rank's would begin or end at 24 of 96; the "
      "cut must be columns");
  EXPECT_NE(refused(codes, {0, 24, 96}).find("end at 24 of 96"), std::string::npos);
  EXPECT_EQ(refused(LinearWeight(32, in_another_order(32, 96, 1)), {0, 48, 96}),
            "the tensor blk.0.ffn_down.weight has its inputs in an order of its own (act-order), which is not cut by "
            "rows; the cut must be columns");
}

// 2^24 + 1 + 1 is another number from the right.
TEST(ranks_by_rows, parts_are_added_in_the_order_of_ranks) {
  constexpr index rows = 2, columns = 5, stride = 9;
  const float of_rank[] = {0x1p24f, 1, 1};
  LoopComm ranks(3);
  std::vector<std::vector<float>> sums(3, std::vector<float>(rows * stride, -7));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto& y = sums[static_cast<std::size_t>(rank)];
      for (index t = 0; t < rows; ++t)
        for (index c = 0; c < columns; ++c)
          y[static_cast<std::size_t>(t * stride + c)] = of_rank[rank] * static_cast<float>(1 + t * columns + c);
      Gatherer gatherer(ranks.comm(rank));
      const AllSum step{.y = {y.data(), DType::f32, {rows, columns}, {stride, 1}}, .by = &gatherer, .what = "y"};
      EXPECT_TRUE(ok(step()));
    });
  for (std::thread& each : threads) each.join();
  for (index t = 0; t < rows; ++t)
    for (index c = 0; c < stride; ++c) {
      const float n = static_cast<float>(1 + t * columns + c);
      const float expected = c < columns ? (of_rank[0] * n + of_rank[1] * n) + of_rank[2] * n : -7;
      for (const auto& y : sums) EXPECT_EQ(y[static_cast<std::size_t>(t * stride + c)], expected) << t << ' ' << c;
    }
}

// A prompt in parts and some tokens behind it: of each, its logits.
std::vector<float> written(const RankOfModel& model, int size) {
  LoopComm ranks(size);
  Followers others(ranks, std::vector<RankOfModel>(static_cast<std::size_t>(size), model));
  std::vector<float> all;
  {
    auto engine = model.engine(ranks.comm(0));
    EXPECT_TRUE(engine.has_value()) << engine.error().message();
    if (engine) all = logits_of(**engine, 9, 4);
  }
  for (int rank = 1; rank < size; ++rank) EXPECT_TRUE(ok(others.of(static_cast<std::size_t>(rank))));
  return all;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
  }
  return most / largest;
}

// Sums of three and more are in another order; int8 has a scale of its own for each part of x.
TEST(ranks_by_rows, compute_one_but_for_the_order_of_sums) {
  ModelConfig biased = shared();
  biased.qkv_bias = biased.output_bias = biased.mlp_bias = biased.head_bias = true;
  ModelConfig uneven = shared();
  uneven.heads = 9, uneven.kv_heads = 3;
  uneven.set_layers({{.hidden = 76}, {.hidden = 200, .window = 9}});
  for (const ModelConfig& config : {shared(), biased, uneven})
    for (const char* type : {"f32", "bf16", "int8"}) {
      SCOPED_TRACE(type);
      RankOfModel model{.config = config, .type = type, .kv_type = DType::f32};  // what is rounded to f16 may flip
      const auto expected = written(model, 1);
      model.by = by_rows;
      for (const int size : {2, 3})
        EXPECT_LT(largest_difference(written(model, size), expected), std::string(type) == "int8" ? 0.05 : 1e-5)
            << size;
    }
  ModelConfig wide = shared();
  wide.head_dim = wide.ropes[0].dim = 32, wide.hidden = 416;
  for (const Activations activations : {Activations::exact, Activations::int8}) {
    RankOfModel model{.config = wide,
                      .type = "w4a16",
                      .options = {.max_tokens = 11, .context = 96, .activations = activations},
                      .kv_type = DType::f32};
    const auto expected = written(model, 1);
    model.by = by_rows;
    const double most = activations == Activations::int8 ? 0.02 : 1e-5;
    for (const int size : {2, 3}) EXPECT_LT(largest_difference(written(model, size), expected), most) << size;
  }
}

TEST(ranks_by_rows, compute_the_same_bits_with_and_without_plans) {
  RankOfModel model{.by = by_rows};
  const auto expected = written(model, 2);
  EXPECT_NE(expected, written({}, 1));
  EXPECT_EQ(expected, written(model, 2));
  for (const Plans plans : {Plans::off, Plans::piecewise, Plans::full}) {
    model.options.plans = plans;
    EXPECT_EQ(written(model, 2), expected);
  }
}

// What a rank gets from the others, and how often.
struct Exchanges {
  Comm comm;
  index count = 0, bytes = 0;

  Comm counted() {
    Comm wrapped = comm;
    wrapped.context = this;
    wrapped.all_gather = [](void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                            double seconds) {
      Exchanges& self = *static_cast<Exchanges*>(context);
      ++self.count;
      for (std::size_t rank = 0; rank < bytes.size(); ++rank)
        if (static_cast<int>(rank) != self.comm.rank) self.bytes += static_cast<index>(bytes[rank]);
      return self.comm.all_gather(self.comm.context, own, bytes, all, seconds);
    };
    wrapped.broadcast = [](void* context, void* bytes, std::size_t count, double seconds) {
      const Comm& comm = static_cast<Exchanges*>(context)->comm;
      return comm.broadcast(comm.context, bytes, count, seconds);
    };
    wrapped.abort = [](void* context, std::string_view why) {
      const Comm& comm = static_cast<Exchanges*>(context)->comm;
      comm.abort(comm.context, why);
    };
    return wrapped;
  }
};

// Of a token: what docs/ranks.md counts.
TEST(ranks_by_rows, exchange_two_sums_a_layer_in_place_of_four_gathers) {
  const ModelConfig config = shared();
  const auto count = [&](RankCut::By by, int size) {
    const RankOfModel model{.by = by};
    LoopComm ranks(size);
    Followers others(ranks, std::vector<RankOfModel>(static_cast<std::size_t>(size), model));
    Exchanges all{ranks.comm(0)}, of_token;
    auto engine = model.engine(all.counted());
    EXPECT_TRUE(engine.has_value());
    const auto met = std::pair(all.count, all.bytes);
    (void)logits_of(**engine, 0, 1);
    of_token.count = all.count - met.first, of_token.bytes = all.bytes - met.second;
    return of_token;
  };
  const index layers = config.layers, dim = config.dim, q = config.heads * config.head_dim;
  for (const int size : {2, 4}) {
    const auto others = [&](index columns) { return columns - RankShares{columns, 16}.count(0, size); };
    const index all_but_own = 2 * dim * (size - 1);
    const Exchanges columns = count(RankCut::By::columns, size), rows = count(by_rows, size);
    EXPECT_EQ(columns.count, 4 * layers + 1);
    EXPECT_EQ(rows.count, 2 * layers + 1);
    EXPECT_EQ(columns.bytes,
              4 * (layers * (q - q / size + 2 * others(dim) + others(config.hidden)) + others(config.vocab)));
    EXPECT_EQ(rows.bytes, 4 * (layers * all_but_own + others(config.vocab)));
  }
}

TEST(ranks_by_rows, another_cut_is_refused_before_the_first_step) {
  LoopComm ranks(2);
  Followers other(ranks, {{}, {.by = by_rows}});
  auto engine = RankOfModel().engine(ranks.comm(0));
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().message(),
            "the cut is rows on rank 1 and columns on rank 0; it must be the same on all ranks");
  EXPECT_EQ(other.of(1).message(), engine.error().message());
}

TEST(ranks_by_rows, each_keeps_its_share_of_the_weights) {
  ModelConfig config = shared();
  config.head_dim = config.ropes[0].dim = 32, config.dim = 128, config.hidden = 512, config.vocab = 512;
  for (const char* type : {"f32", "int8", "w4a16"}) {
    SCOPED_TRACE(type);
    const auto bytes_of = [&](int rank, int size) {
      const auto cut = RankCut::make(config, rank, size, by_rows);
      EXPECT_TRUE(cut.has_value());
      const auto weights = random_weights(config, type, serial(), 7, *cut);
      EXPECT_TRUE(weights.has_value());
      return static_cast<double>(weights->linear_bytes);
    };
    for (const int size : {2, 4})
      for (int rank = 0; rank < size; ++rank) EXPECT_LE(bytes_of(rank, size), 1.1 / size * bytes_of(0, 1)) << rank;
  }
}

// Of a file, whose tensors are packed whole and then cut.
TEST(ranks_by_rows, of_a_file_compute_one_but_for_the_order_of_sums) {
  auto loaded = load_model(inlay::test::source_path("models/stories.gguf"));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const auto file = std::make_shared<const ModelFile>(std::move(*loaded));
  const auto first = [&](const Comm& comm) {
    auto session =
        Session::make(file, Eager(Cpu(serial())), {.context = 64, .kv_type = DType::f32, .comm = comm, .cut = by_rows});
    EXPECT_TRUE(session.has_value()) << session.error().message();
    return session ? all(*session, session->append(tokens(9, file->config.vocab), 9)) : std::vector<float>();
  };
  LoopComm ranks(2);
  std::thread other([&] {
    EXPECT_TRUE(ok(Session::follow(file, Eager(Cpu(serial())),
                                   {.context = 64, .kv_type = DType::f32, .comm = ranks.comm(1), .cut = by_rows})));
  });
  const auto got = first(ranks.comm(0));
  other.join();
  EXPECT_LT(largest_difference(got, first({})), 1e-5);
}

}  // namespace
}  // namespace inlay::exec::test
