// Operators' programs in functional mode against checked mode: the same bits. Products with the host's vectors, as an
// Npu multiplies, and with the machine's own loop.
#include <algorithm>
#include <cstring>

#include <inlay/cpu.hpp>

#include "npu_kernels/backend/host_product.hpp"
#include "tests/npu/programs/small_attention.hpp"
#include "tests/npu/programs/small_linear.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

template <class T> void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << where << " at " << i;
}

// `make(memory)`: an operator's program whose results go to `out`.
template <class T, class Make> void expect_same_on_both(const Device& device, std::vector<T>& out, Make&& make) {
  Machine slow(device, {.cores = 2});
  const Program first = make(slow);
  ASSERT_TRUE(first.body) << device.name;
  expect_no_reports(slow.run(first.body, first.launch).reports, device.name);
  const std::vector<T> checked = out;
  for (const tiles::HostProduct& product : {host_product(Cpu(serial()).isa()), tiles::HostProduct{}}) {
    std::fill(out.begin(), out.end(), T{});
    FunctionalMachine quick(device, 2, product);
    const Program second = make(quick);
    expect_no_reports(quick.run(second.body, second.launch), device.name);
    expect_same_bits(checked, out, device.name);
  }
}

TEST(FunctionalMode, Linear) {
  for (const Device& device : all_devices()) {
    constexpr index m = 150, n = 176, k = 500;
    const auto x = random_values<f16>(m * k, -1, 1, 1), w = random_values<f16>(n * k, -1, 1, 2);
    std::vector<float> y(m * n);
    const Linear<Host> op{.x = {x.data(), {m, k}},
                          .weight = {w.data(), linear_packed_extents(n, k, DType::f16)},
                          .y = {y.data(), {m, n}}};
    expect_same_on_both(device, y, [&](GlobalMemory& memory) { return program(memory, op, {}); });
  }
}

TEST(FunctionalMode, DecodeAttention) {
  constexpr index sequences = 2, heads = 6, caches = 2, dim = 64, length = 600;
  const auto q = random_values<f16>(sequences * heads * dim, -2, 2, 1);
  const auto k = random_values<f16>(sequences * length * caches * dim, -1, 1, 2),
             v = random_values<f16>(sequences * length * caches * dim, -1, 1, 3);
  std::vector<f16> out(q.size());
  const IncreFlashAttention<Host> op{.q = ConstView<4>(q.data(), {sequences, 1, heads, dim}),
                                     .k = ConstView<4>(k.data(), {sequences, length, caches, dim}),
                                     .v = ConstView<4>(v.data(), {sequences, length, caches, dim}),
                                     .out = View<4>(out.data(), {sequences, 1, heads, dim})};
  for (const Device& device : all_devices())
    for (const AttentionTemplate by : {AttentionTemplate{true, 2}, {false, 2}})
      expect_same_on_both(device, out, [&](GlobalMemory& memory) {
        return attend_by(memory, attention_call(memory, attention_problem(op)), {}, by);
      });
}

}  // namespace
}  // namespace inlay::npu
