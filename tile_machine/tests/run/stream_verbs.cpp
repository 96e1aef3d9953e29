// The vector unit's verbs, chains, rings of tuples and copies by axes where a core has several scalar streams: each is
// done by the streams that have its pipe and memories, and left out by the others.
#include <map>
#include <set>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

// Tile by tile: the cube makes sums = A B; the vector streams scale groups of columns, cut what is negative, and find
// the largest of each row. The scalar unit marks who has done which tile.
struct Scaled {
  static constexpr index side = 32, group = 8, tiles = 5, groups = side / group;
  std::vector<f16> a = random_values<f16>(side * side, -1, 1, 1), b = random_values<f16>(side * side, -1, 1, 2);
  std::vector<float> scales = random_values<float>(tiles * side * groups, -2, 2, 3);
  std::vector<float> out = std::vector<float>(tiles * side * side), largest = std::vector<float>(tiles * side);
  std::vector<std::int32_t> marks = std::vector<std::int32_t>(tiles * 2, -1);
  Tensor a_, b_, between_, out_, largest_, marks_;
  NdTensor scales_;

  void place(GlobalMemory& machine) {
    a_ = machine.global("a", std::span(std::as_const(a)), {side, side});
    b_ = machine.global("b", std::span(std::as_const(b)), {side, side});
    scales_ = machine.bind("scales", ConstView<3>(scales.data(), {tiles, side, groups}));
    between_ = machine.workspace("between", {2 * side, side}, DType::f32);
    out_ = machine.global("out", std::span(out), {tiles * side, side}, Use::out);
    largest_ = machine.global("largest", std::span(largest), {tiles * side, 1}, Use::out);
    marks_ = machine.global("marks", std::span(marks), {tiles, 2});
  }

  void run(Core& core) const {
    const Tensor staged_a = core.alloc("a", Space::staging, {side, side}, DType::f16, Layout::nz);
    const Tensor staged_b = core.alloc("b", Space::staging, {side, side}, DType::f16, Layout::nz);
    const Tensor left = core.alloc("left", Space::left, {side, side}, DType::f16, Layout::nz);
    const Tensor right = core.alloc("right", Space::right, {side, side}, DType::f16, Layout::nz);
    const Tensor scale_row = core.alloc("scale of columns", Space::staging, {1, side}, DType::f32);
    Ring sums = core.ring("sums", Space::accumulator, {side, side}, DType::f32, {1, Pipe::matrix, Pipe::drain});
    Ring through = core.ring("through", {between_.row_slice(0, side), between_.row_slice(side, side)}, Pipe::drain,
                             Pipe::load_vector);
    const index part = side / core.vector_dim(), first = core.vector_idx() * part;
    auto in = core.ring<2>("in", {{{"rows", Space::vector, {part, side}}, {"scales", Space::vector, {part, groups}}}},
                           {2, Pipe::load_vector, Pipe::vector});
    auto results = core.ring<2>("results", {{{"y", Space::vector, {part, side}}, {"top", Space::vector, {part, 1}}}},
                                {2, Pipe::vector, Pipe::store});
    const Tensor mask = core.alloc("mask", Space::vector, {part, side}, DType::u8);
    const Tensor column = core.alloc("column", Space::vector, {part, 1}, DType::i32);
    const Tensor nothing = core.alloc("nothing", Space::vector, {part, side}, DType::f32);
    const Tensor product = core.alloc("product", Space::vector, {part, side}, DType::f32);
    core.nd2nz(staged_a, a_);
    core.nd2nz(staged_b, b_);
    core.copy(scale_row, b_scales());
    core.set(Pipe::load, Pipe::feed, 0);
    core.wait(Pipe::load, Pipe::feed, 0);
    core.set(Pipe::load, Pipe::drain, 1);
    core.wait(Pipe::load, Pipe::drain, 1);
    core.load_a(left, staged_a);
    core.load_b(right, staged_b);
    core.set(Pipe::feed, Pipe::matrix, 0);
    core.wait(Pipe::feed, Pipe::matrix, 0);

    const AutoBarrier chain = core.auto_barrier(Pipe::vector);
    core.vfill(nothing, 0);
    for (index tile = 0; tile < tiles; ++tile) {
      core.mma(sums.acquire(), left, right, true);
      sums.commit();
      core.drain(through.acquire(), sums.wait(), {.scale_row = scale_row});
      sums.release();
      through.commit();

      const auto [rows, scales_of_rows] = in.acquire();
      core.copy(rows, through.wait().row_slice(first, part));
      core.copy(by_axes(scales_of_rows), scales_.at(0, tile).slice(0, first, part));
      in.commit();
      through.release();

      const auto [x, s] = in.wait();
      const auto [y, top] = results.acquire();
      core.vgrouped(VectorOp::mul, product, x, s, group);
      core.vcompare(Compare::greater, mask, product, 0);
      core.vselect(y, mask, product, nothing);
      core.vargmax(top, column, y);
      in.release();
      results.commit();
      const auto [to_store, top_to_store] = results.wait();
      core.copy(out_.row_slice(tile * side + first, part), to_store);
      core.copy(largest_.row_slice(tile * side + first, part), top_to_store);
      results.release();
      core.scalar_write(marks_, tile, core.vector_idx(), static_cast<double>(tile));
    }
  }

  // One for each column, out of the scales.
  Tensor b_scales() const {
    const NdTensor first_rows = scales_.at(0, 0).slice(0, 0, side / groups);
    Tensor row = first_rows.first;
    row.shape = {1, side};
    row.pitch = side;
    return row;
  }

