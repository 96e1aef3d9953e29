// Copies by axes: elements, footprints, prices, and what is refused.
#include <array>

#include "tile_machine/tests/run/on_both_machines.hpp"

namespace inlay::npu {
namespace {

// Every order of three axes, against the index formula.
TEST(CopyByAxes, AllOrdersOfAxes) {
  constexpr std::array<index, 3> extents{6, 5, 8};
  const std::array<int, 3> orders[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  Device device = split_device(1);
  device.memories[static_cast<std::size_t>(Space::vector)].granule = 4;
  for (const auto& order : orders) {
    const std::vector<float> x = counted<float>(6 * 5 * 8);
    std::vector<float> y(x.size());
    run_both<float>(device, y, [&](GlobalMemory& machine) {
      const NdTensor from = machine.bind("x", ConstView<3>(x.data(), extents));
      const NdTensor to = machine.bind(
          "y",
          View<3>(y.data(), {extents[static_cast<std::size_t>(order[0])], extents[static_cast<std::size_t>(order[1])],
                             extents[static_cast<std::size_t>(order[2])]}),
          Use::out);
      return [=](Core& m) {
        const Tensor tile = m.alloc("tile", Space::vector, {30, 8}, DType::f32);
        const NdTensor rows = by_axes(tile).split(0, 5);
        m.copy(rows, from);
        m.barrier_all();
        m.copy(to, rows.permuted({order[0], order[1], order[2]}));
      };
    });
    std::array<std::size_t, 3> at{};
    std::size_t place = 0;
    for (at[0] = 0; at[0] < static_cast<std::size_t>(extents[static_cast<std::size_t>(order[0])]); ++at[0])
      for (at[1] = 0; at[1] < static_cast<std::size_t>(extents[static_cast<std::size_t>(order[1])]); ++at[1])
        for (at[2] = 0; at[2] < static_cast<std::size_t>(extents[static_cast<std::size_t>(order[2])]); ++at[2]) {
          std::array<std::size_t, 3> source{};
          for (std::size_t axis = 0; axis < 3; ++axis) source[static_cast<std::size_t>(order[axis])] = at[axis];
          ASSERT_EQ(y[place++], x[(source[0] * 5 + source[1]) * 8 + source[2]]);
        }
  }
}

// vLLM's keys [blocks, heads, dim / 8, tokens of a block, 8] as rows of tokens: blocks of 1, 3 and 5.
TEST(CopyByAxes, KeysInSlicesOfEightColumns) {
  const Device device = [] {
    Device flat = flat_device(1);
    flat.memories[1].granule = 1;  // as of Hexagon's
    return flat;
  }();
  static constexpr index blocks = 4, heads = 2, dim = 64;
  for (const index tokens : {1, 3, 5}) {
    const auto count = static_cast<std::size_t>(blocks * heads * dim * tokens);
    const std::vector<f16> keys = counted<f16>(count);
    std::vector<f16> rows(count);
    run_both<f16>(device, rows, [&, tokens](GlobalMemory& machine) {
      const NdTensor cache = machine.bind("keys", ConstView<5>(keys.data(), {blocks, heads, dim / 8, tokens, 8}));
      const NdTensor out = machine.bind("rows", View<4>(rows.data(), {blocks, heads, tokens, dim}), Use::out);
      return [=](Core& m) {
        const Tensor tile = m.alloc("tile", Space::vector, {tokens, dim}, DType::f16);
        for (index block = 0; block < blocks; ++block)
          for (index head = 0; head < heads; ++head) {
            m.copy(by_axes(tile).split(1, 8).permuted({1, 0, 2}), cache.at(0, block).at(0, head));
            m.barrier_all();
            m.copy(out.at(0, block).at(0, head).matrix(), tile);
            m.barrier_all();
          }
      };
    });
    std::size_t place = 0;
    for (index b = 0; b < blocks * heads; ++b)
      for (index t = 0; t < tokens; ++t)
        for (index d = 0; d < dim; ++d)
          ASSERT_EQ(rows[place++].bits,
                    keys[static_cast<std::size_t>(((b * (dim / 8) + d / 8) * tokens + t) * 8 + d % 8)].bits);
  }
}

// Into the blocks of an nz tile, half a block at a time, as the matrix unit wants them.
TEST(CopyByAxes, KeysIntoFractalBlocks) {
  const Device device = [] {
    Device split = split_device(1);
    split.memories[static_cast<std::size_t>(Space::vector)].granule = 16;
    return split;
  }();
  static constexpr index tokens = 32, dim = 64;
  const std::vector<f16> keys = counted<f16>(tokens * dim);
  std::vector<f16> rows(keys.size());
  run_both<f16>(device, rows, [&](GlobalMemory& machine) {
    const NdTensor cache = machine.bind("keys", ConstView<3>(keys.data(), {dim / 8, tokens, 8}));
    const Tensor out = machine.global("rows", std::span(rows), {tokens, dim}, Use::out);
    return [=](Core& m) {
      const Tensor tile = m.alloc("tile", Space::vector, {tokens, dim}, DType::f16, Layout::nz);
      const Tensor plain = m.alloc("plain", Space::vector, {tokens, dim}, DType::f16);
      m.copy(by_axes(tile).split(2, 8).permuted({0, 2, 1, 3}), cache.split(0, 2));
      m.barrier_all();
      m.vunpack_nz(plain, tile);
      m.barrier_all();
      m.copy(out, plain);
    };
  });
  for (index t = 0; t < tokens; ++t)
    for (index d = 0; d < dim; ++d)
      ASSERT_EQ(rows[static_cast<std::size_t>(t * dim + d)].bits,
                keys[static_cast<std::size_t>((d / 8 * tokens + t) * 8 + d % 8)].bits);
}

// The price is that of the runs that both sides have; footprints are the bytes, no more.
TEST(CopyByAxes, ChargesTheShorterRuns) {
  Device device = split_device(1);
  device.memories[static_cast<std::size_t>(Space::vector)].granule = 16;
  std::vector<f16> x(4 * 6 * 8);
  Machine machine(device);
  const NdTensor whole = machine.bind("x", View<3>(x.data(), {4, 6, 8}));
  const Outcome outcome = machine.run([&](Core& m) {
    const Tensor tile = m.alloc("tile", Space::vector, {4, 48}, DType::f16);
    const NdTensor rows = by_axes(tile.reshape({1, 192})).at(0, 0).split(0, 8).split(0, 6);  // (4, 6, 8), in one run
    m.copy(rows, whole);                                                                     // one run on both sides
    m.barrier_all();
    m.copy(by_axes(tile.reshape({1, 192})).at(0, 0).split(0, 8).split(0, 4).permuted({1, 0, 2}), whole);
  });
  expect_no_reports(outcome.reports, device.name);
  std::vector<Entry> copies;
  for (const Entry& entry : outcome.log.entries)
    if (entry.event == Event::work) copies.push_back(entry);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].work.runs, 1u);
  EXPECT_EQ(copies[1].work.runs, 24u);
  for (const Entry& copy : copies) {
    EXPECT_EQ(copy.work.bytes, 384u);
    for (std::uint32_t f = copy.footprints; f < copy.footprints + copy.footprint_count; ++f) {
      EXPECT_EQ(outcome.log.footprints[f].runs, 1u);
      EXPECT_EQ(outcome.log.footprints[f].run_bytes, 384u);
    }
  }
}

// Random windows: the regions are the bytes of the elements, each once.
TEST(CopyByAxes, RegionsAreTheElements) {
  std::mt19937 random(5);
  int apart = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    NdTensor window;
    window.rank = 1 + static_cast<int>(random() % 4);
    window.first.dtype = random() % 2 == 0 ? DType::f16 : DType::i8;
    for (int a = 0; a < window.rank; ++a) {
      window.extents[static_cast<std::size_t>(a)] = static_cast<index>(random() % 4);
      window.strides[static_cast<std::size_t>(a)] = static_cast<index>(random() % 25) - 8;
    }
    window.first.begin = 1000;
    const index width = bits(window.first.dtype) / 8;
    std::vector<int> touched(2000), listed(2000);
    bool once = true;
    for (index i = 0; i < window.size(); ++i) {
      index rest = i, at = 1000;
      for (int a = window.rank - 1; a >= 0; --a) {
        at += rest % window.extent(a) * window.stride(a) * width;
        rest /= window.extent(a);
      }
      once = once && touched[static_cast<std::size_t>(at)] == 0;
      for (index byte = 0; byte < width; ++byte) touched[static_cast<std::size_t>(at + byte)] = 1;
    }
    if (elements_apart(window)) {
      ++apart;
      EXPECT_TRUE(once);
    }
    for (const Region& region : regions_of(window))
      for (std::uint64_t run = 0; run < region.runs; ++run)
        for (std::uint64_t byte = 0; byte < region.bytes; ++byte) {
          const std::size_t at = region.begin + run * region.stride + byte;
          EXPECT_TRUE(!elements_apart(window) || listed[at] == 0);
          listed[at] = 1;
        }
    EXPECT_EQ(listed, touched) << trial;
  }
  EXPECT_GT(apart, 200);
}

