// What an Npu keeps from one operator to the next: the device, the machine of functional mode with its memories and
// stacks, and the prices.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "npu_kernels/backend/plan.hpp"
#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

class Runtime {
 public:
  using Build = std::function<Program(GlobalMemory&)>;

  Runtime(NpuOptions options, Device device);

  const NpuOptions& options() const { return options_; }
  const Device& device() const { return device_; }
  Choices choices() { return {options_.activations, &prices_}; }

  std::size_t scratch_bytes(const Build& build);
  // Errors: `internal`, with the first report.
  Status run(std::string_view op, const Workspace& workspace, const Build& build);
  Expected<NpuPrice> price(const std::string& key, const Build& build);
  Expected<Plan> plan(std::string_view op, const Build& build);

 private:
  PricedProgram priced(std::string name, const Build& build);
  Status run_checked(std::string_view op, const Workspace& workspace, const Build& build);

  NpuOptions options_;
  Device device_;
  FunctionalMachine machine_;
  PlanningMemory planning_;
  Prices prices_;
};

}  // namespace inlay::npu
