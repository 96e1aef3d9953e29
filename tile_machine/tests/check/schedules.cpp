// The checker against the machine: a program on which the checker is silent gives the same bits in every
// order that the machine may choose. The other direction cannot be asked of a few runs, but some of the
// races that it reports must show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <vector>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/devices.hpp"

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

// Does any other order fail, or give other bits than `base`? run(policy, order) gives a Result.
template <class Run> bool differs_in_another_order(const std::vector<float>& base, Run&& run) {
  bool differs = false;
  const auto compare = [&](Policy policy, std::uint64_t order) {
    const Result other = run(policy, order);
    differs =
        differs || !other.outcome.ok() || std::memcmp(base.data(), other.y.data(), base.size() * sizeof(float)) != 0;
  };
  compare(Policy::late_dma, 0);
  compare(Policy::early_dma, 0);
  for (std::uint64_t order = 1; order <= 4; ++order) compare(Policy::random, order);
  return differs;
}

TEST(CheckerAgainstTheMachine, SilenceMeansTheSameBitsInEveryOrder) {
  int silent = 0, reported = 0, shown = 0;
  for (Device device : {split_device(cores), flat_device(cores)}) {
    for (Memory& memory : device.memories) memory.bytes = std::min<std::uint64_t>(memory.bytes, 4096);  // quick to make
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      const auto programs = random_programs(seed);
      const Result base = run(device, programs, Policy::issue_order, 0);
      ASSERT_TRUE(base.outcome.ok()) << base.outcome.reports.front().message;
      const auto reports = check(base.outcome.log, device);
      const bool differs = differs_in_another_order(
          base.y, [&](Policy policy, std::uint64_t order) { return run(device, programs, policy, order); });
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

// The same with a core of three streams, which hand rows on in a circle through global memory:
//
//   rows16 --load--> staging --feed--> left --matrix--> sums --drain--> rows32
//   rows32 --load_vector--> values --vector--> halves --store--> rows16     each vector stream its half of a row
namespace circle {

constexpr Pipe of_step[] = {Pipe::load,        Pipe::feed,   Pipe::matrix, Pipe::drain,
                            Pipe::load_vector, Pipe::vector, Pipe::store};
constexpr index steps = std::size(of_step), cube_steps = 4, rows = 2, side = 32;

struct Action {
  bool flag;
  index step, before, row;  // flag: from `before` to `step`
};

std::vector<Action> random_actions(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<index>(engine() % n); };
  const std::uint64_t care = 78 + engine() % 20;  // per cent
  std::vector<Action> actions;
  index step = below(steps);
  for (int i = 0; i < 9; ++i) {
    for (index before = 0; before < steps; ++before)
      if (static_cast<std::uint64_t>(below(100)) < care) actions.push_back({true, step, before, 0});
    actions.push_back({false, step, 0, below(rows)});
    step = below(4) == 0 ? below(steps) : (step + 1) % steps;
  }
  return actions;
}

void run_actions(Core& core, const std::vector<Action>& actions, const Tensor& rows16, const Tensor& rows32) {
  const Tensor staged = core.alloc("staged", Space::staging, {1, side}, DType::f16, Layout::nz);
  const Tensor weights = core.alloc("weights", Space::staging, {side, side}, DType::f16, Layout::nz);
  const Tensor left = core.alloc("left", Space::left, {1, side}, DType::f16, Layout::nz);
  const Tensor right = core.alloc("right", Space::right, {side, side}, DType::f16, Layout::nz);
  const Tensor sums = core.alloc("sums", Space::accumulator, {1, side}, DType::f32);
  const index part = side / core.vector_dim(), first = core.vector_idx() * part;
  const Tensor values = core.alloc("values", Space::vector, {1, part}, DType::f32);
  const Tensor halves = core.alloc("halves", Space::vector, {1, part}, DType::f16);
  core.nd2nz(staged, rows16.row_slice(0, 1));
  core.nd2nz(weights, rows16.row_slice(rows, side));
  core.barrier_all();
  core.load_a(left, staged);
  core.load_b(right, weights);
  core.barrier_all();
  core.mma(sums, left, right, true);
  core.vfill(values, 1);
  core.vfill(halves, 1);
  core.sync_all();
  std::map<std::pair<index, index>, std::uint16_t> ids;
  for (const Action& action : actions) {
    const Pipe pipe = of_step[action.step];
    const Tensor wide = rows32.row_slice(action.row, 1), narrow = rows16.row_slice(action.row, 1);
    if (action.flag) {
      const Pipe from = of_step[action.before];
      if (from == pipe) {
        core.barrier(pipe);
        continue;
      }
      const bool across = (action.before < cube_steps) != (action.step < cube_steps);
      const index pair = action.before < action.step ? action.before * (steps - cube_steps) + action.step - cube_steps
                                                     : (action.before - cube_steps) * cube_steps + action.step;
      const auto id = across ? static_cast<std::uint16_t>(pair) : ids[{action.before, action.step}]++;
      const Sync& sync = core.device().sync;
      if (id >= (across ? sync.stream_flags : sync.flags)) continue;
      core.set(from, pipe, id);
      core.wait(from, pipe, id);
      continue;
    }
    if (pipe == Pipe::load) core.nd2nz(staged, narrow);
    if (pipe == Pipe::feed) core.load_a(left, staged);
    if (pipe == Pipe::matrix) core.mma(sums, left, right, true);
    if (pipe == Pipe::drain) core.drain(wide, sums);
    if (pipe == Pipe::load_vector) core.copy(values, wide.slice(0, 1, first, part));
    if (pipe == Pipe::vector) core.vcast(halves, values);
    if (pipe == Pipe::store) core.copy(narrow.slice(0, 1, first, part), halves);
  }
}

}  // namespace circle

TEST(CheckerAgainstTheMachine, SoItIsForStreamsOfACore) {
  int silent = 0, reported = 0, shown = 0;
  Device device = twin_device(1);
  for (Memory& memory : device.memories)
    memory.bytes = std::min<std::uint64_t>(memory.bytes, 1 << 16);  // quick to make
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    device.sync.wait_stops_stream = seed % 2 == 0;
    const auto actions = circle::random_actions(seed);
    const auto run = [&](Policy policy, std::uint64_t order) {
      std::vector<f16> x(static_cast<std::size_t>((circle::rows + circle::side) * circle::side));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = f16(static_cast<float>(i * 7 % 13) - 6);
      Result result;
      std::vector<float>& y = result.y;
      y.assign(static_cast<std::size_t>(circle::rows * circle::side), 3);
      Machine machine(device, {.policy = policy, .seed = order});
      const Tensor rows16 = machine.global("rows16", std::span(x), {circle::rows + circle::side, circle::side});
      const Tensor rows32 = machine.global("rows32", std::span(y), {circle::rows, circle::side});
      result.outcome = machine.run([&](Core& core) { circle::run_actions(core, actions, rows16, rows32); });
      for (std::size_t i = 0; i < static_cast<std::size_t>(circle::rows * circle::side); ++i) y.push_back(x[i]);
      return result;
    };
    const Result base = run(Policy::issue_order, 0);
    ASSERT_TRUE(base.outcome.ok()) << seed << ": " << base.outcome.reports.front().message;
    const auto reports = check(base.outcome.log, device);
    const bool differs = differs_in_another_order(base.y, run);
    (reports.empty() ? silent : reported) += 1;
    shown += differs && !reports.empty();
    if (reports.empty()) {
      ASSERT_FALSE(differs) << "seed " << seed;
    }
  }
  std::cout << silent << " programs of three streams without a report, " << reported << " with; " << shown
            << " of those gave other results in another order\n";
  EXPECT_GT(silent, 100);
  EXPECT_GT(shown, 100);
}

}  // namespace
}  // namespace inlay::npu
