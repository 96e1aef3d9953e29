#include "measure/npu_cases.hpp"

#include "npu_kernels/backend/program.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/random_tensors.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const IncreFlashAttention<Host>&, const Choices&);
Program program(GlobalMemory&, const Linear<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearInt8<Host>&, const Choices&);

namespace {

// What each core runs. Attention takes the quickest of its templates.
Program program_of(const Case& c, GlobalMemory& memory, Tensors& tensors) {
  const auto size = [&](std::size_t i) { return c.size[i]; };
  if (c.op == "linear") return program(memory, LinearShape{size(0), size(1), size(2)}.make(tensors), {});
  if (c.op == "linear_int8")
    return program(memory, LinearInt8Shape{size(0), size(1), size(2), DType::i8}.make(tensors), {});
  const IncreFlashAttentionShape decode{.sequences = size(0),
                                        .heads = size(1),
                                        .kv_heads = size(2),
                                        .dim = size(3),
                                        .length = size(4),
                                        .is_head_major = true};
  CostCache estimates;
  return program(memory, decode.make(tensors), {.estimates = &estimates});
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
  AbsentTensors absent;
  RandomTensors random;
  const Program made = program_of(c, machine, compute ? static_cast<Tensors&>(random) : absent);
  return {machine.run(made.body, made.launch), made.problem};
}

EstimateRequest estimated(const Case& c, const Device& device) {
  const auto build = [c](GlobalMemory& memory) {
    AbsentTensors tensors;
    return program_of(c, memory, tensors).body;
  };
  PlanningMemory memory(device, device.cores);
  AbsentTensors tensors;
  const Program made = program_of(c, memory, tensors);
  return {std::string(c.op), c.size, {}, made.problem, build, made.launch};
}

}  // namespace inlay::npu
