// The machine by itself: what runs, what is recorded, and what it refuses.
#include "tile_machine/run/machine.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

// y = 2 * x, tile by tile through a ring on both sides.
void twice(Core& m, const Tensor& x, const Tensor& y, index tile) {
  auto in = m.ring("in", Space::vector, {1, tile}, x.dtype, {2, Pipe::load_vector, Pipe::vector});
  auto out = m.ring("out", Space::vector, {1, tile}, x.dtype, {2, Pipe::vector, Pipe::store});
  for (index first = m.vector_worker() * tile; first < x.columns(); first += m.vector_workers() * tile) {
    m.copy(in.acquire(), x.slice(0, 1, first, tile));
    in.commit();
    m.vscalar(VectorOp::mul, out.acquire(), in.wait(), 2);
    out.commit();
    in.release();
    m.copy(y.slice(0, 1, first, tile), out.wait());
    out.release();
  }
}

TEST(Machine, RingsCarryTilesInEveryOrder) {
  for (const Device& device : {split_device(3), twin_device(3), flat_device(3)})
    for (Policy policy : policies) {
      std::vector<float> x(1 << 12), y(x.size());
      std::iota(x.begin(), x.end(), 1.0f);
      Machine machine(device, {.policy = policy});
      const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, 1 << 12});
      const Tensor to = machine.global("y", std::span(y), {1, 1 << 12}, Use::out);
      const Outcome outcome = machine.run([&](Core& core) { twice(core, from, to, 64); });
      for (const Report& report : outcome.reports) ADD_FAILURE() << report.message;
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]) << device.name << " at " << i;
    }
}

TEST(Machine, TheLogHoldsFootprintsAndFlags) {
  const Device device = split_device(1);
  std::vector<float> x(256, 1), y(256);
  Machine machine(device);
  const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, 256});
  const Tensor to = machine.global("y", std::span(y), {1, 256}, Use::out);
  const Outcome outcome = machine.run([&](Core& core) { twice(core, from, to, 64); });
  std::uint64_t loaded = 0, sets = 0, waits = 0;
  for (const Entry& entry : outcome.log.entries) {
    if (entry.event == Event::work && entry.pipe == Pipe::load_vector) {
      ASSERT_EQ(entry.footprint_count, 2u);
      const Footprint& source = outcome.log.footprints[entry.footprints];
      EXPECT_EQ(source.memory, 0);
      EXPECT_EQ(source.begin, loaded);
      EXPECT_TRUE(outcome.log.footprints[entry.footprints + 1].write);
      loaded += entry.work.bytes;
    }
    sets += entry.event == Event::set;
    waits += entry.event == Event::wait;
    if (entry.event == Event::set || entry.event == Event::wait) {
      EXPECT_TRUE(entry.ring);
    }
  }
  EXPECT_EQ(loaded, 1024u);
  EXPECT_EQ(sets, 16u);  // two rings, four tiles, commit and release
  EXPECT_EQ(waits, 16u);
}

// Of one stream a core, and of two that wait for one another.
TEST(Machine, AFullLogEndsTheProgram) {
  for (const Device& device : all_devices()) {
    Machine machine(device, {.data = false, .entries = 1000});
    const Tensor x = machine.absent("x", DType::f32, {1, 256}, Use::in);
    const Tensor y = machine.absent("y", DType::f32, {1, 256}, Use::out);
    const Tensor handed = machine.workspace("handed", {2, 64}, DType::f32);
    const Outcome outcome = machine.run([&](Core& core) {
      Ring through = core.ring("through", {handed.row_slice(0, 1), handed.row_slice(1, 1)}, Pipe::store, Pipe::load);
      const Tensor from = core.alloc("from", Space::vector, {1, 64}, DType::f32);
      const Tensor to = core.alloc("to", Space::staging, {1, 64}, DType::f32);
      for (int round = 0; round < 100000; ++round) {
        twice(core, x, y, 64);
        core.copy(through.acquire(), from);
        through.commit();
        core.copy(to, through.wait());
        through.release();
      }
    });
    ASSERT_EQ(outcome.reports.size(), 1u) << device.name;
    EXPECT_EQ(outcome.reports[0].kind, ReportKind::capacity);
    EXPECT_NE(outcome.reports[0].message.find("more than 1000 entries"), std::string::npos)
        << outcome.reports[0].message;
    EXPECT_TRUE(outcome.log.entries.empty());
  }
}

