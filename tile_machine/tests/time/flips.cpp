// Each rule of the cost model decides between two small programs (flips.hpp). A rule that no program's rank depends on
// is not worth having. Changes of a layout: flips_of_layouts.cpp.
#include "tile_machine/tests/time/flips.hpp"
#include "tile_machine/tests/time/logs.hpp"

namespace inlay::npu {
namespace {

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

// Four passes over 64 rows of 65 columns as they lie, or over as many elements side by side, which a fifth pass has put
// there. Priced by the element, a row of lanes for each 64 of them, the fifth pass is for nothing.
TEST(Flips, RaggedRowsAreWorthClosingUp) {
  const auto passes = [](bool close_up) -> Program {
    return [=](GlobalMemory&) {
      return [=](Core& core) {
        Tensor t = core.alloc("t", Space::vector, {64, 65}, DType::f32);
        if (close_up) {
          const Tensor flat = core.alloc("flat", Space::vector, {1, 64 * 65}, DType::f32);
          core.vcast(flat.reshape({64, 65}), t);
          t = flat;
        }
        for (int i = 0; i < 4; ++i) core.vscalar(VectorOp::add, t, t, 1);
      };
    };
  };
  const Device by_row = plain_device();
  Device by_element = by_row;
  by_element.vector.bytes = sizeof(float);
  for (VectorCost& each : by_element.vector.cost) each.slope /= by_row.vector.bytes / sizeof(float);
  EXPECT_LT(cycles_of(by_element, passes(false)), cycles_of(by_element, passes(true)));
  EXPECT_GT(cycles_of(by_row, passes(false)), cycles_of(by_row, passes(true)));
}

// Both halves of rows of 32 bytes are added where they lie, the upper one 16 bytes off, or come by transfers of their
// own: Atlas A2's vector unit does not take the former, however quick it would be.
TEST(Flips, OperandsThatAreOffTheAlignmentAreNoWay) {
  const auto halves = [](bool in_place) -> Program {
    return [=](GlobalMemory& machine) {
      const Tensor from = machine.absent("rows", DType::f32, {64, 8}, Use::in);
      return [=](Core& core) {
        const Tensor rows = core.alloc("rows", Space::vector, {64, 8}, DType::f32);
        const Tensor low = rows.slice(0, 64, 0, 4);
        Tensor high = rows.slice(0, 64, 4, 4);
        if (in_place) {
          core.copy(rows, from);
        } else {
          high = core.alloc("upper half", Space::vector, {64, 4}, DType::f32);
          core.copy(low, from.slice(0, 64, 0, 4));
          core.copy(high, from.slice(0, 64, 4, 4));
        }
        core.set(Pipe::load_vector, Pipe::vector, 0);
        core.wait(Pipe::load_vector, Pipe::vector, 0);
        core.vbinary(VectorOp::add, low, low, high);
      };
    };
  };
  const Device with = description("ascend-a2-like");
  Device without = with;
  without.vector.align = 4;
  EXPECT_LT(cycles_if_it_runs(without, halves(true)), cycles_if_it_runs(without, halves(false)));
  EXPECT_GT(cycles_if_it_runs(with, halves(true)), cycles_if_it_runs(with, halves(false)));
}

// Sums times a scale for each column, as f16: by HMX on their way out, or in f32 to the vector unit, which scales and
// rounds them.
TEST(Flips, ScalesOfColumnsBelongToTheDrain) {
  const auto scaled = [](bool by_drain) -> Program {
    return [=](GlobalMemory& machine) {
      const Tensor y = machine.absent("y", DType::f16, {32, 32}, Use::out);
      return [=](Core& core) {
        const Tensor sum = core.alloc("sum", Space::accumulator, {32, 32}, DType::f32);
        const Tensor scales = core.alloc("scales", Space::vector, {1, 32}, DType::f32);
        const Tensor out = core.alloc("out", Space::vector, {32, 32}, DType::f16);
        if (by_drain) {
          core.drain(out, sum, {.scale_row = scales});
          core.set(Pipe::drain, Pipe::store, 0);
          core.wait(Pipe::drain, Pipe::store, 0);
        } else {
          const Tensor wide = core.alloc("wide", Space::vector, {32, 32}, DType::f32);
          core.drain(wide, sum);
          core.set(Pipe::drain, Pipe::vector, 0);
          core.wait(Pipe::drain, Pipe::vector, 0);
          core.vbinary(VectorOp::mul, out, wide, scales);
          core.set(Pipe::vector, Pipe::store, 0);
          core.wait(Pipe::vector, Pipe::store, 0);
        }
        core.copy(y, out);
      };
    };
  };
  const Device with = description("hexagon-htp-like");
  Device without = with;
  for (DrainForm& form : without.matrix.drain) form.scales = DrainScales::none;
  EXPECT_GT(cycles_if_it_runs(without, scaled(true)), cycles_if_it_runs(without, scaled(false)));
  EXPECT_LT(cycles_if_it_runs(with, scaled(true)), cycles_if_it_runs(with, scaled(false)));
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
    EventWriter log;
    log.mma(m, n, k);
    return to_cycles(timed(log.log(), device).makespan);
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
