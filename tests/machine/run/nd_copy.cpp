// Views of the host as they are: strided, shared, partly written, read-only; and copies by axes.
#include <cstring>
#include <numeric>

#include "tests/machine/support/programs.hpp"

namespace inlay::npu {
namespace {

template <class T> std::vector<T> counted(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<float>(i % 2039));
  return values;
}

// Runs the program checked and functional; both leave the same bytes in `out`.
template <class T>
void run_both(const Device& device, std::vector<T>& out,
              const std::function<std::function<void(Core&)>(GlobalMemory&)>& place) {
  const std::vector<T> before = out;
  Machine slow(device);
  expect_clean(slow, place(slow));
  const std::vector<T> checked = out;
  out = before;
  FunctionalMachine quick(device);
  expect_no_reports(quick.run(place(quick)), device.name);
  EXPECT_EQ(std::memcmp(out.data(), checked.data(), out.size() * sizeof(T)), 0);
}

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
    return check(outcome.tape, device);
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
  for (const Entry& entry : outcome.tape.entries)
    if (entry.event == Event::work) begins.push_back(outcome.tape.footprints[entry.footprints].begin);
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
  for (const Entry& entry : outcome.tape.entries)
    if (entry.event == Event::work) copies.push_back(entry);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].work.runs, 1u);
  EXPECT_EQ(copies[1].work.runs, 24u);
  for (const Entry& copy : copies) {
    EXPECT_EQ(copy.work.bytes, 384u);
    for (std::uint32_t f = copy.footprints; f < copy.footprints + copy.footprint_count; ++f) {
      EXPECT_EQ(outcome.tape.footprints[f].runs, 1u);
      EXPECT_EQ(outcome.tape.footprints[f].run_bytes, 384u);
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
