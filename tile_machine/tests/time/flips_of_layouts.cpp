// Changes of a layout decide between two small programs (flips.hpp): nothing is turned or made fractal for nothing.
#include "tile_machine/tests/time/flips.hpp"

namespace inlay::npu {
namespace {

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

// Sums over the rows of a square tile: column by column, or row by row of the transpose.
TEST(Flips, TheVectorUnitDoesNotTransposeForNothing) {
  const auto sums = [](bool transpose) -> Program {
    return [=](GlobalMemory&) {
      return [=](Core& core) {
        const Tensor t = core.alloc("t", Space::vector, {64, 64}, DType::f32);
        if (!transpose)
          return core.vreduce_columns(VectorOp::column_sum, core.alloc("sum", Space::vector, {1, 64}, DType::f32), t);
        const Tensor turned = core.alloc("turned", Space::vector, {64, 64}, DType::f32);
        core.vtranspose(turned, t);
        core.vreduce(VectorOp::reduce_sum, core.alloc("sum", Space::vector, {64, 1}, DType::f32), turned);
      };
    };
  };
  Device with = plain_device();
  cost(with, VectorOp::column_sum).slope = 1.5;
  Device without = with;
  cost(without, VectorOp::transpose) = {0, 0};
  EXPECT_GT(cycles_of(without, sums(false)), cycles_of(without, sums(true)));
  EXPECT_LT(cycles_of(with, sums(false)), cycles_of(with, sums(true)));
}

// A tile of the vector unit's on its way to the matrix unit, through global memory: made fractal before, or by the
// load.
TEST(Flips, TheVectorUnitDoesNotMakeBlocksForNothing) {
  const auto hand_over = [](bool pack) -> Program {
    return [=](GlobalMemory& machine) {
      const Tensor place = machine.workspace("place", {64, 64}, DType::f16);
      return [=](Core& core) {
        Tensor tile = core.alloc("tile", Space::vector, {64, 64}, DType::f16), between = place;
        if (pack) {
          const Tensor blocks = core.alloc("blocks", Space::vector, {64, 64}, DType::f16, Layout::nz);
          core.vpack_nz(blocks, tile);
          tile = blocks;
          between.layout = Layout::nz;
          between.block = blocks.block;
          between.pitch = between.rows();
        }
        core.set(Pipe::vector, Pipe::store, 0);
        core.wait(Pipe::vector, Pipe::store, 0);
        core.copy(between, tile);
        core.set(Pipe::store, Pipe::load, 0);
        core.wait(Pipe::store, Pipe::load, 0);
        const Tensor staged = core.alloc("staged", Space::staging, {64, 64}, DType::f16, Layout::nz);
        pack ? core.copy(staged, between) : core.nd2nz(staged, between);
      };
    };
  };
  Device with = plain_device();
  with.paths[0].nd2nz = {.bytes_per_cycle = 32, .run_cycles = 1};
  cost(with, VectorOp::pack_nz) = {24, 4};
  Device without = with;
  cost(without, VectorOp::pack_nz) = {0, 0};
  EXPECT_LT(cycles_of(without, hand_over(true)), cycles_of(without, hand_over(false)));
  EXPECT_GT(cycles_of(with, hand_over(true)), cycles_of(with, hand_over(false)));
}

// Tiles of a right operand as HMX reads them: interleaved by the load, whose time it takes, or by the vector unit while
// the next one is on its way.
TEST(Flips, HmxsInterleaveIsNotFree) {
  const auto products = [](bool vector) -> Program {
    return [=](GlobalMemory& machine) {
      constexpr index count = 16, rows = 32, depth = 512;
      const Tensor w = machine.absent("w", DType::f16, {count * rows, depth}, Use::in);
      return [=](Core& core) {
        const Tensor a = core.alloc("a", Space::staging, {rows, depth}, DType::f16, Layout::nz);
        const Tensor left = core.alloc("left", Space::left, {rows, depth}, DType::f16, Layout::nz);
        Ring right =
            core.ring("right", Space::right, {depth, rows}, DType::f16, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
        const Tensor sum = core.alloc("sum", Space::accumulator, {rows, rows}, DType::f32);
        Ring lines = core.ring("rows", Space::vector, {rows, depth}, DType::f16, {2, Pipe::load_vector, Pipe::vector});
        Ring b = core.ring("b", Space::staging, {rows, depth}, DType::f16,
                           {2, vector ? Pipe::vector : Pipe::load, Pipe::feed}, Layout::nz);
        core.load_a(left, a);
        for (index i = 0; i < count; ++i) {
          const Tensor from = w.row_slice(i * rows, rows);
          if (vector) {
            core.copy(lines.acquire(), from);
            lines.commit();
            core.vpack_nz(b.acquire(), lines.wait());
            lines.release();
          } else {
            core.nd2nz(b.acquire(), from);
          }
          b.commit();
          core.load_b(right.acquire(), b.wait(), true);
          right.commit();
          core.mma(sum, left, right.wait(), i == 0);
          right.release();
          b.release();
        }
      };
    };
  };
  const Device with = description("hexagon-htp-like");
  Device without = with;
  for (Path& path : without.paths) path.nd2nz.pass_bytes_per_cycle = 0;
  EXPECT_LT(cycles_of(without, products(false)), cycles_of(without, products(true)));
  EXPECT_GT(cycles_of(with, products(false)), cycles_of(with, products(true)));
}

}  // namespace
}  // namespace inlay::npu