TEST(Machine, AMissingWaitCorruptsDataWhenDmaIsLate) {
  const Device device = split_device(1);
  std::vector<float> x(64, 1), y(64);
  const auto run = [&](Policy policy) {
    Machine machine(device, {.policy = policy});
    const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, 64});
    const Tensor to = machine.global("y", std::span(y), {1, 64}, Use::out);
    return machine.run([&](Core& m) {
      const Tensor a = m.alloc("a", Space::vector, {1, 64}, DType::f32);
      const Tensor b = m.alloc("b", Space::vector, {1, 64}, DType::f32);
      m.copy(a, from);
      m.vscalar(VectorOp::mul, b, a, 2);  // does not wait
      m.set(Pipe::vector, Pipe::store, 0);
      m.wait(Pipe::vector, Pipe::store, 0);
      m.copy(to, b);
    });
  };
  EXPECT_TRUE(run(Policy::issue_order).ok());
  EXPECT_EQ(y[0], 2);
  const Outcome late = run(Policy::late_dma);
  ASSERT_EQ(late.reports.size(), 1u);
  EXPECT_EQ(late.reports[0].kind, ReportKind::uninitialised_read);
  EXPECT_NE(y[0], 2);
}

TEST(Machine, ADeadlockNamesEveryWaiter) {
  const Device device = split_device(2);
  Machine machine(device);
  const Outcome outcome = machine.run([&](Core& m) {
    if (m.block_idx() == 0) m.wait(Pipe::load, Pipe::feed, 3);
    if (m.block_idx() == 1) m.wait(Pipe::vector, Pipe::scalar, 1);
    m.barrier_all();
  });
  ASSERT_EQ(outcome.reports.size(), 1u);
  const Report& report = outcome.reports[0];
  EXPECT_EQ(report.kind, ReportKind::deadlock);
  for (const char* part : {"core 0: feed waits for flag 3 of load -> feed at machine.cpp:",
                           "core 0: the scalar stream waits for its queues to drain",
                           "core 1: the scalar stream waits for flag 1 of vector -> scalar"})
    EXPECT_NE(report.message.find(part), std::string::npos) << report.message;
}

TEST(Machine, AFullQueueStopsTheStream) {
  const Device device = split_device(1);
  Machine machine(device);
  const Outcome outcome = machine.run([&](Core& m) {
    m.wait(Pipe::vector, Pipe::load, 0);
    for (int i = 0; i < 40; ++i) m.barrier(Pipe::load);  // the queue holds 32
    m.set(Pipe::vector, Pipe::load, 0);
  });
  ASSERT_EQ(outcome.reports.size(), 1u);
  EXPECT_NE(outcome.reports[0].message.find("a place in the full queue of load"), std::string::npos);
}

TEST(Machine, CoresMeetAndSignal) {
  const Device device = split_device(3);
  for (Policy policy : policies) {
    std::vector<float> y(3 * 8);
    Machine machine(device, {.policy = policy});
    const Tensor to = machine.global("y", std::span(y), {3, 8}, Use::out);
    const Tensor space = machine.workspace("partial", {3, 8}, DType::f32);
    const Outcome outcome = machine.run([&](Core& m) {
      const auto me = static_cast<index>(m.block_idx()), next = (me + 1) % 3;
      const Tensor tile = m.alloc("tile", Space::vector, {1, 8}, DType::f32);
      m.vfill(tile, static_cast<float>(me));
      m.set(Pipe::vector, Pipe::store, 0);
      m.wait(Pipe::vector, Pipe::store, 0);
      m.copy(space.row_slice(me, 1), tile);
      m.cross_set(Pipe::store, static_cast<std::uint32_t>((me + 2) % 3), 5);
      m.cross_wait(Pipe::load_vector, 5);
      m.set(Pipe::store, Pipe::load_vector, 0);
      m.wait(Pipe::store, Pipe::load_vector, 0);
      m.copy(tile, space.row_slice(next, 1));
      m.sync_all();
      m.copy(to.row_slice(me, 1), tile);
    });
    for (const Report& report : outcome.reports) ADD_FAILURE() << report.message;
    for (int core = 0; core < 3; ++core) EXPECT_EQ(y[static_cast<std::size_t>(core) * 8], (core + 1) % 3);
  }
}

