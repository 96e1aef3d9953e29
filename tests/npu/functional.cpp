// Operators' programs in functional mode against checked mode: the same bits. Products with the host's vectors, as an
// Npu multiplies, and with the machine's own loop.
#include <algorithm>
#include <span>

#include <inlay/cpu.hpp>

#include "npu_kernels/backend/host_product.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/linear.hpp"
#include "tests/npu/programs/small_attention.hpp"
#include "tests/npu/programs/small_linear.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

// `make(memory)`: an operator's program whose results go to `out`.
template <int Rank, class Make> void expect_same_on_both(const Device& device, const View<Rank>& out, Make&& make) {
  const std::span all(static_cast<std::byte*>(out.data), static_cast<std::size_t>(byte_size(out.dtype, out.size())));
  Machine slow(device, {.cores = 2});
  const Program first = make(slow);
  ASSERT_TRUE(first.body) << device.name;
  expect_no_reports(slow.run(first.body, first.launch).reports, device.name);
  const std::vector<std::byte> checked(all.begin(), all.end());
  for (const tiles::HostProduct& product : {host_product(Cpu(serial()).isa()), tiles::HostProduct{}}) {
    std::fill(all.begin(), all.end(), std::byte{});
    FunctionalMachine quick(device, 2, product);
    const Program second = make(quick);
    expect_no_reports(quick.run(second.body, second.launch), device.name);
    const auto other = std::mismatch(all.begin(), all.end(), checked.begin()).first - all.begin();
    ASSERT_EQ(other, all.end() - all.begin()) << device.name << ": the first other byte";
  }
}

TEST(FunctionalMode, Linear) {
  RandomTensors tensors;
  const Linear<Host> op = LinearShape{.m = 150, .n = 176, .k = 500, .to = DType::f32}.make(tensors);
  for (const Device& device : all_devices())
    expect_same_on_both(device, op.y, [&](GlobalMemory& memory) { return program(memory, op, {}); });
}

TEST(FunctionalMode, DecodeAttention) {
  RandomTensors tensors;
  const IncreFlashAttention<Host> op =
      IncreFlashAttentionShape{.sequences = 2, .heads = 6, .kv_heads = 2, .dim = 64, .length = 600}.make(tensors);
  for (const Device& device : all_devices())
    for (const AttentionTemplate by : {AttentionTemplate{true, 2}, {false, 2}})
      expect_same_on_both(device, op.out, [&](GlobalMemory& memory) {
        return attend_by(memory, attention_call(memory, attention_problem(op)), {}, by);
      });
}

}  // namespace
}  // namespace inlay::npu
