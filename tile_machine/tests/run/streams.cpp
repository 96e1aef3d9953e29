// Cores of several scalar streams: each runs its part of one program, and they meet at the flags between them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

// C = A B on the cube stream, out = 2 C on the vector streams, tile by tile through a workspace.
struct Twice {
  static constexpr index side = 32, tiles = 6;
  std::vector<f16> a = random_values<f16>(side * side, -1, 1, 1), b = random_values<f16>(side * side, -1, 1, 2);
  std::vector<float> out = std::vector<float>(tiles * side * side);
  Tensor a_, b_, between_, out_;

  void place(GlobalMemory& machine) {
    a_ = machine.global("a", std::span(std::as_const(a)), {side, side});
    b_ = machine.global("b", std::span(std::as_const(b)), {side, side});
    between_ = machine.workspace("between", {2 * side, side}, DType::f32);
    out_ = machine.global("out", std::span(out), {tiles * side, side}, Use::out);
  }

  void run(Core& core) const {
    const Tensor staged_a = core.alloc("a", Space::staging, {side, side}, DType::f16, Layout::nz);
    const Tensor staged_b = core.alloc("b", Space::staging, {side, side}, DType::f16, Layout::nz);
    const Tensor left = core.alloc("left", Space::left, {side, side}, DType::f16, Layout::nz);
    const Tensor right = core.alloc("right", Space::right, {side, side}, DType::f16, Layout::nz);
    Ring sums = core.ring("sums", Space::accumulator, {side, side}, DType::f32, {1, Pipe::matrix, Pipe::drain});
    Ring through = core.ring("through", {between_.row_slice(0, side), between_.row_slice(side, side)}, Pipe::drain,
                             Pipe::load_vector);
    const index part = side / core.vector_dim(), first = core.vector_idx() * part;
    Ring in = core.ring("in", Space::vector, {part, side}, DType::f32, {1, Pipe::load_vector, Pipe::vector});
    Ring doubled = core.ring("doubled", Space::vector, {part, side}, DType::f32, {1, Pipe::vector, Pipe::store});
    core.nd2nz(staged_a, a_);
    core.nd2nz(staged_b, b_);
    core.set(Pipe::load, Pipe::feed, 0);
    core.wait(Pipe::load, Pipe::feed, 0);
    core.load_a(left, staged_a);
    core.load_b(right, staged_b);
    core.set(Pipe::feed, Pipe::matrix, 0);
    core.wait(Pipe::feed, Pipe::matrix, 0);
    for (index tile = 0; tile < tiles; ++tile) {
      core.mma(sums.acquire(), left, right, true);
      sums.commit();
      const Tensor sum = sums.wait(), to = through.acquire();
      core.drain(to, sum);
      sums.release();
      through.commit();
      const Tensor from = through.wait(), rows = in.acquire();
      core.copy(rows, from.row_slice(first, part));
      in.commit();
      through.release();
      const Tensor x = in.wait(), y = doubled.acquire();
      core.vscalar(VectorOp::mul, y, x, 2);
      in.release();
      doubled.commit();
      core.copy(out_.row_slice(tile * side + first, part), doubled.wait());
      doubled.release();
    }
  }
};

TEST(MachineStreams, EachRunsItsPartInEveryOrder) {
  for (const Device& device : {split_device(1), twin_device(1)})
    for (const std::uint32_t vectors : {1u, 2u})
      for (Policy policy : policies) {
        Twice program, fast;
        Machine machine(device, {.policy = policy});
        program.place(machine);
        expect_clean(machine, [&](Core& core) { program.run(core); }, {.vectors = vectors});
        for (index r = 0; r < Twice::side; ++r)
          for (index c = 0; c < Twice::side; ++c) {
            double exact = 0;
            for (index k = 0; k < Twice::side; ++k)
              exact += 2.0 * program.a[static_cast<std::size_t>(r * Twice::side + k)] *
                       program.b[static_cast<std::size_t>(k * Twice::side + c)];
            for (index tile = 0; tile < Twice::tiles; ++tile)
              ASSERT_NEAR(program.out[static_cast<std::size_t>((tile * Twice::side + r) * Twice::side + c)], exact,
                          1e-5)
                  << device.name;
          }
        FunctionalMachine functional(device);
        fast.place(functional);
        expect_no_reports(functional.run([&](Core& core) { fast.run(core); }, {.vectors = vectors}), device.name);
        EXPECT_EQ(fast.out, program.out) << device.name;
      }
}

