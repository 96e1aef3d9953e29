// What a device asks of the operands of its units: the machine refuses what it would not take.
#include <gtest/gtest.h>

#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/devices.hpp"

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

// Of every verb each operand, the second result and the table included.
TEST(Operands, OfEveryVerbStartAtTheUnitsGranule) {
  using Verb = std::function<void(Core&, const std::vector<Tensor>&)>;
  struct Form {
    DType dtype;
    Shape shape;
  };
  struct VerbCase {
    const char* name;
    std::vector<Form> operands;
    Verb verb;
  };
  const Shape wide{4, 32}, row{1, 32}, narrow{4, 1}, turned{32, 4};
  const auto f = DType::f32, i = DType::i32;
  const VerbCase cases[] = {
      {"vgrouped",
       {{f, wide}, {f, wide}, {f, {4, 8}}},
       [](Core& m, const auto& t) { m.vgrouped(VectorOp::mul, t[0], t[1], t[2], 4); }},
      {"vcompare",
       {{i, wide}, {f, wide}, {f, row}},
       [](Core& m, const auto& t) { m.vcompare(Compare::less, t[0], t[1], t[2]); }},
      {"vreduce_columns",
       {{f, row}, {f, wide}},
       [](Core& m, const auto& t) { m.vreduce_columns(VectorOp::column_sum, t[0], t[1]); }},
      {"vargmax", {{f, narrow}, {i, narrow}, {f, wide}}, [](Core& m, const auto& t) { m.vargmax(t[0], t[1], t[2]); }},
      {"vtopk", {{f, {4, 8}}, {i, {4, 8}}, {f, wide}}, [](Core& m, const auto& t) { m.vtopk(t[0], t[1], t[2]); }},
      {"vgather", {{f, wide}, {f, row}, {i, row}}, [](Core& m, const auto& t) { m.vgather(t[0], t[1], t[2]); }},
      {"viota",
       {{f, wide}},
       [](Core& m, const auto& t) {
         m.viota(t[0], {0, 1, 1});
       }},
      {"vtranspose", {{f, turned}, {f, wide}}, [](Core& m, const auto& t) { m.vtranspose(t[0], t[1]); }},
  };
  const Device device = aligned_device();
  for (const VerbCase& each : cases)
    for (std::size_t off = 0; off <= each.operands.size(); ++off) {  // the last: none is
      const std::string message = refusal(device, [&](Core& core) {
        std::vector<Tensor> tensors;
        for (std::size_t at = 0; at < each.operands.size(); ++at) {
          const auto [dtype, shape] = each.operands[at];
          const index shift = at == off ? 1 : 0;  // an element of four bytes; rows are 64 elements apart
          const Tensor place = core.alloc("place", Space::vector, {shape.rows, 64}, dtype);
          tensors.push_back(shape.columns == 1
                                ? core.alloc("column", Space::vector, {16, 1}, dtype).row_slice(shift, shape.rows)
                                : place.slice(0, shape.rows, shift, shape.columns));
        }
        for (const Tensor& tensor : tensors)
          if (off == each.operands.size()) core.vfill(tensor, 0);
        core.barrier_all();
        each.verb(core, tensors);
      });
      if (off == each.operands.size())
        EXPECT_EQ(message, "") << each.name;
      else
        EXPECT_NE(message.find("of vector operands, which must be a multiple of 32"), message.npos)
            << each.name << " " << off << ": " << message;
    }
}

// What the timing model is told of rows that do not fill their lanes, and of columns that are brought to all of them.
TEST(Operands, VerbsAreCountedByTheRow) {
  Device device = split_device(1);
  device.vector.align = 32;
  Machine machine(device, {.cores = 1, .data = false});
  const Outcome outcome = machine.run([](Core& core) {
    const auto tile = [&](Shape shape, DType dtype = DType::f32) {
      return core.alloc("tile", Space::vector, shape, dtype);
    };
    const Tensor x = tile({4, 96}), column = tile({4, 1});
    core.vtopk(tile({4, 10}), tile({4, 10}, DType::i32), x);
    core.vtopk(tile({4, 96}), tile({4, 96}, DType::i32), x);  // without gaps
    core.vargmax(column, tile({4, 1}, DType::i32), x);
    core.vgrouped(VectorOp::mul, x, x, tile({4, 3}), 32);
    core.vgrouped(VectorOp::mul, x, x, column, 96);
    core.vcompare(Compare::less, tile({4, 96}, DType::i32), x, column);
    core.vreduce_columns(VectorOp::column_sum, tile({1, 96}), x);
    core.viota(x, {0, 1, 1});
    core.vtranspose(tile({96, 8}), tile({8, 96}));
    core.vtranspose(tile({96, 16}).slice(0, 96, 0, 8), tile({8, 96}));
    core.vgather(x, x, tile({1, 96}, DType::i32));
  });
  ASSERT_TRUE(outcome.ok()) << outcome.reports[0].message;
  struct Counted {
    std::string verb;
    std::uint64_t elements;
    std::uint32_t rows;
    bool column;
    bool operator==(const Counted&) const = default;
  };
  std::vector<Counted> counted;
  for (const Entry& entry : outcome.log.entries)
    if (entry.event == Event::work)
      counted.push_back({entry.verb, entry.work.elements, entry.work.rows, entry.work.column});
  const std::vector<Counted> expected = {
      {"vtopk", 4 * 96 * 7, 4 * 7, false},  // 96 are 7 doublings
      {"vtopk", 4 * 96 * 7, 4 * 7, false}, {"vargmax", 4 * 96, 4, false},
      {"vgrouped", 4 * 96, 4, false},      {"vgrouped", 4 * 96, 4, false},  // its price has the broadcast
      {"vcompare", 4 * 96, 4, true},       {"vreduce_columns", 4 * 96, 4, false},
      {"viota", 4 * 96, 1, false},         {"vtranspose", 8 * 96, 1, false},  // blocks, not rows
      {"vtranspose", 8 * 96, 96, false},   {"vgather", 4 * 96, 4, false},
  };
  ASSERT_EQ(counted.size(), expected.size());
  for (std::size_t at = 0; at < expected.size(); ++at)
    EXPECT_TRUE(counted[at] == expected[at]) << counted[at].verb << ": " << counted[at].elements << " in "
                                             << counted[at].rows << (counted[at].column ? ", a column" : "");
}

// A copy by axes of what is read once tells the cache so, for each of its regions.
TEST(Operands, ACopyByAxesHasItsHint) {
  std::vector<float> values(4 * 3 * 64);
  const Device device = aligned_device();
  for (const bool once : {false, true}) {
    Machine machine(device, {.cores = 1});
    NdTensor from = machine.bind("from", ConstView<3>(values.data(), {4, 2, 32}, {192, 64, 1}));
    if (once) from.first = from.first.once();
    const EventLog log = machine
                             .run([&](Core& core) {
                               const Tensor tile = core.alloc("tile", Space::vector, {8, 32}, DType::f32);
                               core.copy(by_axes(tile).split(0, 2), from);
                             })
                             .log;
    std::size_t of_global = 0;
    for (const Footprint& at : log.footprints)
      if (at.memory == 0) {
        EXPECT_EQ(at.streamed, once);
        ++of_global;
      }
    EXPECT_GT(of_global, 0u);
  }
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