  // In double precision.
  void expect_right(const std::string& where) const {
    for (index tile = 0; tile < tiles; ++tile)
      for (index r = 0; r < side; ++r) {
        double top = 0;
        for (index c = 0; c < side; ++c) {
          double sum = 0;
          for (index k = 0; k < side; ++k)
            sum += double{a[static_cast<std::size_t>(r * side + k)]} * b[static_cast<std::size_t>(k * side + c)];
          sum *= scales[static_cast<std::size_t>(c)];
          sum *= scales[static_cast<std::size_t>((tile * side + r) * groups + c / group)];
          sum = std::max(sum, 0.0);
          top = std::max(top, sum);
          ASSERT_NEAR(out[static_cast<std::size_t>((tile * side + r) * side + c)], sum, 1e-4) << where;
        }
        ASSERT_NEAR(largest[static_cast<std::size_t>(tile * side + r)], top, 1e-4) << where;
      }
  }
};

TEST(StreamVerbs, EachDoesItsPartInEveryOrder) {
  for (const bool stops : {false, true})
    for (const std::uint32_t vectors : {1u, 2u})
      for (Policy policy : policies) {
        Device device = twin_device(1);
        device.sync.wait_stops_stream = stops;
        Scaled program, fast;
        Machine machine(device, {.policy = policy});
        program.place(machine);
        expect_clean(machine, [&](Core& core) { program.run(core); }, {.vectors = vectors});
        program.expect_right(device.name);
        for (index tile = 0; tile < Scaled::tiles; ++tile)
          for (index who = 0; who < 2; ++who)
            EXPECT_EQ(program.marks[static_cast<std::size_t>(tile * 2 + who)], who < vectors ? tile : -1);
        FunctionalMachine functional(device);
        fast.place(functional);
        expect_no_reports(functional.run([&](Core& core) { fast.run(core); }, {.vectors = vectors}), device.name);
        EXPECT_EQ(fast.out, program.out);
        EXPECT_EQ(fast.largest, program.largest);
        EXPECT_EQ(fast.marks, program.marks);
      }
}

// One stream for all gives the same bits.
TEST(StreamVerbs, StreamsChangeNoResult) {
  Scaled one, two;
  const Device split = split_device(1), twin = twin_device(1);
  Machine alone(split), together(twin);
  one.place(alone);
  two.place(together);
  expect_clean(alone, [&](Core& core) { one.run(core); });
  expect_clean(together, [&](Core& core) { two.run(core); });
  EXPECT_EQ(one.out, two.out);
  EXPECT_EQ(one.largest, two.largest);
}

// Nothing of another stream's pipes is on a stream's log, barriers of chains and scalar writes included; and each
// barrier that a chain put is needed.
TEST(StreamVerbs, LogsHoldWhatIsTheirs) {
  const Device device = twin_device(1);
  Scaled program;
  Machine machine(device);
  program.place(machine);
  const EventLog log = machine.run([&](Core& core) { program.run(core); }).log;
  std::map<int, std::set<Pipe>> pipes_of;
  std::map<int, std::map<std::string, int>> verbs;
  std::map<int, int> barriers;
  for (const Entry& entry : log.entries) {
    if (entry.event == Event::barrier) ++barriers[entry.stream];
    if (entry.event != Event::work) continue;
    pipes_of[entry.stream].insert(entry.pipe);
    ++verbs[entry.stream][entry.verb];
  }
  EXPECT_EQ(pipes_of[0], (std::set<Pipe>{Pipe::load, Pipe::feed, Pipe::matrix, Pipe::drain}));
  EXPECT_EQ(verbs[0]["drain"], Scaled::tiles);
  EXPECT_EQ(barriers[0], 0);
  for (int stream : {1, 2}) {
    EXPECT_EQ(pipes_of[stream], (std::set<Pipe>{Pipe::scalar, Pipe::load_vector, Pipe::vector, Pipe::store}));
    for (const char* verb : {"vgrouped", "vcompare", "vselect", "vargmax", "scalar_write"})
      EXPECT_EQ(verbs[stream][verb], Scaled::tiles) << verb;
    EXPECT_EQ(verbs[stream]["copy"], 4 * Scaled::tiles);
    EXPECT_GE(barriers[stream], 3 * Scaled::tiles);
  }
  EXPECT_TRUE(check(log, device).empty());
}

// A tuple of tiles of two streams: each allocates its own, and the flags serve both.
TEST(StreamVerbs, ATupleMayLieInMemoriesOfTwoStreams) {
  const Device device = twin_device(1);
  Machine machine(device);
  const Outcome outcome = machine.run([](Core& core) {
    auto pair = core.ring<2>("pair", {{{"staged", Space::staging, {16, 16}}, {"rows", Space::vector, {16, 16}}}},
                             {2, Pipe::drain, Pipe::load_vector});
    for (int i = 0; i < 5; ++i) {
      pair.acquire();
      pair.commit();
      pair.wait();
      pair.release();
    }
  });
  expect_no_reports(outcome.reports, device.name);
  expect_no_reports(check(outcome.log, device), device.name);
  std::map<int, std::set<std::uint8_t>> memories;
  for (const Buffer& buffer : outcome.log.buffers)
    if (buffer.memory != 0) memories[buffer.stream].insert(buffer.memory);
  EXPECT_EQ(memories[0], (std::set<std::uint8_t>{device.memory_of[static_cast<int>(Space::staging)]}));
  for (int stream : {1, 2})
    EXPECT_EQ(memories[stream], (std::set<std::uint8_t>{device.memory_of[static_cast<int>(Space::vector)]}));
}

}  // namespace
}  // namespace inlay::npu
