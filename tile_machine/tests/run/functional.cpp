// Functional mode against checked mode: the same bits.
#include "tile_machine/run/machine.hpp"

#include <cstring>

#include "tile_machine/tests/run/random_program.hpp"
#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

template <class T> void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << where << " at " << i;
}

TEST(FunctionalMode, RandomPrograms) {
  constexpr Launch one{.vectors = 1};  // two would write the same results
  const std::vector<Device> devices = all_devices();
  std::array<std::uint64_t, random_steps> executed{};
  for (std::uint32_t seed = 0; seed < 180; ++seed) {
    const Device& device = devices[seed % devices.size()];
    RandomProgram checked(seed), fast(seed);
    Machine slow(device, {.policy = policies[seed / devices.size() % std::size(policies)], .seed = seed, .cores = 2});
    checked.place(slow);
    const Outcome outcome = slow.run([&](Core& core) { checked.run(core); }, one);
    expect_no_reports(outcome.reports, device.name + ", seed " + std::to_string(seed));
    FunctionalMachine quick(device, 2);
    fast.place(quick);
    expect_no_reports(quick.run([&](Core& core) { fast.run(core); }, one), device.name);
    expect_same_bits(checked.memory(), fast.memory(), device.name + ", seed " + std::to_string(seed));
    for (std::size_t step = 0; step < executed.size(); ++step) executed[step] += checked.executed(step);
  }
  for (std::size_t step = 0; step < executed.size(); ++step) EXPECT_GT(executed[step], 10u) << "step " << step;
}

TEST(FunctionalMode, CoresMeet) {
  const Device device = split_device(3);
  std::vector<float> y(3);
  FunctionalMachine machine(device);
  const Tensor to = machine.global("y", std::span(y), {3, 1}, Use::out);
  const Tensor shared = machine.workspace("shared", {3, 1}, DType::f32);
  const auto reports = machine.run([&](Core& m) {
    const auto me = static_cast<index>(m.block_idx());
    const Tensor tile = m.alloc("tile", Space::vector, {1, 1}, DType::f32);
    m.vfill(tile, static_cast<float>(me));
    m.copy(shared.row_slice(me, 1), tile);
    m.sync_all();
    m.copy(tile, shared.row_slice((me + 1) % 3, 1));
    m.copy(to.row_slice(me, 1), tile);
  });
  expect_no_reports(reports, device.name);
  EXPECT_EQ(y, (std::vector<float>{1, 2, 0}));
}

// Two slots ahead of a ring with one: checked mode's load queue waits for the release, functional mode cannot.
TEST(FunctionalMode, ASlotThatIsReleasedLaterIsRefused) {
  const Device device = split_device(1);
  const std::vector<float> x(64, 1);
  for (const std::uint32_t depth : {1u, 2u}) {
    const auto program = [&](const Tensor& from) {
      return [&, from](Core& core) {
        Ring in = core.ring("in", Space::vector, {1, 32}, DType::f32, {depth, Pipe::load_vector, Pipe::vector});
        const Tensor sum = core.alloc("sum", Space::vector, {1, 32}, DType::f32);
        core.vfill(sum, 0);
        for (index i = 0; i < 2; ++i) {
          core.copy(in.acquire(), from.slice(0, 1, i * 32, 32));
          in.commit();
        }
        for (index i = 0; i < 2; ++i) {
          core.barrier(Pipe::vector);
          core.vbinary(VectorOp::add, sum, sum, in.wait());
          in.release();
        }
      };
    };
    Machine checked(device);
    expect_clean(checked, program(checked.global("x", std::span(x), {1, 64})));
    FunctionalMachine functional(device);
    const auto reports = functional.run(program(functional.global("x", std::span(x), {1, 64})));
    ASSERT_EQ(reports.size(), depth == 1 ? 1u : 0u);
    if (depth == 1) {
      EXPECT_NE(reports[0].message.find("ring.acquire at functional.cpp:"), std::string::npos) << reports[0].message;
    }
  }
}

TEST(FunctionalMode, RefusesWhatCheckedModeRefuses) {
  const Device device = split_device(1);
  FunctionalMachine machine(device);
  const auto reports = machine.run([](Core& m) { m.alloc("big", Space::left, {320, 128}, DType::f16); });
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind, ReportKind::capacity);
}

}  // namespace
}  // namespace inlay::npu
