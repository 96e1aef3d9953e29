#include "measure/machine_cases.hpp"

#include "npu_kernels/attention/decode_attention.hpp"
#include "npu_kernels/linear/gemm.hpp"

#include <cstddef>
#include <functional>
#include <utility>

namespace inlay::npu {

namespace {

DType sum_type(DType in) { return in == DType::i8 ? DType::i32 : DType::f32; }

// Tensors with data, or without where the machine keeps none.
class Operands {
 public:
  Operands(GlobalMemory& machine, bool data) : machine_(machine), data_(data) {}
  Tensor in(const char* name, DType dtype, index rows, index columns) {
    return tensor(name, dtype, {rows, columns}, Use::in);
  }
  Tensor out(const char* name, DType dtype, index rows, index columns) {
    return tensor(name, dtype, {rows, columns}, Use::out);
  }
  std::vector<std::vector<std::byte>> take() { return std::move(values_); }

 private:
  Tensor tensor(const char* name, DType dtype, Shape shape, Use use) {
    if (!data_) return machine_.absent(name, dtype, shape, use);
    auto& bytes = values_.emplace_back(static_cast<std::size_t>(byte_size(dtype, shape.rows * shape.columns)));
    return machine_.add(name, bytes.data(), bytes.size(), dtype, shape, use);
  }

  GlobalMemory& machine_;
  bool data_;
  std::vector<std::vector<std::byte>> values_;
};

GemmOperands gemm_operands(const Case& c, Operands& operands) {
  const index m = c.size[0], n = c.size[1], k = c.size[2];
  return {operands.in("a", c.dtype, m, k), operands.in("b", c.dtype, n, k), operands.out("c", sum_type(c.dtype), m, n)};
}

DecodeOperands decode_operands(const Case& c, Operands& operands) {
  const index sequences = c.size[0], heads = c.size[1], cache_heads = c.size[2], dim = c.size[3], length = c.size[4];
  DecodeOperands op;
  op.q = operands.in("q", c.dtype, sequences * heads, dim);
  op.out = operands.out("out", c.dtype, sequences * heads, dim);
  op.k = operands.in("k", c.dtype, sequences * cache_heads * length, dim);
  op.v = operands.in("v", c.dtype, sequences * cache_heads * length, dim);
  op.sequences = sequences;
  op.heads = heads;
  op.cache_heads = cache_heads;
  op.length = length;
  op.splits = c.size[5];
  return op;
}

// A head of the cache with one query head is one row, which two vector units cannot share.
Launch launch_of(const Case& c) {
  if (c.program != "decode_attention") return {};
  DecodeOperands op;
  op.heads = c.size[1];
  op.cache_heads = c.size[2];
  return op.launch();
}

// What each core runs; tensors are made on the machine.
std::function<void(Core&)> program_of(const Case& c, GlobalMemory& machine, Operands& operands) {
  if (c.program == "gemm") return [op = gemm_operands(c, operands)](Core& core) { gemm(core, op); };
  DecodeOperands op = decode_operands(c, operands);
  add_workspace(machine, op);
  return [op](Core& core) { decode_attention(core, op); };
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"gemm",
       "ascend-a2-like",
       DType::f16,
       {3072, 3072, 1024},
       0,
       "the load of fractal blocks from plain rows, at half the path's speed"},
      {"gemm",
       "ascend-a2-like",
       DType::i8,
       {3072, 3072, 1024},
       0,
       "the load of fractal blocks from plain rows, at half the path's speed"},
      {"gemm", "hexagon-htp-like", DType::f16, {2048, 2048, 2048}, 0.90},
      {"gemm", "hexagon-htp-like", DType::i8, {2048, 2048, 2048}, 0.90},
      {"gemm", "systolic32", DType::f16, {1024, 1024, 1024}, 0.90},
      {"gemm", "systolic32", DType::i8, {1024, 1024, 1024}, 0.90},
      {"gemm",
       "systolic128",
       DType::f16,
       {4096, 4096, 1024},
       0,
       "by a hair: the first loads, before the four arrays have work"},
      {"gemm", "systolic128", DType::i8, {4096, 4096, 1024}, 0.90},
      {"decode_attention", "ascend-a2-like", DType::f16, {6, 32, 8, 128, 4096, 1}, 0.85},
      {"decode_attention", "ascend-a2-like", DType::f16, {1, 32, 8, 128, 16384, 3}, 0.85},
      {"decode_attention", "hexagon-htp-like", DType::f16, {1, 32, 8, 128, 4096, 1}, 0.85},
      {"decode_attention", "systolic32", DType::f16, {1, 32, 8, 128, 4096, 1}, 0.85},
      {"decode_attention",
       "systolic128",
       DType::f16,
       {4, 32, 8, 128, 4096, 1},
       0,
       "the array: 128 cycles of preload for 4 rows"},
  };
  return table;
}

std::string describe(const Case& c) {
  std::string text = std::string(c.program) + " " + std::string(name(c.dtype)) + " ";
  for (std::size_t i = 0; i < c.size.size(); ++i) text += (i ? " x " : "") + std::to_string(c.size[i]);
  return text + " on " + std::string(c.device);
}

Problem problem_of(const Case& c) {
  Device nowhere;
  nowhere.memories.resize(1);
  Machine machine(nowhere, {.data = false});
  Operands operands(machine, false);
  if (c.program == "gemm") return gemm_problem(gemm_operands(c, operands));
  return decode_problem(decode_operands(c, operands));
}

PricedProgram priced(const Case& c) {
  const auto build = [c](GlobalMemory& machine) {
    Operands operands(machine, false);
    return program_of(c, machine, operands);
  };
  return {std::string(c.program), c.size, {c.dtype}, problem_of(c), build, launch_of(c)};
}

Outcome run(const Case& c, const Device& device, bool compute) {
  Machine machine(device, {.compute = compute, .data = compute});
  Operands operands(machine, compute);
  const auto program = program_of(c, machine, operands);
  const auto values = operands.take();  // live as long as the run
  return machine.run(program, launch_of(c));
}

}  // namespace inlay::npu
