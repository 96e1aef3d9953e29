#include "measure/npu_cases.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>

#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const IncreFlashAttention<Host>&, const Choices&);
Program program(GlobalMemory&, const Linear<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearInt8<Host>&, const Choices&);

namespace {

// Zeros, or addresses that lie apart with nothing behind them.
class Tensors {
 public:
  explicit Tensors(bool data) : data_(data) {}
  template <int N> View<N> make(DType dtype, std::array<index, N> extents) {
    constexpr std::uintptr_t apart = std::uintptr_t{1} << 36;
    if (!data_) return View<N>(reinterpret_cast<void*>(next_ += apart), dtype, extents);
    index count = 1;
    for (const index extent : extents) count *= extent;
    return View<N>(values_.emplace_back(static_cast<std::size_t>(byte_size(dtype, count))).data(), dtype, extents);
  }

 private:
  bool data_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  std::vector<std::vector<std::byte>> values_;
};

Linear<Host> linear(const Case& c, Tensors& tensors) {
  const index m = c.size[0], n = c.size[1], k = c.size[2];
  return {.x = tensors.make<2>(DType::f16, {m, k}),
          .weight = tensors.make<3>(DType::f16, linear_packed_extents(n, k, DType::f16)),
          .y = tensors.make<2>(DType::f16, {m, n})};
}

LinearInt8<Host> linear_int8(const Case& c, Tensors& tensors) {
  const index m = c.size[0], n = c.size[1], k = c.size[2];
  return {.x = tensors.make<2>(DType::i8, {m, k}),
          .x_scale = tensors.make<1>(DType::f32, {m}),
          .weight = tensors.make<3>(DType::i8, linear_int8::packed_extents(n, k)),
          .weight_sum = tensors.make<1>(DType::i32, {n}),
          .weight_scale = tensors.make<1>(DType::f32, {n}),
          .y = tensors.make<2>(DType::f16, {m, n})};
}

// A cache whose heads' tokens are one run: BNSD.
IncreFlashAttention<Host> decode(const Case& c, Tensors& tensors) {
  const index sequences = c.size[0], heads = c.size[1], caches = c.size[2], dim = c.size[3], length = c.size[4];
  const auto rows = [&] { return tensors.make<4>(DType::f16, {sequences, 1, heads, dim}); };
  const auto cache = [&] {
    const View<4> all = tensors.make<4>(DType::f16, {sequences, caches, length, dim});
    return View<4>(all.data, DType::f16, {sequences, length, caches, dim},
                   {caches * length * dim, dim, length * dim, 1});
  };
  return {.q = rows(), .k = cache(), .v = cache(), .out = rows()};
}

// What each core runs. Attention takes the quickest of its templates.
Program program_of(const Case& c, GlobalMemory& memory, Tensors& tensors) {
  if (c.op == "linear") return program(memory, linear(c, tensors), {});
  if (c.op == "linear_int8") return program(memory, linear_int8(c, tensors), {});
  Prices prices;
  return program(memory, decode(c, tensors), {.prices = &prices});
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"linear", "ascend-a2-like", {512, 4096, 4096}, 0.75},
      {"linear", "hexagon-htp-like", {512, 4096, 4096}, 0, "HMX brings weights in for each 64 rows: 74.1% at most"},
      {"linear",
       "systolic32",
       {512, 1024, 1024},
       0,
       "seven times the compulsory bytes: x and w come again for each tile of a small memory"},
      {"linear", "systolic128", {512, 4096, 4096}, 0.75},
      {"linear_int8", "ascend-a2-like", {2048, 4096, 4096}, 0.75},
      {"linear_int8", "hexagon-htp-like", {128, 4096, 4096}, 0.75},
      {"linear_int8", "systolic128", {512, 4096, 4096}, 0.75},
      {"incre_flash_attention", "ascend-a2-like", {6, 32, 8, 128, 4096}, 0.85},
      {"incre_flash_attention", "ascend-a2-like", {1, 32, 8, 128, 16384}, 0.85},
      {"incre_flash_attention", "hexagon-htp-like", {1, 32, 8, 128, 4096}, 0.85},
      {"incre_flash_attention", "systolic32", {1, 32, 8, 128, 4096}, 0.85},
      {"incre_flash_attention",
       "systolic128",
       {4, 32, 8, 128, 4096},
       0,
       "the array: 128 cycles of preload for 4 rows of K's product, 8 of V's"},
  };
  return table;
}

std::string describe(const Case& c) {
  std::string text = std::string(c.op) + " ";
  for (std::size_t i = 0; i < c.size.size(); ++i) text += (i ? " x " : "") + std::to_string(c.size[i]);
  return text + " on " + std::string(c.device);
}

CaseRun run(const Case& c, const Device& device, bool compute) {
  Machine machine(device, {.compute = compute, .data = compute});
  Tensors tensors(compute);
  const Program made = program_of(c, machine, tensors);
  return {machine.run(made.body, made.launch), made.problem};
}

PricedProgram priced(const Case& c, const Device& device) {
  const auto build = [c](GlobalMemory& memory) {
    Tensors tensors(false);
    return program_of(c, memory, tensors).body;
  };
  PlanningMemory memory(device, device.cores);
  Tensors tensors(false);
  const Program made = program_of(c, memory, tensors);
  return {std::string(c.op), c.size, {}, made.problem, build, made.launch};
}

}  // namespace inlay::npu