TEST(MachineStreams, AVerbIsOnTheLogOfTheStreamThatHasItsPipe) {
  const Device device = twin_device(2);
  Twice program;
  Machine machine(device, {.cores = 1});
  program.place(machine);
  const EventLog log = machine.run([&](Core& core) { program.run(core); }).log;
  EXPECT_EQ(log.streams, (std::vector<std::uint8_t>{0, 1, 1}));
  std::map<int, std::set<Pipe>> pipes_of;
  std::map<int, int> products, doubled;
  for (const Entry& entry : log.entries) {
    if (entry.event != Event::work) continue;
    pipes_of[entry.stream].insert(entry.pipe);
    products[entry.stream] += entry.pipe == Pipe::matrix;
    doubled[entry.stream] += entry.pipe == Pipe::vector;
  }
  EXPECT_EQ(pipes_of[0], (std::set<Pipe>{Pipe::load, Pipe::feed, Pipe::matrix, Pipe::drain}));
  for (int stream : {1, 2}) {
    EXPECT_EQ(pipes_of[stream], (std::set<Pipe>{Pipe::load_vector, Pipe::vector, Pipe::store}));
    EXPECT_EQ(doubled[stream], Twice::tiles);
  }
  EXPECT_EQ(products[0], Twice::tiles);
  for (const Buffer& buffer : log.buffers)
    if (buffer.memory != 0) {
      EXPECT_EQ(buffer.stream == 0, buffer.memory != device.memory_of[static_cast<int>(Space::vector)]) << buffer.name;
    }
}

TEST(MachineStreams, ASetReachesEachStreamOfTheOtherPipeAndAWaitTakesOneOfEach) {
  for (const bool stops : {false, true}) {
    Device device = twin_device(1);
    device.sync.wait_stops_stream = stops;
    Machine machine(device);
    const Outcome outcome = machine.run([](Core& core) {
      core.set(Pipe::drain, Pipe::load_vector, 10);
      core.wait(Pipe::drain, Pipe::load_vector, 10);
      core.set(Pipe::store, Pipe::load, 3);
      core.wait(Pipe::store, Pipe::load, 3);
    });
    expect_no_reports(outcome.reports, device.name);
    expect_no_reports(check(outcome.log, device), device.name);
    std::set<std::tuple<Event, int, int, Pipe>> seen;  // stream, the other, whose queue
    for (const Entry& entry : outcome.log.entries)
      seen.insert({entry.event, entry.stream, entry.peer_stream, entry.pipe});
    const auto waits_in = [&](Pipe pipe) { return stops ? Pipe::scalar : pipe; };
    EXPECT_EQ(seen, (std::set<std::tuple<Event, int, int, Pipe>>{
                        {Event::stream_set, 0, 1, Pipe::drain},
                        {Event::stream_set, 0, 2, Pipe::drain},
                        {Event::stream_wait, 1, 0, waits_in(Pipe::load_vector)},
                        {Event::stream_wait, 2, 0, waits_in(Pipe::load_vector)},
                        {Event::stream_set, 1, 0, Pipe::store},
                        {Event::stream_set, 2, 0, Pipe::store},
                        {Event::stream_wait, 0, 1, waits_in(Pipe::load)},
                        {Event::stream_wait, 0, 2, waits_in(Pipe::load)},
                    }));
  }
}

