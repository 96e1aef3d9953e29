// Views of the host as they are: strided, shared, partly written, read-only.
#include "tile_machine/tests/run/on_both_machines.hpp"

namespace inlay::npu {
namespace {

// A step of decoding takes its query out of fused rows [q | k | v] and writes its result in place of it.
TEST(Bind, PartsOfFusedRowsShareAddresses) {
  static constexpr index tokens = 3, heads = 4, dim = 16, width = 3 * heads * dim;
  for (const Device& device : {split_device(1), flat_device(1)}) {
    std::vector<f16> rows = counted<f16>(tokens * width), before = rows;
    run_both<f16>(device, rows, [&](GlobalMemory& machine) {
      const index head = heads * dim;
      const View<3> q(rows.data(), {tokens, heads, dim}, {width, dim, 1});
      const ConstView<3> k(rows.data() + head, {tokens, heads, dim}, {width, dim, 1});
      const NdTensor to = machine.bind("q", q), from = machine.bind("k", k);
      return [=](Core& m) {
        const Tensor tile = m.alloc("tile", Space::vector, {heads, 64}, DType::f16);
        for (index token = 0; token < tokens; ++token) {
          m.copy(tile.slice(0, heads, 0, dim), from.at(0, token).matrix());
          m.barrier_all();
          m.copy(to.at(0, token).matrix(), tile.slice(0, heads, 0, dim));
          m.barrier_all();
        }
      };
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t column = i % width;
      EXPECT_EQ(rows[i].bits, before[column < 64 ? i + 64 : i].bits) << i;
    }
  }
}

// q and k are read through views of their own, and the whole rows are written through a third.
TEST(Bind, AliasesRaceWhereTheyShareBytes) {
  const Device device = split_device(1);
  std::vector<float> rows = counted<float>(64);
  const auto reports_of = [&](index shift) {
    Machine machine(device);
    const NdTensor part = machine.bind("part", ConstView<2>(rows.data() + 8, {4, 8}, {16, 1}));
    const NdTensor other = machine.bind("other", View<2>(rows.data() + shift, {4, 8}, {16, 1}));
    const Outcome outcome = machine.run([&](Core& m) {
      const Tensor a = m.alloc("a", Space::vector, {4, 8}, DType::f32),
                   b = m.alloc("b", Space::vector, {4, 8}, DType::f32);
      m.vfill(b, 1);
      m.barrier_all();
      m.copy(a, part.matrix());   // load_vector reads
      m.copy(other.matrix(), b);  // store writes, and nothing orders the two
    });
    expect_no_reports(outcome.reports, "run");
    return check(outcome.log, device);
  };
  EXPECT_TRUE(reports_of(0).empty());  // the columns beside them
  const auto found = reports_of(4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, ReportKind::race_war);
  EXPECT_NE(found[0].message.find("'other'"), std::string::npos) << found[0].message;
}

TEST(Bind, OneAddressForEachByteOfTheHost) {
  Device device = split_device(1);
  device.memories[static_cast<std::size_t>(Space::vector)].granule = 4;
  std::vector<float> first(100), second(100);
  Machine machine(device);
  // Named apart, and joined by a third that covers both.
  const NdTensor low = machine.bind("low", ConstView<1>(first.data(), {10}));
  const NdTensor elsewhere = machine.bind("elsewhere", ConstView<1>(second.data(), {100}));
  const NdTensor high = machine.bind("high", ConstView<1>(first.data() + 60, {40}));
  const NdTensor all = machine.bind("all", ConstView<1>(first.data(), {100}));
  const NdTensor back = machine.bind("back", ConstView<1>(first.data() + 99, {100}, {-1}));
  const Outcome outcome = machine.run([&](Core& m) {
    const Tensor tile = m.alloc("tile", Space::vector, {1, 104}, DType::f32);
    for (const NdTensor& each : {low, elsewhere, high, all, back}) {
      m.copy(by_axes(tile).at(0, 0).slice(0, 0, each.extent(0)), each);
      m.barrier_all();
    }
  });
  expect_no_reports(outcome.reports, device.name);
  std::vector<std::uint64_t> begins;
  for (const Entry& entry : outcome.log.entries)
    if (entry.event == Event::work) begins.push_back(outcome.log.footprints[entry.footprints].begin);
  ASSERT_EQ(begins.size(), 5u);
  EXPECT_EQ(begins[2], begins[0] + 240);
  EXPECT_EQ(begins[3], begins[0]);
  EXPECT_EQ(begins[4], begins[0]);
  EXPECT_TRUE(begins[1] >= begins[0] + 400 || begins[1] + 400 <= begins[0]);
}

// Only the elements of an output must be written, and all of them.
TEST(Bind, AnOutputIsItsElements) {
  const Device device = split_device(1);
  std::vector<float> rows(4 * 32, -1);
  const auto reports_of = [&](index written) {
    Machine machine(device);
    const NdTensor y = machine.bind("y", View<2>(rows.data(), {4, 8}, {32, 1}), Use::out);
    return machine
        .run([&](Core& m) {
          const Tensor tile = m.alloc("tile", Space::vector, {4, 8}, DType::f32);
          m.vfill(tile, 2);
          m.barrier_all();
          m.copy(y.slice(0, 0, written).matrix(), tile.row_slice(0, written));
        })
        .reports;
  };
  EXPECT_TRUE(reports_of(4).empty());
  EXPECT_EQ(rows[8], -1);
  const auto found = reports_of(3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].message.find("nothing has written byte 384 of the output y"), std::string::npos)
      << found[0].message;
}

// y = x in place: an input's bytes are there although they are an output's, too.
TEST(Bind, WhatIsInputAndOutputIsInitialised) {
  const Device device = split_device(1);
  std::vector<float> rows = counted<float>(64);
  const auto reports_of = [&](bool with_input, index written = 64) {
    Machine machine(device);
    const NdTensor y = machine.bind("y", View<1>(rows.data(), {64}), Use::out);
    const NdTensor x = with_input ? machine.bind("x", ConstView<1>(rows.data(), {64})) : y;
    return machine
        .run([&](Core& m) {
          const Tensor tile = m.alloc("tile", Space::vector, {1, 64}, DType::f32);
          m.copy(tile, x.matrix());
          m.barrier_all();
          m.copy(y.slice(0, 0, written).matrix(), tile.slice(0, 1, 0, written));
        })
        .reports;
  };
  EXPECT_TRUE(reports_of(true).empty());
  EXPECT_EQ(reports_of(true, 32).size(), 1u);  // what the host left there is no output
  const auto found = reports_of(false);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].message.find("reads byte 0 of y"), std::string::npos) << found[0].message;
}

TEST(Bind, RefusesViewsThatCannotBe) {
  const Device device = split_device(1);
  std::vector<float> x(64);
  const auto refused = [&](auto&& make, const char* part) {
    Machine machine(device);
    const NdTensor window = make(machine);
    const auto reports =
        machine.run([&](Core& m) {
                 m.copy(window, by_axes(m.alloc("tile", Space::vector, {8, 8}, DType::f32)));
               })
            .reports;
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_NE(reports[0].message.find(part), std::string::npos) << reports[0].message;
  };
  refused([&](Machine& m) { return m.bind("y", View<2>(x.data(), {8, 8}, {0, 1})); }, "that is written share memory");
  refused([&](Machine& m) { return m.bind("y", View<2>(x.data(), {8, 8}, {4, 1})); }, "that is written share memory");
  refused([&](Machine& m) { return m.bind("y", View<2>(x.data(), {-8, 8})); }, "negative extent");
  refused([&](Machine& m) { return m.bind("y", View<2>(static_cast<float*>(nullptr), {8, 8})); }, "no memory");
}

}  // namespace
}  // namespace inlay::npu
