// What a device asks of the operands of its units: the machine refuses what it would not take.
#include <gtest/gtest.h>

#include "npu_kernels/machine/run/machine.hpp"
#include "tests/machine/support/devices.hpp"

namespace inlay::npu {
namespace {

std::string refusal(const Device& device, const std::function<void(Core&)>& program) {
  Machine machine(device, {.cores = 1, .data = false});
  const Outcome outcome = machine.run(program);
  FunctionalMachine fast(device, 1);
  const auto reports = fast.run(program);
  EXPECT_EQ(outcome.ok(), reports.empty()) << "both modes refuse the same";
  return outcome.ok() ? std::string() : outcome.reports[0].message;
}

Device aligned_device() {
  Device device = split_device(1);
  device.memories.back().align = 4;
  device.vector.align = 32;
  return device;
}

TEST(Operands, RowsOfVectorOperandsStartAtTheUnitsGranule) {
  const auto add = [](Shape shape, index row, index rows, index column, index columns) {
    return [=](Core& core) {
      const Tensor tile = core.alloc("tile", Space::vector, shape, DType::f32);
      const Tensor part = tile.slice(row, rows, column, columns);
      core.vfill(tile.row_slice(0, 0), 0);
      core.vfill(part, 0);
    };
  };
  const Device device = aligned_device();
  EXPECT_EQ(refusal(device, add({8, 16}, 0, 8, 8, 8)), "");
  EXPECT_EQ(refusal(device, add({24, 1}, 8, 16, 0, 1)), "");
  const std::string inside = refusal(device, add({24, 1}, 4, 4, 0, 1));
  EXPECT_NE(inside.find("tile starts at byte 16 of vector operands, which must be a multiple of 32"), inside.npos)
      << inside;
  const std::string rows = refusal(device, add({8, 12}, 0, 8, 0, 8));
  EXPECT_NE(rows.find("tile has rows of 48 bytes of vector operands, which must be a multiple of 32"), rows.npos)
      << rows;
}

TEST(Operands, AnOperationWithoutAPriceIsRefused) {
  Device device = aligned_device();
  device.vector.cost[static_cast<int>(VectorOp::exp)].available = false;
  const std::string message = refusal(device, [](Core& core) {
    const Tensor tile = core.alloc("tile", Space::vector, {8, 8}, DType::f32);
    core.vfill(tile, 0);
    core.vunary(VectorOp::exp, tile, tile);
  });
  EXPECT_NE(message.find("split has no vector operation exp"), message.npos) << message;
}

TEST(Operands, ADmaThatKeepsLayoutsIsNotAskedToChangeThem) {
  Device device = aligned_device();
  device.paths[0].nd2nz.legal = false;
  Machine machine(device, {.cores = 1, .data = false});
  const Tensor from = machine.absent("from", DType::f16, {32, 32}, Use::in);
  const Outcome outcome = machine.run([&](Core& core) {
    core.nd2nz(core.alloc("tile", Space::staging, {32, 32}, DType::f16, Layout::nz), from);
  });
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.reports[0].message.find("the path from global to staging does not change layouts"),
            std::string::npos)
      << outcome.reports[0].message;
}

TEST(Operands, AUnitFlagIsTheDevicesToHave) {
  const auto ring = [](Pipe producer, Pipe consumer) {
    return [=](Core& core) {
      core.ring("sums", Space::accumulator, {16, 16}, DType::f32, {1, producer, consumer, true});
    };
  };
  Device device = aligned_device();
  EXPECT_NE(refusal(device, ring(Pipe::matrix, Pipe::drain)).find("split has no unit flag from matrix to drain"),
            std::string::npos);
  device.sync.unit_flag_bytes = 512;
  EXPECT_EQ(refusal(device, ring(Pipe::matrix, Pipe::drain)), "");
  EXPECT_NE(refusal(device, ring(Pipe::load, Pipe::feed)).find("no unit flag from load to feed"), std::string::npos);
}

}  // namespace
}  // namespace inlay::npu
