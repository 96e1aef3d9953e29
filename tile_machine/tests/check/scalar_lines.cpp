// Scalar units whose caches of global memory nobody keeps coherent: each fault, and the twin that cleans or invalidates
// where it has to and is silent.
#include "tile_machine/tests/support/programs.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {
namespace {

using Program = std::function<void(Core&, const Tensor& x)>;

Device incoherent(std::uint32_t cores) {
  Device device = split_device(cores);
  device.scalar = {.miss_cycles = 10, .line = 64, .lines = 4, .coherent = false};
  return device;
}

// What is said of a program on x, 4 lines of 16 f32; `workspace`: which nobody reads behind it.
std::vector<Report> reports_of(const Device& device, const Program& program, bool workspace = false) {
  std::vector<float> values(64, 1);
  Machine machine(device);
  const Tensor x =
      workspace ? machine.workspace("x", {4, 16}, DType::f32) : machine.global("x", std::span(values), {4, 16});
  return check(machine.run([&](Core& core) { program(core, x); }).log, device);
}
std::size_t count(const Program& program, const std::string& missing, std::uint32_t cores = 2, bool workspace = false) {
  const auto reports = reports_of(incoherent(cores), program, workspace);
  std::size_t count = 0;
  for (const Report& report : reports) {
    EXPECT_EQ(report.kind, ReportKind::incoherent) << report.message;
    EXPECT_EQ(report.missing, missing) << report.message;
    count += report.repeated;
  }
  return count;
}
void expect_silent(const Program& program, std::uint32_t cores = 2, bool workspace = false) {
  expect_no_reports(reports_of(incoherent(cores), program, workspace), "incoherent");
}

void write(Core& core, const Tensor& x, index row, index column) { core.scalar_write(x, row, column, 2); }
Tensor element(const Tensor& x, index row, index column) { return x.slice(row, 1, column, 1); }

// 4 bytes of each core in one line: what goes back last has old bytes in place of the others'.
TEST(ScalarLines, ManyWritersOfOneLineLoseOneAnothersBytes) {
  const Program program = [](Core& core, const Tensor& x) {
    write(core, x, 0, core.block_idx());
    core.scalar_clean(element(x, 0, core.block_idx()));
  };
  EXPECT_EQ(count(program, "scalar_clean, sync, scalar_invalidate", 8), 8u * 7 / 2);
  Device coherent = incoherent(8);
  coherent.scalar.coherent = true;
  expect_no_reports(reports_of(coherent, program), "coherent");
  expect_silent(
      [](Core& core, const Tensor& x) {
        write(core, x, core.block_idx(), 0);
        core.scalar_clean(element(x, core.block_idx(), 0));
      },
      4);
}

TEST(ScalarLines, TheyTakeTurnsBehindACleanAndASync) {
  const auto program = [](bool looks, bool forgets) -> Program {
    return [=](Core& core, const Tensor& x) {
      const bool first = core.block_idx() == 0;
      if (first) write(core, x, 0, 0), core.scalar_clean(element(x, 0, 0));
      if (!first && looks) core.scalar_read(x, 0, 1);  // has the line
      core.sync_all();
      if (first) return;
      if (forgets) core.scalar_invalidate(element(x, 0, 1));
      write(core, x, 0, 1);
      core.scalar_clean(element(x, 0, 1));
    };
  };
  expect_silent(program(false, false));
  EXPECT_EQ(count(program(true, false), "scalar_clean, sync, scalar_invalidate"), 1u);
  expect_silent(program(true, true));
}

TEST(ScalarLines, WhatIsNotCleanedNobodyReads) {
  const auto program = [](bool cleans, bool by_transfer) -> Program {
    return [=](Core& core, const Tensor& x) {
      if (core.block_idx() == 0) {
        write(core, x, 1, 3);
        if (cleans) core.scalar_clean(element(x, 1, 3));
      }
      core.sync_all();
      if (core.block_idx() == 0) return;
      if (!by_transfer) return static_cast<void>(core.scalar_read(x, 1, 3));
      const Tensor tile = core.alloc("tile", Space::vector, {1, 16}, DType::f32);
      core.copy(tile, x.row_slice(1, 1));
    };
  };
  for (const bool by_transfer : {false, true}) {
    EXPECT_EQ(count(program(false, by_transfer), "scalar_clean", 2, true), 1u);
    expect_silent(program(true, by_transfer), 2, true);
  }
}

TEST(ScalarLines, ALineThatIsThereDoesNotShowWhatComesLater) {
  const auto program = [](bool looks, bool forgets) -> Program {
    return [=](Core& core, const Tensor& x) {
      const Tensor tile = core.alloc("tile", Space::vector, {1, 16}, DType::f32);
      const bool reader = core.block_idx() == 0;
      if (reader && looks) core.scalar_read(x, 2, 5);
      core.sync_all();  // the write is behind the first read
      if (!reader) {
        core.vfill(tile, 3);
        core.set(Pipe::vector, Pipe::store, 0);
        core.wait(Pipe::vector, Pipe::store, 0);
        core.copy(x.row_slice(2, 1), tile);
      }
      core.sync_all();
      if (!reader) return;
      if (forgets) core.scalar_invalidate(element(x, 2, 5));
      core.scalar_read(x, 2, 5);
    };
  };
  expect_silent(program(false, false));
  EXPECT_EQ(count(program(true, false), "scalar_invalidate"), 1u);
  expect_silent(program(true, true));
}

// A transfer into a line of which a scalar unit has a changed copy: what goes back takes the transfer's bytes with it.
TEST(ScalarLines, ATransferMeetsNoChangedCopy) {
  const auto program = [](bool cleans) -> Program {
    return [=](Core& core, const Tensor& x) {
      if (core.block_idx() == 0) {
        write(core, x, 3, 0);
        if (cleans) core.scalar_clean(element(x, 3, 0));
      }
      core.sync_all();
      if (core.block_idx() == 0) {
        if (!cleans) core.scalar_clean(element(x, 3, 0));
        return;
      }
      const Tensor tile = core.alloc("tile", Space::vector, {1, 8}, DType::f32);
      core.vfill(tile, 3);
      core.set(Pipe::vector, Pipe::store, 0);
      core.wait(Pipe::vector, Pipe::store, 0);
      core.copy(x.slice(3, 1, 8, 8), tile);
    };
  };
  EXPECT_EQ(count(program(false), "scalar_clean, sync, scalar_invalidate"), 1u);
  expect_silent(program(true));
}

TEST(ScalarLines, AnOutputIsCleanedAtTheEndAndBeforeItIsForgotten) {
  const auto program = [](bool forgets, bool cleans) -> Program {
    return [=](Core& core, const Tensor& x) {
      if (core.block_idx() > 0) return;
      write(core, x, 0, 0);
      if (cleans) core.scalar_clean(element(x, 0, 0));
      if (forgets) core.scalar_invalidate(element(x, 0, 0));
    };
  };
  for (const bool forgets : {false, true}) {
    EXPECT_EQ(count(program(forgets, false), "scalar_clean"), 1u);
    expect_silent(program(forgets, true));
  }
  expect_silent(program(false, false), 2, true);  // of a workspace
}

TEST(ScalarLines, AReportNamesBothLinesAndTheBytes) {
  unsigned written = 0, read = 0;
  const auto reports = reports_of(
      incoherent(2),
      [&](Core& core, const Tensor& x) {
        if (core.block_idx() == 0) written = __LINE__ + 1;
        if (core.block_idx() == 0) core.scalar_write(x, 1, 3, 2);
        core.sync_all();
        if (core.block_idx() == 1) read = __LINE__ + 1;
        if (core.block_idx() == 1) core.scalar_read(x, 1, 3);
      },
      true);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].first.site.line(), read);
  EXPECT_EQ(reports[0].second.site.line(), written);
  EXPECT_NE(reports[0].message.find("byte 76 of 'x'"), std::string::npos) << reports[0].message;
  EXPECT_NE(reports[0].message.find("no scalar_clean is after"), std::string::npos) << reports[0].message;
}

// Functional mode has no caches; a coherent device has no such verbs; and they take their time where there are some.
TEST(ScalarLines, CleaningCostsAWayToMemory) {
  std::vector<float> values(64, 1);
  const auto cycles = [&](Device device, bool coherent) {
    device.scalar.coherent = coherent;
    Machine machine(device);
    const Tensor x = machine.global("x", std::span(values), {4, 16});
    const Outcome outcome = machine.run([&](Core& core) {
      core.scalar_read(x, 0, 0);
      core.scalar_invalidate(element(x, 0, 0));
      core.scalar_read(x, 0, 0);
    });
    const auto time = time_events(outcome.log, device);
    return time ? to_cycles(time->makespan) : 0;
  };
  // The invalidate, and the read that finds nothing.
  EXPECT_GE(cycles(incoherent(1), false), cycles(incoherent(1), true) + 20);
}

}  // namespace
}  // namespace inlay::npu
