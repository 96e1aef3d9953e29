// What an Npu keeps from one operator to the next: the machine of functional mode with its memories and stacks, the
// programs with what they did, what operators cost, and where weights have been packed. One thread at a time may be in
// it; who wants in holds its turn.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/cached_program.hpp"
#include "npu_kernels/backend/costs.hpp"
#include "npu_kernels/backend/packed_weights.hpp"
#include "npu_kernels/backend/plan.hpp"
#include "tile_machine/estimate/lru_cache.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

inline constexpr std::size_t max_log_bytes = std::size_t{1} << 28;  // of all programs that are kept

class Runtime {
 public:
  using Turn = std::unique_lock<std::mutex>;

  Runtime(NpuOptions options, Device device);

  // Without a wait: an empty one where another thread has it.
  Turn turn() { return Turn(busy_, std::try_to_lock); }
  Turn wait_for_turn() { return Turn(busy_); }

  const NpuOptions& options() const { return options_; }
  const Device& device() const { return costs_.device(); }

  Status supports(const AnyOperator& op);
  std::size_t scratch_bytes(const AnyOperator& op) { return cached(op).workspace_bytes; }
  // Errors: `internal`, with the first report.
  Status compute(const AnyOperator& op, const Workspace& workspace);
  Expected<NpuEstimate> estimate(const AnyOperator& op) { return costs_.estimate(op, packed_); }
  Expected<NpuUsAtDramShares> us_at_dram_shares(const AnyOperator& op) { return costs_.us_at_dram_shares(op, packed_); }
  Expected<Plan> plan(const AnyOperator& op) { return costs_.plan(op, packed_); }
  Expected<VerbLog> verbs(const AnyOperator& op) { return costs_.verbs(op, packed_); }
  std::size_t packed_bytes(const AnyOperator& op) { return packing_of(op).bytes; }
  Status pack(const AnyOperator& op, std::span<std::byte> memory);

  std::size_t programs() const { return programs_.size(); }  // that are kept
  std::size_t estimates() const { return costs_.known(); }
  PackedWeights& packed() { return packed_; }

 private:
  using Build = std::function<Program(GlobalMemory&)>;

  Choices choices(std::byte* packed = nullptr) { return costs_.choices(call_, packed); }
  GlobalMemory& planning();  // an empty one
  std::byte* describe(const AnyOperator& op) { return npu::describe(call_, op, device(), packed_); }
  CachedProgram& cached(const AnyOperator& op);
  // What a program that has just been made in `planning_` asks for and the device has not; empty: nothing.
  std::string lacks(const Program& program);
  Packing packing_of(const AnyOperator& op);  // of no bytes where its program does not fit the device
  Status run(std::string_view op, CachedProgram& cached, const Workspace& workspace);
  Status run_checked(std::string_view op, const Workspace& workspace, const Build& build);
  void make_room();  // the half of the programs goes that nobody has asked for lately

  std::mutex busy_;
  NpuOptions options_;
  Costs costs_;
  FunctionalMachine machine_;
  FunctionalMachine planning_;  // without data: programs are made and tried in it
  PackedWeights packed_;
  CallKey call_;  // the space of the one that is under way
  LruCache<CachedProgram> programs_;
  std::vector<std::byte*> places_;
  std::size_t bytes_ = 0;  // of their logs
};

}  // namespace inlay::npu
