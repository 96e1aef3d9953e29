// The steps of a model in every kind of order that edges allow: the same bits as in the program's, where they were
// recorded and where an arena moves their tensors to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <inlay/exec/plan/verify.hpp>

#include "tests/exec/support/legal_orders.hpp"
#include "tests/exec/support/recorded_passes.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

struct Model {
  std::string name;
  ModelConfig config;
  std::string type;
  DType kv_type;
};
std::vector<Model> models() {
  return {{"plain", tiny(), "f32", DType::f16},
          {"mixture", tiny_mixture(), "w4a16", DType::i8},
          {"latent", tiny_latent(14), "f16", DType::bf16}};
}

// For what looks at each byte again and again.
ModelConfig one_layer(ModelConfig config) {
  config.layers = 1;
  config.set_layers({config.layer(config.experts.count > 0 ? 1 : 0)});
  return config;
}

std::vector<index> program(index steps) {
  std::mt19937 random;
  return legal_order(Edges::in_order(steps), Pick::latest, random);
}

template <class Runner>
void expect_any_order_to_compute(Runner& runner, RecordedPasses& passes, const Edges& edges,
                                 const std::vector<std::byte>& expected, std::mt19937& random) {
  for (const Pick pick : {Pick::latest, Pick::random, Pick::random, Pick::random}) {
    ASSERT_TRUE(ok(passes.run(runner, legal_order(edges, pick, random))));
    ASSERT_EQ(passes.contents(), expected);
  }
}

// Memory of an arena, NaN of every float.
struct ArenaMemory {
  explicit ArenaMemory(std::size_t bytes)
      : memory(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(64)))) {
    std::memset(memory.get(), 0xff, bytes);
  }
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  std::unique_ptr<std::byte, Free> memory;
};

template <class Runner> void expect_orders_to_agree(Runner runner) {
  std::mt19937 random(5);
  for (const Model& model : models()) {
    SCOPED_TRACE(model.name);
    RecordedPasses passes(model.config, model.type, model.kv_type);
    const auto recorded = passes.graph().accesses();
    const Edges edges = Edges::of(recorded);
    ASSERT_TRUE(ok(passes.run(runner, program(edges.steps()))));
    const auto expected = passes.contents();
    expect_any_order_to_compute(runner, passes, edges, expected, random);
    EXPECT_TRUE(ok(verify(recorded, passes.graph().steps(), edges)));

    Arena arena(recorded, passes.kept());
    const auto apart = arena.apart();
    const Edges of_values = Edges::of(apart);
    arena.place(of_values);
    const ArenaMemory memory(arena.bytes());
    arena.move(passes.graph(), memory.memory.get());
    EXPECT_TRUE(ok(verify(recorded, passes.graph().steps(), of_values)));
    expect_any_order_to_compute(runner, passes, of_values, expected, random);
    EXPECT_GT(of_values.unordered_pairs(), 3 * edges.unordered_pairs());
    // What lies where it lies asks for no other order.
    const Edges of_places = Edges::of(passes.graph().accesses());
    EXPECT_EQ(of_places.unordered_pairs(), of_values.unordered_pairs());
    EXPECT_EQ(of_places.count(), of_values.count());
  }
}

TEST(step_orders, the_reference_computes_the_same) { expect_orders_to_agree(StepRunner(Reference())); }
TEST(step_orders, the_cpu_computes_the_same) { expect_orders_to_agree(StepRunner(Cpu(serial()))); }

// Chains would have no pair of steps that may run at once; no edges at all would have every one.
TEST(step_orders, edges_are_few_and_leave_steps_free) {
  RecordedPasses passes(tiny(), "f32", DType::f16);
  const auto recorded = passes.graph().accesses();
  const Edges edges = Edges::of(recorded), of_values = Edges::of(Arena(recorded, passes.kept()).apart());
  EXPECT_EQ(edges.steps(), 97);
  EXPECT_EQ(edges.count(), 127);
  EXPECT_EQ(edges.unordered_pairs(), 124);
  EXPECT_EQ(edges.longest_path(), 68);
  EXPECT_EQ(of_values.count(), 123);
  EXPECT_EQ(of_values.unordered_pairs(), 1999);
  EXPECT_EQ(of_values.longest_path(), 28);
}

TEST(step_orders, an_arena_reuses_bytes_that_steps_are_done_with) {
  RecordedPasses passes(tiny(), "f32", DType::f16);
  Arena arena(passes.graph().accesses(), passes.kept());
  std::size_t all = 0;
  for (const Arena::Tensor& tensor : arena.tensors())
    all += static_cast<std::size_t>(tensor.recorded.end - tensor.recorded.begin);
  arena.place(Edges::of(arena.apart()));
  const std::size_t any_order = arena.bytes();
  arena.place(Edges::in_order(passes.graph().size()));
  EXPECT_LT(any_order, all / 3);
  EXPECT_LT(any_order, 3 * arena.recorded_bytes());  // three passes, all of which may be under way
  EXPECT_LT(arena.bytes(), arena.recorded_bytes() * 2 / 3);
}

