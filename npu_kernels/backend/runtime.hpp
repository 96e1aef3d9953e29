// What an Npu keeps from one operator to the next: the device, the machine of functional mode with its memories and
// stacks, the programs with what they did, the prices, and where weights have been packed.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "npu_kernels/backend/plan.hpp"
#include "npu_kernels/backend/prepared.hpp"
#include "npu_kernels/backend/program.hpp"
#include "tile_machine/price/recent.hpp"

namespace inlay::npu {

// Programs, and prices, that are kept: those of a few thousand lengths, at some KB each, and no more scripts than this.
inline constexpr std::size_t most_kept = 4096, most_script_bytes = std::size_t{1} << 28;

class Runtime {
 public:
  using Build = std::function<Program(GlobalMemory&)>;

  Runtime(NpuOptions options, Device device);

  const NpuOptions& options() const { return options_; }
  const Device& device() const { return device_; }
  Choices choices(std::byte* packed = nullptr) { return {options_.activations, &prices_, call_.key(), packed}; }

  Call& call() { return call_; }  // the space of the one that is under way
  // The program of that call, if it has been prepared.
  Prepared* prepared();
  Prepared& prepare(const Build& build, std::vector<std::shared_ptr<void>> kept);
  bool tries_programs() const { return tries_programs_; }  // as the device can something else than ours

  // Errors: `internal`, with the first report.
  Status run(std::string_view op, Prepared& prepared, const Workspace& workspace);
  Status run_checked(std::string_view op, const Workspace& workspace, const Build& build);
  const NpuPrice* priced();  // of that call
  Expected<NpuPrice> price(const Build& build);
  Expected<Plan> plan(std::string_view op, const Build& build);

  std::size_t programs() const { return programs_.size(); }  // that are kept
  std::size_t prices() const { return std::max(priced_.size(), prices_.known()); }

  PackedWeights& packed() { return packed_; }
  GlobalMemory& planning();  // an empty one
  Status pack(std::string_view op, const WeightForm& weight, const Packing& packing, std::span<std::byte> memory);

 private:
  std::string lacks(const Build& build) const;
  PricedProgram to_price(std::string name, const Build& build);
  void make_room();  // the half of the programs goes that nobody has asked for lately

  NpuOptions options_;
  Device device_;
  bool tries_programs_;
  FunctionalMachine machine_;
  PlanningMemory planning_;
  Prices prices_;
  PackedWeights packed_;
  Call call_;
  Recent<Prepared> programs_;
  Recent<NpuPrice> priced_;
  std::vector<std::byte*> places_;
  std::size_t bytes_ = 0;  // of their scripts
};

}  // namespace inlay::npu
