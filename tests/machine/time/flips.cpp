// Each rule of the cost model decides between two small programs: with the figure the one is faster, without it (the
// rule of version 1) the other. A rule that no program's rank depends on is not worth having.
#include <gtest/gtest.h>

#include <functional>

#include "npu_kernels/machine/run/machine.hpp"
#include "npu_kernels/machine/time/timing.hpp"
#include "tests/machine/support/devices.hpp"
#include "tests/machine/time/tapes.hpp"

namespace inlay::npu {
namespace {

// What each core runs, after its tensors have been made.
using Program = std::function<std::function<void(Core&)>(GlobalMemory&)>;

double cycles_of(const Device& device, const Program& program) {
  Machine machine(device, {.cores = 1, .data = false});
  const auto body = program(machine);
  const Outcome outcome = machine.run(body);
  EXPECT_TRUE(outcome.ok()) << outcome.reports[0].message;
  const auto time = time_tape(outcome.tape, device);
  return time ? to_cycles(time->makespan) : -1;
}

// One core; 64 bytes a cycle from global memory after 100 cycles, whole rows cost nothing more.
Device plain_device() {
  Device device = split_device(1);
  device.dram_bytes_per_cycle = device.dram_bytes_per_cycle_core = 64;
  for (Path& path : device.paths) {
    path.half_burst = 0;
    path.latency = 100;
  }
  return device;
}

// An intermediate of 64 KB goes through global memory and back, or is computed again in ten passes.
TEST(Flips, AWorkspaceIsCheapInAnL2) {
  const auto tile = [](Core& core) { return core.alloc("tile", Space::vector, {64, 256}, DType::f32); };
  const Program spill = [&](GlobalMemory& machine) {
    const Tensor place = machine.workspace("place", {64, 256}, DType::f32);
    return [=](Core& core) {
      const Tensor t = tile(core);
      core.vfill(t, 1);
      core.set(Pipe::vector, Pipe::store, 0);
      core.wait(Pipe::vector, Pipe::store, 0);
      core.copy(place, t);
      core.set(Pipe::store, Pipe::load_vector, 0);
      core.wait(Pipe::store, Pipe::load_vector, 0);
      core.copy(t, place);
    };
  };
  const Program again = [&](GlobalMemory&) {
    return [=](Core& core) {
      const Tensor t = tile(core);
      core.vfill(t, 1);
      for (int pass = 0; pass < 6; ++pass) core.vscalar(VectorOp::mul, t, t, 2);
    };
  };
  const Device without = plain_device();
  Device with = without;
  with.l2 = {.bytes = 1 << 20, .line = 128, .bytes_per_cycle = 256, .bytes_per_cycle_core = 256, .latency = 20};
  EXPECT_GT(cycles_of(without, spill), cycles_of(without, again));
  EXPECT_LT(cycles_of(with, spill), cycles_of(with, again));
}

// A stream of 128 KB between two uses of a table of 32 KB.
TEST(Flips, AStreamedReadKeepsTheTable) {
  const auto reads = [](bool streamed) -> Program {
    return [=](GlobalMemory& machine) {
      const Tensor table = machine.absent("table", DType::f32, {32, 256}, Use::in);
      const Tensor all = machine.absent("all", DType::f32, {128, 256}, Use::in);
      return [=](Core& core) {
        const Tensor t = core.alloc("t", Space::vector, {32, 256}, DType::f32);
        core.copy(t, table);
        for (index row = 0; row < 128; row += 32) core.copy(t, (streamed ? all.once() : all).row_slice(row, 32));
        core.copy(t, table);
      };
    };
  };
  Device device = plain_device();
  device.l2 = {.bytes = 96 << 10,
               .line = 128,
               .bytes_per_cycle = 128,
               .bytes_per_cycle_core = 128,
               .latency = 20,
               .hints = true};
  EXPECT_LT(cycles_of(device, reads(true)), cycles_of(device, reads(false)));
  device.l2.hints = false;
  EXPECT_EQ(cycles_of(device, reads(true)), cycles_of(device, reads(false)));
}

// Entries of a table that lie apart are read by the scalar unit, or fetched by one transfer and read from there.
TEST(Flips, PrefetchingATablePays) {
  const auto lookups = [](bool prefetch) -> Program {
    return [=](GlobalMemory& machine) {
      const Tensor table = machine.absent("table", DType::i32, {16, 64}, Use::in);
      return [=](Core& core) {
        Tensor from = table;
        if (prefetch) {
          from = core.alloc("near", Space::vector, {16, 64}, DType::i32);
          core.copy(from, table);
          core.set(Pipe::load_vector, Pipe::scalar, 0);
          core.wait(Pipe::load_vector, Pipe::scalar, 0);
        }
        for (index row = 0; row < 16; ++row) core.scalar_read(from, row, 0);
      };
    };
  };
  const Device without = plain_device();
  Device with = without;
  with.scalar = {.miss_cycles = 300, .line = 64, .lines = 64};
  EXPECT_LT(cycles_of(without, lookups(false)), cycles_of(without, lookups(true)));
  EXPECT_GT(cycles_of(with, lookups(false)), cycles_of(with, lookups(true)));
}

// Rows that are stored as they are read (fractal, packed once) take a few more bytes than plain ones.
TEST(Flips, PackedRowsPayWhereTheDmaChangesLayoutsSlowly) {
  const Program plain = [](GlobalMemory& machine) {
    const Tensor from = machine.absent("rows", DType::f16, {128, 240}, Use::in);
    return [=](Core& core) {
      core.nd2nz(core.alloc("staged", Space::staging, {128, 240}, DType::f16, Layout::nz), from);
    };
  };
  const Program packed = [](GlobalMemory& machine) {
    const Tensor from = machine.absent("packed", DType::f16, {128, 256}, Use::in);
    return [=](Core& core) { core.copy(core.alloc("staged", Space::staging, {128, 256}, DType::f16), from); };
  };
  const Device without = plain_device();
  Device with = without;
  with.paths[0].nd2nz = {.bytes_per_cycle = 32, .run_cycles = 1};
  EXPECT_LT(cycles_of(without, plain), cycles_of(without, packed));
  EXPECT_GT(cycles_of(with, plain), cycles_of(with, packed));
}

// Of B[128, 256] the columns lie one after another, or its rows with 8 more columns.
TEST(Flips, TurningAnOperandIsNotFree) {
  const auto feed = [](bool transpose) -> Program {
    return [=](GlobalMemory&) {
      return [=](Core& core) {
        const Shape stored = transpose ? Shape{272, 128} : Shape{128, 256};
        const Tensor staged = core.alloc("staged", Space::staging, stored, DType::f16, Layout::nz);
        const Tensor b =
            core.alloc("b", Space::right, transpose ? Shape{128, 272} : Shape{128, 256}, DType::f16, Layout::nz);
        core.load_b(b, staged, transpose);
      };
    };
  };
  Device without = plain_device();
  without.memories[4 - 1].bytes = 1 << 20;
  Device with = without;
  with.matrix.right = RightOrder::columns;
  with.paths[3].turn = {.bytes_per_cycle = 64};
  EXPECT_LT(cycles_of(without, feed(false)), cycles_of(without, feed(true)));
  EXPECT_GT(cycles_of(with, feed(false)), cycles_of(with, feed(true)));
  with.paths[3].turn.legal = false;
  Machine machine(with, {.data = false});
  const Outcome outcome = machine.run(feed(false)(machine));
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.reports[0].message.find("does not turn an operand"), std::string::npos);
}

// 64 rows of 65 columns, whose last element takes a row of lanes for itself, or as many elements in 65 full rows.
TEST(Flips, RaggedRowsArePricedByTheRow) {
  const auto passes = [](Shape shape, int count) -> Program {
    return [=](GlobalMemory&) {
      return [=](Core& core) {
        const Tensor t = core.alloc("t", Space::vector, shape, DType::f32);
        for (int i = 0; i < count; ++i) core.vscalar(VectorOp::add, t, t, 1);
      };
    };
  };
  const Device device = plain_device();  // 64 lanes of f32, rows start at multiples of 32 bytes
  // 64 rows of 65 columns have a second instruction each: 128, where 4160 elements side by side take 65.
  const double ragged = cycles_of(device, passes({64, 65}, 1)), flat = cycles_of(device, passes({65, 64}, 1));
  EXPECT_EQ(ragged, flat + 128 - 65);
  EXPECT_GT(ragged, cycles_of(device, passes({65, 64}, 1)));
  // One column is one row of lanes after another, as it lies.
  EXPECT_EQ(cycles_of(device, passes({128, 1}, 1)), cycles_of(device, passes({1, 128}, 1)));
}

// x[r, :] * s[r] for short rows, or a multiplication by a tile that was filled before.
TEST(Flips, AnOperandOfOneColumnCostsItsBroadcast) {
  const auto scaled = [](bool column) -> Program {
    return [=](GlobalMemory&) {
      return [=](Core& core) {
        const Tensor x = core.alloc("x", Space::vector, {128, 64}, DType::f32);
        const Tensor s = core.alloc("s", Space::vector, {128, column ? 1 : 64}, DType::f32);
        if (!column) core.vfill(s, 2);
        core.vbinary(VectorOp::mul, x, x, s);
      };
    };
  };
  const Device without = plain_device();
  Device with = without;
  with.vector.column_cycles = 2;
  EXPECT_LT(cycles_of(without, scaled(true)), cycles_of(without, scaled(false)));
  EXPECT_GT(cycles_of(with, scaled(true)), cycles_of(with, scaled(false)));
}

// Four transfers of 4 KB, or two of 9 KB: latencies that overlap make the small ones the faster way.
TEST(Flips, ManySmallTransfersPayWhereLatenciesOverlap) {
  const auto loads = [](index count, index columns) -> Program {
    return [=](GlobalMemory& machine) {
      const Tensor from = machine.absent("from", DType::f32, {count, columns}, Use::in);
      return [=](Core& core) {
        for (index i = 0; i < count; ++i)
          core.copy(core.alloc("t", Space::vector, {1, columns}, DType::f32), from.row_slice(i, 1));
      };
    };
  };
  const Device without = plain_device();
  Device with = without;
  for (Queue& queue : with.queues) queue.outstanding = 4;
  EXPECT_GT(cycles_of(without, loads(4, 1024)), cycles_of(without, loads(2, 2304)));
  EXPECT_LT(cycles_of(with, loads(4, 1024)), cycles_of(with, loads(2, 2304)));
}

// Products of 64 x 128 into one accumulator whose drain follows in granules, or into two halves in turns with a pass
// more to join them.
TEST(Flips, AUnitFlagIsWorthASecondAccumulator) {
  const auto sums = [](bool unit) -> Program {
    return [=](GlobalMemory& machine) {
      const index rows = unit ? 64 : 32, count = unit ? 4 : 8;
      const Tensor out = machine.absent("out", DType::f32, {rows * count, 128}, Use::out);
      return [=](Core& core) {
        const Tensor a = core.alloc("a", Space::left, {rows, 256}, DType::f16, Layout::nz);
        const Tensor b = core.alloc("b", Space::right, {256, 128}, DType::f16, Layout::nz);
        Flow flow{unit ? 1u : 2u, Pipe::matrix, Pipe::drain};
        flow.unit = unit && core.device().sync.unit_flag_bytes > 0;
        Ring ring = core.ring("sum", Space::accumulator, {rows, 128}, DType::f32, flow);
        for (index i = 0; i < count; ++i) {
          core.mma(ring.acquire(), a, b, true);
          ring.commit();
          core.drain(out.row_slice(i * rows, rows), ring.wait());
          ring.release();
        }
      };
    };
  };
  Device without = plain_device();
  without.dram_bytes_per_cycle = without.dram_bytes_per_cycle_core = 64;
  without.matrix.rates[0].weight_cycles = 4;  // of each k x n tile: a product of few rows is worth less
  Device with = without;
  with.sync.unit_flag_bytes = 512;
  EXPECT_GT(cycles_of(without, sums(true)), cycles_of(without, sums(false)));
  EXPECT_LT(cycles_of(with, sums(true)), cycles_of(with, sums(false)));
}

// Two shapes of one size on an array: many folds of few rows, or few folds of many rows and more of them.
TEST(Flips, FoldsThatFollowOneAnotherFavourMoreOfThem) {
  const auto cycles = [](const Device& device, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    TapeWriter tape;
    tape.mma(m, n, k);
    return to_cycles(timed(tape.tape(), device).makespan);
  };
  Device array = round_device();
  array.matrix.systolic = true;
  array.matrix.rows = array.matrix.columns = 32;
  array.matrix.dataflow = Dataflow::weight_stationary;
  const auto small = [&](const Device& device) { return cycles(device, 64, 512, 512); };
  const auto large = [&](const Device& device) { return cycles(device, 512, 128, 512); };
  EXPECT_GT(small(array), large(array));
  array.matrix.preload = Preload::pipelined;
  EXPECT_LT(small(array), large(array));
}

}  // namespace
}  // namespace inlay::npu
