// Chains: on random programs no dependent pair of vector verbs is without an order, and every barrier that was put is
// needed. Judged by the checker, which knows nothing of chains.
#include <algorithm>
#include <iostream>
#include <random>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

constexpr index width = 32, places = 4;
constexpr Pipe used[] = {Pipe::load_vector, Pipe::vector, Pipe::store};

// Loads, vector verbs and stores on windows of two tiles. Flags between the pipes come by chance: some give vector
// verbs an order by way of another pipe, with which no barrier is needed.
void random_chain(Core& core, std::uint64_t seed, const Tensor& x, const Tensor& y) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<index>(engine() % n); };
  const Tensor a = core.alloc("a", Space::vector, {1, places * width}, DType::f32);
  const Tensor b = core.alloc("b", Space::vector, {1, places * width}, DType::f32);
  core.copy(a, x);
  core.copy(b, x);
  core.barrier_all();
  const std::uint64_t flags_in_ten = engine() % 10;
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  std::uint16_t flags[3][3] = {};
  const auto window = [&](const Tensor& tensor) {
    const index wide = 1 + below(2);
    return tensor.slice(0, 1, below(places - wide + 1) * width, wide * width);
  };
  const auto like = [&](const Tensor& tensor, const Tensor& other) {
    return tensor.slice(0, 1, below(static_cast<std::uint64_t>(places - other.columns() / width + 1)) * width,
                        other.columns());
  };
  for (int step = 0; step < 14; ++step) {
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to)
        if (from != to && engine() % 10 < flags_in_ten && flags[from][to] < 8) {
          const std::uint16_t id = flags[from][to]++;
          core.set(used[from], used[to], id);
          core.wait(used[from], used[to], id);
        }
    const Tensor to = window(b);
    switch (below(8)) {
      case 0: core.copy(to, like(x, to)); break;
      case 1: core.copy(like(y, to), to); break;
      case 2: core.vbinary(VectorOp::add, to, like(a, to), to); break;
      case 3: core.vscalar(VectorOp::mul, like(a, to), to, 1.5f); break;
      case 4: core.vcast(to, like(a, to)); break;
      case 5: core.barrier_all(); break;
      case 6: {
        const AutoBarrier inner = core.auto_barrier(Pipe::vector);  // a scope within the scope
        core.vunary(VectorOp::abs, to, to);
        break;
      }
      default: core.vfill(to, 1);
    }
  }
}

bool between_vector_verbs(const Report& report) {
  return report.first.pipe == Pipe::vector && report.second.pipe == Pipe::vector;
}

std::size_t races_of_vector_verbs(const EventLog& log, const Device& device) {
  const std::vector<Report> reports = check(log, device);
  return static_cast<std::size_t>(std::count_if(reports.begin(), reports.end(), between_vector_verbs));
}

TEST(AutoBarrier, PutsTheBarriersThatAreNeededAndNoOther) {
  const Device device = split_device(1);
  std::vector<float> x(places * width, 1), y(x.size());
  std::size_t barriers = 0, verbs = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Machine machine(device);
    const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, places * width});
    const Tensor to = machine.global("y", std::span(y), {1, places * width});
    const Outcome outcome = machine.run([&](Core& core) { random_chain(core, seed, from, to); });
    ASSERT_EQ(races_of_vector_verbs(outcome.log, device), 0u) << "seed " << seed;
    for (std::size_t e = 0; e < outcome.log.entries.size(); ++e) {
      const Entry& entry = outcome.log.entries[e];
      verbs += entry.event == Event::work && entry.pipe == Pipe::vector;
      if (entry.event != Event::barrier) continue;
      ++barriers;
      EventLog without = outcome.log;
      without.entries.erase(without.entries.begin() + static_cast<std::ptrdiff_t>(e));
      ASSERT_GT(races_of_vector_verbs(without, device), 0u) << "seed " << seed << ", entry " << e;
    }
  }
  std::cout << barriers << " barriers for " << verbs << " vector verbs\n";
  EXPECT_GT(barriers, 500u);
  EXPECT_GT(verbs, 2 * barriers);
}

std::vector<std::string> vector_entries(const Device& device,
                                        const std::function<void(Core&, const Tensor&)>& program) {
  Machine machine(device);
  const Outcome outcome = machine.run([&](Core& core) {
    const Tensor tile = core.alloc("tile", Space::vector, {8, 32}, DType::f32);
    core.vfill(tile, 1);
    core.barrier_all();
    program(core, tile);
  });
  expect_clean(machine, [&](Core& core) {
    const Tensor tile = core.alloc("tile", Space::vector, {8, 32}, DType::f32);
    core.vfill(tile, 1);
    core.barrier_all();
    program(core, tile);
  });
  std::vector<std::string> names;
  for (const Entry& entry : outcome.log.entries)
    if (entry.pipe == Pipe::vector) names.push_back(entry.verb);
  names.erase(names.begin());  // vfill
  return names;
}

using Names = std::vector<std::string>;

TEST(AutoBarrier, KnowsWhichVerbsDepend) {
  const Device device = split_device(1);
  EXPECT_EQ(vector_entries(device,
                           [](Core& core, const Tensor& tile) {
                             const AutoBarrier chain = core.auto_barrier(Pipe::vector);
                             const Tensor low = tile.row_slice(0, 4), high = tile.row_slice(4, 4);
                             core.vunary(VectorOp::abs, low, low);
                             core.vunary(VectorOp::exp, high, high);  // other rows
                             core.vbinary(VectorOp::add, low, low, high);
                             core.vunary(VectorOp::sqrt, high, high);  // after the one that read them
                           }),
            (Names{"vunary", "vunary", "barrier", "vbinary", "barrier", "vunary"}));
}

// What came before the scope is unknown to it, unless a barrier stands between.
TEST(AutoBarrier, BeginsAfterStrangers) {
  const Device device = split_device(1);
  EXPECT_EQ(vector_entries(device,
                           [](Core& core, const Tensor& tile) {
                             core.vunary(VectorOp::abs, tile, tile);
                             const AutoBarrier chain = core.auto_barrier(Pipe::vector);
                             core.vunary(VectorOp::abs, tile, tile);
                           }),
            (Names{"vunary", "barrier", "vunary"}));
  EXPECT_EQ(vector_entries(device,
                           [](Core& core, const Tensor& tile) {
                             core.vunary(VectorOp::abs, tile, tile);
                             core.barrier(Pipe::vector);
                             const AutoBarrier chain = core.auto_barrier(Pipe::vector);
                             core.vunary(VectorOp::abs, tile, tile);
                           }),
            (Names{"vunary", "barrier", "vunary"}));
}

TEST(AutoBarrier, PutsNothingWhereTheUnitSeesItsResults) {
  const Device device = flat_device(1);
  EXPECT_EQ(vector_entries(device,
                           [](Core& core, const Tensor& tile) {
                             const AutoBarrier chain = core.auto_barrier(Pipe::vector);
                             core.vunary(VectorOp::abs, tile, tile);
                             core.vunary(VectorOp::abs, tile, tile);
                           }),
            (Names{"vunary", "vunary"}));
}

}  // namespace
}  // namespace inlay::npu