TEST(MachineStreams, WhoNeverSetsIsNamedByTheDeadlock) {
  Device device = twin_device(1);
  device.sync.wait_stops_stream = true;
  Machine machine(device);
  const Outcome outcome = machine.run([](Core& core) {
    if (core.vector_idx() == 0) core.set(Pipe::store, Pipe::load, 3);  // the second vector stream has left it out
    core.wait(Pipe::store, Pipe::load, 3);
  });
  ASSERT_EQ(outcome.reports.size(), 1u);
  EXPECT_EQ(outcome.reports[0].kind, ReportKind::deadlock);
  EXPECT_NE(outcome.reports[0].message.find(
                "core 0 cube: the scalar stream waits for flag 3 of store -> load (streams 2 -> 0) at streams.cpp:"),
            std::string::npos)
      << outcome.reports[0].message;
}

TEST(MachineStreams, FlagsBetweenStreamsHaveLimitsOfTheirOwn) {
  const Device device = twin_device(1);  // ids 0 to 10, 15 sets
  const auto reports_of = [&](const std::function<void(Core&)>& program) {
    Machine machine(device);
    Outcome outcome = machine.run(program);
    return outcome.ok() ? check(outcome.log, device) : outcome.reports;
  };
  const auto id = reports_of([](Core& core) { core.set(Pipe::drain, Pipe::load_vector, 11); });
  ASSERT_FALSE(id.empty());
  EXPECT_EQ(id[0].kind, ReportKind::capacity);
  EXPECT_NE(id[0].message.find("flag 11 of drain -> load_vector must be below 11"), std::string::npos) << id[0].message;

  const auto sets = [&](int count) {
    return reports_of([count](Core& core) {
      for (int i = 0; i < count; ++i) core.set(Pipe::drain, Pipe::load_vector, 0);
      for (int i = 0; i < count; ++i) core.wait(Pipe::drain, Pipe::load_vector, 0);
    });
  };
  EXPECT_TRUE(sets(15).empty());
  const auto many = sets(16);
  ASSERT_FALSE(many.empty());
  EXPECT_EQ(many[0].kind, ReportKind::flag_overrun);
  EXPECT_NE(many[0].message.find("while 15 may already stand"), std::string::npos) << many[0].message;

  // A ring of them takes one id, and rings of other pipes of the two streams take others.
  const auto rings = [&](int count) {
    Machine machine(device);
    const Tensor place = machine.workspace("place", {2, 64}, DType::f32);
    return machine
        .run([&](Core& core) {
          std::vector<Ring> all;
          for (int i = 0; i < count; ++i)
            all.push_back(core.ring("ring", {place.row_slice(0, 1), place.row_slice(1, 1)},
                                    i % 2 == 0 ? Pipe::drain : Pipe::store,
                                    i % 2 == 0 ? Pipe::load_vector : Pipe::load));
        })
        .reports;
  };
  EXPECT_TRUE(rings(11).empty());
  const auto twelve = rings(12);
  ASSERT_FALSE(twelve.empty());
  EXPECT_NE(twelve[0].message.find("needs 1 flags of store -> load; 0 of 11 are left"), std::string::npos)
      << twelve[0].message;
}