// One report of the kind, whose message has the parts.
void expect_refused(ReportKind kind, std::initializer_list<const char*> parts,
                    const std::function<void(Core&, const Tensor&)>& program) {
  const Device device = split_device(1);
  std::vector<float> x(4096, 1);
  Machine machine(device);
  const Tensor from = machine.global("x", std::span(std::as_const(x)), {64, 64});
  const Outcome outcome = machine.run([&](Core& core) { program(core, from); });
  ASSERT_EQ(outcome.reports.size(), 1u);
  EXPECT_EQ(outcome.reports[0].kind, kind) << outcome.reports[0].message;
  for (const char* part : parts)
    EXPECT_NE(outcome.reports[0].message.find(part), std::string::npos) << outcome.reports[0].message;
}

TEST(Machine, RefusesWhatTheDeviceDoesNotHave) {
  expect_refused(ReportKind::capacity, {"big", "left", "needs 81920 bytes", "65536"}, [](Core& m, const Tensor&) {
    m.alloc("big", Space::left, {320, 128}, DType::f16);
  });
  expect_refused(ReportKind::alignment, {"copy", "tile", "multiple of 32"}, [](Core& m, const Tensor& x) {
    const Tensor tile = m.alloc("tile", Space::vector, {1, 64}, DType::f32);
    m.copy(tile.slice(0, 1, 3, 8), x.slice(0, 1, 3, 8));
  });
  expect_refused(ReportKind::illegal_path, {"no path", "global", "left"}, [](Core& m, const Tensor& x) {
    m.copy(m.alloc("tile", Space::left, {64, 64}, DType::f32), x);
  });
  expect_refused(ReportKind::illegal_path, {"vreduce", "it takes reduce_sum, reduce_max, reduce_min, not max"},
                 [](Core& m, const Tensor&) {
                   const Tensor tile = m.alloc("tile", Space::vector, {64, 64}, DType::f32);
                   m.vreduce(VectorOp::max, m.alloc("largest", Space::vector, {64, 1}, DType::f32), tile);
                 });
  expect_refused(ReportKind::illegal_path, {"x is an input"}, [](Core& m, const Tensor& x) {
    const Tensor tile = m.alloc("tile", Space::vector, {64, 64}, DType::f32);
    m.copy(x, tile);
  });
  expect_refused(ReportKind::illegal_path, {"the slice's rows pass the tensor's"}, [](Core& m, const Tensor& x) {
    m.copy(m.alloc("tile", Space::vector, {8, 64}, DType::f32), x.row_slice(60, 8));
  });
  expect_refused(ReportKind::use_after_release, {"vfill", "tile", "after its release"}, [](Core& m, const Tensor&) {
    const Tensor tile = m.alloc("tile", Space::vector, {8, 64}, DType::f32);
    m.release(tile);
    m.vfill(tile, 1);
  });
  expect_refused(ReportKind::uninitialised_read, {"vscalar", "byte 32 of tile"}, [](Core& m, const Tensor&) {
    const Tensor tile = m.alloc("tile", Space::vector, {1, 64}, DType::f32);
    m.vfill(tile.slice(0, 1, 0, 8), 1);
    m.vscalar(VectorOp::add, tile, tile, 1);
  });
}