// Lifetimes in the program's order are not those in every legal one.
TEST(step_orders, a_verifier_refuses_what_was_placed_for_one_order) {
  RecordedPasses passes(tiny(), "f32", DType::f16);
  const auto recorded = passes.graph().accesses();
  Arena arena(recorded, passes.kept());
  const Edges edges = Edges::of(arena.apart());
  arena.place(Edges::in_order(edges.steps()));
  const ArenaMemory memory(arena.bytes());
  arena.move(passes.graph(), memory.memory.get());
  const Status refused = verify(recorded, passes.graph().steps(), edges);
  EXPECT_EQ(refused.code(), StatusCode::internal);
  EXPECT_NE(refused.message().find("may write over what"), std::string_view::npos) << refused.message();
  EXPECT_TRUE(ok(verify(recorded, passes.graph().steps(), Edges::in_order(edges.steps()))));
}

// One tensor is laid upon another, which may live when it does or may not.
TEST(step_orders, a_verifier_refuses_two_live_tensors_in_one_place) {
  RecordedPasses passes(one_layer(tiny()), "f32", DType::f16, {{{0, 5, true}}});
  const auto recorded = passes.graph().accesses();
  const Arena arena(recorded, passes.kept());
  const auto apart = arena.apart();
  const Edges edges = Edges::of(apart);
  const auto precede = [&](const Arena::Tensor& a, const Arena::Tensor& b) {
    return std::ranges::all_of(a.steps, [&](index earlier) {
      return std::ranges::all_of(b.steps, [&](index later) { return edges.precedes(earlier, later); });
    });
  };
  const auto laid_upon = [&](const Arena::Tensor& moved, const Arena::Tensor& other) {
    StepGraph graph = passes.graph();
    for (index step = 0; step < graph.size(); ++step) {
      std::vector<std::ptrdiff_t> by;
      const auto at = static_cast<std::size_t>(step);
      for (std::size_t a = 0; a < recorded[at].size(); ++a) {
        const bool moves = recorded[at][a].begin >= moved.recorded.begin &&
                           recorded[at][a].end() <= moved.recorded.end &&
                           std::ranges::find(moved.steps, step) != moved.steps.end();
        by.push_back(moves ? other.recorded.begin - moved.recorded.begin : apart[at][a].begin - recorded[at][a].begin);
        if (!moves && std::ranges::find(other.steps, step) != other.steps.end() &&
            recorded[at][a].begin >= other.recorded.begin && recorded[at][a].end() <= other.recorded.end)
          by.back() = 0;
      }
      graph.steps()[at].move(by);
    }
    return verify(recorded, graph.steps(), edges);
  };
  index pairs = 0, refused = 0, allowed = 0;
  for (const Arena::Tensor& one : arena.tensors())
    for (const Arena::Tensor& other : arena.tensors()) {
      if (&one == &other || ++pairs % 2 != 0) continue;
      const bool may_share = precede(one, other) || precede(other, one);
      EXPECT_EQ(laid_upon(one, other).ok(), may_share)
          << "steps " << one.steps.front() << ".. and " << other.steps.front() << "..";
      ++(may_share ? allowed : refused);
    }
  EXPECT_GT(refused, 5);
  EXPECT_GT(allowed, 20);
}

// Each access in turn is not known to read, or to write: where that costs an edge, it is missed.
TEST(step_orders, a_verifier_misses_every_edge) {
  RecordedPasses passes(one_layer(tiny_mixture()), "w4a16", DType::i8, {{{0, 3, true}}, {{0, 1, false}}});
  const auto recorded = passes.graph().accesses();
  const Edges edges = Edges::of(recorded);
  index lost = 0;
  for (std::size_t step = 0; step < recorded.size(); ++step)
    for (std::size_t access = 0; access < recorded[step].size(); ++access)
      for (const auto flag : {&Access::reads, &Access::writes}) {
        auto known = recorded;
        if (!std::exchange(known[step][access].*flag, false)) continue;
        const Edges fewer = Edges::of(known);
        if (fewer.unordered_pairs() == edges.unordered_pairs()) continue;
        EXPECT_FALSE(verify(recorded, passes.graph().steps(), fewer).ok())
            << passes.graph().steps()[step].name << " " << recorded[step][access].field;
        ++lost;
      }
  EXPECT_GT(lost, 50);
}

}  // namespace
}  // namespace inlay::exec::test