TEST(MachineStreams, ProgramsThatForgetTheSecondVectorStreamAreReported) {
  const Device device = twin_device(1);
  std::vector<float> x(64, 1), y(64);
  const auto kinds_of = [&](bool shares, Launch launch) {
    Machine machine(device);
    const Tensor from = machine.global("x", std::span(std::as_const(x)), {2, 32});
    const Tensor to = machine.global("y", std::span(y), {2, 32}, Use::out);
    const Outcome outcome = machine.run(
        [&](Core& core) {
          const Tensor row = core.alloc("row", Space::vector, {1, 32}, DType::f32);
          for (index r = shares ? core.vector_worker() : 0; r < 2; r += shares ? core.vector_workers() : 1) {
            core.copy(row, from.row_slice(r, 1));
            core.barrier_all();
            core.copy(to.row_slice(r, 1), row);
            core.barrier_all();
          }
        },
        launch);
    expect_no_reports(outcome.reports, device.name);
    std::vector<ReportKind> kinds;
    for (const Report& report : check(outcome.log, device)) {
      kinds.push_back(report.kind);
      EXPECT_EQ(report.missing, "sync_all");
      EXPECT_NE(report.message.find("(core 0, vec1, store)"), std::string::npos) << report.message;
    }
    return kinds;
  };
  EXPECT_EQ(kinds_of(false, {}), std::vector{ReportKind::race_waw});
  EXPECT_TRUE(kinds_of(true, {}).empty());
  EXPECT_TRUE(kinds_of(false, {.vectors = 1}).empty());
}

TEST(MachineStreams, AMissingFlagBetweenStreamsIsNamed) {
  const Device device = twin_device(1);
  const std::vector<float> x(64, 1);
  for (const bool right : {true, false}) {
    Machine machine(device);
    const Tensor from = machine.global("x", std::span(x), {1, 64});
    const Tensor between = machine.workspace("between", {1, 64}, DType::f16);
    const Outcome outcome = machine.run(
        [&](Core& core) {
          const Tensor tile = core.alloc("tile", Space::vector, {1, 64}, DType::f32);
          const Tensor half = core.alloc("half", Space::vector, {1, 64}, DType::f16);
          const Tensor staged = core.alloc("staged", Space::staging, {1, 64}, DType::f16, Layout::nz);
          core.copy(tile, from);
          core.barrier_all();
          core.vcast(half, tile);
          core.barrier_all();
          core.copy(between, half);
          core.set(right ? Pipe::store : Pipe::load_vector, Pipe::load, 0);  // of the queue that wrote, or another
          core.wait(Pipe::store, Pipe::load, 0);
          core.nd2nz(staged, between);
        },
        {.vectors = 1});
    expect_no_reports(outcome.reports, device.name);
    const auto reports = check(outcome.log, device);
    if (right) {
      expect_no_reports(reports, device.name);
      continue;
    }
    ASSERT_EQ(reports.size(), 1u);
    // Two streams have no common order in the program: which of the two accesses comes first is the run's.
    EXPECT_TRUE(reports[0].missing == "set/wait(store, load)" || reports[0].missing == "set/wait(load, store)")
        << reports[0].message;
  }
}

TEST(MachineStreams, AllMeet) {
  const Device device = twin_device(2);
  std::vector<float> y(4 * 8);
  const auto program = [](const Tensor& shared, const Tensor& to) {
    return [=](Core& core) {
      const Tensor tile = core.alloc("tile", Space::vector, {1, 8}, DType::f32);
      const index me = core.vector_worker(), all = core.vector_workers();
      core.vfill(tile, static_cast<float>(me));
      core.barrier_all();
      core.copy(shared.row_slice(me, 1), tile);
      core.sync_all();
      core.copy(tile, shared.row_slice((me + 1) % all, 1));
      core.barrier_all();
      core.copy(to.row_slice(me, 1), tile);
    };
  };
  for (Policy policy : policies) {
    Machine machine(device, {.policy = policy});
    const Tensor shared = machine.workspace("shared", {4, 8}, DType::f32);
    const Tensor to = machine.global("y", std::span(y), {4, 8}, Use::out);
    expect_clean(machine, program(shared, to));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i * 8], (i + 1) % 4);
  }
  std::fill(y.begin(), y.end(), -1.0f);
  FunctionalMachine functional(device);
  const Tensor shared = functional.workspace("shared", {4, 8}, DType::f32);
  const Tensor to = functional.global("y", std::span(y), {4, 8}, Use::out);
  expect_no_reports(functional.run(program(shared, to)), device.name);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i * 8], (i + 1) % 4);
}

}  // namespace
}  // namespace inlay::npu