void expect_refused(ReportKind kind, const char* part, const std::function<void(Core&, const NdTensor&)>& program) {
  const Device device = split_device(1);
  std::vector<float> x(512);
  const auto expect = [&](const std::vector<Report>& reports) {
    ASSERT_EQ(reports.size(), 1u) << part;
    EXPECT_EQ(reports[0].kind, kind) << reports[0].message;
    EXPECT_NE(reports[0].message.find(part), std::string::npos) << reports[0].message;
  };
  Machine machine(device);
  const NdTensor slow = machine.bind("x", ConstView<3>(x.data(), {8, 8, 8}));
  expect(machine.run([&](Core& m) { program(m, slow); }).reports);
  FunctionalMachine quick(device);
  const NdTensor fast = quick.bind("x", ConstView<3>(x.data(), {8, 8, 8}));
  expect(quick.run([&](Core& m) { program(m, fast); }));
}

TEST(CopyByAxes, RefusesWhatItCannotDo) {
  const auto tile = [](Core& m) { return by_axes(m.alloc("tile", Space::vector, {64, 8}, DType::f32)).split(0, 8); };
  using Kind = ReportKind;
  expect_refused(Kind::illegal_path, "x is an input", [&](Core& m, const NdTensor& x) { m.copy(x, tile(m)); });
  expect_refused(Kind::illegal_path, "8 x 8 x 4 f32 in global is not 8 x 8 x 8 f32 in vector",
                 [&](Core& m, const NdTensor& x) { m.copy(tile(m), x.slice(2, 0, 4)); });
  expect_refused(Kind::illegal_path, "the slice passes an axis",
                 [&](Core& m, const NdTensor& x) { m.copy(tile(m), x.slice(2, 4, 5)); });
  expect_refused(Kind::illegal_path, "an axis is split into whole parts",
                 [&](Core& m, const NdTensor& x) { m.copy(tile(m), x.split(2, 3)); });
  expect_refused(Kind::illegal_path, "names each of them once", [&](Core& m, const NdTensor& x) {
    m.copy(tile(m), x.permuted({0, 1, 1}));
  });
  expect_refused(Kind::illegal_path, "the columns of rows must lie side by side", [&](Core& m, const NdTensor& x) {
    m.copy(m.alloc("tile", Space::vector, {8, 8}, DType::f32), x.at(2, 0).matrix());
  });
  expect_refused(Kind::illegal_path, "rows and columns are one or two axes", [&](Core& m, const NdTensor& x) {
    m.copy(m.alloc("tile", Space::vector, {8, 8}, DType::f32), x.matrix());
  });
  expect_refused(Kind::alignment, "start off the 32 bytes of ub", [&](Core& m, const NdTensor& x) {
    m.copy(tile(m).permuted({0, 2, 1}), x);
  });
  expect_refused(Kind::illegal_path, "there is no path from 8 x 8 x 8 f32 in global", [&](Core& m, const NdTensor& x) {
    m.copy(by_axes(m.alloc("acc", Space::accumulator, {64, 8}, DType::f32)).split(0, 8), x);
  });
}

}  // namespace
}  // namespace inlay::npu
