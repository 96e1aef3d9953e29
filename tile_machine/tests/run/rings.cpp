// Rings as operands: where their waits go, and tuples that share one pair of flags.
#include <numeric>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

struct Trace {
  std::vector<std::string> entries;  // of the vector queue: verb, and of a flag its pipes
  std::vector<float> y;
};

// y = a + b, tile by tile, with `add` in the vector queue.
using Add = void (*)(Core&, Ring& out, Ring& a, Ring& b);

Trace run(Add add) {
  const Device device = split_device(1);
  std::vector<float> x(256);
  std::iota(x.begin(), x.end(), 1.0f);
  Trace result;
  result.y.resize(x.size());
  Machine machine(device);
  const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, 256});
  const Tensor to = machine.global("y", std::span(result.y), {1, 256}, Use::out);
  const Outcome outcome = machine.run([&](Core& m) {
    const Flow in{2, Pipe::load_vector, Pipe::vector};
    Ring a = m.ring("a", Space::vector, {1, 32}, DType::f32, in),
         b = m.ring("b", Space::vector, {1, 32}, DType::f32, in);
    Ring out = m.ring("out", Space::vector, {1, 32}, DType::f32, {2, Pipe::vector, Pipe::store});
    for (index first = 0; first < 256; first += 32) {
      m.copy(a.acquire(), from.slice(0, 1, first, 32));
      a.commit();
      m.copy(b.acquire(), from.slice(0, 1, 224 - first, 32));
      b.commit();
      add(m, out, a, b);
      out.commit();
      a.release();
      b.release();
      m.copy(to.slice(0, 1, first, 32), out.wait());
      out.release();
    }
  });
  expect_no_reports(outcome.reports, device.name);
  expect_no_reports(check(outcome.log, device), device.name);
  for (const Entry& entry : outcome.log.entries)
    if (entry.pipe == Pipe::vector)
      result.entries.push_back(entry.verb + std::string(" ") + std::string(name(entry.from)) + " " +
                               std::to_string(entry.flag));
  return result;
}

// Whatever the order in which the operands are asked for: as arguments they have none of their own.
TEST(Rings, TheOrderOfArgumentsDoesNotMatter) {
  const Trace as_arguments =
      run([](Core& m, Ring& out, Ring& a, Ring& b) { m.vbinary(VectorOp::add, out.acquire(), a.wait(), b.wait()); });
  const Trace forwards = run([](Core& m, Ring& out, Ring& a, Ring& b) {
    const Tensor to = out.acquire(), x = a.wait(), y = b.wait();
    m.vbinary(VectorOp::add, to, x, y);
  });
  const Trace backwards = run([](Core& m, Ring& out, Ring& a, Ring& b) {
    const Tensor y = b.wait(), x = a.wait(), to = out.acquire();
    m.vbinary(VectorOp::add, to, x, y);
  });
  EXPECT_EQ(as_arguments.entries, forwards.entries);
  EXPECT_EQ(as_arguments.entries, backwards.entries);
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(as_arguments.y[i], static_cast<float>(226 + i % 32 * 2)) << i;
  EXPECT_EQ(as_arguments.y, backwards.y);
}