// A ring of views has no flags: the ring of staged tiles releases once the product has read its tile.
TEST(Machine, StagedTilesOfViewsAreReleasedLate) {
  const Device device = flat_device(1);
  const std::vector<f16> x(32 * 32, f16(1));
  Machine machine(device);
  const Tensor from = machine.global("x", std::span(x), {32, 32});
  const Outcome outcome = machine.run([&](Core& m) {
    auto staged = m.ring("staged", Space::staging, {32, 32}, DType::f16, {1, Pipe::load, Pipe::feed}, Layout::nz);
    auto left = m.ring("left", Space::left, {32, 32}, DType::f16, {1, Pipe::feed, Pipe::matrix}, Layout::nz);
    auto right = m.ring("right", Space::right, {32, 32}, DType::f16, {1, Pipe::feed, Pipe::matrix}, Layout::nz);
    const Tensor acc = m.alloc("acc", Space::accumulator, {32, 32}, DType::f32);
    for (int i = 0; i < 2; ++i) {
      m.nd2nz(staged.acquire(), from);
      staged.commit();
      const Tensor tile = staged.wait();
      m.load_a(left.acquire(), tile);
      left.commit();
      m.load_b(right.acquire(), tile);
      right.commit();
      staged.release();  // before the product
      m.mma(acc, left.wait(), right.wait(), true);
      left.release();
      right.release();
    }
  });
  expect_no_reports(outcome.reports, device.name);
  std::vector<std::string> order;
  for (const Entry& entry : outcome.log.entries)
    if (entry.pipe == Pipe::matrix) order.push_back(entry.verb);
  const std::vector<std::string> once = {"ring.wait", "mma", "ring.release"};
  std::vector<std::string> twice_over = once;
  twice_over.insert(twice_over.end(), once.begin(), once.end());
  EXPECT_EQ(order, twice_over);
  expect_no_reports(check(outcome.log, device), device.name);
}

TEST(Machine, AnOperandThatWasNotLoadedIsRefused) {
  const Device device = flat_device(1);
  Machine machine(device);
  const Outcome outcome = machine.run([&](Core& m) {
    const Tensor left = m.alloc("left", Space::left, {32, 32}, DType::f16, Layout::nz);
    const Tensor right = m.alloc("right", Space::right, {32, 32}, DType::f16, Layout::nz);
    m.mma(m.alloc("acc", Space::accumulator, {32, 32}, DType::f32), left, right, true);
  });
  ASSERT_EQ(outcome.reports.size(), 1u);
  EXPECT_NE(outcome.reports[0].message.find("nothing has been loaded"), std::string::npos);
}

// What an earlier tenant left is not initialised for the next one.
TEST(Machine, DataOfAnEarlierTenantIsUninitialised) {
  expect_refused(ReportKind::uninitialised_read, {"vscalar", "byte 0 of second"}, [](Core& m, const Tensor&) {
    const Tensor first = m.alloc("first", Space::vector, {1, 64}, DType::f32);
    m.vfill(first, 1);
    m.release(first);
    const Tensor second = m.alloc("second", Space::vector, {1, 64}, DType::f32);
    m.vscalar(VectorOp::add, second, second, 1);
  });
}

TEST(Machine, MutationsAreCountedAndApplied) {
  const Device device = split_device(1);
  std::vector<float> x(512, 1), y(512);
  const auto run = [&](std::optional<Mutation> mutation) {
    Options options;
    options.policy = Policy::late_dma;
    options.mutation = mutation;
    Machine machine(device, options);
    const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, 512});
    const Tensor to = machine.global("y", std::span(y), {1, 512}, Use::out);
    return machine.run([&](Core& core) { twice(core, from, to, 64); });
  };
  const Outcome plain = run(std::nullopt);
  EXPECT_TRUE(plain.ok());
  std::array<int, mutation_kinds> count{};
  for (const MutationPoint& point : plain.points) ++count[static_cast<std::size_t>(point.kind)];
  EXPECT_EQ(count, (std::array<int, mutation_kinds>{8, 2, 2, 3}));  // 6 verbs of rings and their two ends
  const Outcome dropped = run(Mutation{MutationKind::drop_release, 0});
  ASSERT_FALSE(dropped.ok());
  EXPECT_EQ(dropped.reports[0].kind, ReportKind::deadlock);
}

}  // namespace
}  // namespace inlay::npu
