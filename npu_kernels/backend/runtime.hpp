// What an Npu keeps from one operator to the next: the device, the machine of functional mode with its memories and
// stacks, the programs with what they did, the estimates, and where weights have been packed.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/cached_program.hpp"
#include "npu_kernels/backend/packed_weights.hpp"
#include "npu_kernels/backend/plan.hpp"
#include "tile_machine/estimate/estimate.hpp"
#include "tile_machine/estimate/lru_cache.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

// Programs, and estimates, that are kept: those of a few thousand lengths, at some KB each, and no more bytes of logs.
inline constexpr std::size_t max_kept = 4096, max_log_bytes = std::size_t{1} << 28;

class Runtime {
 public:
  Runtime(NpuOptions options, Device device);

  const NpuOptions& options() const { return options_; }
  const Device& device() const { return device_; }

  Status supports(const AnyOperator& op);
  std::size_t scratch_bytes(const AnyOperator& op) { return cached(op).workspace_bytes; }
  // Errors: `internal`, with the first report.
  Status compute(const AnyOperator& op, const Workspace& workspace);
  Expected<NpuEstimate> estimate(const AnyOperator& op);
  Expected<Plan> plan(const AnyOperator& op);
  std::size_t packed_bytes(const AnyOperator& op) { return op.make_packing(planning(), choices()).bytes; }
  Status pack(const AnyOperator& op, std::span<std::byte> memory);

  std::size_t programs() const { return programs_.size(); }  // that are kept
  std::size_t estimates() const { return std::max(estimated_.size(), estimates_.known()); }
  PackedWeights& packed() { return packed_; }

 private:
  using Build = std::function<Program(GlobalMemory&)>;

  Choices choices(std::byte* packed = nullptr) { return {options_.activations, &estimates_, call_.key(), packed}; }
  GlobalMemory& planning();  // an empty one
  // Makes the key of the call. Returns the blocks of the operator's weight, if it has been packed: the last operand.
  std::byte* describe(const AnyOperator& op);
  CachedProgram& cached(const AnyOperator& op);
  std::string lacks(const Build& build) const;
  Status run(std::string_view op, CachedProgram& cached, const Workspace& workspace);
  Status run_checked(std::string_view op, const Workspace& workspace, const Build& build);
  EstimateRequest request_of(std::string name, const Build& build);
  void make_room();  // the half of the programs goes that nobody has asked for lately

  NpuOptions options_;
  Device device_;
  bool tries_programs_;  // as the device can something else than ours
  FunctionalMachine machine_;
  PlanningMemory planning_;
  CostCache estimates_;
  PackedWeights packed_;
  CallKey call_;  // the space of the one that is under way
  LruCache<CachedProgram> programs_;
  LruCache<NpuEstimate> estimated_;
  std::vector<std::byte*> places_;
  std::size_t bytes_ = 0;  // of their logs
};

}  // namespace inlay::npu