// A slot that no verb uses is waited for by what gives it back; two of one ring in their order.
TEST(Rings, EveryWaitIsPut) {
  const Device device = split_device(1);
  Machine machine(device);
  const Outcome outcome = machine.run([&](Core& m) {
    Ring ring = m.ring("ring", Space::vector, {1, 32}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
    for (int round = 0; round < 2; ++round) {
      ring.acquire();
      ring.acquire();
      ring.commit();
      ring.commit();
      ring.wait();
      ring.wait();
      ring.release();
      ring.release();
    }
  });
  expect_no_reports(outcome.reports, device.name);
  expect_no_reports(check(outcome.log, device), device.name);
  std::size_t waits = 0, sets = 0;
  for (const Entry& entry : outcome.log.entries) {
    waits += entry.event == Event::wait;
    sets += entry.event == Event::set;
  }
  EXPECT_EQ(sets, 8u);
  EXPECT_EQ(waits, 8u);
}

// With one counting flag for all slots the second slot's wait would take the first slot's set.
TEST(Rings, WaitsOfACountingFlagKeepTheirOrder) {
  Device device = split_device(1);
  device.sync.depth = 8;
  std::vector<float> x(64), y(64);
  std::iota(x.begin(), x.end(), 1.0f);
  for (Policy policy : policies) {
    Machine machine(device, {.policy = policy});
    const Tensor from = machine.global("x", std::span(std::as_const(x)), {1, 64});
    const Tensor to = machine.global("y", std::span(y), {1, 64}, Use::out);
    expect_clean(machine, [&](Core& m) {
      Ring in = m.ring("in", Space::vector, {1, 32}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
      Ring out = m.ring("out", Space::vector, {1, 32}, DType::f32, {2, Pipe::vector, Pipe::store});
      for (index first = 0; first < 64; first += 32) {
        m.copy(in.acquire(), from.slice(0, 1, first, 32));
        in.commit();
      }
      const Tensor low = in.wait(), high = in.wait();
      m.vscalar(VectorOp::mul, out.acquire(), high, 2);  // the later slot first
      out.commit();
      m.vscalar(VectorOp::mul, out.acquire(), low, 2);
      out.commit();
      in.release();
      in.release();
      m.copy(to.slice(0, 1, 32, 32), out.wait());
      out.release();
      m.copy(to.slice(0, 1, 0, 32), out.wait());
      out.release();
    });
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], 2 * x[i]);
  }
}

// codes, scales and a mask of one tile pass with one flag there and one back for each slot.
TEST(Rings, TuplesShareOnePairOfFlags) {
  for (const Device& device : {split_device(1), flat_device(1)})
    for (Policy policy : policies) {
      constexpr index tiles = 5, rows = 4, columns = 64;
      std::vector<std::int8_t> codes(tiles * rows * columns);
      std::iota(codes.begin(), codes.end(), std::int8_t{0});
      const auto scales = random_values<float>(tiles * rows * 2, 0.5f, 2, 1);
      std::vector<float> y(codes.size());
      Machine machine(device, {.policy = policy});
      const Tensor q = machine.global("codes", std::span(std::as_const(codes)), {tiles * rows, columns});
      const Tensor s = machine.global("scales", std::span(scales), {tiles * rows, 2});
      const Tensor to = machine.global("y", std::span(y), {tiles * rows, columns}, Use::out);
      Outcome outcome = machine.run([&](Core& m) {
        auto in = m.ring<2>(
            "in",
            {{{"codes", Space::vector, {rows, columns}, DType::i8}, {"scales", Space::vector, {rows, 2}, DType::f32}}},
            {2, Pipe::load_vector, Pipe::vector});
        Ring out = m.ring("out", Space::vector, {rows, columns}, DType::f32, {2, Pipe::vector, Pipe::store});
        for (index tile = 0; tile < tiles; ++tile) {
          const auto [code_slot, scale_slot] = in.acquire();
          m.copy(code_slot, q.row_slice(tile * rows, rows));
          m.copy(scale_slot, s.row_slice(tile * rows, rows));
          in.commit();
          const auto [x, scale] = in.wait();
          m.vgrouped(VectorOp::mul, out.acquire(), x, scale, 32);
          in.release();
          out.commit();
          m.copy(to.row_slice(tile * rows, rows), out.wait());
          out.release();
        }
      });
      expect_no_reports(outcome.reports, device.name);
      expect_no_reports(check(outcome.log, device), device.name);
      for (std::size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y[i], static_cast<float>(codes[i]) * scales[i / columns * 2 + i % columns / 32]) << device.name;
      std::size_t sets = 0;
      for (const Entry& entry : outcome.log.entries) sets += entry.event == Event::set;
      EXPECT_EQ(sets, 4u * tiles);
    }
}

TEST(Rings, TuplesAreNoViews) {
  const Device device = flat_device(1);
  Machine machine(device);
  const auto reports =
      machine
          .run([](Core& m) {
            m.ring<2>(
                "in",
                {{{"a", Space::left, {32, 32}, DType::f16, Layout::nz}, {"b", Space::vector, {32, 32}, DType::f16}}},
                {2, Pipe::feed, Pipe::matrix});
          })
          .reports;
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NE(reports[0].message.find("in is of tuples, which views of staging"), std::string::npos);
}

}  // namespace
}  // namespace inlay::npu
