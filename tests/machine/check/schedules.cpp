// The checker against the machine: a program on which the checker is silent gives the same bits in every
// order that the machine may choose. The other direction cannot be asked of a few runs, but some of the
// races that it reports must show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include "npu_kernels/machine/check/checker.hpp"
#include "npu_kernels/machine/run/machine.hpp"
#include "tests/machine/support/devices.hpp"

namespace inlay::npu {
namespace {

constexpr index width = 32;  // elements of a tile: a granule of either device
constexpr index places = 4;
constexpr std::uint32_t cores = 2;
constexpr Pipe used[] = {Pipe::load_vector, Pipe::vector, Pipe::store};

struct Action {
  enum class Kind { copy_in, scale, add, copy_out, flag, barrier, barrier_all, sync_all } kind;
  index from = 0, to = 0, wide = 1;
  int first = 0, second = 0;  // into `used`
};

// Two programs of one length (they meet at sync_all together), careful with a chance.
std::vector<std::vector<Action>> random_programs(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<index>(engine() % n); };
  const std::uint64_t care = 80 + engine() % 20;  // per cent
  std::vector<std::vector<Action>> programs(cores);
  using Kind = Action::Kind;
  for (int step = 0; step < 6; ++step) {
    const bool meet = below(6) == 0;
    for (auto& program : programs) {
      if (meet) program.push_back({Kind::sync_all});
      const Kind kind = static_cast<Kind>(below(4));
      const int mine = kind == Kind::copy_in ? 0 : kind == Kind::copy_out ? 2 : 1;
      for (int other = 0; other < 3; ++other) {
        if (static_cast<std::uint64_t>(below(100)) >= care) continue;
        Action sync{other == mine ? Kind::barrier : Kind::flag};
        sync.first = other;
        sync.second = mine;
        program.push_back(sync);
      }
      if (below(20) == 0) program.push_back({Kind::barrier_all});
      const index wide = 1 + below(2);
      program.push_back({kind, below(places - wide + 1), below(places - wide + 1), wide});
    }
  }
  return programs;
}

void run_program(Core& core, const std::vector<Action>& program, const Tensor& x, const Tensor& y) {
  const Tensor a = core.alloc("a", Space::vector, {1, places * width}, DType::f32);
  const Tensor b = core.alloc("b", Space::vector, {1, places * width}, DType::f32);
  core.copy(a, x);
  core.copy(b, x);
  core.barrier_all();
  const auto window = [](const Tensor& tensor, index place, index wide) {
    return tensor.slice(0, 1, place * width, wide * width);
  };
  std::uint16_t flags[3][3] = {};
  for (const Action& action : program) {
    const Tensor from = window(a, action.from, action.wide), to = window(b, action.to, action.wide);
    switch (action.kind) {
      case Action::Kind::copy_in: core.copy(to, window(x, action.from, action.wide)); break;
      case Action::Kind::scale: core.vscalar(VectorOp::mul, to, from, 1.5f); break;
      case Action::Kind::add: core.vbinary(VectorOp::add, from, from, to); break;
      case Action::Kind::copy_out:  // each core has its rows; the last tile is for both
        core.copy(y.slice(core.block_idx(), 1, action.from * width, action.wide * width), to);
        if (action.to == 0) core.copy(y.slice(cores, 1, 0, width), window(a, action.from, 1));
        break;
      case Action::Kind::flag: {
        const std::uint16_t id = flags[action.first][action.second]++;
        core.set(used[action.first], used[action.second], id);
        core.wait(used[action.first], used[action.second], id);
        break;
      }
      case Action::Kind::barrier: core.barrier(used[action.first]); break;
      case Action::Kind::barrier_all: core.barrier_all(); break;
      case Action::Kind::sync_all: core.sync_all(); break;
    }
  }
}

struct Result {
  Outcome outcome;
  std::vector<float> y;
};

Result run(const Device& device, const std::vector<std::vector<Action>>& programs, Policy policy, std::uint64_t seed) {
  std::vector<float> x(places * width);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  Result result;
  result.y.assign((cores + 1) * places * width, 0);
  Machine machine(device, {.policy = policy, .seed = seed, .cores = cores});
  const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, places * width});
  const Tensor to = machine.global("y", std::span(result.y), {cores + 1, places * width});
  result.outcome = machine.run([&](Core& core) { run_program(core, programs[core.block_idx()], from, to); });
  return result;
}

TEST(CheckerAgainstTheMachine, SilenceMeansTheSameBitsInEveryOrder) {
  int silent = 0, reported = 0, shown = 0;
  for (Device device : {split_device(cores), flat_device(cores)}) {
    for (Memory& memory : device.memories) memory.bytes = std::min<std::uint64_t>(memory.bytes, 4096);  // quick to make
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      const auto programs = random_programs(seed);
      const Result base = run(device, programs, Policy::issue_order, 0);
      ASSERT_TRUE(base.outcome.ok()) << base.outcome.reports.front().message;
      const auto reports = check(base.outcome.tape, device);
      bool differs = false;
      const auto compare = [&](Policy policy, std::uint64_t order) {
        const Result other = run(device, programs, policy, order);
        differs = differs || !other.outcome.ok() ||
                  std::memcmp(base.y.data(), other.y.data(), base.y.size() * sizeof(float)) != 0;
      };
      compare(Policy::late_dma, 0);
      compare(Policy::early_dma, 0);
      for (std::uint64_t order = 1; order <= 4; ++order) compare(Policy::random, order);
      (reports.empty() ? silent : reported) += 1;
      shown += differs && !reports.empty();
      if (reports.empty()) {
        ASSERT_FALSE(differs) << device.name << ", seed " << seed;
      }
    }
  }
  std::cout << silent << " programs without a report, " << reported << " with; " << shown
            << " of those gave other results in another order\n";
  EXPECT_GT(silent, 100);
  EXPECT_GT(shown, 100);
}

}  // namespace
}  // namespace inlay::npu
