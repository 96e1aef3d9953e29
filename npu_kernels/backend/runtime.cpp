#include "npu_kernels/backend/runtime.hpp"

#include <utility>

#include "npu_kernels/machine/check/checker.hpp"

namespace inlay::npu {

namespace {

Status failed(std::string_view op, const Report& report) {
  return {StatusCode::internal, std::string(op) + ": " + std::string(name(report.kind)) + ": " + report.message};
}

// With no more cores than programs may use: what they are priced for is what they run on.
Device of_cores(Device device, std::uint32_t cores) {
  if (cores > 0) device.cores = cores;
  return device;
}

}  // namespace

Runtime::Runtime(NpuOptions options, Device device)
    : options_(std::move(options)),
      device_(of_cores(std::move(device), options_.cores)),
      machine_(device_, options_.cores),
      planning_(device_, options_.cores) {}

std::size_t Runtime::scratch_bytes(const Build& build) {
  planning_.forget();
  build(planning_);
  return planning_.workspace_bytes();
}

Status Runtime::run(std::string_view op, const Workspace& workspace, const Build& build) {
  if (options_.mode == NpuMode::checked) return run_checked(op, workspace, build);
  machine_.forget();
  machine_.lend(workspace);
  const Program program = build(machine_);
  const std::vector<Report> reports = machine_.run(program.body, program.launch);
  return reports.empty() ? Status() : failed(op, reports.front());
}

Status Runtime::run_checked(std::string_view op, const Workspace& workspace, const Build& build) {
  Machine machine(device_, {.cores = options_.cores});
  machine.lend(workspace);
  const Program program = build(machine);
  const Outcome outcome = machine.run(program.body, program.launch);
  if (!outcome.ok()) return failed(op, outcome.reports.front());
  const std::vector<Report> reports = check(outcome.tape, device_);
  return reports.empty() ? Status() : failed(op, reports.front());
}

PricedProgram Runtime::priced(std::string name, const Build& build) {
  // One build for the problem and the launch, which the tape is asked with.
  planning_.forget();
  const Program plan = build(planning_);
  return {.name = std::move(name),
          .sizes = {},
          .types = {},
          .problem = plan.problem,
          .build = [&build](GlobalMemory& memory) { return build(memory).body; },
          .launch = plan.launch};
}

Expected<NpuPrice> Runtime::price(const std::string& key, const Build& build) {
  auto found = prices_.of(device_, priced(key, build));
  if (!found) return failure(std::move(found.error()));
  return NpuPrice{found->cycles, found->us, found->bytes, found->bound, found->problem_share, found->us_at_share};
}

Expected<Plan> Runtime::plan(std::string_view op, const Build& build) {
  const PricedProgram program = priced(std::string(op), build);
  auto tape = tape_of(device_, program);
  if (!tape) return failure(std::move(tape.error()));
  return Plan{std::move(*tape), program.problem};
}

}  // namespace inlay::npu
